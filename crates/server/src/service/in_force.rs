//! One configuration in force. It is immutable.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use http::StatusCode;
use tidegate::adaptive::Priority;
use tidegate::{Effective, Engine, Key, Policy, PolicyRef, PolicyView, ShareStatus};

use crate::adaptive::{AdaptiveLimits, SheddingLimit};
use crate::metrics::{Counters, UpstreamView};
use crate::service::headers::Labels;
use crate::service::removed::RemovedPolicies;
use crate::service::{RefusalRules, Settings, Unanswered};
use crate::upstreams::Upstreams;
use crate::upstreams::in_flight::InFlightBound;
use tidegate_config::{DoorRules, Rls};
use tidegate_request::RouteMatch;

/// The configuration in force. A door loads it once per request, so that one configuration answers the whole request.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) engine: Engine,
    /// For the HTTP doors.
    pub(crate) http: Settings,
    /// For all doors.
    pub(crate) rules: DoorRules,
    /// Envoy's descriptors.
    pub(crate) rls: Arc<Rls>,
    /// What refused clients of the proxy get.
    pub(crate) refusals: Arc<RefusalRules>,
    pub(crate) proxy: Option<Arc<Upstreams>>,
    /// The bound on requests at the upstreams.
    pub(crate) in_flight: Option<Arc<InFlightBound>>,
    /// The same in every configuration.
    pub(crate) adaptive: Arc<AdaptiveLimits>,
    /// The policies as written, for the playground.
    pub(crate) written: Arc<BTreeMap<String, Policy>>,
    /// By the index of the policy in the engine.
    pub(super) slots: Vec<Slot>,
    /// The counters of Envoy's blocking rules, which have no policy.
    pub(super) blocking: BTreeMap<Box<str>, Arc<Counters>>,
    /// The index of each route's policy.
    pub(super) routed: Vec<Option<usize>>,
    /// The priority of a request without a policy; `None` if no priorities are configured.
    pub(super) usual_priority: Option<Priority>,
    /// The policies that reloads have removed, and when.
    pub(super) removed: RemovedPolicies,
}

/// What the doors need of a policy.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Kept across reloads by policy name.
    pub(super) counters: Arc<Counters>,
    pub(super) labels: Labels,
    pub(super) priority: Option<Priority>,
    pub(super) shedding: Vec<SheddingLimit>,
    /// The limits that follow URLs, by name.
    pub(super) url_limits: Vec<(String, Effective)>,
    /// For limits that come with a request.
    pub(super) is_placeholder: bool,
}

/// A policy in force, looked up once per request: gives access to the engine, the counters and the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<'s> {
    policy: PolicyRef<'s>,
    slot: &'s Slot,
}

impl<'s> Deref for Handle<'s> {
    type Target = PolicyRef<'s>;

    fn deref(&self) -> &PolicyRef<'s> {
        &self.policy
    }
}

impl<'s> Handle<'s> {
    /// The labels of its limits, for headers.
    pub(crate) const fn labels(&self) -> &'s Labels {
        &self.slot.labels
    }

    /// `None` if no priorities are configured: then every request may fill a pool.
    pub(crate) const fn priority(&self) -> Option<Priority> {
        self.slot.priority
    }

    /// The configured status of a refusal while the load reduces a limit of the policy.
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

    /// The URL that was refused by this limit although its responses are fast, and what the limit allows in a minute.
    pub(super) fn refused_fast_url<'k>(
        &self,
        binding: &str,
        key: Key<'k>,
    ) -> Option<(&'k [u8], u64)> {
        let is_binding = |(name, _): &&(String, Effective)| {
            name == binding || (name.is_empty() && binding == self.name())
        };
        let (name, effective) = self.slot.url_limits.iter().find(is_binding)?;
        let member = self.members().find(|member| member.name == *name)?;
        let url = match (key, &member.key) {
            (Key::One(url), _) => url,
            (Key::Named(named), Some(name)) => named.iter().find(|(it, _)| it == name)?.1,
            (Key::Named(_), None) => return None,
        };
        effective.units_for(url).is_none().then(|| (url, member.limit.units()))
    }

    /// The name of the binding limit, borrowed from the configuration.
    pub(crate) fn limit_name(&self, binding: &str) -> &'s str {
        let own = self.members().find(|member| member.name == binding);
        own.map_or_else(|| self.name(), |member| &member.name)
    }

    pub(super) fn counters(&self) -> &'s Counters {
        &self.slot.counters
    }

    pub(super) const fn policy(&self) -> PolicyRef<'s> {
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
    /// The only lookup that a request needs.
    #[inline]
    pub(crate) fn policy(&self, name: &str) -> Option<Handle<'_>> {
        self.handle(self.engine.policy_ref(name).ok()?)
    }

    /// The answer to a question about a policy that is not there.
    pub(super) fn unknown(&self, name: &str) -> Unanswered {
        let (name, removed_at) = (name.to_owned(), self.removed.removed_at(name));
        Unanswered::UnknownPolicy { name, removed_at }
    }

    /// The policy of a route.
    pub(crate) fn routed(&self, found: &RouteMatch<'_>) -> Option<Handle<'_>> {
        match found.number.and_then(|number| *self.routed.get(number)?) {
            Some(index) => self.handle(self.engine.policy_at(index)?),
            None => self.policy(found.policy),
        }
    }

    #[inline]
    fn handle<'s>(&'s self, policy: PolicyRef<'s>) -> Option<Handle<'s>> {
        Some(Handle { policy, slot: self.slots.get(policy.index())? })
    }

    /// The priority of a request, with or without a policy.
    pub(crate) fn priority(&self, policy: Option<&Handle<'_>>) -> Option<Priority> {
        policy.map_or(self.usual_priority, Handle::priority)
    }

    /// The configured policies, without placeholders for limits that come with a request.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyView<'_>> {
        let all = self.engine.policies().zip(&self.slots);
        all.filter(|(_, slot)| !slot.is_placeholder).map(|(policy, _)| policy)
    }

    /// How tenants share limits, by policy.
    pub(crate) fn shares(&self) -> Vec<(String, ShareStatus)> {
        let share =
            |policy: PolicyView<'_>| Some((policy.name().to_owned(), policy.share_status()?));
        self.policies().filter_map(share).collect()
    }

    pub(crate) fn upstreams(&self) -> impl Iterator<Item = UpstreamView<'_>> {
        let all = self.proxy.iter().flat_map(|proxy| proxy.upstreams());
        all.map(|upstream| upstream.view())
    }

    /// All counters by name.
    pub(super) fn counters(&self) -> impl Iterator<Item = (Box<str>, Arc<Counters>)> {
        let names = self.engine.policies().map(|policy| Box::from(policy.name()));
        let named = names.zip(self.slots.iter().map(|slot| slot.counters.clone()));
        named.chain(self.blocking.iter().map(|(name, it)| (name.clone(), it.clone())))
    }

    /// The counters of a policy or a blocking rule.
    pub(super) fn counters_of(&self, name: &str) -> Option<&Arc<Counters>> {
        let slot = self.policy(name).map(|policy| &policy.slot.counters);
        slot.or_else(|| self.blocking.get(name))
    }
}
