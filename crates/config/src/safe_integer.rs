//! Integers from clients, exact in every store.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use tidegate::EXACT_MAX;

/// An integer from 0 to 2^53. Anything else, like `1.5`, `-1`, `1e400` or `"1"`, is an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SafeInteger(pub u64);

impl<'de> Deserialize<'de> for SafeInteger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(SafeIntegerVisitor)
    }
}

struct SafeIntegerVisitor;

impl Visitor<'_> for SafeIntegerVisitor {
    type Value = SafeInteger;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer from 0 to 9007199254740992")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SafeInteger, E> {
        if number > EXACT_MAX {
            return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
        }
        Ok(SafeInteger(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_whole_numbers_up_to_2_to_the_53_only() {
        let read = |text: &str| serde_json::from_str::<SafeInteger>(text).ok();
        assert_eq!(read("0"), Some(SafeInteger(0)));
        assert_eq!(read("9007199254740992"), Some(SafeInteger(EXACT_MAX)));
        for bad in ["9007199254740993", "-1", "1.5", "1.0", "1e3", "1e400", "NaN", "\"1\"", "null"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
