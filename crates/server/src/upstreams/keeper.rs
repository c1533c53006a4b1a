//! What is done for upstreams besides requests: connections that nobody needs are closed, and those who say how they do
//! are asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{HOST, HeaderValue, USER_AGENT};
use axum::http::{Request, Uri};
use tidegate::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Upstreams;
use super::upload::Upload;
use super::upstream::Upstream;
use tidegate_config::proxy::{HealthCheck, Times};

const EVERY: Duration = Duration::from_secs(1);

/// Looks after the upstreams in force. Never ends.
pub(crate) async fn keep(proxy: impl Fn() -> Option<Arc<Upstreams>> + Send) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // When each is asked again, by name. Those that are gone are forgotten.
    let mut due_us = HashMap::new();
    loop {
        interval.tick().await;
        let Some(proxy) = proxy() else { continue };
        let keep = proxy.settings.times.keep;
        proxy.upstreams().iter().for_each(|upstream| upstream.pool.sweep(keep));
        match &proxy.settings.health {
            Some(check) => check_all(&proxy, check, &mut due_us).await,
            // Nobody would ever take it back.
            None => proxy.upstreams().iter().for_each(|upstream| {
                upstream.health.checked(true);
            }),
        }
    }
}

/// All that are due at once: one that does not answer holds up nobody for longer than the timeout.
async fn check_all(proxy: &Upstreams, check: &HealthCheck, due_us: &mut HashMap<Arc<str>, u64>) {
    let now_us = SystemClock.steady_us();
    due_us.retain(|name, _| proxy.upstreams().iter().any(|upstream| upstream.name == *name));
    let mut asked = JoinSet::new();
    for upstream in proxy.upstreams() {
        let due = due_us.entry(upstream.name.clone()).or_insert(now_us);
        if *due <= now_us {
            let every_us = u64::try_from(check.every.as_micros()).unwrap_or(u64::MAX);
            *due = now_us.saturating_add(every_us);
            asked.spawn(ask(upstream.clone(), check.clone(), proxy.settings.times));
        }
    }
    while asked.join_next().await.is_some() {}
}

async fn ask(upstream: Arc<Upstream>, check: HealthCheck, times: Times) {
    let mut request = Request::new(Upload::empty());
    *request.uri_mut() = Uri::from(check.path);
    request.headers_mut().insert(HOST, upstream.target.authority().clone());
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tidegate health check"));
    let answered = tokio::time::timeout(check.timeout, upstream.send(request, times)).await;
    let status = answered.ok().and_then(Result::ok).map(|(response, _)| response.status());
    let is_well = status.is_some_and(|status| status.as_u16() < 400);
    if upstream.health.checked(is_well) {
        let name = &*upstream.name;
        if is_well {
            tracing::info!(upstream = name, "is well again");
        } else {
            tracing::warn!(upstream = name, ?status, "is unwell: gets no requests until it is not");
        }
    }
}
