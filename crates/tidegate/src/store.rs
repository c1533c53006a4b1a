//! Where state lives. A store promises one thing: *these limits, this cost, one atomic step*.

#[cfg(feature = "breaker")]
pub(crate) mod breaker;
#[cfg(feature = "tls")]
pub(crate) mod client_tls;
pub(crate) mod coordination;
pub(crate) mod deny_cache;
mod error;
mod extensions;
mod fingerprint;
mod hashed_keys;
pub(crate) mod held;
#[cfg(feature = "breaker")]
pub(crate) mod key_text;
#[cfg(feature = "leases")]
pub(crate) mod leases;
pub(crate) mod memory;
mod multi_charge;
pub(crate) mod named_file;
pub(crate) mod overrides;
pub(crate) mod owned;
pub(crate) mod parts;
mod remote;
mod request;
mod returns;
mod routed;
mod scope;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Timestamp};

pub use coordination::{Coordination, KeptState, ReadingReport, StateUpdate, TickReadings};
pub use error::{Ran, StoreError, StoreErrorKind};
pub use extensions::StoreExtensions;
pub(crate) use fingerprint::Fingerprints;
pub use hashed_keys::{HashedKeys, KeyHasher};
pub use multi_charge::{Charge, LimitCharge, MultiCharge};
pub use overrides::{Changed, OverrideChange, OverrideStore, OverrideTable, StoredOverride};
pub use remote::{RemoteStore, Replicas, Unconfirmed};
pub use request::{KeyedLimit, Op, ReserveReply, ReserveRequest, Source, StoreReply, StoreRequest};
pub use routed::RoutedStore;
pub use scope::Scope;

use crate::reply::Reply;

/// What a store replies: a result that is known now, or later.
///
/// ```
/// use tidegate::{Reply, StoreResult};
///
/// let known: StoreResult<u64> = Reply::ready(Ok(5));
/// assert_eq!(known.now(), Ok(5));
/// ```
pub type StoreResult<T> = Reply<'static, T, StoreError>;

/// Decides requests, each in one atomic step. A breaker, a deny cache and leases are stores around a store.
///
/// A request is sent when the method returns, even if the reply is dropped: permits are released and reservations
/// cancelled without waiting for the reply. What only some stores can do is in traits of its own: see [`StoreExtensions`].
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tidegate::{Engine, MemoryStore, ReserveReply, ReserveRequest, Store, StoreExtensions};
/// use tidegate::{StoreReply, StoreRequest, StoreResult, Timestamp};
///
/// /// Counts the requests to a store.
/// #[derive(Debug, Default)]
/// struct Counted<S> {
///     store: S,
///     requests: AtomicU64,
/// }
///
/// impl<S: Store + 'static> Store for Counted<S> {
///     fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.store.decide(request, now)
///     }
///
///     fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
///         self.requests.fetch_add(1, Ordering::Relaxed);
///         self.store.reserve(request, now)
///     }
///
///     fn extensions(&self) -> StoreExtensions<'_> {
///         self.store.extensions()
///     }
/// }
///
/// let store = Arc::new(Counted::<MemoryStore>::default());
/// let engine = Engine::builder().store(store.clone()).policy("api", "5/h").build()?;
/// assert!(engine.check("api", "user-42").now()?.decision.allowed());
/// assert_eq!(store.requests.load(Ordering::Relaxed), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Store: Send + Sync + fmt::Debug {
    /// Decides one request. `now` is the caller's time; a store with a clock of its own uses that instead.
    ///
    /// ```
    /// # use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
    /// let store = MemoryStore::default();
    /// let (hour, day): (Limit, Limit) = ("5/h".parse()?, "2/day".parse()?);
    /// let scopes = [Scope::named("login", "hour"), Scope::named("login", "day")];
    /// let keyed = |scope, limit| KeyedLimit { scope, key: b"user-42", limit };
    /// let limits = [keyed(&scopes[0], &hour), keyed(&scopes[1], &day)];
    /// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 3, op: Op::Take };
    /// let reply = store.decide(&request, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
    /// assert!(!reply.verdict.decision.allowed());
    /// assert_eq!(reply.verdict.binding, 1);
    /// assert_eq!(store.stats().keys, 0); // refused as a whole, so that nothing was spent
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply>;

    /// Decides several limits in one atomic step, each with a cost of its own, and answers for every one of them: all are
    /// charged, or none. The step is admitted if every answer is. The default answers
    /// [`StoreErrorKind::Unsupported`].
    ///
    /// ```
    /// # use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp};
    /// let (store, limit): (_, Limit) = (MemoryStore::default(), "2/h".parse()?);
    /// let scope = Scope::named("mail", "");
    /// let keyed = |key| KeyedLimit { scope: &scope, key, limit: &limit };
    /// let limits = [LimitCharge { keyed: keyed(b"sender"), cost: 1 }, LimitCharge { keyed: keyed(b"receiver"), cost: 3 }];
    /// let charges = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
    /// let each = store.decide_each(&charges, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
    /// assert!(each[0].allowed() && !each[1].allowed());
    /// assert_eq!(store.stats().keys, 0); // refused as a whole, so that nothing was spent
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let (_, why) = ((charges, now), "this store decides the limits of one policy at a time");
        Reply::failed(StoreError::new(StoreErrorKind::Unsupported, why))
    }

    /// Makes a reservation in a shaper's queue, or cancels one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{LeakyBucket, MemoryStore, Scope, Store, Timestamp, ReserveRequest};
    /// let (store, shaper): (_, LeakyBucket) = (MemoryStore::default(), "2/s max-wait 5s".parse()?);
    /// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
    /// let request = ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel: None };
    /// assert_eq!(store.reserve(&request, now).now()?.reservation.delay(), Duration::ZERO);
    /// assert_eq!(store.reserve(&request, now).now()?.reservation.delay(), Duration::from_millis(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply>;

    /// The caller is about to decide this key. A store in memory starts to load its state; others ignore it.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, Scope, Store};
    /// MemoryStore::default().prefetch(&Scope::named("api", ""), b"user-42");
    /// ```
    fn prefetch(&self, scope: &Scope, key: &[u8]) {
        let _ = (scope, key);
    }

    /// What this store can do beyond deciding. A store around a store returns what the inner one can.
    ///
    /// ```
    /// # use tidegate::{DenyCache, MemoryStore, Store};
    /// let store = DenyCache::new(MemoryStore::default());
    /// assert!(store.extensions().overrides.is_some()); // kept by the memory store
    /// assert!(store.extensions().is_local());
    /// ```
    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions::default()
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        (**self).decide(request, now)
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        (**self).decide_each(charges, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        (**self).reserve(request, now)
    }

    fn prefetch(&self, scope: &Scope, key: &[u8]) {
        (**self).prefetch(scope, key);
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        (**self).extensions()
    }
}
