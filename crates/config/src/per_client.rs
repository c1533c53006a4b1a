//! The part of a bound that one client may take.

use super::text;

/// By default a quarter: the others are served while one client takes all it gets.
const PARTS: usize = 4;
/// A client with less could not open a second connection while its first one closes.
const LEAST: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PerClient {
    #[default]
    Part,
    Max(usize),
    Off,
}

impl PerClient {
    /// The most of `whole` that one client may take; `None` for all of it.
    pub fn of(self, whole: usize) -> Option<usize> {
        match self {
            Self::Part => Some(whole.div_ceil(PARTS).max(LEAST)),
            Self::Max(max) => Some(max),
            Self::Off => None,
        }
    }
}

impl From<Option<text::PerClient>> for PerClient {
    fn from(text: Option<text::PerClient>) -> Self {
        match text {
            None => Self::Part,
            Some(text::PerClient::Max(max)) => {
                Self::Max(usize::try_from(max).unwrap_or(usize::MAX))
            }
            Some(text::PerClient::Word(text::OffWord::Off)) => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_take_a_quarter() {
        for (whole, expected) in [(10_000, 2500), (30, 8), (8, 2), (4, 2), (2, 2), (1, 2)] {
            assert_eq!(PerClient::Part.of(whole), Some(expected), "of {whole}");
        }
        assert_eq!((PerClient::Max(7).of(4), PerClient::Off.of(4)), (Some(7), None));
    }
}
