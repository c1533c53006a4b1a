//! Experiments: parameters with defaults and bounds, and errors that name the parameter.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_core::{LeaseError, LimitError};

use crate::StopFlag;

/// A simulation and its parameters.
pub trait Experiment: DeserializeOwned + Default + Send + 'static {
    type Report: Serialize;

    /// The parameters that have bounds, with the values they have now.
    fn knobs(&self) -> Vec<Knob>;

    /// Runs it until it is done or stopped, unless a parameter is out of its bounds.
    fn run_until(&self, stop: &StopFlag) -> Result<Self::Report, InputError>;

    /// Runs it to its end.
    fn run(&self) -> Result<Self::Report, InputError> {
        self.run_until(&StopFlag::default())
    }
}

/// A parameter and its bounds. The last word of its name is its unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Knob {
    pub field: &'static str,
    #[serde(rename = "default")]
    value: u64,
    min: u64,
    max: u64,
}

impl Knob {
    pub const fn new(field: &'static str, value: u64, bounds: &RangeInclusive<u64>) -> Self {
        Self { field, value, min: *bounds.start(), max: *bounds.end() }
    }

    pub const fn expected(&self) -> Expected {
        Expected::Between(self.min, self.max)
    }

    /// Fails at the first value that is out of its bounds.
    pub fn check_all(knobs: &[Self]) -> Result<(), InputError> {
        let outside = knobs.iter().find(|knob| !(knob.min..=knob.max).contains(&knob.value));
        outside.map_or(Ok(()), |it| Err(InputError { field: it.field, expected: it.expected() }))
    }
}

/// A parameter that is out of its bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputError {
    pub field: &'static str,
    pub expected: Expected,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// From the first to the second, both included.
    Between(u64, u64),
    Other(String),
}

impl InputError {
    pub fn new(field: &'static str, expected: impl Into<String>) -> Self {
        Self { field, expected: Expected::Other(expected.into()) }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", self.field, self.expected)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Between(min, max) => write!(f, "{min} to {max}"),
            Self::Other(expected) => f.write_str(expected),
        }
    }
}

impl From<LimitError> for InputError {
    fn from(error: LimitError) -> Self {
        Self::new("limit", format!("a limit that can be built: {error}"))
    }
}

impl From<LeaseError> for InputError {
    fn from(error: LeaseError) -> Self {
        Self::new("limit", format!("a limit that can be leased: {error}"))
    }
}

/// Defines the parameters of an experiment, each with its default and bounds, and implements [`Experiment`] by the
/// function `simulate` of the same module. A parameter without bounds is a seed.
macro_rules! experiment {
    (
        $(#[$about:meta])* $name:ident -> $report:ty {
            $($(#[$doc:meta])* $field:ident: $default:literal $(in $bounds:expr)?,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }

        impl $crate::Experiment for $name {
            type Report = $report;

            fn knobs(&self) -> Vec<$crate::Knob> {
                vec![$($($crate::Knob::new(stringify!($field), self.$field, &$bounds),)?)*]
            }

            fn run_until(&self, stop: &$crate::StopFlag) -> Result<$report, $crate::InputError> {
                $crate::Knob::check_all(&self.knobs())?;
                simulate(self, stop)
            }
        }
    };
}

pub(crate) use experiment;
