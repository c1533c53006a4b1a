//! Builds a configuration before it is put in force.

use std::sync::Arc;

use tidegate::adaptive::Priority;
use tidegate::{Clock, EngineBuilder, LeaseError, PolicyView, SystemClock};

use super::Names;
use super::in_force::{InForce, Slot};
use super::removed::RemovedPolicies;
use crate::adaptive::{AdaptiveLimits, Prepared};
use crate::metrics::Counters;
use crate::service::headers::Labels;
use crate::service::{RefusalRules, Settings};
use crate::stats::TargetStats;
use crate::upstreams::Upstreams;
use crate::upstreams::in_flight::InFlightBound;
use tidegate_config::{Config, Exposure};

/// A configuration that is built and not yet in force. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) next: InForce,
    pub(super) prepared: Prepared,
    /// Logged when it is in force.
    pub(super) warnings: Vec<Warning>,
}

/// A log line about an accepted configuration.
#[derive(Debug)]
pub(super) enum Warning {
    Config(String),
    /// A policy cannot use the leases that it configures.
    NoLeases(String, LeaseError),
    /// A changed key that is only read at the start.
    NeedsRestart(&'static str),
    /// Policies of the configuration before that this one does not have.
    Removed(Names),
}

impl Draft {
    /// Builds a configuration over the store of `builder`. Keeps the counters and upstream connections of the configuration
    /// before.
    pub(crate) fn build(
        config: &Config,
        builder: EngineBuilder,
        adaptive: Arc<AdaptiveLimits>,
        before: Option<&InForce>,
    ) -> Result<Self, String> {
        let (rules, rls) = (config.doors.clone(), config.rls.clone());
        let http = Settings::from_rules(&rules)?;
        let envoy_policies = rls.policies();
        for (name, _) in &envoy_policies {
            // One would silently replace the other.
            if config.policies.contains_key(*name) {
                let name = tidegate_core::text::printable(name);
                return Err(format!(
                    "policy `{name}` is also the name of a rule of Envoy's configuration: rename one of them"
                ));
            }
        }
        let proxy_before = before.and_then(|before| before.proxy.as_ref());
        let proxy = match &config.proxy {
            Some(settings) => {
                Some(Upstreams::build(settings, proxy_before.map(|it| &**it))?.into())
            }
            // The door stays open until a restart, and still needs its upstreams.
            None => proxy_before.cloned(),
        };
        let refusals = match &config.proxy {
            Some(settings) => RefusalRules::from_settings(&settings.refusal)?.into(),
            None => before.map(|before| before.refusals.clone()).unwrap_or_default(),
        };
        let of_page = config.proxy.as_ref().and_then(|_| refusals.warning()).map(Warning::Config);
        let prepared = adaptive.prepare(&config.plans)?;
        let mut written = config.policies.clone();
        written.extend(envoy_policies.into_iter().map(|(name, policy)| (name.to_owned(), policy)));
        let builder = written.iter().fold(builder, |builder, (name, policy)| {
            builder.policy(name.clone(), prepared.adapt(name, policy.clone()))
        });
        let engine = builder.build().map_err(|error| error.to_string())?;
        let in_flight_before = before.and_then(|before| before.in_flight.as_ref());
        let in_flight = match &config.proxy {
            Some(settings) => InFlightBound::build(settings, &engine, in_flight_before)?,
            None => in_flight_before.cloned(),
        };
        let from_file =
            config.warnings.iter().map(|warning| Warning::Config(warning.message.clone()));
        let without_leases = engine.policies().filter_map(|policy| {
            Some(Warning::NoLeases(policy.name().to_owned(), policy.lease_problem()?))
        });
        let removed = RemovedPolicies::after(before, &engine, SystemClock.now());
        let gone = removed.names_since(before);
        let gone = (gone.count > 0).then_some(Warning::Removed(gone));
        let warnings = from_file.chain(of_page).chain(without_leases).chain(gone).collect();
        let counters = |name: &str| -> Arc<Counters> {
            before.and_then(|before| before.counters_of(name)).cloned().unwrap_or_default()
        };
        let has_priorities = !config.priorities.is_empty() || http.routes.have_priorities();
        let usual_priority = has_priorities.then(Priority::default);
        let slot = |policy: PolicyView<'_>| Slot {
            counters: counters(policy.name()),
            labels: Labels::new(policy),
            priority: config.priorities.get(policy.name()).copied().or(usual_priority),
            shedding: prepared.shedding(policy.name()),
            url_limits: prepared.url_limits(policy.name()),
            is_placeholder: rls.rules.is_placeholder(policy.name()),
        };
        let slots = engine.policies().map(slot).collect();
        let blocking = rls
            .rules
            .blocking()
            .into_iter()
            .map(|name: &str| (name.into(), counters(name)))
            .collect();
        let index = |policy: &str| Some(engine.policy_ref(policy).ok()?.index());
        let routed = http.routes.policies().map(index).collect();
        let next = InForce {
            http,
            rules,
            rls,
            refusals,
            proxy,
            in_flight,
            adaptive,
            written: Arc::new(written),
            slots,
            blocking,
            routed,
            usual_priority,
            removed,
            engine,
        };
        Ok(Self { next, prepared, warnings })
    }

    /// Refuses to remove the admin token while a door is reachable from outside: a server would not start like that.
    pub(crate) fn check(&self, exposed: Option<&Exposure>) -> Result<(), String> {
        exposed.map_or(Ok(()), |door| door.allow(self.next.http.admin.is_set()))
    }

    /// Adds a warning for each changed key that needs a restart.
    pub(crate) fn needs_restart(&mut self, keys: impl Iterator<Item = &'static str>) {
        self.warnings.extend(keys.map(Warning::NeedsRestart));
    }

    pub(crate) fn target_stats(&self) -> &Arc<TargetStats> {
        self.next.adaptive.target_stats()
    }
}

impl Warning {
    pub(super) fn log(&self) {
        match self {
            Self::Config(message) => tracing::warn!("{message}"),
            Self::NoLeases(policy, problem) => {
                tracing::warn!(policy, %problem, "policy runs without leases");
            }
            Self::Removed(names) => {
                let policies = names.listed();
                tracing::warn!(
                    policies,
                    "the reload has removed policies: checks of them are errors from now on, and their counters are \
                     forgotten when they expire"
                );
            }
            Self::NeedsRestart(field) => {
                tracing::warn!(field, "changed setting needs a restart to take effect");
            }
        }
    }
}
