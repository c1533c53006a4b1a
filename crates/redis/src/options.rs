//! How to reach Redis.

use std::fmt;
use std::time::Duration;

use tidegate::BreakerOptions;

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
    /// Whether this process is one of the [nodes](RedisStore::nodes) that share the store: not if it only looks.
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
            hash_key: *b"tidegate-default",
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
