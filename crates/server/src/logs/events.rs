//! What is worth a line about decisions: refusals, and checks that the store should have decided and did not.
//!
//! An attack is millions of them, and a log that an attacker can fill is a second attack: ten lines a second are written,
//! the others are counted, and the next line says how many those were. A key is never written, only a hash of it that
//! means nothing outside this process: lines about one caller have the same hash.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Key, LimitError, Limiter, SystemClock};

use crate::metrics::{Outcome, Status};
use tidegate_core::text::printable;

/// Lines of each kind.
const RATE: &str = "10/s burst 20";

/// Writes lines about decisions.
#[derive(Debug)]
pub(crate) struct Events {
    hasher: RandomState,
    refusals: LineLimiter,
    without_store: LineLimiter,
}

/// One kind of line.
#[derive(Debug)]
struct LineLimiter {
    limiter: Option<Limiter<SystemClock>>,
    /// Since the last line.
    unsaid: AtomicU64,
    dropped_total: AtomicU64,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            refusals: LineLimiter::new(RATE),
            without_store: LineLimiter::new(RATE),
        }
    }

    /// Writes what is worth a line about a question of a policy.
    #[cold]
    pub(crate) fn record(&self, policy: &str, key: Key<'_>, outcome: &Outcome<'_>) {
        if let (Some(source), Some(trouble)) = (outcome.source, outcome.store_error)
            && let Some(unsaid) = self.without_store.permit()
        {
            tracing::warn!(
                policy = printable(policy),
                source = source.as_str(),
                trouble = trouble.as_str(),
                allowed = matches!(outcome.status, Status::Allowed | Status::ShadowDenied),
                unsaid,
                "decided without the store"
            );
        }
        if outcome.status == Status::Denied
            && let Some(unsaid) = self.refusals.permit()
        {
            tracing::info!(
                policy = printable(policy),
                key = self.hashed(key),
                retry_after_ms = outcome.retry_after_us.map(|us| us.div_ceil(1000)),
                unsaid,
                "refused"
            );
        }
    }

    /// How many lines were not written so far: of refusals, and of stand-ins.
    pub(crate) fn dropped_lines(&self) -> [(&'static str, u64); 2] {
        let total = |limiter: &LineLimiter| limiter.dropped_total.load(Relaxed);
        [("refused", total(&self.refusals)), ("without-store", total(&self.without_store))]
    }

    /// 64 bits of a hash under a key that was drawn when the process began.
    pub(crate) fn hash(&self, key: Key<'_>) -> u64 {
        match key {
            Key::One(key) => self.hasher.hash_one(key),
            Key::Named(keys) => self.hasher.hash_one(keys),
        }
    }

    fn hashed(&self, key: Key<'_>) -> String {
        format!("{:016x}", self.hash(key))
    }
}

impl LineLimiter {
    fn new(rate: &str) -> Self {
        let limiter: Result<_, LimitError> = Limiter::new(rate);
        Self { limiter: limiter.ok(), unsaid: AtomicU64::new(0), dropped_total: AtomicU64::new(0) }
    }

    /// Whether to say it, and how much was left unsaid before.
    fn permit(&self) -> Option<u64> {
        if self.limiter.as_ref().is_none_or(|limiter| limiter.check("").allowed()) {
            return Some(self.unsaid.swap(0, Relaxed));
        }
        self.unsaid.fetch_add(1, Relaxed);
        self.dropped_total.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let limiter = LineLimiter::new("1/h burst 20");
        assert_eq!((0..1000).filter_map(|_| limiter.permit()).collect::<Vec<_>>(), [0; 20]);
        assert_eq!(limiter.unsaid.load(Relaxed), 980);
        assert_eq!(limiter.dropped_total.load(Relaxed), 980);
    }

    #[test]
    fn a_hash_tells_keys_apart_and_is_another_in_another_process() {
        let (here, there) = (Events::new(), Events::new());
        let ann = || Key::One(b"ann");
        assert_eq!(here.hashed(ann()), here.hashed(ann()));
        assert_ne!(here.hashed(ann()), here.hashed(Key::One(b"bob")));
        assert_ne!(here.hashed(ann()), there.hashed(ann()));
        let named: [(&str, &[u8]); 1] = [("ip", b"ann")];
        assert_eq!(here.hashed(Key::Named(&named)).len(), 16);
    }
}
