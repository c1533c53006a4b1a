//! Inputs have bounds.

use std::fmt;

use tidegate_core::{LeaseError, LimitError};

/// An input out of its bounds: which one, and what was expected. A field's name ends with its unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfit {
    pub field: &'static str,
    pub expected: Expected,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// From the first to the second.
    Between(u64, u64),
    Other(String),
}

impl Unfit {
    pub fn new(field: &'static str, expected: impl Into<String>) -> Self {
        Self { field, expected: Expected::Other(expected.into()) }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", self.field, self.expected)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Other(expected) => f.write_str(expected),
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
