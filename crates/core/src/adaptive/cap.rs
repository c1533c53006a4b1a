//! The cap on requests in flight, and their count.

use super::AdaptiveError;
use super::number::{float, whole};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much longer than the baseline a response may take before the cap gives way.
const TOLERANCE: f64 = 1.5;
/// How much of the way to its aim a cap goes in one tick.
const PACE: f64 = 0.2;

/// A bound on how many are under way at once: what the queue of a target could hold at most.
///
/// ```
/// use tidegate_core::adaptive::{AdaptiveError, Cap, CapSample};
///
/// assert_eq!(Cap::fixed(16)?.places(), 32);
/// let mut cap = Cap::gradient(16)?;
/// for _ in 0..100 {
///     cap.step(CapSample { latency_ms: 300.0, baseline_ms: 30.0, in_flight: 32, is_stale: false });
/// }
/// assert_eq!(cap.places(), 16);
/// assert_eq!(Cap::fixed(0), Err(AdaptiveError::Pool(0)));
/// # Ok::<(), AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cap {
    pool: f64,
    places: f64,
    follows: bool,
}

/// What a cap follows, once per tick.
///
/// ```
/// use tidegate_core::adaptive::{Cap, CapSample};
///
/// let mut cap = Cap::gradient(16)?;
/// let well = CapSample { latency_ms: 30.0, baseline_ms: 30.0, in_flight: 32, is_stale: false };
/// cap.step(well);
/// assert!(cap.places() > 32);
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapSample {
    /// How long half of the responses took.
    pub latency_ms: f64,
    /// What they take when nothing waits.
    pub baseline_ms: f64,
    /// How many are under way.
    pub in_flight: u64,
    /// Whether a signal has been missing for so long that nothing opens.
    pub is_stale: bool,
}

impl Cap {
    /// Twice the size of a pool that is known: all busy, and as many waiting.
    pub fn fixed(pool: u64) -> Result<Self, AdaptiveError> {
        Self::new(pool, false)
    }

    /// For a pool of unknown size: follows the latency, from `pool` to four times as many. Without these bounds
    /// it would drift.
    pub fn gradient(pool: u64) -> Result<Self, AdaptiveError> {
        Self::new(pool, true)
    }

    fn new(pool: u64, follows: bool) -> Result<Self, AdaptiveError> {
        if !(1..=1_000_000).contains(&pool) {
            return Err(AdaptiveError::Pool(pool));
        }
        let pool = float(pool);
        Ok(Self { pool, places: 2.0 * pool, follows })
    }

    /// How many may be under way.
    pub fn places(&self) -> u64 {
        whole(self.places)
    }

    /// Whether another one bounds the same pool in the same way, wherever either has come to.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Cap, CapSample};
    /// let mut cap = Cap::gradient(16)?;
    /// cap.step(CapSample { latency_ms: 300.0, baseline_ms: 30.0, in_flight: 32, is_stale: false });
    /// assert!(cap.is_like(&Cap::gradient(16)?) && !cap.is_like(&Cap::fixed(16)?));
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub fn is_like(&self, other: &Self) -> bool {
        self.follows == other.follows && self.pool.total_cmp(&other.pool).is_eq()
    }

    /// One tick. A fixed cap stays as it is, and what is no number is ignored.
    pub fn step(&mut self, sample: CapSample) {
        let allowed_ms = TOLERANCE * sample.baseline_ms;
        let gradient = (allowed_ms / sample.latency_ms).clamp(0.5, 1.0);
        if !self.follows || !gradient.is_finite() {
            return;
        }
        // The root leaves room for a short queue, and lets the cap find out whether more would do.
        let aim = self.places * gradient + self.places.sqrt();
        // What is not used says nothing about what more would do.
        let may_grow = float(sample.in_flight) * 2.0 >= self.places && !sample.is_stale;
        if aim <= self.places || may_grow {
            self.places += PACE * (aim - self.places);
        }
        self.places = self.places.clamp(self.pool, 4.0 * self.pool);
    }
}

/// Counts what is under way on this node. Clones share the count.
///
/// ```
/// use tidegate_core::adaptive::InFlight;
///
/// let in_flight = InFlight::default();
/// let first = in_flight.enter(2);
/// let second = in_flight.enter(2);
/// assert!(in_flight.enter(2).is_none());
/// drop(first);
/// assert_eq!(in_flight.count(), 1);
/// assert!(in_flight.enter(2).is_some());
/// # drop(second);
/// ```
#[derive(Clone, Default, Debug)]
pub struct InFlight(Arc<AtomicU64>);

/// A place. It is free again when this is dropped: by the end of a request, a cancel or a panic.
///
/// ```
/// use tidegate_core::adaptive::{InFlight, InFlightGuard};
///
/// let in_flight = InFlight::default();
/// let place: Option<InFlightGuard> = in_flight.enter(1);
/// assert!(in_flight.enter(1).is_none());
/// drop(place);
/// assert!(in_flight.enter(1).is_some());
/// ```
#[derive(Debug)]
pub struct InFlightGuard(Arc<AtomicU64>);

impl InFlight {
    /// A place, if fewer than `places` are taken.
    pub fn enter(&self, places: u64) -> Option<InFlightGuard> {
        let one_more = |count: u64| (count < places).then_some(count + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more);
        entered.is_ok().then(|| InFlightGuard(Arc::clone(&self.0)))
    }

    /// How many are under way.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
