//! Dollars in whole cents, so that sums are exact.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::output::{decimal, grouped};

/// An amount; negative if it is spent instead of saved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Cents(pub(super) i64);

impl Cents {
    /// A billion dollars: twelve times a million of them still fit.
    const MAX: i64 = 100_000_000_000;

    /// Dollars as they are typed, with at most two decimals.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let cents = decimal(text, 2).and_then(|cents| i64::try_from(cents).ok());
        cents
            .filter(|cents| *cents <= Self::MAX)
            .map(Self)
            .ok_or_else(|| "expected dollars like 150 or 99.50, up to 1000000000".to_owned())
    }

    /// Rounds to the cent, because decimals are seldom exact in binary.
    pub(super) fn from_dollars(dollars: f64) -> Option<Self> {
        Self::read(&format!("{dollars:.2}")).ok()
    }

    pub(super) fn yearly(self) -> Self {
        Self(self.0.saturating_mul(12))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio of sums needs no more digits")]
    pub(super) const fn dollars(self) -> f64 {
        self.0 as f64 / 100.0
    }
}

impl Serialize for Cents {
    /// In dollars, and whole ones as integers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 100 {
            0 => serializer.serialize_i64(self.0 / 100),
            _ => serializer.serialize_f64(self.dollars()),
        }
    }
}

impl fmt::Display for Cents {
    /// `$11,980`, `-$2,880` or `$99.50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, cents) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        let sign = if self.0 < 0 { "-" } else { "" };
        let cents = if cents > 0 { format!(".{cents:02}") } else { String::new() };
        f.pad(&format!("{sign}${}{cents}", grouped(dollars)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_and_printed_to_the_cent() {
        for (text, cents, printed) in [
            ("0", 0, "$0"),
            ("150", 15_000, "$150"),
            ("99.5", 9950, "$99.50"),
            ("1234567.89", 123_456_789, "$1,234,567.89"),
            ("11980", 1_198_000, "$11,980"),
        ] {
            let read = Cents::read(text).unwrap();
            assert_eq!((read, read.to_string().as_str()), (Cents(cents), printed));
        }
        assert_eq!(Cents(-288_000).to_string(), "-$2,880");
        for bad in [
            "",
            "-1",
            "1.234",
            "1e3",
            "$5",
            "nan",
            "1,000",
            "1000000000.01",
            "9".repeat(30).as_str(),
        ] {
            assert!(Cents::read(bad).is_err(), "{bad}");
        }
        assert_eq!(Cents::from_dollars(0.07), Some(Cents(7)));
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(Cents::from_dollars), [None; 3]);
    }
}
