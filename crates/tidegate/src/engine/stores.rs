//! The store variants that policies ask for: plain, with a deny cache or with leases; each with the store's own settings,
//! or with replicas that confirm or another deadline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "leases")]
use tidegate_core::Limit;
use tidegate_core::{Timestamp, Verdict};

use crate::clock::Clock;
use crate::policy::Compiled;
use crate::store::deny_cache::{DENY_CACHE_TTL, DenyCache};
#[cfg(feature = "leases")]
use crate::store::leases::{Leases, leased_limit};
use crate::store::{Replicas, Source, Store, StoreReply, StoreRequest, StoreResult, Unconfirmed};

#[derive(Debug)]
pub(super) struct Stores<C> {
    pub(super) plain: StoreStack<C>,
    others: Vec<(StoreVariant, StoreStack<C>)>,
    /// What each policy asks, by its index.
    by_policy: Vec<PolicyStore<C>>,
    /// The stores by settings, for the next engine.
    pub(super) variants: StoreVariants,
}

/// The settings of the store that a policy asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StoreVariant {
    replicas: Option<Replicas>,
    deadline: Option<Duration>,
}

/// The store by settings, each with its connections and breakers.
pub(super) type StoreVariants = Vec<(StoreVariant, Arc<dyn Store>)>;

type Cached<C> = DenyCache<Arc<dyn Store>, Arc<C>>;

#[cfg(feature = "leases")]
type Leased<C> = Leases<Arc<dyn Store>, Arc<C>>;

/// The store that a policy asks. Those that answer most questions without another are known by their types: such an answer
/// needs no wall clock.
#[derive(Debug)]
pub(super) enum PolicyStore<C> {
    Bare(Arc<dyn Store>),
    Cached(Arc<Cached<C>>),
    #[cfg(feature = "leases")]
    Leased(Arc<Leased<C>>),
}

impl<C: Clock + 'static> PolicyStore<C> {
    /// [`Store::decide`].
    pub(super) fn decide(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        match self {
            Self::Bare(store) => store.decide(request, now),
            Self::Cached(cache) => cache.decide(request, now),
            #[cfg(feature = "leases")]
            Self::Leased(leases) => leases.decide(request, now),
        }
    }

    /// What is known in this process, or else the store's reply. `now` is read only if the store is asked.
    #[inline]
    pub(super) fn known_or_asked(
        &self,
        request: &StoreRequest<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<(Verdict, Source), StoreResult<StoreReply>> {
        match self {
            Self::Bare(store) => Err(store.decide(request, now())),
            Self::Cached(cache) => {
                cache.find_or_ask(request, now).map(|verdict| (verdict, Source::DenyCache))
            }
            #[cfg(feature = "leases")]
            Self::Leased(leases) => {
                leases.spend_or_ask(request, now).map(|verdict| (verdict, Source::Lease))
            }
        }
    }
}

/// A store, and the stores around it that policies ask for, where they save anything.
#[derive(Debug)]
pub(super) struct StoreStack<C> {
    pub(super) store: Arc<dyn Store>,
    /// One cache for each time that refusals hold, in ascending order. All share their memory.
    deny_caches: Vec<(Duration, Arc<Cached<C>>)>,
    #[cfg(feature = "leases")]
    leases: Option<Arc<Leased<C>>>,
    #[cfg(not(feature = "leases"))]
    clock: std::marker::PhantomData<C>,
}

impl StoreVariant {
    const fn from_policy(policy: &Compiled) -> Self {
        Self { replicas: policy.options.replicas, deadline: policy.options.deadline }
    }

    /// The same with the store's own deadline. A variant with another deadline uses its connections.
    const fn with_default_deadline(self) -> Self {
        Self { deadline: None, ..self }
    }

    /// The store with these settings, or without those that it does not support.
    fn find(self, store: &Arc<dyn Store>, known: &mut StoreVariants) -> Arc<dyn Store> {
        if let Some((_, store)) = known.iter().find(|(variant, _)| *variant == self) {
            return store.clone();
        }
        let found = match (self.deadline, self.replicas) {
            (None, None) => return store.clone(),
            (None, Some(replicas)) => {
                store.extensions().remote.and_then(|it| it.replicated(replicas))
            }
            (Some(deadline), _) => {
                let base = self.with_default_deadline().find(store, known);
                let within = base.extensions().remote.and_then(|it| it.within(deadline));
                Some(within.unwrap_or(base))
            }
        };
        let found = found.unwrap_or_else(|| store.clone());
        known.push((self, found.clone()));
        found
    }
}

impl<C: Clock + 'static> Stores<C> {
    /// Reuses the `known` variants.
    pub(super) fn new<'a>(
        store: Arc<dyn Store>,
        mut known: StoreVariants,
        clock: &Arc<C>,
        policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let variants = || policies.clone().map(StoreVariant::from_policy);
        let mut others: Vec<(StoreVariant, StoreStack<C>)> = Vec::new();
        for variant in variants().filter(|variant| *variant != StoreVariant::default()) {
            if !others.iter().any(|(other, _)| *other == variant) {
                let theirs =
                    policies.clone().filter(|policy| StoreVariant::from_policy(policy) == variant);
                let store = variant.find(&store, &mut known);
                others.push((variant, StoreStack::new(store, clock, theirs)));
            }
        }
        known.retain(|(known, _)| {
            variants().any(|variant| variant == *known || variant.with_default_deadline() == *known)
        });
        let plain =
            policies.clone().filter(|it| StoreVariant::from_policy(it) == StoreVariant::default());
        let plain = StoreStack::new(store, clock, plain);
        let mut stores = Self { plain, others, by_policy: Vec::new(), variants: known };
        stores.by_policy =
            policies.map(|policy| stores.for_policy(policy).store_for(policy)).collect();
        stores
    }

    /// The store that a policy asks.
    #[inline]
    pub(super) fn store_for(&self, policy: &Compiled) -> &PolicyStore<C> {
        &self.by_policy[policy.index]
    }

    /// The stores for a policy.
    pub(super) fn for_policy(&self, policy: &Compiled) -> &StoreStack<C> {
        let variant = StoreVariant::from_policy(policy);
        if variant == StoreVariant::default() {
            return &self.plain;
        }
        let found = self.others.iter().find(|(other, _)| *other == variant);
        found.map_or(&self.plain, |(_, stack)| stack)
    }

    /// The stores for the strictest of several policies: first one that denies unconfirmed charges, then the one with the
    /// most replicas, then the one with the shortest deadline.
    pub(super) fn for_all<'a>(
        &self,
        policies: impl Iterator<Item = &'a Compiled>,
    ) -> &StoreStack<C> {
        let copies = |Replicas { wait, timeout, unconfirmed }| {
            (unconfirmed == Unconfirmed::Deny, wait, timeout)
        };
        let strictness = |policy: &&Compiled| {
            (policy.options.replicas.map(copies), policy.options.deadline.map(std::cmp::Reverse))
        };
        policies.max_by_key(strictness).map_or(&self.plain, |policy| self.for_policy(policy))
    }

    #[cfg(feature = "leases")]
    pub(super) fn leases(&self) -> impl Iterator<Item = &Leased<C>> {
        let others = self.others.iter().map(|(_, stack)| stack);
        std::iter::once(&self.plain).chain(others).filter_map(|stack| stack.leases.as_deref())
    }
}

impl<C: Clock + 'static> StoreStack<C> {
    fn new<'a>(
        store: Arc<dyn Store>,
        clock: &Arc<C>,
        policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let is_remote = !store.extensions().is_local();
        #[cfg(feature = "leases")]
        let leases = (is_remote && policies.clone().any(|policy| policy.options.lease))
            .then(|| Arc::new(Leases::with_clock(store.clone(), clock.clone())));
        let mut ttls: BTreeSet<Duration> =
            policies.filter_map(|policy| policy.options.deny_cache_ttl).collect();
        if !is_remote {
            ttls.clear();
        } else if !ttls.is_empty() {
            ttls.insert(DENY_CACHE_TTL); // for limits of no policy
        }
        let deny_cache = DenyCache::with_clock(store.clone(), clock.clone());
        let deny_caches =
            ttls.into_iter().map(|ttl| (ttl, Arc::new(deny_cache.with_ttl(ttl)))).collect();
        Self {
            store,
            deny_caches,
            #[cfg(feature = "leases")]
            leases,
            #[cfg(not(feature = "leases"))]
            clock: std::marker::PhantomData,
        }
    }

    /// The limit that the store counts instead of `own`, if that is leased, together with `all`, each with its factor.
    #[cfg(feature = "leases")]
    pub(super) fn leased_limit<'a>(
        &self,
        policy: &Compiled,
        own: &Limit,
        all: impl Iterator<Item = (&'a Limit, u64)> + Clone,
    ) -> Option<Limit> {
        if self.leases.is_some() && policy.options.lease { leased_limit(own, all) } else { None }
    }

    /// The store that a policy asks.
    fn store_for(&self, policy: &Compiled) -> PolicyStore<C> {
        #[cfg(feature = "leases")]
        if let Some(leases) = self.leases.as_ref().filter(|_| policy.options.lease) {
            return PolicyStore::Leased(leases.clone());
        }
        let cached = policy.options.deny_cache_ttl.and_then(|ttl| self.cached(ttl));
        cached.map_or_else(
            || PolicyStore::Bare(self.store.clone()),
            |cache| PolicyStore::Cached(cache.clone()),
        )
    }

    /// The store for a limit of no policy: with a deny cache if there is one, and without leases.
    pub(super) fn default_store(&self) -> &dyn Store {
        self.cached(DENY_CACHE_TTL).map_or(&*self.store, |it| &**it)
    }

    fn cached(&self, ttl: Duration) -> Option<&Arc<Cached<C>>> {
        let found = self.deny_caches.binary_search_by_key(&ttl, |(ttl, _)| *ttl);
        found.ok().map(|index| &self.deny_caches[index].1)
    }
}
