//! Dollars, in whole cents: sums of money are exact.

use std::fmt::{self, Write};

use serde::{Serialize, Serializer};

/// An amount; negative if it is spent where saving was hoped for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Cents(pub(super) i64);

impl Cents {
    /// A billion dollars: twelve times a million of them still fit.
    const MAX: i64 = 100_000_000_000;

    /// Dollars as they are typed, with at most two decimals.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (whole, cents) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let sound = digits(whole) && digits(cents) && !whole.is_empty() && cents.len() <= 2;
        let cents = sound.then(|| format!("{whole}{cents:0<2}").parse().ok()).flatten();
        let within = cents.filter(|cents| *cents <= Self::MAX).map(Self);
        within.ok_or_else(|| "expected dollars like 150 or 99.50, up to 1000000000".to_owned())
    }

    /// Dollars as a file has them.
    pub(super) fn of_dollars(dollars: f64) -> Option<Self> {
        // To the cent: what is written in decimal is seldom exact in binary.
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
        let digits = dollars.to_string();
        let mut text = String::from(if self.0 < 0 { "-$" } else { "$" });
        for (index, digit) in digits.char_indices() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        if cents > 0 {
            write!(text, ".{cents:02}")?;
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_and_told_to_the_cent() {
        for (text, cents, told) in [
            ("0", 0, "$0"),
            ("150", 15_000, "$150"),
            ("99.5", 9950, "$99.50"),
            ("1234567.89", 123_456_789, "$1,234,567.89"),
            ("11980", 1_198_000, "$11,980"),
        ] {
            let read = Cents::read(text).unwrap();
            assert_eq!((read, read.to_string().as_str()), (Cents(cents), told));
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
        assert_eq!(Cents::of_dollars(0.07), Some(Cents(7)));
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(Cents::of_dollars), [None; 3]);
    }
}
