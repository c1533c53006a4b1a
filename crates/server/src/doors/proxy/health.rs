//! Whether an upstream gets requests: not while it was just found to be unreachable, nor while it says that it is unwell.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// So many connections in a row have to fail.
const FAILURES_MAX: u32 = 3;
/// How long it is then left alone, the first time; twice as long each time, up to the longest.
const FIRST_BACK_OFF_US: u64 = 1_000_000;
const LONGEST_BACK_OFF_US: u64 = 30_000_000;
/// So many health checks in a row have to fail.
const BAD_CHECKS_MAX: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Health {
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_us: AtomicU64,
    bad_checks: AtomicU32,
    is_unwell: AtomicBool,
}

impl Health {
    pub(super) fn is_up(&self, now_us: u64) -> bool {
        !self.is_unwell.load(Relaxed) && self.ejected_until_us.load(Relaxed) <= now_us
    }

    /// When it is worth another try.
    pub(super) fn next_try_us(&self) -> u64 {
        self.ejected_until_us.load(Relaxed)
    }

    /// It was connected to.
    pub(super) fn reached(&self) {
        if self.failures.load(Relaxed) > 0 {
            self.failures.store(0, Relaxed);
            self.ejections.store(0, Relaxed);
            self.ejected_until_us.store(0, Relaxed);
        }
    }

    /// It could not be connected to. Whether that was once too often.
    pub(super) fn missed(&self, now_us: u64) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        if failures < FAILURES_MAX || self.ejected_until_us.load(Relaxed) > now_us {
            return false;
        }
        let before = self.ejections.fetch_add(1, Relaxed).min(16);
        let back_off_us = (FIRST_BACK_OFF_US << before).min(LONGEST_BACK_OFF_US);
        self.ejected_until_us.store(now_us + back_off_us, Relaxed);
        true
    }

    /// It was asked how it does. Whether that has changed what is known.
    pub(super) fn checked(&self, is_well: bool) -> bool {
        if is_well {
            self.bad_checks.store(0, Relaxed);
            return self.is_unwell.swap(false, Relaxed);
        }
        let bad = self.bad_checks.fetch_add(1, Relaxed).saturating_add(1);
        bad >= BAD_CHECKS_MAX && !self.is_unwell.swap(true, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_eject_for_longer_each_time() {
        let health = Health::default();
        assert_eq!([1, 2, 3].map(|now| health.missed(now)), [false, false, true]);
        assert!(!health.is_up(3) && !health.is_up(1_000_002) && health.is_up(1_000_003));
        assert!(!health.missed(500_000), "one that was under way does not count again");
        assert!(health.missed(1_000_003), "one failure is enough now");
        assert!(!health.is_up(3_000_002) && health.is_up(3_000_003));
        health.reached();
        assert!(health.is_up(0) && !health.missed(0));
    }

    #[test]
    fn the_back_off_has_an_end() {
        let health = Health::default();
        let mut now = 0;
        for _ in 0..100 {
            health.missed(now);
            now = health.next_try_us().max(now);
        }
        assert!(health.next_try_us() <= now + LONGEST_BACK_OFF_US);
    }

    #[test]
    fn two_bad_checks_take_it_out_and_a_good_one_brings_it_back() {
        let health = Health::default();
        assert_eq!([false, false, false].map(|well| health.checked(well)), [false, true, false]);
        assert!(!health.is_up(u64::MAX));
        assert!(health.checked(true) && health.is_up(0));
        assert!(!health.checked(true), "nothing new");
    }
}
