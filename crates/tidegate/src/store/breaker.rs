//! A breaker: while a store fails or is slow, it is not called, and callers get an error at once.

mod machine;
mod switch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};

pub use self::switch::{BreakerPass, BreakerSwitch, BreakerTarget, with_probe_request};
use super::{
    MultiCharge, RemoteStore, Replicas, ReserveReply, ReserveRequest, Store, StoreError,
    StoreExtensions, StoreReply, StoreRequest, StoreResult,
};
use crate::reply::Reply;

/// A store that stops asking the store in it when that fails or is slow, and starts again when it has recovered.
///
/// - It opens at 5 failures in a row, or when the 99th percentile of a second with at least 50 calls passes 10 ms.
///   Open, it answers every request with [`StoreErrorKind::BreakerOpen`], without waiting.
/// - A failure is an answer that never came, or an error of the store itself. Errors of the request or of its key
///   ([`StoreErrorKind::BadRequest`], [`StoreErrorKind::Apart`], [`StoreErrorKind::WrongType`], [`StoreErrorKind::Moving`]) do not count.
/// - A reply that is dropped after those 10 ms counts as a failure, one that is dropped sooner does not count.
/// - Probes run beside the requests, one at a time: after 10 ms, then each up to twice as long after the last one, at
///   most 50 ms. It closes at 3 good ones in a row. If it opens again within 10 s, it waits twice as long for each.
///
/// A store in Redis has its own, one for each node: `RedisOptions::breaker`.
///
/// Clones share everything. It needs a runtime of tokio to probe; where there is none it lets everything through.
///
/// [`StoreErrorKind::BreakerOpen`]: crate::StoreErrorKind::BreakerOpen
/// [`StoreErrorKind::Apart`]: crate::StoreErrorKind::Apart
/// [`StoreErrorKind::BadRequest`]: crate::StoreErrorKind::BadRequest
/// [`StoreErrorKind::WrongType`]: crate::StoreErrorKind::WrongType
/// [`StoreErrorKind::Moving`]: crate::StoreErrorKind::Moving
///
/// ```
/// use tidegate::{Breaker, BreakerOptions, BreakerState, Engine, MemoryStore};
///
/// let store = Breaker::around(MemoryStore::default(), BreakerOptions::default());
/// let engine = Engine::builder().store(store.clone()).policy("api", "100/min").build()?;
/// assert!(engine.check("api", "user-42").now()?.decision.allowed());
/// assert_eq!((store.state(), store.opened_total()), (BreakerState::Closed, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Breaker<S> {
    protected: Arc<Protected<S>>,
}

type Probe<S> = Box<dyn Fn(&S) -> StoreResult<StoreReply> + Send + Sync>;

struct Protected<S> {
    store: S,
    probe: Probe<S>,
    switch: BreakerSwitch,
}

impl<S: Store + 'static> BreakerTarget for Protected<S> {
    fn switch(&self) -> &BreakerSwitch {
        &self.switch
    }

    fn probe(&self) -> StoreResult<StoreReply> {
        (self.probe)(&self.store)
    }
}

impl<S> Clone for Breaker<S> {
    fn clone(&self) -> Self {
        Self { protected: self.protected.clone() }
    }
}

impl<S: Store + 'static> Breaker<S> {
    /// A breaker around a store. It probes with a check on a key of its own.
    pub fn around(store: S, options: BreakerOptions) -> Self {
        Self::probing(store, options, switch::take_one)
    }

    /// A breaker that probes in another way: by a call that works if the others would.
    ///
    /// ```
    /// use tidegate::{StoreRequest, Breaker, BreakerOptions, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
    ///
    /// let limit: Limit = "1000/s".parse()?;
    /// let look = move |store: &MemoryStore| {
    ///     let scope = Scope::named("probe", "");
    ///     let limits = [KeyedLimit { scope: &scope, key: b"probe", limit: &limit }];
    ///     let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Peek }; // writes nothing
    ///     store.decide(&request, Timestamp::from_micros(1_700_000_000_000_000))
    /// };
    /// let store = Breaker::probing(MemoryStore::default(), BreakerOptions::default(), look);
    /// assert_eq!(store.opened_total(), 0);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn probing(
        store: S,
        options: BreakerOptions,
        probe: impl Fn(&S) -> StoreResult<StoreReply> + Send + Sync + 'static,
    ) -> Self {
        let (probe, switch) = (Box::new(probe), BreakerSwitch::new(options));
        Self { protected: Arc::new(Protected { store, probe, switch }) }
    }

    /// What the breaker does now.
    pub fn state(&self) -> BreakerState {
        self.protected.switch.state()
    }

    /// How often it has opened.
    pub fn opened_total(&self) -> u64 {
        self.protected.switch.opened_total()
    }

    /// The last real failure of the store while the breaker is open; callers only get
    /// [`StoreErrorKind::BreakerOpen`](crate::StoreErrorKind::BreakerOpen).
    ///
    /// ```
    /// # use tidegate::{Breaker, BreakerOptions, MemoryStore};
    /// let store = Breaker::around(MemoryStore::default(), BreakerOptions::default());
    /// assert!(store.cause().is_none()); // it is closed
    /// ```
    pub fn cause(&self) -> Option<StoreError> {
        self.protected.switch.cause()
    }

    /// Asks the store, unless the breaker is open, and counts the result.
    fn watch<T: Send + 'static>(&self, call: impl FnOnce(&S) -> StoreResult<T>) -> StoreResult<T> {
        let mut watched = match WatchedCall::begin(&self.protected) {
            Ok(watched) => watched,
            Err(open) => return Reply::failed(open),
        };
        call(&self.protected.store).then(move |answer| {
            watched.answered(answer.as_ref().err());
            answer
        })
    }
}

impl<S: Store + 'static> Store for Breaker<S> {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.watch(|store| store.decide(request, now))
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        self.watch(|store| store.decide_each(charges, now))
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.watch(|store| store.reserve(request, now))
    }

    /// Overrides and readings bypass the breaker: they take longer than a check.
    fn extensions(&self) -> StoreExtensions<'_> {
        let inner = self.protected.store.extensions();
        StoreExtensions { remote: inner.remote.map(|_| self as &dyn RemoteStore), ..inner }
    }
}

impl<S: Store + 'static> RemoteStore for Breaker<S> {
    /// With a breaker of its own: waiting for replicas takes longer, and is no failure of the store.
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let store = self.protected.store.extensions().remote?.replicated(replicas)?;
        let options = self.protected.switch.options().clone().with_replicas(replicas);
        Some(Arc::new(Breaker::around(store, options)))
    }

    /// With a breaker of its own: timeouts of a shorter deadline are no failure of the store.
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let store = self.protected.store.extensions().remote?.within(deadline)?;
        Some(Arc::new(Breaker::around(store, self.protected.switch.options().clone())))
    }

    fn deadline(&self) -> Option<Duration> {
        self.protected.store.extensions().remote?.deadline()
    }
}

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.protected.switch.state();
        let mut debug = f.debug_struct("Breaker");
        debug.field("state", &state).field("store", &self.protected.store).finish_non_exhaustive()
    }
}

/// A call in flight. Dropped without an answer, it counts as abandoned.
struct WatchedCall<T: BreakerTarget> {
    target: Arc<T>,
    pass: BreakerPass,
    over: bool,
}

impl<T: BreakerTarget> WatchedCall<T> {
    fn begin(target: &Arc<T>) -> Result<Self, StoreError> {
        let pass = target.pass()?;
        Ok(Self { target: target.clone(), pass, over: false })
    }

    fn answered(&mut self, error: Option<&StoreError>) {
        self.over = true;
        self.target.answered(self.pass, error);
    }
}

impl<T: BreakerTarget> Drop for WatchedCall<T> {
    fn drop(&mut self) {
        if !self.over {
            self.target.abandoned(self.pass);
        }
    }
}

/// How much longer than its timeout a store may wait for replicas: Redis checks ten times a second.
const WAIT_LATE: Duration = Duration::from_millis(100);

/// When a breaker opens and closes.
///
/// ```
/// use std::time::Duration;
/// use tidegate::BreakerOptions;
///
/// let options = BreakerOptions { slow: Duration::from_millis(50), ..BreakerOptions::default() };
/// assert_eq!((options.failures, options.good_probes), (5, 3));
/// assert_eq!((options.window, options.min_calls), (Duration::from_secs(1), 50));
/// assert!(options.probe_min < options.probe_max && options.reopen_max < options.steady);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerOptions {
    /// How many failures in a row open it; 5. Taken as 1 at least.
    pub failures: u32,
    /// Opens when the 99th percentile passes this, and no slower probe is a good one; 10 ms.
    pub slow: Duration,
    /// What the percentile is taken over; 1 s. Taken as an hour at most.
    pub window: Duration,
    /// How many calls a window needs for its percentile to count; 50.
    pub min_calls: u64,
    /// How many good probes in a row close it; 3.
    pub good_probes: u32,
    /// The wait for the first probe, and between good ones; doubled by each bad one. 10 ms.
    pub probe_min: Duration,
    /// The longest wait between bad probes; 50 ms, so that a store that is back is used within 100 ms.
    pub probe_max: Duration,
    /// If it opens again within this time of closing, it waits twice as long for each probe; 10 s.
    pub steady: Duration,
    /// … but no longer than this; 2 s.
    pub reopen_max: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            slow: Duration::from_millis(10),
            window: Duration::from_secs(1),
            min_calls: 50,
            good_probes: 3,
            probe_min: Duration::from_millis(10),
            probe_max: Duration::from_millis(50),
            steady: Duration::from_secs(10),
            reopen_max: Duration::from_secs(2),
        }
    }
}

impl BreakerOptions {
    /// What they are taken as.
    pub(super) fn bounded(self) -> Self {
        let (failures, window) = (self.failures.max(1), self.window.min(Duration::from_hours(1)));
        Self { failures, window, ..self }
    }

    /// For calls that wait for replicas too: that takes longer, and is no fault of the store.
    ///
    /// ```
    /// # use tidegate::{BreakerOptions, Replicas};
    /// let options = BreakerOptions::default();
    /// assert!(options.clone().with_replicas(Replicas::default()).slow > options.slow);
    /// ```
    #[must_use]
    pub fn with_replicas(self, replicas: Replicas) -> Self {
        let slow = self.slow.saturating_add(replicas.bounded_timeout()).saturating_add(WAIT_LATE);
        Self { slow, ..self }
    }
}

/// What a breaker does.
///
/// ```
/// use tidegate::BreakerState;
///
/// let states = [BreakerState::Closed, BreakerState::Open, BreakerState::Probing];
/// assert_eq!(states.map(BreakerState::as_str), ["closed", "open", "probing"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BreakerState {
    /// Lets everything through.
    Closed,
    /// Lets nothing through, and probes from time to time.
    Open,
    /// Lets nothing through yet; the last probe was good.
    Probing,
}

impl BreakerState {
    /// The worse of two states: open, then probing, then closed.
    ///
    /// ```
    /// # use tidegate::BreakerState;
    /// assert_eq!(BreakerState::Closed.or_worse(BreakerState::Probing), BreakerState::Probing);
    /// assert_eq!(BreakerState::Open.or_worse(BreakerState::Probing), BreakerState::Open);
    /// ```
    #[must_use]
    pub const fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            (Self::Probing, _) | (_, Self::Probing) => Self::Probing,
            (Self::Closed, Self::Closed) => Self::Closed,
        }
    }

    /// The state's name, as metrics report it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}
