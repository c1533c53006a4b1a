//! Values with a form of their own: durations, amounts, lists.

use serde::Deserialize;

/// A duration like 20ms, 90s or 1h30min.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(example = "250ms"))]
pub struct Span(pub String);

/// A rate like 100/min or 30/90s, or a count.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "100/min"))]
pub enum Amount {
    /// A number alone, for quotas and concurrency.
    Count(u64),
    /// A number per period.
    Rate(String),
}

impl From<Amount> for tidegate_core::Amount {
    fn from(amount: Amount) -> Self {
        match amount {
            Amount::Count(count) => Self::Count(count),
            Amount::Rate(text) => Self::Text(text),
        }
    }
}

/// A percentage like 10% or 0.5%.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "10%"))]
pub enum Percentage {
    /// With its sign.
    Text(String),
    /// Without a sign, which is an error that says what to write.
    Number(f64),
}

/// A size like 512MB or 256MiB, or a number of bytes.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "512MB"))]
pub enum Size {
    /// In bytes.
    Bytes(u64),
    /// With its unit.
    Text(String),
}

/// One, or a list.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// The part of a bound that one client may take: a number, or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = 100))]
pub enum PerClient {
    /// So many.
    Max(#[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))] u32),
    /// All of it.
    Word(OffWord),
}

/// The word for no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OffWord {
    /// No bound.
    Off,
}
