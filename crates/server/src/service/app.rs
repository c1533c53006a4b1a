//! What all doors share: the service and the statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::Guard;
use tidegate::{Clock, SystemClock};

use super::{Call, CheckService, Draft, InForce};
use crate::adaptive::AdaptiveLimitView;
use crate::logs::KeyLabels;
use crate::metrics::{Door, Figures, Metrics, URLS_MAX};
use crate::stats::{TargetStats, UrlStats};
use tidegate_request::Peer;

/// The state of the server. It outlives reloads.
#[derive(Debug)]
pub(crate) struct AppState {
    service: CheckService,
    target_stats: Arc<TargetStats>,
    urls: UrlStats,
    is_draining: AtomicBool,
}

impl AppState {
    #[cfg(test)]
    pub(crate) fn new(draft: Draft) -> Arc<Self> {
        Self::with_labels(draft, KeyLabels::new(None, false))
    }

    pub(crate) fn with_labels(draft: Draft, labels: KeyLabels) -> Arc<Self> {
        let target_stats = draft.target_stats().clone();
        let (service, urls) = (CheckService::new(draft, labels), UrlStats::default());
        let is_draining = AtomicBool::new(false);
        Arc::new(Self { service, target_stats, urls, is_draining })
    }

    pub(crate) const fn service(&self) -> &CheckService {
        &self.service
    }

    /// See [`CheckService::wrong_secret`].
    pub(crate) fn wrong_secret(&self, door: Door, peer: Peer) {
        self.service.wrong_secret(door, peer);
    }

    /// See [`CheckService::in_force`].
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.service.in_force()
    }

    /// Begins a request that a door has read.
    pub(crate) fn call<'s>(&'s self, in_force: &'s InForce, door: Door) -> Call<'s> {
        self.service.call(in_force, door)
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        self.service.metrics()
    }

    pub(crate) const fn target_stats(&self) -> &Arc<TargetStats> {
        &self.target_stats
    }

    pub(crate) const fn urls(&self) -> &UrlStats {
        &self.urls
    }

    /// The adaptive limits, with their URLs as they may be shown.
    pub(crate) fn adaptive_limits(&self) -> Vec<AdaptiveLimitView> {
        let mut limits = self.in_force().adaptive.limits();
        let labels = self.service.events().labels();
        for limit in limits.iter_mut().filter(|limit| limit.is_by_url) {
            limit.binding = limit.binding.take().map(|url| labels.public(url));
        }
        limits
    }

    /// Calls `then` with what is counted outside the metrics.
    pub(crate) fn with_figures(&self, then: &mut dyn FnMut(&Figures<'_>)) {
        let in_force = self.in_force();
        let adaptive = &in_force.adaptive;
        let limits = adaptive.limits().into_iter();
        let labels = self.service.events().labels();
        let shown_url =
            |(url, summary): (Option<String>, _)| (url.map(|it| labels.public(it)), summary);
        let seen = self.target_stats.summaries(SystemClock.now()).into_iter();
        then(&Figures {
            upstreams: in_force.upstreams().collect(),
            pressures: adaptive.pressures(),
            failing_signals: adaptive.failing_signals(),
            effective: limits.map(|limit| (limit.label(), limit.in_force())).collect(),
            shares: in_force.shares(),
            p99_us: seen.map(|(target, summary)| (target, summary.p99_us)).collect(),
            urls: self.urls.busiest(URLS_MAX).into_iter().map(shown_url).collect(),
            in_flight: in_force.in_flight.as_ref().map(|bound| bound.figures()),
            leases: in_force.engine.lease_stats(),
            dropped_log_lines: self.service.dropped_log_lines(),
        });
    }

    /// Reports from now on that the server drains. It keeps serving.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
