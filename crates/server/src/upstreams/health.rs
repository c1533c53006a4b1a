//! Whether an upstream gets requests: not while it is ejected after failed connections, nor while its health check fails.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Failed connections in a row until an upstream is ejected.
const FAILURES_MAX: u32 = 3;
/// The first ejection; each further one takes twice as long, up to the longest.
const FIRST_BACK_OFF_US: u64 = 1_000_000;
const LONGEST_BACK_OFF_US: u64 = 30_000_000;
/// Failed health checks in a row until an upstream is unhealthy.
const BAD_CHECKS_MAX: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Health {
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_us: AtomicU64,
    bad_checks: AtomicU32,
    is_unhealthy: AtomicBool,
}

/// Which requests may go to an upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admits {
    All,
    /// This request alone, to find out whether the upstream is back.
    Probe,
    None,
}

impl Health {
    pub(crate) fn is_up(&self, now_us: u64) -> bool {
        !self.is_unhealthy.load(Relaxed) && self.ejected_until_us.load(Relaxed) <= now_us
    }

    /// After an ejection the first request is a probe. For the others the next, longer ejection begins at once; it ends when
    /// the probe has connected.
    pub(crate) fn admits(&self, now_us: u64) -> Admits {
        match self.ejected_until_us.load(Relaxed) {
            _ if self.is_unhealthy.load(Relaxed) => Admits::None,
            0 => Admits::All,
            until_us if until_us <= now_us && self.eject(until_us, now_us) => Admits::Probe,
            _ => Admits::None,
        }
    }

    /// The end of the ejection.
    pub(crate) fn next_try_us(&self) -> u64 {
        self.ejected_until_us.load(Relaxed)
    }

    /// Records a connection. Returns whether that ends an ejection.
    pub(crate) fn reached(&self) -> bool {
        if self.failures.load(Relaxed) == 0 && self.ejected_until_us.load(Relaxed) == 0 {
            return false;
        }
        self.failures.store(0, Relaxed);
        self.ejections.store(0, Relaxed);
        self.ejected_until_us.swap(0, Relaxed) > 0
    }

    /// Records a failed connection. Returns whether that ejects the upstream.
    pub(crate) fn missed(&self, now_us: u64) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let until_us = self.ejected_until_us.load(Relaxed);
        failures >= FAILURES_MAX && until_us <= now_us && self.eject(until_us, now_us)
    }

    /// Begins an ejection. Only one of several concurrent callers succeeds.
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

    /// Records a health check. Returns whether the state has changed.
    pub(crate) fn checked(&self, is_healthy: bool) -> bool {
        if is_healthy {
            self.bad_checks.store(0, Relaxed);
            return self.is_unhealthy.swap(false, Relaxed);
        }
        let bad = self.bad_checks.fetch_add(1, Relaxed).saturating_add(1);
        bad >= BAD_CHECKS_MAX && !self.is_unhealthy.swap(true, Relaxed)
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
        assert!(!health.missed(500_000), "a request in flight does not count again");
        assert!(health.missed(1_000_003), "one failure is enough now");
        assert!(!health.is_up(3_000_002) && health.is_up(3_000_003));
        health.reached();
        assert!(health.is_up(0) && !health.missed(0));
    }

    #[test]
    fn after_an_ejection_one_request_is_a_probe() {
        let health = Health::default();
        assert_eq!(health.admits(0), Admits::All);
        (0..3).for_each(|now| _ = health.missed(now));
        let next = health.next_try_us();
        let three = |now| [now; 3].map(|now| health.admits(now));
        assert_eq!(three(next - 1), [Admits::None; 3]);
        assert_eq!(three(next), [Admits::Probe, Admits::None, Admits::None]);
        assert!(!health.missed(next + 1), "it was expected to fail");
        assert_eq!(three(next + 1_999_999), [Admits::None; 3], "for longer");
        assert_eq!(three(next + 2_000_000)[0], Admits::Probe);
        assert!(health.reached() && !health.reached());
        assert_eq!(three(next + 2_000_000), [Admits::All; 3]);
    }

    #[test]
    fn the_ejection_time_is_bounded() {
        let health = Health::default();
        let mut now = 0;
        for _ in 0..100 {
            health.missed(now);
            now = health.next_try_us().max(now);
        }
        assert!(health.next_try_us() <= now + LONGEST_BACK_OFF_US);
    }

    #[test]
    fn two_failed_checks_remove_it_and_one_good_check_restores_it() {
        let health = Health::default();
        assert_eq!([false, false, false].map(|well| health.checked(well)), [false, true, false]);
        assert!(!health.is_up(u64::MAX));
        assert!(health.checked(true) && health.is_up(0));
        assert!(!health.checked(true), "nothing new");
    }
}
