//! How to reach Redis, in full or by the driver of `redis://…` and its other forms.

use std::fmt;
use std::time::Duration;

use tidegate::driver::{Finding, OpenStore, StoreDriver, StoreMonitor, StoreOptions, StoreReport};
use tidegate::{BreakerOptions, BreakerState, Reply, StoreError, StoreErrorKind};

use crate::access::Access;
use crate::endpoint::Topology;
use crate::examine::examine;
use crate::store::RedisStore;
use crate::url::RedisUrl;

/// How to reach Redis. `Debug` omits the URL, which may hold a password.
///
/// ```
/// use std::time::Duration;
/// use tidegate_redis::RedisOptions;
///
/// let options = RedisOptions {
///     key_prefix: "shop".to_owned(),
///     hash_key: *b"sixteen secrets!",
///     deadline: Duration::from_millis(50),
///     ..RedisOptions::new("redis://127.0.0.1:6379")
/// };
/// assert_eq!(options.url, "redis://127.0.0.1:6379");
/// assert!(!options.replays); // Redis' own clock decides
/// assert!(options.announces); // and the others know of this node
/// assert!(options.breaker.is_none()); // by default
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    /// One of
    /// - `redis://[user:password@]host:port[/db]`
    /// - `rediss://…`, the same over TLS (feature `tls`), with `?ca=FILE` for an authority of one's own and
    ///   `&cert=FILE&key=FILE` for a client's certificate
    /// - `redis+unix:///path[?db=&user=&pass=]`
    /// - `redis+cluster://h1:p1,h2:p2`, `rediss+cluster://…`
    /// - `redis+sentinel://h1:p1,h2:p2/name[/db][?sentinel_user=&sentinel_password=]`, `rediss+sentinel://…`
    pub url: String,
    /// What every key begins with: keeps deployments on one Redis apart.
    pub key_prefix: String,
    /// The key of the hash of identifiers that are long or no plain text; the same on every node.
    pub hash_key: [u8; 16],
    /// How long a decision may take; 20 ms. Taken as 1 ms at least and a minute at most.
    pub deadline: Duration,
    /// Goes by the caller's time instead of Redis': for replays and tests only, since the clocks of a fleet differ.
    pub replays: bool,
    /// Whether this process is one of the [nodes](tidegate::Coordination::nodes) that share the store: not if it only looks.
    pub announces: bool,
    /// A [breaker](tidegate::Breaker) for each node of Redis; none by default. If one node of a
    /// cluster hangs, only its keys are affected.
    pub breaker: Option<BreakerOptions>,
}

impl RedisOptions {
    /// The defaults for a URL.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_redis::RedisOptions;
    /// let options = RedisOptions::new("redis://127.0.0.1:6379");
    /// assert_eq!((options.key_prefix.as_str(), options.deadline), ("tg", Duration::from_millis(20)));
    /// ```
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_prefix: "tg".to_owned(),
            hash_key: tidegate::store_kit::HASH_KEY,
            deadline: tidegate::deadline::DEFAULT,
            replays: false,
            announces: true,
            breaker: None,
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        f.debug_struct("RedisOptions")
            .field("url", &format_args!("{scheme}://…"))
            .field("key_prefix", &self.key_prefix)
            .field("deadline", &self.deadline)
            .field("replays", &self.replays)
            .finish_non_exhaustive()
    }
}

/// Opens stores in Redis.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_redis::RedisDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &RedisDriver]);
/// assert!(STORES.check("redis+cluster://10.0.0.1:7000").is_ok());
/// assert!(STORES.check("redis+cluster://:secret@10.0.0.1:port").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RedisDriver;

impl StoreDriver for RedisDriver {
    fn schemes(&self) -> &'static [&'static str] {
        RedisUrl::SCHEMES
    }

    fn spreads_keys(&self, url: &str) -> bool {
        RedisUrl::parse(url).is_ok_and(|url| matches!(url.topology, Topology::Cluster(_)))
    }

    /// Reads the URL, and the files that it names.
    fn check(&self, url: &str) -> Result<(), StoreError> {
        let RedisUrl { login, db, tls, .. } = RedisUrl::parse(url)?;
        Access::new(login, db, tls.as_ref()).map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let StoreOptions { key_prefix, hasher, deadline, replays, breaker, announces, .. } =
            options.clone();
        let options = RedisOptions {
            key_prefix,
            hash_key: hasher.secret(),
            deadline,
            replays,
            announces,
            breaker,
            ..RedisOptions::new(url)
        };
        Ok(OpenStore::new("redis", RedisStore::new(options)?))
    }

    /// Names the findings of the examination, which look at the same thing more closely.
    fn remedy(&self, kind: StoreErrorKind) -> Option<&'static str> {
        Some(match kind {
            StoreErrorKind::Denied => "see permissions",
            StoreErrorKind::OutOfMemory => "see maxmemory",
            StoreErrorKind::ReadOnly
            | StoreErrorKind::Misconfigured
            | StoreErrorKind::MasterDown => "see replication and disk",
            StoreErrorKind::ClusterDown | StoreErrorKind::Moving => "see cluster",
            StoreErrorKind::MaxClients => "see maxclients",
            StoreErrorKind::Unreachable
            | StoreErrorKind::Timeout
            | StoreErrorKind::NotSent
            | StoreErrorKind::Disconnected => "see reach and round-trip",
            StoreErrorKind::Busy => "somebody's script runs for too long",
            _ => "see the other findings: permissions, cluster, replication, disk",
        })
    }

    fn examine(
        &self,
        url: &str,
        options: &StoreOptions,
        nodes: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        let (url, key_prefix) = (url.to_owned(), options.key_prefix.clone());
        Reply::later(async move { Ok(examine(url, key_prefix, nodes).await) })
    }
}

impl StoreMonitor for RedisStore {
    fn report(&self) -> StoreReport {
        let breakers = self.breakers();
        let states = breakers.iter().map(|breaker| breaker.state);
        let worst = states.fold(BreakerState::Closed, BreakerState::or_worse);
        let opened_total = breakers.iter().map(|breaker| breaker.opened_total).sum();
        StoreReport {
            memory: None,
            snapshots: None,
            network: Some(self.stats()),
            call_times: Some(self.call_times()),
            breaker: Some((worst, opened_total)),
        }
    }

    fn cause(&self) -> Option<StoreError> {
        self.breakers().into_iter().find_map(|breaker| breaker.cause)
    }
}
