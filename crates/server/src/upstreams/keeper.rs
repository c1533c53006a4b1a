//! Background work for upstreams: closes idle connections and runs health checks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Request, Uri};
use tidegate::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::Upstreams;
use super::upload::Upload;
use super::upstream::Upstream;
use tidegate_config::proxy::{HealthCheck, Times};

const EVERY: Duration = Duration::from_secs(1);

/// Maintains the upstreams in force, after a look at those of the start. Never returns.
pub(crate) async fn keep(proxy: impl Fn() -> Option<Arc<Upstreams>> + Send) {
    tokio::join!(warn_of_unreachable(proxy()), keep_up(proxy));
}

/// Says at the start which upstreams cannot be reached: a wrong address, or a site that is not up yet.
async fn warn_of_unreachable(proxy: Option<Arc<Upstreams>>) {
    let mut looks = JoinSet::new();
    for (upstream, times) in proxy.iter().flat_map(|proxy| {
        proxy.upstreams().iter().map(|upstream| (upstream.clone(), proxy.settings.times))
    }) {
        looks.spawn(async move { upstream.warn_if_unreachable(times).await });
    }
    while looks.join_next().await.is_some() {}
}

async fn keep_up(proxy: impl Fn() -> Option<Arc<Upstreams>> + Send) {
    let mut interval = tokio::time::interval(EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The next health check by name.
    let mut due_us = HashMap::new();
    loop {
        interval.tick().await;
        let Some(proxy) = proxy() else { continue };
        let keep = proxy.settings.times.keep;
        proxy.upstreams().iter().for_each(|upstream| upstream.pool.sweep(keep));
        match &proxy.settings.health {
            Some(check) => check_all(&proxy, check, &mut due_us).await,
            // Without health checks an unhealthy upstream would never recover.
            None => proxy.upstreams().iter().for_each(|upstream| {
                upstream.health.checked(true);
            }),
        }
    }
}

/// Runs all due checks concurrently, so one slow upstream delays the others by one timeout at most.
async fn check_all(proxy: &Upstreams, check: &HealthCheck, due_us: &mut HashMap<Arc<str>, u64>) {
    let now_us = SystemClock.steady_us();
    due_us.retain(|name, _| proxy.upstreams().iter().any(|upstream| upstream.name == *name));
    let mut checks = JoinSet::new();
    for upstream in proxy.upstreams() {
        let due = due_us.entry(upstream.name.clone()).or_insert(now_us);
        if *due <= now_us {
            let every_us = u64::try_from(check.every.as_micros()).unwrap_or(u64::MAX);
            *due = now_us.saturating_add(every_us);
            checks.spawn(check_one(upstream.clone(), check.clone(), proxy.settings.times));
        }
    }
    while checks.join_next().await.is_some() {}
}

async fn check_one(upstream: Arc<Upstream>, check: HealthCheck, times: Times) {
    let mut request = Request::new(Upload::empty());
    *request.uri_mut() = Uri::from(check.path);
    request.headers_mut().insert(HOST, upstream.target.authority().clone());
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tidegate health check"));
    let answered =
        tokio::time::timeout(check.timeout, upstream.send(request, times, || true)).await;
    let status = answered.ok().and_then(Result::ok).map(|(response, _)| response.status());
    let is_healthy = status.is_some_and(|status| status.as_u16() < 400);
    if upstream.health.checked(is_healthy) {
        let name = &*upstream.name;
        if is_healthy {
            tracing::info!(upstream = name, "upstream is healthy again");
        } else {
            tracing::warn!(upstream = name, ?status, "upstream is unhealthy and gets no requests");
        }
    }
}
