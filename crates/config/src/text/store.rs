//! Where the counters are.

use serde::Deserialize;

use super::scalar::Span;
use crate::secret::Secret;

/// Where to count: a URL, or a map.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "redis://127.0.0.1:6379"))]
pub enum Store {
    /// By its URL.
    Url(Secret),
    /// With options.
    Map(Box<StoreOptions>),
}

/// A store with its options.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoreOptions {
    /// `memory`, `redis://`, `rediss://`, `redis+unix://`, `redis+cluster://` or `redis+sentinel://`.
    #[cfg_attr(test, schemars(example = "redis://127.0.0.1:6379"))]
    pub url: Option<Secret>,
    /// A file that holds the URL, for one with a password. Instead of `url`.
    #[cfg_attr(test, schemars(example = "/run/secrets/redis-url"))]
    pub url_file: Option<String>,
    /// How long a decision may take, 1ms to 10s. Default: 20ms.
    pub deadline: Option<Span>,
    /// Whether a store that fails is left alone until it answers again, or when. Default: true.
    pub breaker: Option<Breaker>,
    /// How many nodes share the store, so that each knows its share when the store fails. Default: they are counted.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub nodes: Option<u32>,
}

/// Whether a store that fails is left alone, or when.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Breaker {
    /// Whether it is.
    Switch(bool),
    /// When it is.
    Map(BreakerOptions),
}

/// When a store that fails is left alone.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BreakerOptions {
    /// After so many failures in a row. Default: 5.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub failures: Option<u32>,
    /// When one call in a hundred takes longer than this. Default: 10ms.
    pub slow: Option<Span>,
    /// Over what time slow calls are counted. Default: 1s.
    pub window: Option<Span>,
    /// How many calls that time needs to count. Default: 50.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub min_calls: Option<u64>,
    /// It is used again after so many good probes in a row. Default: 3.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub good_probes: Option<u32>,
}
