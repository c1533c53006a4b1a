//! Counts by policy and key, in bounded memory.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use super::plans::{self, PlanCounts};
use super::rates::ClientRates;
use super::record::{LineError, LogTime, rfc_3339_utc};
use super::replayer::{Lacks, Outcome};
use super::timeline::Timeline;
use tidegate_core::text::printable;

/// Denied keys that are counted one by one, of all policies together: about 50 MB. Later ones are counted together.
const KEYS_MAX: usize = 200_000;
/// The longest key that is kept whole.
const KEY_LEN_MAX: usize = 200;
/// How many unreadable lines are shown.
const SHOWN_MAX: usize = 5;
/// How far lines may be out of order, because servers log a request when it ends.
const STEP_BACK_US: u64 = 60_000_000;

#[derive(Default)]
pub(super) struct ReplayCounts {
    pub(super) lines: u64,
    pub(super) unlimited: u64,
    pub(super) unreadable: u64,
    pub(super) shown: Vec<Unreadable>,
    pub(super) span: Option<(u64, u64)>,
    pub(super) has_fraction: bool,
    /// Lines that are much older than an earlier one.
    pub(super) stepped_back: u64,
    /// Requests whose key or route needs headers that the log does not have.
    pub(super) lacks_headers: u64,
    /// Requests whose key or route needs a token or a body.
    pub(super) lacks_contents: u64,
    /// Requests to policies that limit concurrency.
    pub(super) not_replayed: u64,
    /// Requests that one of two configurations would have refused if it were not in shadow.
    pub(super) shadow_denied: u64,
    /// Live counters that the store evicted.
    pub(super) evicted: u64,
    pub(super) policies: BTreeMap<String, PolicyCounts>,
    pub(super) timeline: Timeline,
    pub(super) rates: ClientRates,
    /// What limits whose burst is the whole limit admit at first.
    pub(super) first_periods: Vec<String>,
    keys: usize,
    hasher: RandomState,
}

#[derive(Debug, Serialize)]
pub struct Unreadable {
    pub line: u64,
    pub reason: String,
}

#[derive(Default)]
pub(super) struct PolicyCounts {
    pub(super) requests: u64,
    pub(super) denied: u64,
    /// Denials of keys beyond `KEYS_MAX`.
    pub(super) others: u64,
    /// Of requests that name their plan.
    pub(super) plans: BTreeMap<String, PlanCounts>,
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

impl ReplayCounts {
    pub(super) fn unreadable(&mut self, why: &LineError) {
        self.unreadable += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(Unreadable { line: self.lines, reason: why.to_string() });
        }
    }

    pub(super) fn at(&mut self, at: LogTime) {
        let (first, last) = self.span.unwrap_or((at.us, at.us));
        self.stepped_back += u64::from(at.us + STEP_BACK_US < last);
        self.span = Some((first.min(at.us), last.max(at.us)));
        self.has_fraction |= at.has_fraction;
    }

    pub(super) fn lacks(&mut self, lacks: Lacks) {
        self.lacks_headers += u64::from(lacks.headers);
        self.lacks_contents += u64::from(lacks.contents);
    }

    pub(super) fn decided(&mut self, at: LogTime, outcome: Outcome<'_>, plan: Option<String>) {
        let Outcome { policy, key, denied, lacks, .. } = outcome;
        self.lacks(lacks);
        self.timeline.add(at.us, denied);
        if !self.policies.contains_key(policy) {
            self.policies.insert(policy.to_owned(), PolicyCounts::default());
        }
        let Some(counts) = self.policies.get_mut(policy) else { return };
        counts.requests += 1;
        if let Some(plan) = plan {
            plans::entry(&mut counts.plans, plan).add(denied);
        }
        if !denied {
            return;
        }
        counts.denied += 1;
        let key = bounded(key, &self.hasher);
        if let Some(denials) = counts.keys.get_mut(&*key) {
            denials.count += 1;
            denials.first_us = denials.first_us.min(at.us);
            denials.last_us = denials.last_us.max(at.us);
        } else if self.keys < KEYS_MAX {
            self.keys += 1;
            let denials = Denials { count: 1, first_us: at.us, last_us: at.us };
            counts.keys.insert(key.into_boxed_slice(), denials);
        } else {
            counts.others += 1;
        }
    }
}

/// Truncates a key that is too long, and adds a hash to keep it distinct.
fn bounded(mut key: Vec<u8>, hasher: &RandomState) -> Vec<u8> {
    if key.len() > KEY_LEN_MAX {
        let hash = hasher.hash_one(&key);
        key.truncate(KEY_LEN_MAX);
        key.extend_from_slice(format!("…{hash:016x}").as_bytes());
    }
    key
}

impl PolicyCounts {
    pub(super) fn keys_denied(&self) -> usize {
        self.keys.len()
    }

    /// The most denied keys; equal ones sorted by name.
    pub(super) fn most_denied(&self, count: usize) -> Vec<DeniedKey> {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_unstable_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(b.0)));
        let denied = |key: &[u8], denials: &Denials| DeniedKey {
            key: printable(&String::from_utf8_lossy(key)),
            denied: denials.count,
            first: rfc_3339_utc(denials.first_us),
            last: rfc_3339_utc(denials.last_us),
        };
        keys.into_iter().take(count).map(|(key, denials)| denied(key, denials)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(key: impl Into<Vec<u8>>) -> Outcome<'static> {
        let lacks = Lacks::default();
        Outcome { policy: "api", key: key.into(), denied: true, in_shadow: false, lacks }
    }

    const NOW: LogTime = LogTime { us: 1_700_000_000_000_000, has_fraction: false };

    #[test]
    fn memory_is_bounded_whatever_keys_come() {
        let mut counts = ReplayCounts::default();
        for number in 0..KEYS_MAX + 10 {
            counts.decided(NOW, denied(number.to_string()), None);
        }
        counts.decided(NOW, denied("7"), None);
        let api = &counts.policies["api"];
        assert_eq!((api.keys_denied(), api.others), (KEYS_MAX, 10));
        assert_eq!((api.most_denied(1)[0].key.as_str(), api.most_denied(1)[0].denied), ("7", 2));
    }

    #[test]
    fn long_keys_are_truncated_and_stay_distinct() {
        let mut counts = ReplayCounts::default();
        for end in ["a", "b", "b"] {
            counts.decided(NOW, denied("x".repeat(5000) + end), None);
        }
        let most = counts.policies["api"].most_denied(9);
        assert_eq!(most.iter().map(|key| key.denied).collect::<Vec<_>>(), [2, 1]);
        assert!(most.iter().all(|key| key.key.len() < 300), "{most:?}");
    }
}
