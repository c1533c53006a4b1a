//! The keys that are refused most, and the limits that refuse them: bounded, and touched by refusals only.
//!
//! An attack causes millions of refusals, and recording them must not cost more than refusing. So above some rate a
//! random sample is recorded, and each sampled refusal counts for all that it stands for. Each policy has a fixed number
//! of entries: a new key replaces the one with the lowest count and inherits that count (the space-saving algorithm), so
//! a key that is refused often is never missed. The report covers the last five to ten minutes.

mod table;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rapidhash::RapidHashMap;
use tidegate::{Clock, SystemClock};

pub(crate) use self::table::RefusalReport;
use self::table::{PolicyRefusals, Refusal};

/// Enough to find a key with one refusal in a hundred within a second, at a negligible cost.
const SAMPLED_PER_SECOND: u64 = 500;
const POLICIES_MAX: usize = 1_000;
/// Counts are dropped after two periods.
const PERIOD_SECONDS: u64 = 300;

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    policies: Mutex<RapidHashMap<Box<str>, PolicyRefusals>>,
    /// One refusal of this many is recorded.
    stride: AtomicU64,
    seconds: AtomicU64,
    shows_keys: AtomicBool,
}

impl Refusals {
    /// Records a refused check. `key` returns a number and a name for its key; the argument is whether keys are shown.
    pub(crate) fn note(
        &self,
        policy: &str,
        key: impl FnOnce(bool) -> (u64, String),
        binding: &str,
        retry_after_us: Option<u64>,
    ) {
        let weight = self.stride.load(Relaxed).max(1);
        if weight > 1 && !is_drawn(weight) {
            return;
        }
        let ((hash, name), at) = (key(self.shows_keys.load(Relaxed)), SystemClock.now());
        let refusal = Refusal { hash, name: name.into(), binding, retry_after_us, at, weight };
        let policies = if weight == 1 {
            Some(self.lock())
        } else {
            // A sample may be dropped instead of waiting for the lock.
            self.policies.try_lock().ok()
        };
        let Some(mut policies) = policies else { return };
        if let Some(known) = policies.get_mut(policy) {
            known.add(refusal);
        } else if policies.len() < POLICIES_MAX {
            policies.entry(policy.into()).or_default().add(refusal);
        }
    }

    /// Called once a second with the number of refusals in it: sets the sampling rate, and drops old periods.
    pub(crate) fn tick(&self, refused: u64) {
        self.stride.store(refused / SAMPLED_PER_SECOND, Relaxed);
        if (self.seconds.fetch_add(1, Relaxed) + 1).is_multiple_of(PERIOD_SECONDS) {
            self.lock().retain(|_, policy| policy.end_period());
        }
    }

    /// Shows keys in plain text, or only hashes. A change clears all counts.
    pub(crate) fn show_keys(&self, shows: bool) {
        if self.shows_keys.swap(shows, Relaxed) != shows {
            self.lock().clear();
        }
    }

    pub(crate) fn shows_keys(&self) -> bool {
        self.shows_keys.load(Relaxed)
    }

    /// The report of each policy with refusals.
    pub(crate) fn report(&self) -> RapidHashMap<Box<str>, RefusalReport> {
        self.lock().iter().map(|(name, policy)| (name.clone(), policy.report())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, RapidHashMap<Box<str>, PolicyRefusals>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True once in `many` calls, at random: an attack could match a fixed pattern.
fn is_drawn(many: u64) -> bool {
    thread_local!(static SEED: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) });
    SEED.with(|seed| {
        let mut x = seed.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        seed.set(x);
        x.is_multiple_of(many)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(refusals: &Refusals, key: &str) {
        let hash = rapidhash::v3::rapidhash_v3(key.as_bytes());
        let name = |shown| if shown { key.to_owned() } else { format!("{hash:016x}") };
        refusals.note("api", |shown| (hash, name(shown)), "api", Some(500));
    }

    fn top(refusals: &Refusals) -> Vec<(String, u64)> {
        let report = refusals.report();
        let top = report.get("api").map(|it| it.top.clone()).unwrap_or_default();
        top.into_iter().map(|one| (one.key, one.count)).collect()
    }

    #[test]
    fn keys_are_hashes_unless_configured_otherwise() {
        let refusals = Refusals::default();
        note(&refusals, "ann");
        assert!(top(&refusals)[0].0.bytes().all(|byte| byte.is_ascii_hexdigit()));
        refusals.show_keys(true);
        assert!(top(&refusals).is_empty(), "a key recorded as a hash is never shown");
        note(&refusals, "ann");
        assert_eq!(top(&refusals), [("ann".to_owned(), 1)]);
        refusals.show_keys(false);
        assert!(top(&refusals).is_empty(), "keys recorded as text are cleared");
    }

    #[test]
    fn a_frequently_refused_key_is_found_also_in_a_sampled_flood() {
        let refusals = Refusals::default();
        refusals.show_keys(true);
        refusals.tick(64 * SAMPLED_PER_SECOND);
        for number in 0..200_000 {
            note(&refusals, &format!("passer-by-{number}"));
            note(&refusals, "mallory");
        }
        let (key, count) = top(&refusals).remove(0);
        assert_eq!(key, "mallory");
        assert!((150_000..250_000).contains(&count), "{count}");
    }

    #[test]
    fn old_periods_are_dropped() {
        let refusals = Refusals::default();
        note(&refusals, "ann");
        (0..PERIOD_SECONDS).for_each(|_| refusals.tick(0));
        assert_eq!(top(&refusals).len(), 1);
        (0..PERIOD_SECONDS).for_each(|_| refusals.tick(0));
        assert!(refusals.report().is_empty());
    }

    #[test]
    fn policies_are_bounded() {
        let refusals = Refusals::default();
        for number in 0..2 * POLICIES_MAX {
            refusals.note(&number.to_string(), |_| (1, String::new()), "", None);
        }
        assert_eq!(refusals.report().len(), POLICIES_MAX);
    }
}
