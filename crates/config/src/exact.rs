//! Integers from clients, exact in every store.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use tidegate::EXACT_MAX;

/// An integer from 0 to 2^53. Anything else, like `1.5`, `-1`, `1e400` or `"1"`, is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact(pub u64);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(ExactVisitor)
    }
}

struct ExactVisitor;

impl Visitor<'_> for ExactVisitor {
    type Value = Exact;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 0 to 9007199254740992")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Exact, E> {
        if number > EXACT_MAX {
            return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
        }
        Ok(Exact(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_whole_numbers_up_to_2_to_the_53_only() {
        let read = |text: &str| serde_json::from_str::<Exact>(text).ok();
        assert_eq!(read("0"), Some(Exact(0)));
        assert_eq!(read("9007199254740992"), Some(Exact(EXACT_MAX)));
        for bad in ["9007199254740993", "-1", "1.5", "1.0", "1e3", "1e400", "NaN", "\"1\"", "null"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
