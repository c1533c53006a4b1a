//! The store of the counters.

use serde::Deserialize;

use super::scalar::{Size, Span};
use crate::secret::Secret;

/// The store of the counters: a URL, or a map.
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
pub struct StoreOptions {
    /// `memory`, `redis://`, `rediss://`, `redis+unix://`, `redis+cluster://`, `redis+sentinel://`,
    /// `redis+quorum://`, `postgres://`, `memcached://` or `dynamodb://`.
    #[cfg_attr(test, schemars(example = "redis://127.0.0.1:6379"))]
    pub url: Option<Secret>,
    /// A file with the URL, for one with a password. Instead of `url`.
    #[cfg_attr(test, schemars(example = "/run/secrets/redis-url"))]
    pub url_file: Option<String>,
    /// A second store, for policies with `quorum: true`: `redis+quorum://` and its servers.
    #[cfg_attr(test, schemars(example = "redis+quorum://10.0.0.1,10.0.0.2,10.0.0.3"))]
    pub quorum: Option<Secret>,
    /// A file with the URL of the second store. Instead of `quorum`.
    #[cfg_attr(test, schemars(example = "/run/secrets/quorum-url"))]
    pub quorum_file: Option<String>,
    /// The deadline of a decision, 1ms to 1min. Default: 20ms.
    pub deadline: Option<Span>,
    /// The circuit breaker: whether a failing store is skipped until it recovers, or its thresholds. Default: true.
    pub breaker: Option<Breaker>,
    /// The number of nodes that share the store, for each node's share when the store fails. Default: counted in the store.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub nodes: Option<u32>,
    /// Whether identifiers (keys, addresses, paths) are replaced by a hash before they reach the store, logs, metrics and
    /// the dashboard. Needs `hash_key_file`. Default: false.
    pub hash_keys: Option<bool>,
    /// A file with the secret of the hashes, 32 hexadecimal digits, as of `openssl rand -hex 16`: the same for all nodes.
    /// Without `hash_keys`, for the hashes in logs and on the dashboard, and of identifiers in the store that are long or no
    /// plain text. Default: a new secret at each start, and in the store a built-in one.
    #[cfg_attr(test, schemars(example = "/run/secrets/tidegate-hash-key"))]
    pub hash_key_file: Option<String>,
    /// A file that the memory store is saved to, and restored from at the start. Only this process may use it. Default:
    /// a restart forgets all counters.
    #[cfg_attr(test, schemars(example = "/var/lib/tidegate/counters"))]
    pub snapshot: Option<String>,
    /// How often the snapshot is written, beside at shutdown: a crash forgets what was counted since. 1s to 1h. Default:
    /// 30s.
    pub every: Option<Span>,
    /// The most memory that the counters of the memory store take, 1MiB to 64GiB. Beyond it idle keys are dropped first,
    /// blocked ones last. Default: 256MiB.
    pub max_bytes: Option<Size>,
}

/// Whether there is a circuit breaker, or its thresholds.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Breaker {
    /// On or off.
    Switch(bool),
    /// With its thresholds.
    Map(BreakerOptions),
}

/// When the breaker opens and closes.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BreakerOptions {
    /// Opens after this many failures in a row. Default: 5.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub failures: Option<u32>,
    /// Opens when 1 % of the calls take longer than this. Default: 10ms.
    pub slow: Option<Span>,
    /// The window in which slow calls are counted. Default: 1s.
    pub window: Option<Span>,
    /// The fewest calls in the window for slow calls to count. Default: 50.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub min_calls: Option<u64>,
    /// Closes after this many good probes in a row. Default: 3.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub good_probes: Option<u32>,
}
