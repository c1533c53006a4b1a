//! Inputs have bounds.

use std::fmt;
use std::ops::RangeInclusive;

use tidegate_core::{LeaseError, LimitError};

/// An input out of its bounds: which one, and what was expected. A field's name ends with its unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unfit {
    pub(crate) field: &'static str,
    pub(crate) expected: Expected,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// From the first to the second.
    Between(u64, u64),
    Other(String),
}

impl Unfit {
    pub(super) fn new(field: &'static str, expected: impl Into<String>) -> Self {
        Self { field, expected: Expected::Other(expected.into()) }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field;
        match &self.expected {
            Expected::Between(least, most) => write!(f, "{field}: expected {least} to {most}"),
            Expected::Other(expected) => write!(f, "{field}: expected {expected}"),
        }
    }
}

impl From<LimitError> for Unfit {
    fn from(error: LimitError) -> Self {
        Self::new("limit", format!("a limit that can be built: {error}"))
    }
}

impl From<LeaseError> for Unfit {
    fn from(error: LeaseError) -> Self {
        Self::new("limit", format!("a limit that can be leased: {error}"))
    }
}

/// A number within its bounds.
pub(super) fn within(
    field: &'static str,
    value: u64,
    bounds: &RangeInclusive<u64>,
) -> Result<(), Unfit> {
    if bounds.contains(&value) {
        return Ok(());
    }
    Err(Unfit { field, expected: Expected::Between(*bounds.start(), *bounds.end()) })
}
