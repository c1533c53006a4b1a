//! Units given back through this node: what was refused before says nothing any more.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that share a counter forget each other's refusals, which costs one request each.
const COUNTERS: u64 = 4096;

/// Counts how often units were given back through this node: earlier refusals do not count any more.
pub(crate) struct Returns(Box<[AtomicU64]>);

impl Returns {
    pub(crate) fn new() -> Self {
        Self((0..COUNTERS).map(|_| AtomicU64::new(0)).collect())
    }

    /// How often something was given back to a key. Never goes down.
    pub(crate) fn count_of(&self, fingerprint: u64) -> u64 {
        self.counter(fingerprint).load(Ordering::Acquire)
    }

    /// The counts of several keys, added up.
    #[cfg(feature = "leases")]
    pub(crate) fn count_of_all(&self, fingerprints: impl IntoIterator<Item = u64>) -> u64 {
        let counts = fingerprints.into_iter().map(|fingerprint| self.count_of(fingerprint));
        counts.fold(0, u64::wrapping_add)
    }

    pub(crate) fn record(&self, fingerprints: &[u64]) {
        for fingerprint in fingerprints {
            self.counter(*fingerprint).fetch_add(1, Ordering::AcqRel);
        }
    }

    fn counter(&self, fingerprint: u64) -> &AtomicU64 {
        &self.0[usize::try_from(fingerprint % COUNTERS).unwrap_or_default()]
    }
}
