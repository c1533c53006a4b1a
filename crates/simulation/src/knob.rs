//! The numbers that can be chosen, each with its bounds: what checks an input also tells a page how far its sliders go.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::unfit::{Expected, Unfit};

/// A number of an input. Its name ends with its unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Knob {
    pub field: &'static str,
    /// What is chosen; of an input that nobody has touched, what is usual.
    #[serde(rename = "default")]
    value: u64,
    min: u64,
    max: u64,
}

impl Knob {
    pub const fn new(field: &'static str, value: u64, bounds: &RangeInclusive<u64>) -> Self {
        Self { field, value, min: *bounds.start(), max: *bounds.end() }
    }

    /// What is allowed.
    pub const fn expected(&self) -> Expected {
        Expected::Between(self.min, self.max)
    }

    /// Whether every number is within its bounds.
    pub fn within(knobs: &[Self]) -> Result<(), Unfit> {
        let unfit = knobs.iter().find(|knob| !(knob.min..=knob.max).contains(&knob.value));
        unfit.map_or(Ok(()), |knob| Err(Unfit { field: knob.field, expected: knob.expected() }))
    }
}
