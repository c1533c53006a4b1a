//! The store as policies want it: plain, with remembered refusals or with leases; and the same in other ways, with
//! replicas that confirm or with another deadline.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "leases")]
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
    others: Vec<(Way, Stack<C>)>,
    known: KnownWays,
}

/// How a policy wants its store asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Way {
    replicas: Option<Replicas>,
    deadline: Option<Duration>,
}

/// The store by the ways that it is asked in, with their connections and breakers.
pub(super) type KnownWays = Vec<(Way, Arc<dyn Store>)>;

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

impl Way {
    const fn of(policy: &Compiled) -> Self {
        Self { replicas: policy.replicas, deadline: policy.deadline }
    }

    /// The same with the store's own deadline, over whose connections it goes.
    const fn patient(self) -> Self {
        Self { deadline: None, ..self }
    }

    /// The store asked in this way, or as near to it as the store can.
    fn find(self, store: &Arc<dyn Store>, known: &mut KnownWays) -> Arc<dyn Store> {
        if let Some((_, store)) = known.iter().find(|(way, _)| *way == self) {
            return store.clone();
        }
        let found = match (self.deadline, self.replicas) {
            (None, None) => return store.clone(),
            (None, Some(replicas)) => {
                store.extensions().remote.and_then(|it| it.replicated(replicas))
            }
            (Some(deadline), _) => {
                let patient = self.patient().find(store, known);
                let within = patient.extensions().remote.and_then(|it| it.within(deadline));
                Some(within.unwrap_or(patient))
            }
        };
        let found = found.unwrap_or_else(|| store.clone());
        known.push((self, found.clone()));
        found
    }
}

impl<C: Clock + 'static> Stores<C> {
    /// What is known already is not made anew.
    pub(super) fn new<'a>(
        store: Arc<dyn Store>,
        mut known: KnownWays,
        clock: &Arc<C>,
        policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let ways = || policies.clone().map(Way::of);
        let mut others: Vec<(Way, Stack<C>)> = Vec::new();
        for way in ways().filter(|way| *way != Way::default()) {
            if !others.iter().any(|(other, _)| *other == way) {
                let theirs = policies.clone().filter(|policy| Way::of(policy) == way);
                let store = way.find(&store, &mut known);
                others.push((way, Stack::new(store, clock, theirs)));
            }
        }
        known.retain(|(known, _)| ways().any(|way| way == *known || way.patient() == *known));
        let plain = policies.filter(|policy| Way::of(policy) == Way::default());
        Self { plain: Stack::new(store, clock, plain), others, known }
    }

    /// As a policy wants it.
    pub(super) fn of(&self, policy: &Compiled) -> &Stack<C> {
        let way = Way::of(policy);
        if way == Way::default() {
            return &self.plain;
        }
        let found = self.others.iter().find(|(other, _)| *other == way);
        found.map_or(&self.plain, |(_, stack)| stack)
    }

    /// As the strictest of several policies wants it: who would rather turn callers away, then who wants the most copies,
    /// then who names the shortest deadline.
    pub(super) fn of_all<'a>(&self, policies: impl Iterator<Item = &'a Compiled>) -> &Stack<C> {
        let copies = |Replicas { wait, timeout, unconfirmed }| {
            (unconfirmed == Unconfirmed::Deny, wait, timeout)
        };
        let strictness = |policy: &&Compiled| {
            (policy.replicas.map(copies), policy.deadline.map(std::cmp::Reverse))
        };
        policies.max_by_key(strictness).map_or(&self.plain, |policy| self.of(policy))
    }

    /// The store by the ways that it is asked in, for another engine.
    pub(super) fn known(&self) -> KnownWays {
        self.known.clone()
    }

    #[cfg(feature = "leases")]
    pub(super) fn leases(&self) -> impl Iterator<Item = &Leased<C>> {
        let others = self.others.iter().map(|(_, stack)| stack);
        std::iter::once(&self.plain).chain(others).filter_map(|stack| stack.leases.as_deref())
    }
}

impl<C: Clock + 'static> Stack<C> {
    fn new<'a>(
        store: Arc<dyn Store>,
        clock: &Arc<C>,
        mut policies: impl Iterator<Item = &'a Compiled> + Clone,
    ) -> Self {
        let is_far = !store.extensions().is_local();
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
    #[cfg(feature = "leases")]
    pub(super) fn kept<'a>(
        &self,
        policy: &Compiled,
        own: &Limit,
        all: impl IntoIterator<Item = &'a Limit> + Clone,
    ) -> Option<Limit> {
        if self.leases.is_some() && policy.lease { kept(own, all) } else { None }
    }

    /// What a policy asks.
    pub(super) fn asked_by(&self, policy: &Compiled) -> &dyn Store {
        #[cfg(feature = "leases")]
        if let Some(leases) = self.leases.as_ref().filter(|_| policy.lease) {
            return leases;
        }
        self.deny_cache.as_ref().filter(|_| policy.deny_cache).unwrap_or(&self.store)
    }

    /// What is asked for a limit of no policy: remembered refusals, where there are any, and no leases.
    pub(super) fn asked_by_default(&self) -> &dyn Store {
        self.deny_cache.as_ref().unwrap_or(&self.store)
    }
}
