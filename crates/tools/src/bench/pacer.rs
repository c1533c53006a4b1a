//! Open loop: the instant at which each request is due, whether or not earlier ones were answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The longest sleep, so that the end is noticed.
const NAP_MAX: Duration = Duration::from_millis(20);

/// Releases batches when they are due. A free client takes the next one; while all are busy it waits, and the waiting
/// counts as latency.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Per second.
    rate: u32,
    /// Requests of one batch.
    batch: u64,
    start: Instant,
    due: Semaphore,
}

impl Pacer {
    pub(super) fn new(rate: u32, batch: u64, start: Instant) -> Self {
        Self { rate, batch, start, due: Semaphore::new(0) }
    }

    /// Waits until another batch is due; `false` once the run is over.
    pub(super) async fn wait(&self) -> bool {
        self.due.acquire().await.map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// When a request is due, by its number.
    pub(super) fn due_at(&self, number: u64) -> Instant {
        let ns = u128::from(number) * 1_000_000_000 / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many requests are due by then, in whole batches.
    pub(super) fn due_by(&self, now: Instant) -> u64 {
        let ns = now.duration_since(self.start).as_nanos();
        let requests = ns * u128::from(self.rate) / 1_000_000_000;
        let batches = requests / u128::from(self.batch) + 1;
        u64::try_from(batches).unwrap_or(u64::MAX).saturating_mul(self.batch)
    }

    /// Releases what is due until the run is over or `end` requests are released, on a thread of its own: timers of the
    /// runtime have milliseconds, and this sleeps to a twentieth of one. At the end it wakes all `clients`.
    pub(super) fn run(&self, end: &AtomicU64, clients: usize) {
        let mut released = 0;
        loop {
            let end = end.load(Ordering::Relaxed);
            if self.due.is_closed() || released >= end {
                break;
            }
            let due = self.due_by(Instant::now()).min(end.next_multiple_of(self.batch));
            let batches = (due - released) / self.batch;
            self.due.add_permits(usize::try_from(batches).unwrap_or_default());
            released = due;
            let nap = self.due_at(released).saturating_duration_since(Instant::now());
            std::thread::sleep(nap.min(NAP_MAX));
        }
        self.due.add_permits(clients);
    }

    /// Releases nothing any more.
    pub(super) fn stop(&self) {
        self.due.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_by_and_due_at_agree() {
        let start = Instant::now();
        for (rate, batch) in [(1, 1), (3, 1), (1000, 1), (7, 16), (10_000_000, 64)] {
            let pacer = Pacer::new(rate, batch, start);
            for exchange in [0, 1, 2, 999] {
                let due = pacer.due_at(exchange * batch);
                // A third of a second is rounded to a nanosecond.
                let after = pacer.due_by(due + Duration::from_nanos(1));
                assert_eq!(after, (exchange + 1) * batch, "{rate} {batch} {exchange}");
            }
        }
    }
}
