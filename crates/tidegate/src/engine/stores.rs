//! The store as policies want it: plain, with remembered refusals or with leases; and the same with replicas that
//! confirm.

use std::sync::Arc;

use tidegate_core::Limit;

use crate::clock::Clock;
use crate::policy::Compiled;
use crate::store::deny_cache::DenyCache;
#[cfg(feature = "leases")]
use crate::store::leases::{Leases, kept};
use crate::store::{Replicas, Store, Unconfirmed};

#[derive(Debug)]
pub(super) struct Stores<C> {
    pub(super) plain: Stack<C>,
    /// One for each setting that the store can do.
    replicated: Vec<(Replicas, Stack<C>)>,
}

#[cfg(feature = "leases")]
type Leased<C> = Leases<Arc<dyn Store>, Arc<C>>;

/// A store, and what stands around it for those who want that; nothing does where it would save nothing.
#[derive(Debug)]
pub(super) struct Stack<C> {
    pub(super) store: Arc<dyn Store>,
    deny_cache: Option<Arc<dyn Store>>,
    #[cfg(feature = "leases")]
    leases: Option<Arc<Leased<C>>>,
    #[cfg(not(feature = "leases"))]
    clock: std::marker::PhantomData<C>,
}

impl<C: Clock + 'static> Stores<C> {
    /// `kept` are stores with replicas that are there already.
    pub(super) fn new<'a>(
        store: Arc<dyn Store>,
        kept: &[(Replicas, Arc<dyn Store>)],
        clock: &Arc<C>,
        policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let mut replicated: Vec<(Replicas, Stack<C>)> = Vec::new();
        for replicas in policies.clone().filter_map(|policy| policy.replicas) {
            let is_known = replicated.iter().any(|(known, _)| *known == replicas);
            let kept = || kept.iter().find(|(known, _)| *known == replicas);
            let find =
                || kept().map(|(_, store)| store.clone()).or_else(|| store.replicated(replicas));
            if !is_known && let Some(store) = find() {
                let theirs = policies.clone().filter(|policy| policy.replicas == Some(replicas));
                replicated.push((replicas, Stack::new(store, clock, theirs)));
            }
        }
        Self { plain: Stack::new(store, clock, policies), replicated }
    }

    /// As a policy wants it, or plain where the store cannot do that.
    pub(super) fn of(&self, policy: &Compiled) -> &Stack<C> {
        let confirmed = policy.replicas.and_then(|replicas| {
            self.replicated.iter().find(|(known, _)| *known == replicas).map(|(_, stack)| stack)
        });
        confirmed.unwrap_or(&self.plain)
    }

    /// As the strictest of several policies wants it: who would rather turn callers away, then who wants the most copies.
    pub(super) fn of_all<'a>(&self, policies: impl Iterator<Item = &'a Compiled>) -> &Stack<C> {
        let strictness = |policy: &&Compiled| {
            let Replicas { wait, timeout, unconfirmed } = policy.replicas?;
            Some((unconfirmed == Unconfirmed::Deny, wait, timeout))
        };
        policies.max_by_key(strictness).map_or(&self.plain, |policy| self.of(policy))
    }

    /// The stores with replicas, for another engine.
    pub(super) fn replicated(&self) -> Vec<(Replicas, Arc<dyn Store>)> {
        self.replicated.iter().map(|(replicas, stack)| (*replicas, stack.store.clone())).collect()
    }

    #[cfg(feature = "leases")]
    pub(super) fn leases(&self) -> impl Iterator<Item = &Leased<C>> {
        let others = self.replicated.iter().map(|(_, stack)| stack);
        std::iter::once(&self.plain).chain(others).filter_map(|stack| stack.leases.as_deref())
    }
}

impl<C: Clock + 'static> Stack<C> {
    fn new<'a>(
        store: Arc<dyn Store>,
        clock: &Arc<C>,
        mut policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let is_far = !store.is_local();
        #[cfg(feature = "leases")]
        let leases = (is_far && policies.clone().any(|policy| policy.lease))
            .then(|| Arc::new(Leases::with_clock(store.clone(), clock.clone())));
        let deny_cache =
            (is_far && policies.any(|policy| policy.deny_cache)).then(|| -> Arc<dyn Store> {
                Arc::new(DenyCache::with_clock(store.clone(), clock.clone()))
            });
        Self {
            store,
            deny_cache,
            #[cfg(feature = "leases")]
            leases,
            #[cfg(not(feature = "leases"))]
            clock: std::marker::PhantomData,
        }
    }

    /// What the store keeps of a policy's limit, if that is another one: `own` is leased together with `all`.
    pub(super) fn kept<'a>(
        &self,
        policy: &Compiled,
        own: &Limit,
        all: impl IntoIterator<Item = &'a Limit> + Clone,
    ) -> Option<Limit> {
        #[cfg(feature = "leases")]
        if self.leases.is_some() && policy.lease {
            return kept(own, all);
        }
        let _ = (policy, own, all);
        None
    }

    /// What a policy asks.
    pub(super) fn asked_by(&self, policy: &Compiled) -> &dyn Store {
        #[cfg(feature = "leases")]
        if let Some(leases) = self.leases.as_ref().filter(|_| policy.lease) {
            return leases;
        }
        self.deny_cache.as_ref().filter(|_| policy.deny_cache).unwrap_or(&self.store)
    }
}
