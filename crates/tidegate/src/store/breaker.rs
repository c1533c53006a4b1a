//! A breaker: a store that fails or is slow is left alone, and whoever asks is told so at once.

mod machine;
mod options;
mod prober;
mod recent;
mod switch;
mod target;
#[cfg(test)]
mod tests;
mod watched;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};

pub use self::options::{BreakerOptions, BreakerState};

pub use self::prober::with_probe_request;
pub use self::switch::BreakerSwitch;
pub use self::target::{BreakerPass, BreakerTarget};
use self::watched::Watched;
use super::{
    MultiCharge, RemoteStore, Replicas, ReserveReply, ReserveRequest, Store, StoreError,
    StoreExtensions, StoreReply, StoreRequest,
};
use crate::reply::Reply;

/// A store that stops asking the store in it when that fails or is slow, and starts again when it has recovered.
///
/// - It opens at 5 failures in a row, or when the 99th percentile of a second with at least 50 calls passes 10 ms.
///   Open, it answers every request with [`StoreErrorKind::BreakerOpen`], without waiting.
/// - A failure is an answer that never came, or one that says that the store cannot serve. What is wrong with the request
///   or with its key ([`StoreErrorKind::BadRequest`], [`StoreErrorKind::Apart`], [`StoreErrorKind::WrongType`], [`StoreErrorKind::Moving`]) says nothing about the store.
/// - A reply that is dropped after those 10 ms counts as a failure, one that is dropped sooner as nothing.
/// - Probes run beside the requests, one at a time: after 10 ms, then each up to twice as long after the last one, at
///   most 50 ms. It closes at 3 good ones in a row. Who opens again within 10 s waits twice as long for each.
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
    shared: Arc<Shared<S>>,
}

type Probe<S> = Box<dyn Fn(&S) -> Reply<'static, StoreReply, StoreError> + Send + Sync>;

struct Shared<S> {
    store: S,
    probe: Probe<S>,
    switch: BreakerSwitch,
}

impl<S: Store + 'static> BreakerTarget for Shared<S> {
    fn switch(&self) -> &BreakerSwitch {
        &self.switch
    }

    fn probe(&self) -> Reply<'static, StoreReply, StoreError> {
        (self.probe)(&self.store)
    }
}

impl<S> Clone for Breaker<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store + 'static> Breaker<S> {
    /// A breaker around a store. It probes with a check on a key of its own.
    pub fn around(store: S, options: BreakerOptions) -> Self {
        Self::probing(store, options, prober::take_one)
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
        probe: impl Fn(&S) -> Reply<'static, StoreReply, StoreError> + Send + Sync + 'static,
    ) -> Self {
        let (probe, switch) = (Box::new(probe), BreakerSwitch::new(options));
        Self { shared: Arc::new(Shared { store, probe, switch }) }
    }

    /// What the breaker does now.
    pub fn state(&self) -> BreakerState {
        self.shared.switch.state()
    }

    /// How often it has opened.
    pub fn opened_total(&self) -> u64 {
        self.shared.switch.opened_total()
    }

    /// Asks the store, unless the breaker is open, and watches what becomes of it.
    fn watch<T: Send + 'static>(
        &self,
        call: impl FnOnce(&S) -> Reply<'static, T, StoreError>,
    ) -> Reply<'static, T, StoreError> {
        let mut watched = match Watched::begin(&self.shared) {
            Ok(watched) => watched,
            Err(open) => return Reply::ready(Err(open)),
        };
        match call(&self.shared.store).split() {
            Ok(answer) => {
                watched.answered(answer.as_ref().err());
                Reply::ready(answer)
            }
            Err(later) => Reply::later(async move {
                let answer = later.await;
                watched.answered(answer.as_ref().err());
                answer
            }),
        }
    }
}

impl<S: Store + 'static> Store for Breaker<S> {
    fn decide(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        self.watch(|store| store.decide(request, now))
    }

    fn decide_each(
        &self,
        charges: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        self.watch(|store| store.decide_each(charges, now))
    }

    fn reserve(
        &self,
        request: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        self.watch(|store| store.reserve(request, now))
    }

    /// Overrides and readings bypass the breaker: they take longer than a check, and say nothing about one.
    fn extensions(&self) -> StoreExtensions<'_> {
        let inner = self.shared.store.extensions();
        StoreExtensions { remote: inner.remote.map(|_| self as &dyn RemoteStore), ..inner }
    }
}

impl<S: Store + 'static> RemoteStore for Breaker<S> {
    /// With a breaker of its own: to wait for replicas takes longer, and is no fault of the store.
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let store = self.shared.store.extensions().remote?.replicated(replicas)?;
        let options = self.shared.switch.options().clone().with_replicas(replicas);
        Some(Arc::new(Breaker::around(store, options)))
    }

    /// With a breaker of its own: the impatience of some is no fault of the store.
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let store = self.shared.store.extensions().remote?.within(deadline)?;
        Some(Arc::new(Breaker::around(store, self.shared.switch.options().clone())))
    }
}

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.switch.state();
        let mut debug = f.debug_struct("Breaker");
        debug.field("state", &state).field("store", &self.shared.store).finish_non_exhaustive()
    }
}
