//! Reservations in the queue of a shaper that are cancelled when dropped.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Arrival, LeakyBucket, Reservation};

use super::{Check, CheckError, Engine};
use crate::clock::Clock;
use crate::reply::Reply;
use crate::store::{ReserveReply, ReserveRequest, Scope, Source, Store, StoreErrorKind};

/// A turn in the queue of a shaper. If it is dropped, it is cancelled, unless others have queued behind it: they know
/// already when their turn is.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Check, Engine, Key, ManualClock, Policy, Queued, Source};
///
/// let engine = Engine::builder()
///     .clock(ManualClock::default())
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .build()?;
/// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
/// engine.queue(&check).now()?.keep();
/// let second: Queued = engine.queue(&check).now()?;
/// assert_eq!(second.reservation().delay(), Duration::from_millis(500));
/// assert_eq!((second.source(), second.store_error()), (Source::Store, None));
/// drop(second); // the caller has left
/// assert_eq!(engine.queue(&check).now()?.reservation().delay(), Duration::from_millis(500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a turn that is dropped is given back"]
pub struct Queued {
    reservation: Reservation,
    source: Source,
    store_error: Option<StoreErrorKind>,
    cancellation: Option<Cancellation>,
}

/// What is needed to cancel a turn.
struct Cancellation {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    scope: Scope,
    key: Box<[u8]>,
    shaper: LeakyBucket,
    cost: u64,
    until: Arrival,
}

impl Queued {
    /// How long to wait, or that the queue is full.
    pub const fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Who decided.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// What was wrong with the store, where it should have decided and did not.
    pub const fn store_error(&self) -> Option<StoreErrorKind> {
        self.store_error
    }

    /// The turn is used: it is not cancelled.
    pub fn keep(mut self) {
        self.cancellation = None;
    }

    /// Without a turn that could be cancelled.
    pub(super) const fn without_turn(reservation: Reservation, source: Source) -> Self {
        Self { reservation, source, store_error: None, cancellation: None }
    }

    /// Decided by something else, because the store failed.
    pub(super) const fn instead_of_store(mut self, source: Source, error: StoreErrorKind) -> Self {
        (self.source, self.store_error) = (source, Some(error));
        self
    }

    /// From the reply of a store.
    pub(super) fn from_reply(
        reply: ReserveReply,
        request: &ReserveRequest<'_>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let cancellation = reply.until.map(|until| Cancellation {
            store,
            clock,
            scope: request.scope.clone(),
            key: request.key.into(),
            shaper: *request.shaper,
            cost: request.cost,
            until,
        });
        let (source, store_error) = (Source::Store, None);
        Self { reservation: reply.reservation, source, store_error, cancellation }
    }

    pub(super) fn in_shadow(mut self) -> Self {
        self.reservation = self.reservation.in_shadow();
        self
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(Cancellation { store, clock, scope, key, shaper, cost, until }) =
            self.cancellation.take()
        {
            let request = ReserveRequest {
                scope: &scope,
                key: &key,
                shaper: &shaper,
                cost,
                cancel: Some(until),
            };
            // Sent by the call itself, even if the reply is dropped. If it fails, the turn passes unused.
            drop(store.reserve(&request, clock.now()));
        }
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// [`Engine::reserve`] for callers that may not wait to the end: the turn is cancelled unless it is
    /// [kept](Queued::keep).
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Policy};
    /// let engine = Engine::builder().policy("export", Policy::shaper("1/h max-wait 30min")).build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// drop(engine.queue(&check).now()?);
    /// engine.queue(&check).now()?.keep();
    /// assert!(!engine.queue(&check).now()?.reservation().accepted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue(&self, check: &Check<'_>) -> Reply<'_, Queued, CheckError> {
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.queue(check.key, check.cost))
    }
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("reservation", &self.reservation).finish_non_exhaustive()
    }
}
