//! Where state lives. A store promises one thing: *these limits, this cost, one atomic step*.

mod ask;
#[cfg(feature = "breaker")]
pub(crate) mod breaker;
pub(crate) mod deny_cache;
mod error;
mod fingerprint;
#[cfg(feature = "leases")]
pub(crate) mod leases;
pub(crate) mod memory;
pub(crate) mod overrides;
mod owned;
pub(crate) mod readings;
#[cfg(feature = "redis")]
pub(crate) mod redis;
mod replicas;
mod scope;
mod takes;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};

pub use ask::{KeyedLimit, Op, ReserveReply, ReserveRequest, Source, StoreReply, StoreRequest};
pub use error::{Ran, StoreError, StoreErrorKind};
pub(crate) use fingerprint::Fingerprints;
pub use overrides::{Changed, OverrideChange, OverrideTable, StoredOverride};
pub use readings::{KeptState, ReadingReport, StateUpdate, TickReadings};
pub use replicas::{Replicas, Unconfirmed};
pub use scope::Scope;
pub use takes::{Charge, LimitCharge, MultiCharge};

use crate::reply::Reply;

/// Answers asks, each in one atomic step. What stands around a store (a breaker, a cache) is a store too.
///
/// An ask is under way when the method returns, also if the reply is dropped: permits and places are given back
/// without anybody waiting for it.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate::{StoreRequest, Engine, MemoryStore, ReserveReply, Reply, StoreReply, Store, StoreError, Timestamp, ReserveRequest};
///
/// /// Counts what a store is asked.
/// #[derive(Debug, Default)]
/// struct Counted<S> {
///     store: S,
///     asks: AtomicU64,
/// }
///
/// impl<S: Store + 'static> Store for Counted<S> {
///     fn answer(&self, ask: &StoreRequest<'_>, now: Timestamp) -> Reply<'static, StoreReply, StoreError> {
///         self.asks.fetch_add(1, Ordering::Relaxed);
///         self.store.answer(ask, now)
///     }
///
///     fn shape(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> Reply<'static, ReserveReply, StoreError> {
///         self.asks.fetch_add(1, Ordering::Relaxed);
///         self.store.shape(turn, now)
///     }
///
///     fn inner(&self) -> Option<&dyn Store> {
///         Some(&self.store) // whatever is no check is asked there
///     }
/// }
///
/// let store = Arc::new(Counted::<MemoryStore>::default());
/// let engine = Engine::builder().store(store.clone()).policy("api", "5/h").build()?;
/// assert!(engine.check("api", "user-42").now()?.decision.allowed());
/// assert_eq!(store.asks.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Store: Send + Sync + fmt::Debug {
    /// Answers one ask. `now` is the asker's time; a store with a clock of its own goes by that.
    ///
    /// ```
    /// # use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
    /// let store = MemoryStore::default();
    /// let (hour, day): (Limit, Limit) = ("5/h".parse()?, "2/day".parse()?);
    /// let scopes = [Scope::named("login", "hour"), Scope::named("login", "day")];
    /// let keyed = |scope, limit| KeyedLimit { scope, key: b"user-42", limit };
    /// let limits = [keyed(&scopes[0], &hour), keyed(&scopes[1], &day)];
    /// let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 3, op: Op::Take };
    /// let settled = store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
    /// assert!(!settled.verdict.decision.allowed());
    /// assert_eq!(settled.verdict.binding, 1);
    /// assert_eq!(store.stats().keys, 0); // refused as a whole, so that nothing was spent
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn answer(
        &self,
        ask: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError>;

    /// Decides several limits in one atomic step, each with a cost of its own, and answers for every one of them: all are
    /// charged, or none. The step is admitted if every answer is. A store that cannot do this says so:
    /// [`StoreErrorKind::BadRequest`].
    ///
    /// ```
    /// # use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp};
    /// let (store, limit): (_, Limit) = (MemoryStore::default(), "2/h".parse()?);
    /// let scope = Scope::named("mail", "");
    /// let keyed = |key| KeyedLimit { scope: &scope, key, limit: &limit };
    /// let limits = [LimitCharge { keyed: keyed(b"sender"), cost: 1 }, LimitCharge { keyed: keyed(b"receiver"), cost: 3 }];
    /// let takes = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
    /// let each = store.take_each(&takes, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
    /// assert!(each[0].allowed() && !each[1].allowed());
    /// assert_eq!(store.stats().keys, 0); // refused as a whole, so that nothing was spent
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn take_each(
        &self,
        takes: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        let (_, why) = ((takes, now), "this store takes from the limits of one policy at a time");
        Reply::ready(Err(StoreError::new(StoreErrorKind::BadRequest, why)))
    }

    /// Takes a place in a shaper's queue, or gives one back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{LeakyBucket, MemoryStore, Scope, Store, Timestamp, ReserveRequest};
    /// let (store, shaper): (_, LeakyBucket) = (MemoryStore::default(), "2/s max-wait 5s".parse()?);
    /// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
    /// let turn = ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel: None };
    /// assert_eq!(store.shape(&turn, now).now()?.reservation.delay(), Duration::ZERO);
    /// assert_eq!(store.shape(&turn, now).now()?.reservation.delay(), Duration::from_millis(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn shape(
        &self,
        turn: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError>;

    /// The store that this one stands around, if it does: it is asked whatever is no check, unless this one has an answer
    /// of its own.
    ///
    /// ```
    /// # use tidegate::{DenyCache, MemoryStore, Store};
    /// let around = DenyCache::new(MemoryStore::default());
    /// assert!(around.inner().is_some() && MemoryStore::default().inner().is_none());
    /// assert!(around.is_local()); // as what it stands around
    /// ```
    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    /// Whether every answer is known at once, in this process: then there is nothing that a shortcut could save.
    fn is_local(&self) -> bool {
        self.inner().is_some_and(<dyn Store>::is_local)
    }

    /// The same state, asked in such a way that replicas have to confirm what is charged; `None` where there are no
    /// replicas to ask. A charge that they do not confirm stays charged, and may be an error:
    /// [`StoreErrorKind::Unreplicated`].
    ///
    /// ```
    /// # use tidegate::{MemoryStore, Replicas, Store};
    /// assert!(MemoryStore::default().replicated(Replicas::default()).is_none());
    /// ```
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let _ = replicas;
        None
    }

    /// The same state, asked with another deadline; `None` where there is none to keep.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{MemoryStore, Store};
    /// assert!(MemoryStore::default().within(Duration::from_millis(5)).is_none()); // it answers at once
    /// ```
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let _ = deadline;
        None
    }

    /// The table of overrides that all who share the store follow; `None` if its version is the one that is `known`. See
    /// [`Engine::overrides`](crate::Engine::overrides), which asks for it.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, Store, Timestamp};
    /// assert_eq!(MemoryStore::default().overrides(0, Timestamp::EPOCH).now()?, None); // nothing yet
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn overrides(
        &self,
        known: u64,
        now: Timestamp,
    ) -> Reply<'static, Option<OverrideTable>, StoreError> {
        match self.inner() {
            Some(inner) => inner.overrides(known, now),
            None => Reply::ready(Err(no_overrides())),
        }
    }

    /// Changes one override of that table, in one atomic step.
    ///
    /// ```
    /// # use tidegate::{Changed, MemoryStore, OverrideChange, Store, Timestamp};
    /// let change = OverrideChange::Remove { policy: "api", key: b"partner-7" };
    /// let changed = MemoryStore::default().change_override(&change, Timestamp::EPOCH).now()?;
    /// assert_eq!(changed, Changed::NotThere);
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn change_override(
        &self,
        change: &OverrideChange<'_>,
        now: Timestamp,
    ) -> Reply<'static, Changed, StoreError> {
        match self.inner() {
            Some(inner) => inner.change_override(change, now),
            None => Reply::ready(Err(no_overrides())),
        }
    }

    /// Tells what this node has read in a tick of what it protects, and answers what others did: see [`ReadingReport`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{MemoryStore, Store, ReadingReport, Timestamp};
    /// let telling = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
    /// let told = MemoryStore::default().tell_readings(&telling, Timestamp::from_micros(5_300_000)).now()?;
    /// assert_eq!((told.tick, told.kept, told.readings), (5, None, Some(vec![])));
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn tell_readings(
        &self,
        telling: &ReadingReport<'_>,
        now: Timestamp,
    ) -> Reply<'static, TickReadings, StoreError> {
        match self.inner() {
            Some(inner) => inner.tell_readings(telling, now),
            None => Reply::ready(Err(readings::unsupported())),
        }
    }

    /// Keeps what came of the readings of a tick, unless somebody else was first.
    ///
    /// ```
    /// # use tidegate::{StateUpdate, MemoryStore, Store, Timestamp};
    /// let keeping = StateUpdate { scope: "db", tick: 5, before: None, text: "0.25 of it" };
    /// assert!(!MemoryStore::default().keep_state(&keeping, Timestamp::EPOCH).now()?); // nobody told anything
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn keep_state(
        &self,
        keeping: &StateUpdate<'_>,
        now: Timestamp,
    ) -> Reply<'static, bool, StoreError> {
        match self.inner() {
            Some(inner) => inner.keep_state(keeping, now),
            None => Reply::ready(Err(readings::unsupported())),
        }
    }

    /// Told that an ask for this key comes soon. A store in memory starts to load what that will read; others need not
    /// do anything.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, Scope, Store};
    /// MemoryStore::default().hint(&Scope::named("api", ""), b"user-42");
    /// ```
    fn hint(&self, scope: &Scope, key: &[u8]) {
        let _ = (scope, key);
    }

    /// How many nodes share the state, this one included, as far as the store knows: the last count that it heard.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, Store};
    /// assert_eq!(MemoryStore::default().nodes(), None); // nobody else can see it
    /// ```
    fn nodes(&self) -> Option<NonZeroU32> {
        self.inner()?.nodes()
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn answer(
        &self,
        ask: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        (**self).answer(ask, now)
    }

    fn take_each(
        &self,
        takes: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        (**self).take_each(takes, now)
    }

    fn shape(
        &self,
        turn: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        (**self).shape(turn, now)
    }

    fn inner(&self) -> Option<&dyn Store> {
        (**self).inner()
    }

    fn is_local(&self) -> bool {
        (**self).is_local()
    }

    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        (**self).replicated(replicas)
    }

    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        (**self).within(deadline)
    }

    fn overrides(
        &self,
        known: u64,
        now: Timestamp,
    ) -> Reply<'static, Option<OverrideTable>, StoreError> {
        (**self).overrides(known, now)
    }

    fn change_override(
        &self,
        change: &OverrideChange<'_>,
        now: Timestamp,
    ) -> Reply<'static, Changed, StoreError> {
        (**self).change_override(change, now)
    }

    fn tell_readings(
        &self,
        telling: &ReadingReport<'_>,
        now: Timestamp,
    ) -> Reply<'static, TickReadings, StoreError> {
        (**self).tell_readings(telling, now)
    }

    fn keep_state(
        &self,
        keeping: &StateUpdate<'_>,
        now: Timestamp,
    ) -> Reply<'static, bool, StoreError> {
        (**self).keep_state(keeping, now)
    }

    fn hint(&self, scope: &Scope, key: &[u8]) {
        (**self).hint(scope, key);
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        (**self).nodes()
    }
}

fn no_overrides() -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, "this store keeps no overrides")
}
