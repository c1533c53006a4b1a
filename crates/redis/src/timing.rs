//! One timer for all deadlines of a node, and backoff with jitter.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// It may fire early: then the next deadline is looked up.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When it will fire.
    pub(crate) alarm: Option<Instant>,
}

impl Timer {
    /// Sets it if it is not set. In a steady stream of requests that is once in a deadline, not once for each.
    pub(crate) fn arm(&mut self, next: impl FnOnce() -> Option<Instant>) {
        if self.alarm.is_none()
            && let Some(due) = next()
        {
            self.set(due);
        }
    }

    /// Sets it to fire at `due`, unless it fires before.
    pub(crate) fn arm_by(&mut self, due: Option<Instant>) {
        if let Some(due) = due
            && self.alarm.is_none_or(|alarm| due < alarm)
        {
            self.set(due);
        }
    }

    pub(crate) fn disarm(&mut self) {
        self.alarm = None;
    }

    /// Waits for ever if it is not set.
    pub(crate) async fn fires(&mut self) {
        match &mut self.sleep {
            Some(sleep) if self.alarm.is_some() => sleep.as_mut().await,
            _ => std::future::pending().await,
        }
        self.alarm = None;
    }

    fn set(&mut self, due: Instant) {
        self.alarm = Some(due);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due),
            None => self.sleep = Some(Box::pin(sleep_until(due))),
        }
    }
}

const FIRST_CEILING: Duration = Duration::from_millis(10);
/// Short, so that a server that was restarted is used again soon; long enough that a fleet does not flood it.
const LAST_CEILING: Duration = Duration::from_millis(250);

/// Doublings until the last ceiling.
const STEPS_MAX: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure.
    pub(crate) fn next(&mut self) -> Duration {
        let ceiling = (FIRST_CEILING * (1 << self.failures.min(STEPS_MAX))).min(LAST_CEILING);
        self.failures = self.failures.saturating_add(1);
        up_to(ceiling)
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Some time from nothing to the ceiling.
pub(crate) fn up_to(ceiling: Duration) -> Duration {
    // A new state of the standard library's hasher is seeded from the system: random enough to spread a fleet.
    let share = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or(u32::MAX);
    ceiling.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

/// A period between half and the whole of this one.
pub(crate) fn jittered(period: Duration) -> Duration {
    period / 2 + up_to(period / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_start_over() {
        let mut backoff = Backoff::default();
        let longest = |backoff: &mut Backoff, rounds| {
            (0..rounds).map(|_| backoff.next()).max().unwrap_or_default()
        };
        assert!(longest(&mut backoff, 1) <= FIRST_CEILING);
        let late = longest(&mut backoff, 1000);
        assert!(late <= LAST_CEILING && late > LAST_CEILING / 2, "{late:?}");
        backoff.reset();
        assert!(longest(&mut backoff, 1) <= FIRST_CEILING);
    }

    #[test]
    fn a_fleet_does_not_come_back_as_one() {
        let waits: std::collections::HashSet<_> =
            (0..100).map(|_| up_to(Duration::from_secs(1))).collect();
        assert!(waits.len() > 90, "{} different waits of 100", waits.len());
    }
}
