//! How long a store takes, and what to make of it.

use super::Finding;
use crate::clock::{Clock, SystemClock};

/// What a decision may take by default.
const DEADLINE_US: u64 = crate::deadline::DEFAULT.subsec_micros() as u64;
/// The breaker opens above this p99 by default.
const BREAKER_US: u64 = 10_000;
/// More than a network within one place needs.
const NEAR_US: u64 = 2_000;

/// Times what is done again and again: at most so often, and until a budget is spent.
///
/// ```
/// use tidegate::driver::Laps;
///
/// let mut laps = Laps::new(3, 1_000_000);
/// while laps.start() {
///     laps.end();
/// }
/// assert_eq!(laps.sorted_us().len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Laps {
    most: usize,
    ends_us: u64,
    started_us: u64,
    times_us: Vec<u64>,
}

impl Laps {
    /// No lap yet.
    pub fn new(most: usize, budget_us: u64) -> Self {
        let started_us = SystemClock.steady_us();
        let ends_us = started_us.saturating_add(budget_us);
        Self { most, ends_us, started_us, times_us: Vec::new() }
    }

    /// Starts a lap; false once there were enough.
    pub fn start(&mut self) -> bool {
        self.started_us = SystemClock.steady_us();
        self.times_us.len() < self.most && self.started_us < self.ends_us
    }

    /// Ends a lap.
    pub fn end(&mut self) {
        self.times_us.push(SystemClock.steady_us().saturating_sub(self.started_us));
    }

    /// How long each took, the shortest first.
    pub fn sorted_us(mut self) -> Vec<u64> {
        self.times_us.sort_unstable();
        self.times_us
    }
}

impl Finding {
    /// What sorted times of `what` mean for decisions; `None` if there are none.
    ///
    /// ```
    /// use tidegate::driver::{Finding, Severity};
    ///
    /// let finding = Finding::times("round-trip", "PING", &[180, 210, 250]);
    /// assert_eq!(finding.map(|it| it.seen), Some("PING takes 0.21 ms, p99 0.25 ms (3 of them)".to_owned()));
    /// let finding = Finding::times("round-trip", "PING", &[30_000]);
    /// assert_eq!(finding.map(|it| it.severity), Some(Severity::Fault));
    /// ```
    pub fn times(check: &'static str, what: &str, sorted_us: &[u64]) -> Option<Self> {
        let (median, p99) = (percentile(sorted_us, 50)?, percentile(sorted_us, 99)?);
        let count = sorted_us.len();
        let seen =
            format!("{what} takes {}, p99 {} ({count} of them)", millis(median), millis(p99));
        let closer = "run tidegate nearer to its store, or give the policies a longer deadline";
        Some(if median >= DEADLINE_US {
            Self::fault(check, seen)
                .risk("most decisions miss the deadline of 20 ms, and on_store_error decides")
                .remedy(closer)
        } else if p99 >= BREAKER_US {
            Self::warning(check, seen)
                .risk("with a p99 above 10 ms the breaker opens, and on_store_error decides")
                .remedy(closer)
        } else if median >= NEAR_US {
            Self::note(check, seen)
                .risk(
                    "every decision that needs the store waits that long; leases save most of them",
                )
                .remedy("run tidegate nearer to its store, or set lease: true where a policy may")
        } else {
            Self::ok(check, seen)
        })
    }
}

/// The nearest rank.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Microseconds as milliseconds with two digits, or as seconds where there are many.
///
/// ```
/// use tidegate::driver::millis;
///
/// assert_eq!((millis(1_239), millis(90_400_000)), ("1.23 ms".into(), "90 s".into()));
/// ```
pub fn millis(us: u64) -> String {
    if us >= 10_000_000 {
        return format!("{} s", us / 1_000_000);
    }
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Severity;

    #[test]
    fn slow_stores_are_told_by_how_slow_they_are() {
        for (median, p99, expected) in [
            (100, 900, Severity::Ok),
            (3_000, 4_000, Severity::Note),
            (900, 12_000, Severity::Warning),
            (25_000, 30_000, Severity::Fault),
        ] {
            let mut times_us = vec![median; 98];
            times_us.extend([p99, p99]);
            let finding = Finding::times("round-trip", "PING", &times_us);
            assert_eq!(finding.map(|it| it.severity), Some(expected));
        }
        assert_eq!(Finding::times("round-trip", "PING", &[]), None);
    }
}
