//! A shaper: requests leave at a steady pace, and wait for their turn.

use std::sync::Arc;

use tidegate_core::{Arrival, LeakyBucket, LimitError, Reservation};

use crate::builder::{Builder, KeySpace};
use crate::clock::{Clock, SystemClock};
use crate::key::AsKey;

/// A leaky bucket over many keys, in this process: it delays where a [`Limiter`](crate::Limiter) refuses.
/// Clones share everything.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{ManualClock, Shaper};
///
/// let exports = Shaper::builder("2/s max-wait 1s").clock(ManualClock::default()).build()?;
/// assert_eq!(exports.reserve("user-42").delay(), Duration::ZERO);
/// assert_eq!(exports.reserve("user-42").delay(), Duration::from_millis(500));
/// assert_eq!(exports.reserve("user-42").delay(), Duration::from_secs(1));
/// assert!(!exports.reserve("user-42").accepted());
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Shaper<C = SystemClock> {
    state: Arc<ShaperState<C>>,
}

#[derive(Debug)]
struct ShaperState<C> {
    limit: LeakyBucket,
    keys: KeySpace<C>,
}

impl<C> Clone for Shaper<C> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl Shaper {
    /// A shaper: as text, like `2/s max-wait 5s` or `2/s capacity 10`, or a leaky bucket that is built already.
    ///
    /// ```
    /// # use tidegate::Shaper;
    /// assert!(Shaper::new("2/s capacity 10").is_ok());
    /// assert!(Shaper::new("2/s").is_err()); // how long may one wait?
    /// ```
    pub fn new(
        limit: impl TryInto<LeakyBucket, Error: Into<LimitError>>,
    ) -> Result<Self, LimitError> {
        Self::builder(limit).build()
    }

    /// A shaper with a name, a store or a clock of its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{LeakyBucket, Shaper};
    /// // From text, or from a leaky bucket that is built already.
    /// let second = Duration::from_secs(1);
    /// let exports = Shaper::builder(LeakyBucket::new(2, second, 5 * second)?).name("exports").build()?;
    /// assert!(exports.reserve("user-42").accepted());
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn builder(
        limit: impl TryInto<LeakyBucket, Error: Into<LimitError>>,
    ) -> Builder<LeakyBucket> {
        Builder::new(limit.try_into().map_err(Into::into))
    }
}

impl<C: Clock> Builder<LeakyBucket, C> {
    /// The shaper; an error if the limit makes no sense.
    ///
    /// ```
    /// # use tidegate::{LimitError, Shaper};
    /// let built = Shaper::builder("0/s max-wait 5s").name("exports").build();
    /// assert_eq!(built.err(), Some(LimitError::ZeroLimit));
    /// ```
    pub fn build(self) -> Result<Shaper<C>, LimitError> {
        let (limit, keys) = self.into_parts()?;
        Ok(Shaper { state: Arc::new(ShaperState { limit, keys }) })
    }
}

impl<C: Clock> Shaper<C> {
    /// Makes a reservation in the queue of `key`, if the wait is not too long, and answers how long that is. The caller
    /// waits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{ManualClock, Shaper};
    /// let exports = Shaper::builder("2/s max-wait 5s").clock(ManualClock::default()).build()?;
    /// assert_eq!(exports.reserve("user-42").delay(), Duration::ZERO);
    /// assert_eq!(exports.reserve("user-42").delay(), Duration::from_millis(500));
    /// assert_eq!(exports.reserve("user-43").delay(), Duration::ZERO); // a queue of its own
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn reserve(&self, key: impl AsKey) -> Reservation {
        self.reserve_n(key, 1)
    }

    /// The same with a cost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{ManualClock, Shaper};
    /// let exports = Shaper::builder("2/s max-wait 5s").clock(ManualClock::default()).build()?;
    /// assert_eq!(exports.reserve_n("user-42", 2).delay(), Duration::ZERO);
    /// assert_eq!(exports.reserve_n("user-42", 2).delay(), Duration::from_secs(1));
    /// assert_eq!(exports.reserve_n("user-42", 3).retry_after(), None); // never: more than the limit
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn reserve_n(&self, key: impl AsKey, cost: u64) -> Reservation {
        let queued = self.queue(key.as_key().as_ref(), cost);
        let reservation = queued.reservation;
        queued.keep();
        reservation
    }

    pub(crate) fn queue(&self, key: &[u8], cost: u64) -> QueuedReservation<'_, C> {
        let KeySpace { scope, store, clock } = &self.state.keys;
        let fingerprint = store.fingerprint(scope, key);
        let (reservation, until) =
            store.reserve_departure(fingerprint, &self.state.limit, clock.now(), cost);
        QueuedReservation { shaper: self, fingerprint, cost, reservation, until }
    }
}

/// A reservation in the queue, cancelled when dropped unless it is kept.
pub(crate) struct QueuedReservation<'a, C: Clock> {
    shaper: &'a Shaper<C>,
    fingerprint: u64,
    cost: u64,
    pub(crate) reservation: Reservation,
    until: Option<Arrival>,
}

impl<C: Clock> QueuedReservation<'_, C> {
    pub(crate) fn keep(mut self) {
        self.until = None;
    }
}

impl<C: Clock> Drop for QueuedReservation<'_, C> {
    fn drop(&mut self) {
        let Some(until) = self.until else { return };
        let ShaperState { limit, keys } = &*self.shaper.state;
        keys.store.cancel(self.fingerprint, limit, until, keys.clock.now(), self.cost);
    }
}
