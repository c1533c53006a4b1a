//! How many are under way, and places that are given back however a request ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
/// use tidegate_core::adaptive::{InFlight, Place};
///
/// let in_flight = InFlight::default();
/// let place: Option<Place> = in_flight.enter(1);
/// assert!(in_flight.enter(1).is_none());
/// drop(place);
/// assert!(in_flight.enter(1).is_some());
/// ```
#[derive(Debug)]
pub struct Place(Arc<AtomicU64>);

impl InFlight {
    /// A place, if fewer than `places` are taken.
    pub fn enter(&self, places: u64) -> Option<Place> {
        let one_more = |count: u64| (count < places).then_some(count + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more);
        entered.is_ok().then(|| Place(Arc::clone(&self.0)))
    }

    /// How many are under way.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
