//! What was given back through this node: a refusal from before it is not believed any more.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that share a counter forget each other's refusals, which costs one request each.
const COUNTERS: u64 = 4096;

pub(super) struct Returns(Box<[AtomicU64]>);

impl Returns {
    pub(super) fn new() -> Self {
        Self((0..COUNTERS).map(|_| AtomicU64::new(0)).collect())
    }

    /// How often something was given back to a key. Never goes down.
    pub(super) fn to(&self, fingerprint: u64) -> u64 {
        self.counter(fingerprint).load(Ordering::Acquire)
    }

    pub(super) fn count(&self, fingerprints: &[u64]) {
        for fingerprint in fingerprints {
            self.counter(*fingerprint).fetch_add(1, Ordering::AcqRel);
        }
    }

    fn counter(&self, fingerprint: u64) -> &AtomicU64 {
        &self.0[usize::try_from(fingerprint % COUNTERS).unwrap_or_default()]
    }
}
