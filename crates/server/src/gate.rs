//! What every door asks: the engine with everything that the configuration says, swapped whole on reload.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tidegate::{Engine, EngineBuilder};

use crate::config::{Config, DoorRules};
use crate::doors::http::Settings;

use crate::doors::rls::Rls;

/// What is in force now. A door takes it once per request, so that a request is answered by one configuration.
#[derive(Debug)]
pub(crate) struct Gate {
    current: ArcSwap<Snapshot>,
}

/// One configuration, checked and built. It never changes.
#[allow(dead_code, reason = "for the doors that go by it")]
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Engine,
    /// What the HTTP doors go by besides the policies.
    pub(crate) http: Settings,
    /// What all doors go by.
    pub(crate) rules: DoorRules,
    /// What Envoy's descriptors mean.
    pub(crate) rls: Arc<Rls>,
}

impl Snapshot {
    /// Builds what a configuration says, over the store of a builder.
    pub(crate) fn build(config: &Config, builder: EngineBuilder) -> Result<Self, String> {
        let policies = config.policies.iter();
        let builder = policies
            .fold(builder, |builder, (name, policy)| builder.policy(name.clone(), policy.clone()));
        let engine = config.rls.rules.add_to(builder).build().map_err(|error| error.to_string())?;
        for policy in engine.policies() {
            if let Some(problem) = policy.lease_problem() {
                tracing::warn!(policy = policy.name(), %problem, "runs without leases");
            }
        }
        let rules = config.doors.clone();
        let rls = config.rls.clone();
        Ok(Self { engine, http: Settings::of(&rules)?, rules, rls })
    }
}

impl Gate {
    pub(crate) fn new(snapshot: Snapshot) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(snapshot) })
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn now(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Puts another configuration in force. What the old engine has taken ahead goes back to the store.
    pub(crate) fn swap(&self, next: Snapshot) {
        let before = self.current.swap(Arc::new(next));
        before.engine.release_leases();
    }
}
