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
pub(crate) struct Health {
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_us: AtomicU64,
    bad_checks: AtomicU32,
    is_unwell: AtomicBool,
}

/// Whose request may go to an upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admits {
    Anybody,
    /// This one alone, to see whether it is back.
    Probe,
    Nobody,
}

impl Health {
    pub(crate) fn is_up(&self, now_us: u64) -> bool {
        !self.is_unwell.load(Relaxed) && self.ejected_until_us.load(Relaxed) <= now_us
    }

    /// Who may go there now. The first after a time of being left alone is let through to see; for the others the next,
    /// longer one begins with it, until it has connected.
    pub(crate) fn admits(&self, now_us: u64) -> Admits {
        match self.ejected_until_us.load(Relaxed) {
            _ if self.is_unwell.load(Relaxed) => Admits::Nobody,
            0 => Admits::Anybody,
            until_us if until_us <= now_us && self.eject(until_us, now_us) => Admits::Probe,
            _ => Admits::Nobody,
        }
    }

    /// When it is worth another try.
    pub(crate) fn next_try_us(&self) -> u64 {
        self.ejected_until_us.load(Relaxed)
    }

    /// It was connected to. Whether that ends a time of being left alone.
    pub(crate) fn reached(&self) -> bool {
        if self.failures.load(Relaxed) == 0 && self.ejected_until_us.load(Relaxed) == 0 {
            return false;
        }
        self.failures.store(0, Relaxed);
        self.ejections.store(0, Relaxed);
        self.ejected_until_us.swap(0, Relaxed) > 0
    }

    /// It could not be connected to. Whether that was once too often.
    pub(crate) fn missed(&self, now_us: u64) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let until_us = self.ejected_until_us.load(Relaxed);
        failures >= FAILURES_MAX && until_us <= now_us && self.eject(until_us, now_us)
    }

    /// Leaves it alone from now on. Only one of many at once does.
    fn eject(&self, until_us: u64, now_us: u64) -> bool {
        let before = self.ejections.load(Relaxed).min(16);
        let next_us = now_us + (FIRST_BACK_OFF_US << before).min(LONGEST_BACK_OFF_US);
        let swapped =
            self.ejected_until_us.compare_exchange(until_us, next_us, Relaxed, Relaxed).is_ok();
        if swapped {
            self.ejections.fetch_add(1, Relaxed);
        }
        swapped
    }

    /// It was asked how it does. Whether that has changed what is known.
    pub(crate) fn checked(&self, is_well: bool) -> bool {
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
    fn after_a_back_off_one_goes_first_to_see() {
        let health = Health::default();
        assert_eq!(health.admits(0), Admits::Anybody);
        (0..3).for_each(|now| _ = health.missed(now));
        let next = health.next_try_us();
        let three = |now| [now; 3].map(|now| health.admits(now));
        assert_eq!(three(next - 1), [Admits::Nobody; 3]);
        assert_eq!(three(next), [Admits::Probe, Admits::Nobody, Admits::Nobody]);
        assert!(!health.missed(next + 1), "it was expected to fail");
        assert_eq!(three(next + 1_999_999), [Admits::Nobody; 3], "for longer");
        assert_eq!(three(next + 2_000_000)[0], Admits::Probe);
        assert!(health.reached() && !health.reached());
        assert_eq!(three(next + 2_000_000), [Admits::Anybody; 3]);
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
