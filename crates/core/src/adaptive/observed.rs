//! The window over observed requests: how long they took, whether they failed, and how many still run.

use super::Reading;
use super::baseline::Baseline;
use super::number::float;
use crate::histogram::Histogram;
use crate::time::{Timestamp, micros_up};
use std::collections::VecDeque;
use std::time::Duration;

/// The fewest requests in a tick whose latency is evidence of a queue.
const MIN_SAMPLES: u64 = 5;
/// The span over which errors count.
const ERRORS_OVER: Duration = Duration::from_secs(10);
/// The fewest requests in that span that give an error ratio.
const MIN_REQUESTS: u64 = 20;
/// A bound on the ticks that are kept, however short they are.
const TICKS_MAX: usize = 64;

/// Times in µs, up to four and a half minutes. Eight steps per doubling: a median is off by a few per cent at most.
type Times = Histogram<3, 28, u32>;

/// What is observed of one target. Only admitted requests count: a refused one does not wait.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Observed, Reading};
///
/// let (mut observed, second) = (Observed::default(), Duration::from_secs(1));
/// let start = Timestamp::from_micros(1_700_000_000_000_000);
/// (0..100).for_each(|_| observed.note(Duration::from_millis(10), true));
/// let seen = observed.tick(start, 0.0);
/// assert_eq!((seen.queue_wait, seen.errors), (Reading::Value(0.0), Reading::Value(0.0)));
/// // 50 ms longer than what it takes when nothing waits, and half of them fail.
/// (0..100).for_each(|n| observed.note(Duration::from_millis(60), n % 2 == 0));
/// let seen = observed.tick(start + second, 0.0);
/// assert!(matches!(seen.queue_wait, Reading::Value(ms) if (45.0..55.0).contains(&ms)));
/// assert_eq!(seen.errors, Reading::Value(0.25)); // over ten seconds
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Observed {
    latencies: Times,
    waits: Times,
    failed: u64,
    ticks: VecDeque<Tick>,
    running: Running,
    baseline: Baseline,
    pool_queue: Option<PoolQueue>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Tick {
    at: Timestamp,
    count: u64,
    failed: u64,
}

/// What was seen since the last tick.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Observed, Reading};
///
/// let (mut observed, now) = (Observed::with_pool(4), Timestamp::from_micros(1_700_000_000_000_000));
/// observed.begin(now);
/// observed.end(now, now + Duration::from_millis(40), true);
/// observed.note_wait(Duration::from_millis(7)); // as the target reports it
/// let seen = observed.tick(now + Duration::from_secs(1), 0.0);
/// assert!(matches!(seen.queue_wait, Reading::Value(ms) if (6.0..8.0).contains(&ms)));
/// assert!(seen.latency_ms.is_some_and(|ms| (35.0..45.0).contains(&ms)));
/// assert_eq!((seen.baseline_ms, seen.count), (None, 1)); // one request is too few
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct TickSummary {
    /// How long requests wait, in milliseconds: for [`Chain::queue_wait`](super::Chain::queue_wait).
    pub queue_wait: Reading,
    /// The share that failed over ten seconds: for [`Chain::errors`](super::Chain::errors).
    pub errors: Reading,
    /// How long half of the requests took, in milliseconds, if there were any.
    pub latency_ms: Option<f64>,
    /// What they take when nothing waits, in milliseconds, if that is known.
    pub baseline_ms: Option<f64>,
    /// How many requests ended.
    pub count: u64,
}

impl Observed {
    /// For a target with a pool of known size, if all requests to it are observed here. How long requests wait then
    /// follows from how many run beyond these slots, and from how many come back (Little's law): a target that has become
    /// slow is not taken for one with a long queue.
    pub fn with_pool(slots: u64) -> Self {
        Self { pool_queue: Some(PoolQueue::new(slots)), ..Self::default() }
    }

    /// Sets or clears the size of the pool. What was observed so far is kept.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Observed;
    /// let mut observed = Observed::default();
    /// observed.set_pool(Some(4));
    /// assert_eq!(observed, Observed::with_pool(4));
    /// ```
    pub fn set_pool(&mut self, slots: Option<u64>) {
        if self.pool_queue.as_ref().map(|queue| queue.slots) != slots {
            self.pool_queue = slots.map(PoolQueue::new);
        }
    }

    /// A request is sent to the target.
    pub fn begin(&mut self, now: Timestamp) {
        self.count_pool_queue(now);
        self.running.begin(now);
    }

    /// A request has ended or was given up. `ok` is false for a timeout or a 5xx.
    pub fn end(&mut self, begun: Timestamp, now: Timestamp, ok: bool) {
        self.count_pool_queue(now);
        self.running.end(begun);
        self.note(now.since(begun), ok);
    }

    /// A request was refused after all: it does not count, as if it had never begun.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::Observed;
    /// let (mut observed, now) = (Observed::default(), Timestamp::from_micros(5));
    /// observed.begin(now);
    /// observed.take_back(now, now);
    /// assert_eq!((observed.running(), observed.tick(now, 0.0).count), (0, 0));
    /// ```
    pub fn take_back(&mut self, begun: Timestamp, now: Timestamp) {
        self.count_pool_queue(now);
        self.running.end(begun);
    }

    fn count_pool_queue(&mut self, now: Timestamp) {
        if let Some(pool_queue) = &mut self.pool_queue {
            pool_queue.count(self.running.count, now);
        }
    }

    /// A finished request that was measured elsewhere.
    pub fn note(&mut self, latency: Duration, ok: bool) {
        self.latencies.record(micros_up(latency), 1);
        self.failed += u64::from(!ok);
    }

    /// A wait in a queue, as the target reports it. From then on reported waits count, instead of those that latencies
    /// suggest.
    pub fn note_wait(&mut self, wait: Duration) {
        self.waits.record(micros_up(wait), 1);
    }

    /// The number of requests in flight.
    pub const fn running(&self) -> u64 {
        self.running.count
    }

    /// Summarises what was seen since the last tick. `pressure` is that of the last output: while it is above 0, slow
    /// responses do not raise the baseline.
    pub fn tick(&mut self, now: Timestamp, pressure: f64) -> TickSummary {
        let count = self.latencies.count();
        let latency_ms = median_ms(&self.latencies);
        self.count_pool_queue(now);
        let pool_wait_ms =
            self.pool_queue.as_mut().and_then(|pool_queue| pool_queue.take_wait_ms(count));
        let seen_ms = self.wait_ms(now, pressure);
        let wait_ms =
            median_ms(&self.waits).unwrap_or(seen_ms.min(pool_wait_ms.unwrap_or(seen_ms)));
        let errors = self.error_ratio(Tick { at: now, count, failed: self.failed });
        self.latencies.clear();
        self.waits.clear();
        self.failed = 0;
        TickSummary {
            queue_wait: Reading::Value(wait_ms),
            errors: Reading::Value(errors),
            latency_ms,
            baseline_ms: self.baseline.ms,
            count,
        }
    }

    /// The median latency above the baseline. If no request ends while some still run, their age counts; with next to no
    /// traffic the wait is 0.
    fn wait_ms(&mut self, now: Timestamp, pressure: f64) -> f64 {
        match median_ms(&self.latencies) {
            Some(median_ms) if self.latencies.count() >= MIN_SAMPLES => {
                (median_ms - self.baseline.note(median_ms, pressure)).max(0.0)
            }
            _ if self.running.count >= MIN_SAMPLES => {
                (self.running.mean_age_ms(now) - self.baseline.ms.unwrap_or(0.0)).max(0.0)
            }
            _ => 0.0,
        }
    }

    fn error_ratio(&mut self, tick: Tick) -> f64 {
        let is_old = |it: &Tick| it.at > tick.at || tick.at.since(it.at) >= ERRORS_OVER;
        self.ticks.retain(|it| !is_old(it));
        if self.ticks.len() == TICKS_MAX {
            self.ticks.pop_front();
        }
        self.ticks.push_back(tick);
        let count: u64 = self.ticks.iter().map(|it| it.count).sum();
        let failed: u64 = self.ticks.iter().map(|it| it.failed).sum();
        if count < MIN_REQUESTS { 0.0 } else { float(failed) / float(count) }
    }
}

fn median_ms(times: &Times) -> Option<f64> {
    Some(times.median()? / 1000.0)
}

/// Requests in flight: their number and the sum of their start times, which is all that a mean age needs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Running {
    pub(super) count: u64,
    begun_us: u128,
}

impl Running {
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.count += 1;
        self.begun_us += u128::from(now.as_micros());
    }

    pub(super) fn end(&mut self, begun: Timestamp) {
        self.count = self.count.saturating_sub(1);
        self.begun_us = self.begun_us.saturating_sub(begun.as_micros().into());
        if self.count == 0 {
            self.begun_us = 0;
        }
    }

    /// The sum of all ages.
    pub(super) fn age_us(&self, now: Timestamp) -> u64 {
        let latest = u128::from(self.count) * u128::from(now.as_micros());
        u64::try_from(latest.saturating_sub(self.begun_us)).unwrap_or(u64::MAX)
    }

    fn mean_age_ms(&self, now: Timestamp) -> f64 {
        float(self.age_us(now)) / float(self.count.max(1)) / 1000.0
    }
}

/// How long requests wait for a slot of a pool of known size, by Little's law: how many ran beyond its slots, over time.
#[derive(Clone, PartialEq, Debug)]
struct PoolQueue {
    slots: u64,
    counted_at: Option<Timestamp>,
    /// Microseconds that all requests together waited for a slot.
    waited_us: u128,
}

impl PoolQueue {
    const fn new(slots: u64) -> Self {
        Self { slots, counted_at: None, waited_us: 0 }
    }

    /// Adds the time since the last call, in which `running` requests ran.
    fn count(&mut self, running: u64, now: Timestamp) {
        let since = self.counted_at.map_or(0, |before| now.since(before).as_micros());
        self.waited_us += since * u128::from(running.saturating_sub(self.slots));
        self.counted_at = Some(now);
    }

    /// The mean wait of the requests that ended meanwhile; `None` if none did.
    fn take_wait_ms(&mut self, ended: u64) -> Option<f64> {
        let waited_us = u64::try_from(std::mem::take(&mut self.waited_us)).unwrap_or(u64::MAX);
        (ended > 0).then(|| float(waited_us) / float(ended) / 1000.0)
    }
}
