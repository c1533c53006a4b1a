//! Open loop: when each request is due, whatever became of those before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The longest that the pacemaker sleeps, so that it notices the end.
const NAP_MAX: Duration = Duration::from_millis(20);

/// Lets lines go, exchange by exchange. A line that is free takes the next one that is due; if all are busy it waits,
/// and the time counts.
#[derive(Debug)]
pub(super) struct Pace {
    /// Per second.
    rate: u32,
    /// Requests of one exchange.
    batch: u64,
    begun: Instant,
    due: Semaphore,
}

impl Pace {
    pub(super) fn new(rate: u32, batch: u64, begun: Instant) -> Self {
        Self { rate, batch, begun, due: Semaphore::new(0) }
    }

    /// Waits until another exchange is due; `false` once it is over.
    pub(super) async fn wait(&self) -> bool {
        self.due.acquire().await.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// When the request of a turn is due.
    pub(super) fn due_at(&self, turn: u64) -> Instant {
        let ns = u128::from(turn) * 1_000_000_000 / u128::from(self.rate);
        self.begun + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many requests are due by then, in whole exchanges.
    pub(super) fn due_by(&self, now: Instant) -> u64 {
        let ns = now.duration_since(self.begun).as_nanos();
        let turns = ns * u128::from(self.rate) / 1_000_000_000;
        let exchanges = turns / u128::from(self.batch) + 1;
        u64::try_from(exchanges).unwrap_or(u64::MAX).saturating_mul(self.batch)
    }

    /// Lets go what is due until `end` turns are or it is over, on a thread of its own: the timers of the runtime know
    /// milliseconds only, and this sleeps to the twentieth of one. In the end `lines` may see that there is nothing more.
    pub(super) fn keep(&self, end: &AtomicU64, lines: usize) {
        let mut let_go = 0;
        loop {
            let end = end.load(Ordering::Relaxed);
            if self.due.is_closed() || let_go >= end {
                break;
            }
            let due = self.due_by(Instant::now()).min(end.next_multiple_of(self.batch));
            let exchanges = (due - let_go) / self.batch;
            self.due.add_permits(usize::try_from(exchanges).unwrap_or_default());
            let_go = due;
            let nap = self.due_at(let_go).saturating_duration_since(Instant::now());
            std::thread::sleep(nap.min(NAP_MAX));
        }
        self.due.add_permits(lines);
    }

    /// Nobody is let go any more.
    pub(super) fn stop(&self) {
        self.due.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_by_an_instant_is_what_was_due_before_it() {
        let begun = Instant::now();
        for (rate, batch) in [(1, 1), (3, 1), (1000, 1), (7, 16), (10_000_000, 64)] {
            let pace = Pace::new(rate, batch, begun);
            for exchange in [0, 1, 2, 999] {
                let due = pace.due_at(exchange * batch);
                // To a nanosecond, for a third of a second has no end.
                let after = pace.due_by(due + Duration::from_nanos(1));
                assert_eq!(after, (exchange + 1) * batch, "{rate} {batch} {exchange}");
            }
        }
    }
}
