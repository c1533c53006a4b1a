//! Stores by their URL, and how a URL is told to people: never with its password.

mod view;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    BreakerOptions, KeyedLimit, Limit, Mode, Op, Scope, Store, StoreError, StoreErrorKind,
    StoreRequest, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};

pub use self::view::View;
use tidegate_core::text::printable;

/// What a store is opened for.
#[derive(Clone, Debug)]
pub struct Purpose {
    /// What every key begins with.
    pub key_prefix: String,
    /// How long a decision may take.
    pub deadline: Duration,
    /// Whether the asker's time goes for the store's own.
    pub replays: bool,
    /// When it is left alone while it fails; `None`: never.
    pub breaker: Option<BreakerOptions>,
    /// Whether it is for answering requests, and told of this node.
    pub serves: bool,
}

impl Purpose {
    /// To answer requests.
    pub fn serving() -> Self {
        Self {
            key_prefix: "tg".to_owned(),
            deadline: Duration::from_millis(20),
            replays: false,
            breaker: Some(BreakerOptions::default()),
            serves: true,
        }
    }
}

/// The schemes of Redis, however many servers it is made of.
const REDIS: [&str; 7] = [
    "redis",
    "rediss",
    "redis+unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
];

/// A URL as it is meant, whether it was typed, is in a configuration, or in a file of its own.
pub fn plain(url: &str) -> &str {
    match url.trim() {
        "memory" => "memory:",
        url => url,
    }
}

/// The store behind a URL. It connects when it is first asked. Needs a running tokio runtime.
pub fn open(url: &str, purpose: Purpose) -> Result<Arc<dyn Store>, String> {
    open_in_view(url, purpose).map(|view| view.store())
}

/// The same, for those who also look after it.
pub fn open_in_view(url: &str, purpose: Purpose) -> Result<View, String> {
    let url = plain(url);
    if url == "memory:" {
        return Ok(View::Memory(Arc::default()));
    }
    if !is_redis(url) {
        return Err(unknown(url));
    }
    let Purpose { key_prefix, deadline, replays, breaker, serves: announces } = purpose;
    let options = RedisOptions {
        key_prefix,
        deadline,
        replays,
        announces,
        breaker,
        ..RedisOptions::new(url)
    };
    let store =
        RedisStore::new(options).map_err(|error| format!("store {}: {error}", shown(url)))?;
    Ok(View::Redis(Arc::new(store)))
}

/// Asks once and spends nothing, to learn whether a store answers at all.
pub async fn reach(store: &dyn Store) -> Result<(), StoreError> {
    let limit: Result<Limit, _> = "1/s".parse();
    let limit =
        limit.map_err(|error| StoreError::new(StoreErrorKind::BadRequest, error.to_string()))?;
    let scope = Scope::named("tidegate", "reach");
    let limits = [KeyedLimit { scope: &scope, key: b"reach", limit: &limit }];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Peek };
    store.decide(&ask, Timestamp::from_micros(0)).await.map(drop)
}

/// Whether the URL is one of Redis.
pub fn is_redis(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| REDIS.contains(&scheme))
}

/// What to say about a URL of no store.
pub fn unknown(url: &str) -> String {
    let known = REDIS.map(|scheme| format!("{scheme}://…")).join(", ");
    format!("store `{}` is unknown; expected memory: or one of {known}", only_scheme(url))
}

/// A URL without what may be secret in it: user, password and parameters.
pub fn shown(url: &str) -> String {
    let url = plain(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return only_scheme(url);
    };
    let (before, after) = rest.rsplit_once('@').unwrap_or(("", rest));
    // A question mark before the last @ is part of a password, or the @ part of a parameter: show neither.
    let place = if before.contains('?') { "…" } else { after.split('?').next().unwrap_or("…") };
    printable(&format!("{scheme}://{place}"))
}

/// What is before the first colon, if a scheme can look so: the rest may hold a password.
fn only_scheme(url: &str) -> String {
    let of_a_scheme = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    match url.split_once(':') {
        Some((scheme, _)) if scheme.chars().all(of_a_scheme) => format!("{}:…", printable(scheme)),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_url_holds_no_secret() {
        for (url, expected) in [
            ("memory:", "memory:…"),
            (" memory ", "memory:…"),
            (" redis://h:1\n", "redis://h:1"),
            ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
            ("redis://:secret@h:1", "redis://h:1"),
            ("redis://user:secret@h:1", "redis://h:1"),
            ("redis://user:se@cret@h:1", "redis://h:1"),
            ("redis://user:se/cret@h:1", "redis://h:1"),
            ("redis://user:se?cret@h:1", "redis://…"),
            ("redis+unix:///run/r.sock?pass=secret", "redis+unix:///run/r.sock"),
            ("redis+unix:///run/r.sock?pass=se@cret", "redis+unix://…"),
            ("redis+cluster://u:secret@a:1,b:2", "redis+cluster://a:1,b:2"),
            ("user:secret", "user:…"),
            ("secret", "…"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn only_known_schemes_are_opened() {
        let purpose = || Purpose { deadline: Duration::ZERO, ..Purpose::serving() };
        for url in ["memory:", "memory", " memory\n"] {
            assert!(open(url, purpose()).is_ok(), "{url:?}");
        }
        for url in
            ["", "redis", "memory://", "http://u:secret@h", "redis:u:secret", "secret@redis://h"]
        {
            let error = open(url, purpose()).unwrap_err();
            assert!(error.contains("redis+cluster://…"), "{error}");
        }
    }
}
