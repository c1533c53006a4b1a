//! The cap on requests in flight, and their count.

use super::AdaptiveError;
use super::number::{float, whole};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times the baseline a response may take before the cap shrinks.
const TOLERANCE: f64 = 1.5;
/// The part of the distance to its aim that a cap moves in one tick.
const PACE: f64 = 0.2;

/// A bound on the requests in flight to a target: those it works on, and those that wait in its queue.
///
/// ```
/// use tidegate_core::adaptive::{AdaptiveError, Cap, CapSample};
///
/// assert_eq!(Cap::fixed(16)?.slots(), 32);
/// let mut cap = Cap::gradient(16)?;
/// for _ in 0..100 {
///     cap.step(CapSample { latency_ms: 300.0, baseline_ms: 30.0, in_flight: 32, is_stale: false });
/// }
/// assert_eq!(cap.slots(), 16);
/// assert_eq!(Cap::fixed(0), Err(AdaptiveError::Pool(0)));
/// # Ok::<(), AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cap {
    pool: f64,
    slots: f64,
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
/// assert!(cap.slots() > 32);
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapSample {
    /// How long half of the responses took.
    pub latency_ms: f64,
    /// What they take when nothing waits.
    pub baseline_ms: f64,
    /// The number of requests in flight.
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
        Ok(Self { pool, slots: 2.0 * pool, follows })
    }

    /// How many requests may be in flight.
    pub fn slots(&self) -> u64 {
        whole(self.slots)
    }

    /// Whether another cap bounds the same pool in the same way, whatever their numbers of slots are now.
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

    /// One tick. A fixed cap stays as it is, and a sample that is not a number is ignored.
    pub fn step(&mut self, sample: CapSample) {
        let allowed_ms = TOLERANCE * sample.baseline_ms;
        let gradient = (allowed_ms / sample.latency_ms).clamp(0.5, 1.0);
        if !self.follows || !gradient.is_finite() {
            return;
        }
        // The root leaves room for a short queue, and lets the cap try whether more slots do no harm.
        let aim = self.slots * gradient + self.slots.sqrt();
        // Unused slots do not show what more of them would do.
        let may_grow = float(sample.in_flight) * 2.0 >= self.slots && !sample.is_stale;
        if aim <= self.slots || may_grow {
            self.slots += PACE * (aim - self.slots);
        }
        self.slots = self.slots.clamp(self.pool, 4.0 * self.pool);
    }
}

/// Counts the requests in flight on this node. Clones share the count.
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

/// A slot, freed when this is dropped: by the end of a request, a cancel or a panic.
///
/// ```
/// use tidegate_core::adaptive::{InFlight, InFlightGuard};
///
/// let in_flight = InFlight::default();
/// let slot: Option<InFlightGuard> = in_flight.enter(1);
/// assert!(in_flight.enter(1).is_none());
/// drop(slot);
/// assert!(in_flight.enter(1).is_some());
/// ```
#[derive(Debug)]
pub struct InFlightGuard(Arc<AtomicU64>);

impl InFlight {
    /// Takes a slot, if fewer than `slots` are taken.
    pub fn enter(&self, slots: u64) -> Option<InFlightGuard> {
        let one_more = |count: u64| (count < slots).then_some(count + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more);
        entered.is_ok().then(|| InFlightGuard(Arc::clone(&self.0)))
    }

    /// The number of requests in flight.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
