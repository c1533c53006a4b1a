//! How keys, clients and paths are named in the log, in metrics and on the dashboard: by a hash, or in clear text.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate::{Key, KeyHasher};
use tidegate_core::text::printable;

/// Longer keys are cut.
const CHARS_MAX: usize = 64;

/// Names keys. A hash is 64 bits: the same value has the same hash under every policy, and whichever identifier of a
/// policy it is.
#[derive(Debug)]
pub(crate) struct KeyLabels {
    hasher: LabelHasher,
    /// Keys in the log.
    is_shown: AtomicBool,
    /// `store.hash_keys`: nothing that a request brought is shown in clear text, addresses and paths included.
    hides_all: bool,
}

/// Under which secret.
#[derive(Debug)]
enum LabelHasher {
    /// A random one of this process.
    Process(RandomState),
    /// The one of `store.hash_key_file`, the same on every node: the first half of what the store has.
    Fleet(KeyHasher),
}

impl KeyLabels {
    /// Hashes in the log, until a configuration says otherwise.
    pub(crate) fn new(hasher: Option<KeyHasher>, hides_all: bool) -> Self {
        let process = || LabelHasher::Process(RandomState::new());
        let hasher = hasher.map_or_else(process, LabelHasher::Fleet);
        Self { hasher, is_shown: AtomicBool::new(false), hides_all }
    }

    /// `logs.keys`. A reload cannot switch `store.hash_keys` off, and then nothing is shown.
    pub(crate) fn show_keys(&self, shows: bool) {
        self.is_shown.store(shows && !self.hides_all, Relaxed);
    }

    /// The name of a key in the log.
    pub(super) fn label(&self, key: Key<'_>) -> String {
        if self.is_shown.load(Relaxed) { readable(key) } else { self.hashed(key) }
    }

    /// What is readable by default, like the address of a peer or a path: as it is, unless nothing is to be.
    pub(crate) fn public(&self, text: String) -> String {
        if self.hides_all { self.hashed(Key::One(text.as_bytes())) } else { text }
    }

    /// Whether nothing that a request brought is readable.
    pub(crate) const fn hides_all(&self) -> bool {
        self.hides_all
    }

    /// A number for a key.
    pub(crate) fn hash(&self, key: Key<'_>) -> u64 {
        match (key, &self.hasher) {
            (Key::One(value), _) => self.hash_value(value),
            (Key::Named(values), LabelHasher::Process(hasher)) => hasher.hash_one(values),
            (Key::Named(_), LabelHasher::Fleet(hasher)) => hasher.short_hash(self.hashed(key)),
        }
    }

    /// A key as a hash; several values as `name=hash`.
    pub(crate) fn hashed(&self, key: Key<'_>) -> String {
        each(key, |value| format!("{:016x}", self.hash_value(value)))
    }

    fn hash_value(&self, value: &[u8]) -> u64 {
        match &self.hasher {
            LabelHasher::Process(hasher) => hasher.hash_one(value),
            LabelHasher::Fleet(hasher) => hasher.short_hash(value),
        }
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
        let (here, there) = (KeyLabels::new(None, false), KeyLabels::new(None, false));
        let ann = || Key::One(b"ann");
        assert_eq!(here.label(ann()), here.label(ann()));
        assert_eq!(here.label(ann()).len(), 16);
        assert_ne!(here.label(ann()), here.label(Key::One(b"bob")));
        assert_ne!(here.label(ann()), there.label(ann()));
    }

    #[test]
    fn nodes_with_one_secret_have_the_same_hashes_and_the_store_s() {
        let hasher = KeyHasher::new([7; 16]);
        let [here, there] = [(); 2].map(|()| KeyLabels::new(Some(hasher.clone()), false));
        for key in [Key::One(b"ann"), Key::Named(&NAMED)] {
            assert_eq!((here.label(key), here.hash(key)), (there.label(key), there.hash(key)));
        }
        assert_eq!(here.label(Key::One(b"ann")), hasher.hash("ann")[1..17]);
        assert_eq!(here.public("192.0.2.7".into()), "192.0.2.7");
    }

    #[test]
    fn nothing_is_public_where_keys_are_hashed() {
        let labels = KeyLabels::new(Some(KeyHasher::new([7; 16])), true);
        labels.show_keys(true);
        let client = labels.public("192.0.2.7".into());
        assert_eq!(client, labels.label(Key::One(b"192.0.2.7")));
        assert_eq!(client.len(), 16);
    }

    #[test]
    fn one_client_has_the_same_hash_under_every_policy() {
        let labels = KeyLabels::new(None, false);
        let alone = labels.label(Key::One(b"192.0.2.7"));
        let named = labels.label(Key::Named(&NAMED));
        assert!(named.starts_with(&format!("ip={alone} domain=")), "{named}");
        assert!(!named.contains("192.0.2.7"));
    }

    #[test]
    fn a_shown_key_is_one_short_printable_line() {
        let labels = KeyLabels::new(None, false);
        labels.show_keys(true);
        assert_eq!(labels.label(Key::Named(&NAMED)), "ip=192.0.2.7 domain=a.example");
        for (key, shown) in [
            (&b"ann@example.com"[..], "ann@example.com"),
            (b"a\nb\xff", "a\\nb\u{fffd}"),
            (b"\r\n{\"level\":\"INFO\"}", "\\r\\n{\"level\":\"INFO\"}"),
            (b"\x1b[2J\0", "\\u{1b}[2J\\u{0}"),
            ("\u{202e}txt.exe\u{2028}".as_bytes(), "\\u{202e}txt.exe\\u{2028}"),
        ] {
            assert_eq!(labels.label(Key::One(key)), shown);
        }
        for long in ["x", "\n", "é", "\u{1b}"] {
            let label = labels.label(Key::One(long.repeat(100_000).as_bytes()));
            assert_eq!(label.chars().count(), CHARS_MAX + 1, "{label}");
        }
        labels.show_keys(false);
        assert_eq!(labels.label(Key::One(b"ann")).len(), 16);
    }
}
