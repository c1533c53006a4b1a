//! Limits that follow the load, and who is let in first: written and checked, and not yet available.
#![allow(dead_code, reason = "read and checked, and refused until it can take effect")]

use schemars::JsonSchema;
use serde::Deserialize;

use super::scalar::{Amount, Span};

/// Follows the load of what is protected.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adaptive {
    /// Where the load is seen: `latency` of the responses, or a probe.
    pub(crate) source: AdaptiveSource,
    /// How the limit follows it: `pressure`, or a curve between two values.
    pub(crate) ramp: Ramp,
}

/// Where the load is seen.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum AdaptiveSource {
    /// In what passes by.
    Word(SourceWord),
    /// Where somebody tells it.
    Probe(Probe),
}

/// Where the load is seen, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceWord {
    /// In the time that responses take.
    Latency,
}

/// Somebody who is asked for the load.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// The URL that tells it.
    #[schemars(example = "http://db-health:9000/pressure")]
    pub(crate) probe: String,
}

/// How a limit follows the load.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Ramp {
    /// As a part of the limit.
    Word(RampWord),
    /// Between two values.
    Curve(Curve),
}

/// How a limit follows the load, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RampWord {
    /// As a part of the limit, by the pressure that is told.
    Pressure,
}

/// From a rate at one value to another rate at another.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    /// Up to here there is the highest rate.
    pub(crate) min_value: Span,
    /// From here on there is the lowest rate.
    pub(crate) max_value: Span,
    /// The highest rate.
    pub(crate) max_rate: Amount,
    /// The lowest rate.
    pub(crate) min_rate: Amount,
}

/// Who is let in first.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Priority {
    /// For everybody alike.
    Word(PriorityWord),
    /// By a part of the request that names the priority, like `header:x-priority`.
    Key(Box<PriorityKey>),
}

/// Who is let in first, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PriorityWord {
    /// First of all.
    Critical,
    /// Before most.
    High,
    /// As most.
    Normal,
    /// Last.
    Low,
}

/// A part of the request that names the priority.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriorityKey {
    /// The part, like `header:x-priority`.
    pub(crate) key: String,
}
