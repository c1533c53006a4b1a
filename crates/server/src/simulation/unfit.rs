//! Inputs have bounds.

use std::fmt;
use std::ops::RangeInclusive;

use tidegate_core::LimitError;

/// An input out of its bounds: which one, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unfit {
    pub(crate) field: &'static str,
    pub(crate) expected: String,
}

impl Unfit {
    pub(super) fn new(field: &'static str, expected: impl Into<String>) -> Self {
        Self { field, expected: expected.into() }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", self.field, self.expected)
    }
}

impl From<LimitError> for Unfit {
    fn from(error: LimitError) -> Self {
        Self::new("limit", format!("a limit that can be built: {error}"))
    }
}

/// A number within its bounds. `unit` is written behind them.
pub(super) fn within(
    field: &'static str,
    value: u64,
    bounds: &RangeInclusive<u64>,
    unit: &str,
) -> Result<(), Unfit> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let (least, most) = (bounds.start(), bounds.end());
    Err(Unfit::new(field, format!("{least} to {most}{unit}")))
}
