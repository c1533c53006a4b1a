//! What was decided, by policy and key, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use super::judge::Ruling;
use super::record::{Instant, Unread, told};
use super::timeline::Timeline;
use tidegate_core::text::printable;

/// Keys that were denied and are told apart, of all policies together: about 50 MB. Those that come later are counted
/// together.
const KEYS_MAX: usize = 200_000;
/// The longest key that is kept as it is.
const KEY_LEN_MAX: usize = 200;
/// How many unreadable lines are shown.
const SHOWN_MAX: usize = 5;
/// How far lines may be out of order: servers write a line when its request ends.
const STEP_BACK_US: u64 = 60_000_000;

#[derive(Default)]
pub(super) struct Tally {
    pub(super) lines: u64,
    pub(super) unlimited: u64,
    pub(super) unreadable: u64,
    pub(super) shown: Vec<Unreadable>,
    pub(super) span: Option<(u64, u64)>,
    pub(super) is_fine: bool,
    /// Lines that are much older than one before them.
    pub(super) stepped_back: u64,
    /// Requests whose key should have been made of headers.
    pub(super) guessed: u64,
    /// Counters that the store had no room for.
    pub(super) forgotten: u64,
    pub(super) policies: BTreeMap<String, PolicyTally>,
    pub(super) timeline: Timeline,
    keys: usize,
    hasher: RandomState,
}

#[derive(Debug, Serialize)]
pub struct Unreadable {
    pub line: u64,
    pub reason: String,
}

#[derive(Default)]
pub(super) struct PolicyTally {
    pub(super) requests: u64,
    pub(super) denied: u64,
    /// By keys that are not told apart.
    pub(super) others: u64,
    keys: HashMap<Box<[u8]>, Denials>,
}

#[derive(Clone, Copy)]
struct Denials {
    count: u64,
    first_us: u64,
    last_us: u64,
}

/// A key that was denied.
#[derive(Debug, Serialize)]
pub struct DeniedKey {
    pub key: String,
    pub denied: u64,
    pub first: String,
    pub last: String,
}

impl Tally {
    pub(super) fn unreadable(&mut self, why: &Unread) {
        self.unreadable += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(Unreadable { line: self.lines, reason: why.to_string() });
        }
    }

    pub(super) fn at(&mut self, at: Instant) {
        let (first, last) = self.span.unwrap_or((at.us, at.us));
        self.stepped_back += u64::from(at.us + STEP_BACK_US < last);
        self.span = Some((first.min(at.us), last.max(at.us)));
        self.is_fine |= at.is_fine;
    }

    pub(super) fn ruled(&mut self, at: Instant, ruling: Ruling<'_>) {
        let Ruling { policy, key, denied, guessed } = ruling;
        self.guessed += u64::from(guessed);
        self.timeline.add(at.us, denied);
        if !self.policies.contains_key(policy) {
            self.policies.insert(policy.to_owned(), PolicyTally::default());
        }
        let Some(tally) = self.policies.get_mut(policy) else { return };
        tally.requests += 1;
        if !denied {
            return;
        }
        tally.denied += 1;
        let key = bounded(key, &self.hasher);
        if let Some(denials) = tally.keys.get_mut(&*key) {
            denials.count += 1;
            denials.first_us = denials.first_us.min(at.us);
            denials.last_us = denials.last_us.max(at.us);
        } else if self.keys < KEYS_MAX {
            self.keys += 1;
            let denials = Denials { count: 1, first_us: at.us, last_us: at.us };
            tally.keys.insert(key.into_boxed_slice(), denials);
        } else {
            tally.others += 1;
        }
    }
}

/// A key that is too long, cut off, with a hash that tells it from others that begin alike.
fn bounded(mut key: Vec<u8>, hasher: &RandomState) -> Vec<u8> {
    if key.len() > KEY_LEN_MAX {
        let hash = hasher.hash_one(&key);
        key.truncate(KEY_LEN_MAX);
        key.extend_from_slice(format!("…{hash:016x}").as_bytes());
    }
    key
}

impl PolicyTally {
    pub(super) fn keys_denied(&self) -> usize {
        self.keys.len()
    }

    /// Those that were denied most, the first by name among equals.
    pub(super) fn most_denied(&self, count: usize) -> Vec<DeniedKey> {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_unstable_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(b.0)));
        let denied = |key: &[u8], denials: &Denials| DeniedKey {
            key: printable(&String::from_utf8_lossy(key)),
            denied: denials.count,
            first: told(denials.first_us),
            last: told(denials.last_us),
        };
        keys.into_iter().take(count).map(|(key, denials)| denied(key, denials)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(key: impl Into<Vec<u8>>) -> Ruling<'static> {
        Ruling { policy: "api", key: key.into(), denied: true, guessed: false }
    }

    const NOW: Instant = Instant { us: 1_700_000_000_000_000, is_fine: false };

    #[test]
    fn memory_is_bounded_whatever_keys_come() {
        let mut tally = Tally::default();
        for number in 0..KEYS_MAX + 10 {
            tally.ruled(NOW, denied(number.to_string()));
        }
        tally.ruled(NOW, denied("7"));
        let api = &tally.policies["api"];
        assert_eq!((api.keys_denied(), api.others), (KEYS_MAX, 10));
        assert_eq!((api.most_denied(1)[0].key.as_str(), api.most_denied(1)[0].denied), ("7", 2));
    }

    #[test]
    fn long_keys_are_cut_off_and_still_told_apart() {
        let mut tally = Tally::default();
        for end in ["a", "b", "b"] {
            tally.ruled(NOW, denied("x".repeat(5000) + end));
        }
        let most = tally.policies["api"].most_denied(9);
        assert_eq!(most.iter().map(|key| key.denied).collect::<Vec<_>>(), [2, 1]);
        assert!(most.iter().all(|key| key.key.len() < 300), "{most:?}");
    }
}
