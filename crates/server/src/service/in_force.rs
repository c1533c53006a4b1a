//! One configuration, built and in force. It never changes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use axum::http::StatusCode;
use tidegate::adaptive::Priority;
use tidegate::{Engine, Key, Policy, PolicyHandle, PolicyView};

use crate::adaptive::{AdaptiveLimits, SheddingLimit};
use crate::metrics::{Counters, UpstreamView};
use crate::service::Settings;
use crate::service::headers::Labels;
use crate::upstreams::Upstreams;
use tidegate_config::DoorRules;
use tidegate_config::Rls;
use tidegate_request::Found;

/// What is in force. A door takes it once per request, so that one configuration answers the whole request.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) engine: Engine,
    /// What the HTTP doors go by besides the policies.
    pub(crate) http: Settings,
    /// What all doors go by.
    pub(crate) rules: DoorRules,
    /// What Envoy's descriptors mean.
    pub(crate) rls: Arc<Rls>,
    /// Where requests are passed on to, if they are.
    pub(crate) proxy: Option<Arc<Upstreams>>,
    /// Lets limits follow the load. The same in every configuration.
    pub(crate) adaptive: Arc<AdaptiveLimits>,
    /// The policies as they were written, to be tried elsewhere than over the store.
    pub(crate) written: Arc<BTreeMap<String, Policy>>,
    /// One for each policy of the engine, by its index.
    pub(super) slots: Vec<Slot>,
    /// The counters of Envoy's rules that block: these have no policy.
    pub(super) blocking: BTreeMap<Box<str>, Arc<Counters>>,
    /// The index of each route's policy.
    pub(super) routed: Vec<Option<usize>>,
    /// How important a request is that falls under no policy; `None` where all are alike.
    pub(super) usual_priority: Option<Priority>,
}

/// What goes with a policy at the doors.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Kept over reloads by the name of the policy.
    pub(super) counters: Arc<Counters>,
    pub(super) labels: Labels,
    pub(super) priority: Option<Priority>,
    pub(super) shedding: Vec<SheddingLimit>,
}

/// A policy in force: looked up once, it is the key to the engine, the counters and the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<'s> {
    policy: PolicyHandle<'s>,
    slot: &'s Slot,
}

impl<'s> Deref for Handle<'s> {
    type Target = PolicyHandle<'s>;

    fn deref(&self) -> &PolicyHandle<'s> {
        &self.policy
    }
}

impl<'s> Handle<'s> {
    /// The labels of its limits, for headers.
    pub(crate) const fn labels(&self) -> &'s Labels {
        &self.slot.labels
    }

    /// How important a request is that falls under it. `None` where all are alike: then all may fill a pool.
    pub(crate) const fn priority(&self) -> Option<Priority> {
        self.slot.priority
    }

    /// The status of a refusal while a limit of the policy is reduced by the load, if the policy names one.
    pub(crate) fn shed_status(&self, key: Key<'_>) -> Option<StatusCode> {
        let is_less = |it: &&SheddingLimit| {
            let units = values(key).filter_map(|key| it.effective.units_for(key)).min();
            it.effective.is_enforced() && units.is_some_and(|units| units < it.units)
        };
        self.slot.shedding.iter().find(is_less).map(|it| it.status)
    }

    /// The status of a refusal: 429, unless the policy names another.
    pub(crate) fn refusal_status(&self, key: Key<'_>) -> StatusCode {
        self.shed_status(key).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
    }

    /// The name of a limit that binds, for as long as the configuration lives.
    pub(crate) fn limit_name(&self, binding: &str) -> &'s str {
        let own = self.members().find(|member| member.name == binding);
        own.map_or_else(|| self.name(), |member| &member.name)
    }

    pub(super) fn counters(&self) -> &'s Counters {
        &self.slot.counters
    }

    pub(super) const fn policy(&self) -> PolicyHandle<'s> {
        self.policy
    }
}

fn values(key: Key<'_>) -> impl Iterator<Item = &[u8]> {
    let (one, named) = match key {
        Key::One(key) => (Some(key), &[][..]),
        Key::Named(named) => (None, named),
    };
    one.into_iter().chain(named.iter().map(|(_, value)| *value))
}

impl InForce {
    /// The policy of a name: the only lookup that a request needs.
    #[inline]
    pub(crate) fn policy(&self, name: &str) -> Option<Handle<'_>> {
        self.handle(self.engine.policy(name).ok()?)
    }

    /// The policy that a route counts by.
    pub(crate) fn routed(&self, found: &Found<'_>) -> Option<Handle<'_>> {
        match found.number.and_then(|number| *self.routed.get(number)?) {
            Some(index) => self.handle(self.engine.policy_at(index)?),
            None => self.policy(found.policy),
        }
    }

    #[inline]
    fn handle<'s>(&'s self, policy: PolicyHandle<'s>) -> Option<Handle<'s>> {
        Some(Handle { policy, slot: self.slots.get(policy.index())? })
    }

    /// How important a request is, by its policy or without one.
    pub(crate) fn priority(&self, policy: Option<&Handle<'_>>) -> Option<Priority> {
        policy.map_or(self.usual_priority, Handle::priority)
    }

    /// The policies that somebody has written, without those that only hold the counters of limits which come with a
    /// request.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyView<'_>> {
        let is_written = |policy: &PolicyView<'_>| !self.rls.rules.is_placeholder(policy.name());
        self.engine.policies().filter(is_written)
    }

    /// The name that was probably meant.
    pub(crate) fn closest(&self, name: &str) -> Option<&str> {
        tidegate_core::text::closest(name, self.engine.policies().map(|policy| policy.name()))
    }

    /// What is known of each upstream of the proxy.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = UpstreamView<'_>> {
        let all = self.proxy.iter().flat_map(|proxy| proxy.upstreams());
        all.map(|upstream| upstream.view())
    }

    /// All that is counted, by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (Box<str>, Arc<Counters>)> {
        let names = self.engine.policies().map(|policy| Box::from(policy.name()));
        let named = names.zip(self.slots.iter().map(|slot| slot.counters.clone()));
        named.chain(self.blocking.iter().map(|(name, it)| (name.clone(), it.clone())))
    }

    /// The counters of a name, also of a rule that blocks.
    pub(super) fn counters_of(&self, name: &str) -> Option<&Arc<Counters>> {
        let slot = self.policy(name).map(|policy| &policy.slot.counters);
        slot.or_else(|| self.blocking.get(name))
    }
}
