//! A configuration that is built and not yet in force.

use std::sync::Arc;

use tidegate::adaptive::Priority;
use tidegate::{EngineBuilder, LeaseError, PolicyView};

use super::in_force::{InForce, Slot};
use crate::adaptive::{AdaptiveLimits, Prepared};
use crate::metrics::Counters;
use crate::service::Settings;
use crate::service::headers::Labels;
use crate::stats::TargetStats;
use crate::upstreams::Upstreams;
use tidegate_config::Config;
use tidegate_config::Exposure;

/// A configuration that is built and not yet in force. Dropped, it has changed nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) next: InForce,
    pub(super) prepared: Prepared,
    /// What is logged once it is in force.
    pub(super) warnings: Vec<Warning>,
}

/// A line of the log about a configuration that was taken.
#[derive(Debug)]
pub(super) enum Warning {
    Config(String),
    /// A policy runs without the leases that it asks for.
    NoLeases(String, LeaseError),
    /// A key has changed that is only read at the start.
    NeedsRestart(&'static str),
}

impl Draft {
    /// Builds what a configuration says, over the store of a builder, and changes nothing. What the one before has
    /// counted stays, and so do its connections to what is behind the proxy.
    pub(crate) fn build(
        config: &Config,
        builder: EngineBuilder,
        adaptive: Arc<AdaptiveLimits>,
        before: Option<&InForce>,
    ) -> Result<Self, String> {
        let (rules, rls) = (config.doors.clone(), config.rls.clone());
        let http = Settings::from_rules(&rules)?;
        let of_envoy = rls.policies();
        for (name, _) in &of_envoy {
            // Or one would silently replace the other.
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
            // The door stays open until the next start, and needs somewhere to pass requests on to.
            None => proxy_before.cloned(),
        };
        let prepared = adaptive.prepare(&config.plans)?;
        let mut written = config.policies.clone();
        written.extend(of_envoy.into_iter().map(|(name, policy)| (name.to_owned(), policy)));
        let builder = written.iter().fold(builder, |builder, (name, policy)| {
            builder.policy(name.clone(), prepared.adapt(name, policy.clone()))
        });
        let engine = builder.build().map_err(|error| error.to_string())?;
        let of_file =
            config.warnings.iter().map(|warning| Warning::Config(warning.message.clone()));
        let without_leases = engine.policies().filter_map(|policy| {
            Some(Warning::NoLeases(policy.name().to_owned(), policy.lease_problem()?))
        });
        let warnings = of_file.chain(without_leases).collect();
        let counters = |name: &str| -> Arc<Counters> {
            before.and_then(|before| before.counters_of(name)).cloned().unwrap_or_default()
        };
        let usual_priority = (!config.priorities.is_empty()).then(Priority::default);
        let slot = |policy: PolicyView<'_>| Slot {
            counters: counters(policy.name()),
            labels: Labels::new(policy),
            priority: config.priorities.get(policy.name()).copied().or(usual_priority),
            shedding: prepared.shedding(policy.name()),
        };
        let slots = engine.policies().map(slot).collect();
        let blocking = rls
            .rules
            .blocking()
            .into_iter()
            .map(|name: &str| (name.into(), counters(name)))
            .collect();
        let index = |policy: &str| Some(engine.policy(policy).ok()?.index());
        let routed = http.routes.policies().map(index).collect();
        let next = InForce {
            http,
            rules,
            rls,
            proxy,
            adaptive,
            written: Arc::new(written),
            slots,
            blocking,
            routed,
            usual_priority,
            engine,
        };
        Ok(Self { next, prepared, warnings })
    }

    /// Refuses to take the token away from a door that others can reach: no server would start so.
    pub(crate) fn check(&self, exposed: Option<&Exposure>) -> Result<(), String> {
        exposed.map_or(Ok(()), |door| door.allow(self.next.http.admin.is_set()))
    }

    /// Has the log say, once this is in force, which keys wait for a restart.
    pub(crate) fn needs_restart(&mut self, keys: impl Iterator<Item = &'static str>) {
        self.warnings.extend(keys.map(Warning::NeedsRestart));
    }

    /// What doors report about the services behind them.
    pub(crate) fn target_stats(&self) -> &Arc<TargetStats> {
        self.next.adaptive.target_stats()
    }
}

impl Warning {
    pub(super) fn log(&self) {
        match self {
            Self::Config(message) => tracing::warn!("{message}"),
            Self::NoLeases(policy, problem) => {
                tracing::warn!(policy, %problem, "runs without leases");
            }
            Self::NeedsRestart(field) => {
                tracing::warn!(field, "has changed, and needs a restart to take effect");
            }
        }
    }
}
