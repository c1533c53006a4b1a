//! The current state, sent with every tick and not kept in the history.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::{LeaseStats, MemoryStats};

use super::second_stats::POLICIES_MAX;
use crate::adaptive::AdaptiveLimitView;
use crate::metrics::{MetricsSnapshot, PolicySnapshot, RefusalReport, ServerCounts};
use crate::service::{AppState, OutageView};

#[derive(Debug, Serialize)]
pub(super) struct DashboardState {
    version: &'static str,
    started_ms: u64,
    /// Changes with every configuration.
    generation: u64,
    /// `shown` or `hashed`.
    keys: &'static str,
    watchers: usize,
    /// Known nodes that share the store.
    nodes: u32,
    policies: BTreeMap<String, PolicyTotals>,
    /// Open connections by door.
    connections: BTreeMap<&'static str, u64>,
    store: StoreState,
    #[serde(with = "LeaseJson")]
    leases: LeaseStats,
    adaptive: Vec<AdaptiveLimitView>,
}

/// The outcomes of a policy since the start, and its refused keys.
#[derive(Debug, Serialize)]
struct PolicyTotals {
    allowed: u64,
    denied: u64,
    shadow_denied: u64,
    error: u64,
    /// Of the errors: turned away because the store fails.
    fail_closed: u64,
    /// Of what was allowed: without the store, because it fails.
    fail_open: u64,
    #[serde(flatten)]
    refused: RefusalReport,
}

#[derive(Debug, Serialize)]
struct StoreState {
    kind: &'static str,
    /// `ok`, `not-connected` or `left-alone`.
    condition: &'static str,
    /// `closed`, `probing` or `open`; `null` without a breaker.
    breaker: Option<&'static str>,
    breaker_opened: u64,
    errors: u64,
    /// One for each store that does not serve.
    outages: Vec<OutageView>,
    /// The servers of a quorum by state; `null` without one.
    servers: Option<ServerCounts>,
    #[serde(flatten)]
    memory: Option<MemoryState>,
}

#[derive(Debug, Serialize)]
struct MemoryState {
    keys: u64,
    bytes: usize,
    given_up: u64,
}

/// How [`LeaseStats`] are shown.
#[derive(Serialize)]
#[serde(remote = "LeaseStats")]
pub(crate) struct LeaseJson {
    keys: u64,
    requests: u64,
    granted: u64,
    returned: u64,
    decided: u64,
}

impl DashboardState {
    pub(super) fn new(
        app: &AppState,
        watchers: usize,
        now: &MetricsSnapshot,
        adaptive: Vec<AdaptiveLimitView>,
        started_ms: u64,
    ) -> Self {
        let in_force = app.in_force();
        let refusals = app.service().refusals();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_ms,
            generation: now.reloads,
            keys: if refusals.shows_keys() { "shown" } else { "hashed" },
            watchers,
            nodes: in_force.engine.nodes().get(),
            policies: policies(now, app),
            connections: now.doors.iter().map(|door| (door.name, door.open)).collect(),
            store: store(app, now.store_errors),
            leases: in_force.engine.lease_stats(),
            adaptive,
        }
    }
}

/// The busiest policies with any check.
fn policies(now: &MetricsSnapshot, app: &AppState) -> BTreeMap<String, PolicyTotals> {
    let mut refused = app.service().refusals().report();
    let mut busiest: Vec<_> = now.policies.iter().filter(|policy| policy.total() > 0).collect();
    busiest.sort_by_key(|policy| std::cmp::Reverse(policy.total()));
    busiest.truncate(POLICIES_MAX);
    let since = |policy: &&PolicySnapshot| {
        let refused = refused.remove(policy.name.as_str()).unwrap_or_default();
        let &&PolicySnapshot { allowed, denied, shadow_denied, error, .. } = policy;
        let &&PolicySnapshot { fail_closed, fail_open, .. } = policy;
        let name = policy.name.clone();
        let totals =
            PolicyTotals { allowed, denied, shadow_denied, error, fail_closed, fail_open, refused };
        (name, totals)
    };
    busiest.iter().map(since).collect()
}

fn store(app: &AppState, errors: u64) -> StoreState {
    let store = app.metrics().store();
    let report = store.as_ref().map(|store| store.report()).unwrap_or_default();
    StoreState {
        kind: store.as_ref().map_or("memory", |store| store.kind),
        condition: store.as_ref().map_or("ok", |store| store.condition()),
        breaker: report.breaker.map(|(state, _)| state.as_str()),
        breaker_opened: report.breaker.map_or(0, |(_, opened)| opened),
        errors,
        outages: OutageView::all(app),
        servers: app.metrics().servers(),
        memory: report.memory.map(|MemoryStats { keys, bytes, given_up, .. }| MemoryState {
            keys,
            bytes,
            given_up,
        }),
    }
}
