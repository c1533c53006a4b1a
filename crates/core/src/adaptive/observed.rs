//! The window over observed requests: how long they took, whether they failed, and how many still run.

use super::Reading;
use super::baseline::Baseline;
use super::number::float;
use crate::histogram::Histogram;
use crate::time::{Timestamp, micros_up};
use std::collections::VecDeque;
use std::time::Duration;

/// Fewer requests in a tick than this are chance, and no queue.
const TELLING: u64 = 5;
/// The span over which errors count, and the fewest requests that make a ratio.
const ERRORS_OVER: Duration = Duration::from_secs(10);
const ERRORS_OF: u64 = 20;
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
    crowd: Option<PoolQueue>,
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
/// observed.note_wait(Duration::from_millis(7)); // the target's own word
/// let seen = observed.tick(now + Duration::from_secs(1), 0.0);
/// assert!(matches!(seen.queue_wait, Reading::Value(ms) if (6.0..8.0).contains(&ms)));
/// assert!(seen.latency_ms.is_some_and(|ms| (35.0..45.0).contains(&ms)));
/// assert_eq!((seen.baseline_ms, seen.count), (None, 1)); // one says little
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
    /// How many came back.
    pub count: u64,
}

impl Observed {
    /// For a target with a known number of places, if all requests to it are observed here. How long requests wait
    /// then follows from how many run beyond these places, and from how many come back (Little's law): a target that
    /// has become slow is not taken for one with a long queue.
    pub fn with_pool(places: u64) -> Self {
        Self { crowd: Some(PoolQueue::new(places)), ..Self::default() }
    }

    /// The same for a target that is known already, or not any more: what was learnt of it stays.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Observed;
    /// let mut observed = Observed::default();
    /// observed.set_pool(Some(4));
    /// assert_eq!(observed, Observed::with_pool(4));
    /// ```
    pub fn set_pool(&mut self, places: Option<u64>) {
        if self.crowd.as_ref().map(PoolQueue::places) != places {
            self.crowd = places.map(PoolQueue::new);
        }
    }

    /// A request leaves for the target.
    pub fn begin(&mut self, now: Timestamp) {
        self.count_crowd(now);
        self.running.begin(now);
    }

    /// It is back, or was given up. `ok` is false for a timeout or a 5xx.
    pub fn end(&mut self, begun: Timestamp, now: Timestamp, ok: bool) {
        self.count_crowd(now);
        self.running.end(begun);
        self.note(now.since(begun), ok);
    }

    /// It was refused after all: nothing is noted, as if it had never begun.
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
        self.count_crowd(now);
        self.running.end(begun);
    }

    fn count_crowd(&mut self, now: Timestamp) {
        if let Some(crowd) = &mut self.crowd {
            crowd.count(self.running.count, now);
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

    /// How many are under way.
    pub const fn running(&self) -> u64 {
        self.running.count
    }

    /// What was seen since the last tick. `pressure` is that of the last output: while there is any, what is
    /// slow does not become the measure.
    pub fn tick(&mut self, now: Timestamp, pressure: f64) -> TickSummary {
        let count = self.latencies.count();
        let latency_ms = median_ms(&self.latencies);
        self.count_crowd(now);
        let crowd_ms = self.crowd.as_mut().and_then(|crowd| crowd.take_wait_ms(count));
        let seen_ms = self.wait_ms(now, pressure);
        let wait_ms = median_ms(&self.waits).unwrap_or(seen_ms.min(crowd_ms.unwrap_or(seen_ms)));
        let errors = self.error_ratio(Tick { at: now, count, failed: self.failed });
        self.latencies.clear();
        self.waits.clear();
        self.failed = 0;
        TickSummary {
            queue_wait: Reading::Value(wait_ms),
            errors: Reading::Value(errors),
            latency_ms,
            baseline_ms: self.baseline.ms(),
            count,
        }
    }

    /// What the median takes above the baseline. Where nothing comes back and requests still run, their age
    /// counts; where there is next to no traffic, nothing waits.
    fn wait_ms(&mut self, now: Timestamp, pressure: f64) -> f64 {
        match median_ms(&self.latencies) {
            Some(median_ms) if self.latencies.count() >= TELLING => {
                (median_ms - self.baseline.note(median_ms, pressure)).max(0.0)
            }
            _ if self.running.count >= TELLING => {
                (self.running.mean_age_ms(now) - self.baseline.ms().unwrap_or(0.0)).max(0.0)
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
        if count < ERRORS_OF { 0.0 } else { float(failed) / float(count) }
    }
}

fn median_ms(times: &Times) -> Option<f64> {
    Some(times.median()? / 1000.0)
}

/// Requests under way: their number and the sum of their beginnings, which is all that a mean age needs.
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

/// How long requests wait for one of a known number of places, by Little's law: how many ran beyond these places, over
/// time.
#[derive(Clone, PartialEq, Debug)]
struct PoolQueue {
    places: u64,
    counted_at: Option<Timestamp>,
    /// Microseconds that requests spent beyond the places, all together.
    waited_us: u128,
}

impl PoolQueue {
    const fn new(places: u64) -> Self {
        Self { places, counted_at: None, waited_us: 0 }
    }

    const fn places(&self) -> u64 {
        self.places
    }

    /// `running` requests ran until now.
    fn count(&mut self, running: u64, now: Timestamp) {
        let since = self.counted_at.map_or(0, |before| now.since(before).as_micros());
        self.waited_us += since * u128::from(running.saturating_sub(self.places));
        self.counted_at = Some(now);
    }

    /// What each of those waited that came back meanwhile; unknown if none did.
    fn take_wait_ms(&mut self, came_back: u64) -> Option<f64> {
        let waited_us = u64::try_from(std::mem::take(&mut self.waited_us)).unwrap_or(u64::MAX);
        (came_back > 0).then(|| float(waited_us) / float(came_back) / 1000.0)
    }
}
