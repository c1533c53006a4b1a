//! `GET /v1/status`: what runs here.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use tidegate::{Clock, SystemClock};

use super::{Api, json};
use crate::adaptive::AdaptiveLimitView;

#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_ms: u64,
    /// Where it is counted.
    store: &'static str,
    /// Whether it is left alone for a while, where it can be: `closed`, `open` or `probing`.
    breaker: Option<&'static str>,
    /// How many nodes share that, as far as is known.
    nodes: u32,
    policies: usize,
    leases: Leases,
    /// The limits that follow the load.
    adaptive: Vec<AdaptiveLimitView>,
}

/// What was taken ahead, and what became of it.
#[derive(Serialize)]
struct Leases {
    keys: u64,
    requests: u64,
    granted: u64,
    returned: u64,
    decided: u64,
}

pub(super) async fn show(State(api): State<Api>) -> Response {
    let in_force = api.app.in_force();
    let engine = &in_force.engine;
    let stats = engine.lease_stats();
    let store = api.app.metrics().store();
    let breaker = store.as_ref().and_then(|store| store.report().breaker);
    let up_us = SystemClock.now().as_micros().saturating_sub(api.started.as_micros());
    json(&Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: up_us / 1000,
        store: store.map_or("memory", |store| store.kind),
        breaker: breaker.map(|(state, _)| state.as_str()),
        nodes: engine.nodes().get(),
        policies: in_force.policies().count(),
        leases: Leases {
            keys: stats.keys,
            requests: stats.requests,
            granted: stats.granted,
            returned: stats.returned,
            decided: stats.decided,
        },
        adaptive: in_force.adaptive.limits(),
    })
}
