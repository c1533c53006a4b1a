//! Two stores: a quorum for the policies that ask for one, and another for the rest.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};

use super::{
    MultiCharge, RemoteStore, Replicas, ReserveReply, ReserveRequest, Scope, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult,
};
use crate::reply::Reply;

/// A store that has some policies counted by a second one: those with [`Policy::quorum`](crate::Policy::quorum). Overrides,
/// readings and the count of nodes are in the main store. A step that needs both is [`StoreErrorKind::Apart`].
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Engine, MemoryStore, Policy, RoutedStore};
///
/// let (main, quorum) = (Arc::new(MemoryStore::default()), Arc::new(MemoryStore::default()));
/// let engine = Engine::builder()
///     .store(RoutedStore::new(main.clone(), quorum.clone()))
///     .policy("api", "5/h")
///     .policy("payout", Policy::all().limit("", "5/h").quorum(true))
///     .build()?;
/// assert!(engine.check("payout", "user-42").now()?.decision.allowed());
/// assert_eq!((main.stats().keys, quorum.stats().keys), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RoutedStore {
    main: Arc<dyn Store>,
    quorum: Arc<dyn Store>,
}

impl RoutedStore {
    /// Two stores that share nothing.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{MemoryStore, RoutedStore, Store};
    /// let memory = || Arc::new(MemoryStore::default());
    /// assert!(!RoutedStore::new(memory(), memory()).extensions().is_local());
    /// ```
    pub fn new(main: Arc<dyn Store>, quorum: Arc<dyn Store>) -> Self {
        Self { main, quorum }
    }

    /// The one store of all these scopes; the main store where there are none, which rejects that.
    fn store_of<'a>(
        &self,
        mut scopes: impl Iterator<Item = &'a Scope>,
    ) -> Result<&dyn Store, StoreError> {
        let in_quorum = scopes.next().is_some_and(Scope::is_in_quorum);
        if scopes.any(|scope| scope.is_in_quorum() != in_quorum) {
            let why = "policies with `quorum: true` and others are in different stores: check them one by one";
            return Err(StoreError::new(StoreErrorKind::Apart, why));
        }
        Ok(if in_quorum { &*self.quorum } else { &*self.main })
    }
}

impl Store for RoutedStore {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        match self.store_of(request.limits.iter().map(|keyed| keyed.scope)) {
            Ok(store) => store.decide(request, now),
            Err(error) => Reply::failed(error),
        }
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        match self.store_of(charges.limits.iter().map(|charge| charge.keyed.scope)) {
            Ok(store) => store.decide_each(charges, now),
            Err(error) => Reply::failed(error),
        }
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        match self.store_of(std::iter::once(request.scope)) {
            Ok(store) => store.reserve(request, now),
            Err(error) => Reply::failed(error),
        }
    }

    fn prefetch(&self, scope: &Scope, key: &[u8]) {
        if let Ok(store) = self.store_of(std::iter::once(scope)) {
            store.prefetch(scope, key);
        }
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { remote: Some(self), ..self.main.extensions() }
    }
}

impl RemoteStore for RoutedStore {
    /// Replicas are the main store's.
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let main = self.main.extensions().remote?.replicated(replicas)?;
        Some(Arc::new(Self { main, quorum: self.quorum.clone() }))
    }

    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let within = |store: &Arc<dyn Store>| {
            let other = store.extensions().remote.and_then(|remote| remote.within(deadline));
            other.unwrap_or_else(|| store.clone())
        };
        Some(Arc::new(Self { main: within(&self.main), quorum: within(&self.quorum) }))
    }

    /// The longer of both.
    fn deadline(&self) -> Option<Duration> {
        let deadline = |store: &Arc<dyn Store>| store.extensions().remote?.deadline();
        deadline(&self.main).max(deadline(&self.quorum))
    }
}
