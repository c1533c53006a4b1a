//! How a key or a client is named in the log and on the dashboard: by a hash, or in clear text.

use std::hash::{BuildHasher, RandomState};

use tidegate::Key;
use tidegate_core::text::printable;

/// Shows keys and clients in the log; beside `RUST_LOG`, which sets the level.
const VARIABLE: &str = "TIDEGATE_LOG_KEYS";
const SHOWN: &str = "shown";
const HASHED: &str = "hashed";

/// Longer keys are cut.
const CHARS_MAX: usize = 64;

/// Names keys. A hash is 64 bits under a random secret of this process: the same value has the same hash under every
/// policy, and whichever identifier of a policy it is.
#[derive(Debug)]
pub(crate) struct KeyLabels {
    hasher: RandomState,
    is_shown: bool,
}

impl KeyLabels {
    /// Hashes, unless the environment says otherwise.
    pub(super) fn from_env() -> Self {
        let wanted = std::env::var(VARIABLE).unwrap_or_else(|_| HASHED.to_owned());
        if wanted != SHOWN && wanted != HASHED {
            tracing::warn!("{VARIABLE}: expected {SHOWN} or {HASHED}; keys are hashed");
        }
        Self::new(wanted == SHOWN)
    }

    fn new(is_shown: bool) -> Self {
        Self { hasher: RandomState::new(), is_shown }
    }

    /// The name of a key in the log.
    pub(super) fn label(&self, key: Key<'_>) -> String {
        if self.is_shown { readable(key) } else { self.hashed(key) }
    }

    /// A number for a key.
    pub(crate) fn hash(&self, key: Key<'_>) -> u64 {
        match key {
            Key::One(value) => self.hasher.hash_one(value),
            Key::Named(values) => self.hasher.hash_one(values),
        }
    }

    /// A key as a hash; several values as `name=hash`.
    pub(crate) fn hashed(&self, key: Key<'_>) -> String {
        each(key, |value| format!("{:016x}", self.hasher.hash_one(value)))
    }
}

/// A key as one short printable line.
pub(crate) fn readable(key: Key<'_>) -> String {
    each(key, |bytes| {
        let most = &bytes[..bytes.len().min(4 * CHARS_MAX)];
        let text = printable(&String::from_utf8_lossy(most));
        if text.chars().count() <= CHARS_MAX {
            return text;
        }
        text.chars().take(CHARS_MAX).chain(['…']).collect()
    })
}

fn each(key: Key<'_>, label: impl Fn(&[u8]) -> String) -> String {
    match key {
        Key::One(value) => label(value),
        Key::Named(values) => {
            let named = |(name, value): &(&str, &[u8])| format!("{name}={}", label(value));
            values.iter().map(named).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: [(&str, &[u8]); 2] = [("ip", b"192.0.2.7"), ("domain", b"a.example")];

    #[test]
    fn hashes_differ_by_key_and_by_process() {
        let (here, there) = (KeyLabels::new(false), KeyLabels::new(false));
        let ann = || Key::One(b"ann");
        assert_eq!(here.label(ann()), here.label(ann()));
        assert_eq!(here.label(ann()).len(), 16);
        assert_ne!(here.label(ann()), here.label(Key::One(b"bob")));
        assert_ne!(here.label(ann()), there.label(ann()));
    }

    #[test]
    fn one_client_has_the_same_hash_under_every_policy() {
        let labels = KeyLabels::new(false);
        let alone = labels.label(Key::One(b"192.0.2.7"));
        let named = labels.label(Key::Named(&NAMED));
        assert!(named.starts_with(&format!("ip={alone} domain=")), "{named}");
        assert!(!named.contains("192.0.2.7"));
    }

    #[test]
    fn keys_are_readable_if_the_operator_wants_it() {
        let labels = KeyLabels::new(true);
        assert_eq!(labels.label(Key::Named(&NAMED)), "ip=192.0.2.7 domain=a.example");
        assert_eq!(labels.label(Key::One(b"a\nb\xff")), "a\\nb\u{fffd}");
        let long = "x".repeat(10_000);
        assert_eq!(labels.label(Key::One(long.as_bytes())).chars().count(), CHARS_MAX + 1);
    }
}
