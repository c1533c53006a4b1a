//! `GET /v1/status`: version, store, leases, adaptive limits and places at the upstreams.

use serde::Serialize;
use tidegate::{Clock, LeaseStats, SystemClock};

use super::{ApiRequest, HandlerResult, json};
use crate::adaptive::AdaptiveLimitView;
use crate::dashboard::LeaseJson;
use crate::metrics::InFlightFigures;
use crate::service::OutageView;

#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_ms: u64,
    /// The kind of the store.
    store: &'static str,
    /// The state of the breaker, if the store has one: `closed`, `open` or `probing`.
    breaker: Option<&'static str>,
    /// One for each store that does not serve.
    outages: Vec<OutageView>,
    /// Known nodes that share the store.
    nodes: u32,
    policies: usize,
    #[serde(with = "LeaseJson")]
    leases: LeaseStats,
    adaptive: Vec<AdaptiveLimitView>,
    /// `proxy.in_flight`.
    in_flight: Option<InFlightFigures>,
}

pub(super) async fn show(ApiRequest { api, .. }: ApiRequest) -> HandlerResult {
    let in_force = api.app.in_force();
    let engine = &in_force.engine;
    let store = api.app.metrics().store();
    let breaker = store.as_ref().and_then(|store| store.report().breaker);
    let up_us = SystemClock.now().as_micros().saturating_sub(api.started.as_micros());
    Ok(json(&Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: up_us / 1000,
        store: store.map_or("memory", |store| store.kind),
        breaker: breaker.map(|(state, _)| state.as_str()),
        outages: OutageView::all(&api.app),
        nodes: engine.nodes().get(),
        policies: in_force.policies().count(),
        leases: engine.lease_stats(),
        adaptive: api.app.adaptive_limits(),
        in_flight: in_force.in_flight.as_ref().map(|bound| bound.figures()),
    }))
}
