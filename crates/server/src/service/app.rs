//! What all doors share: the service that answers, and what is known besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::Guard;
use tidegate::{Clock, SystemClock};

use super::{Call, CheckService, Draft, InForce};
use crate::metrics::{DoorName, Figures, Metrics, URLS_MAX};
use crate::stats::TargetStats;
use crate::stats::UrlStats;

/// The state of the server. It outlives reloads.
#[derive(Debug)]
pub(crate) struct AppState {
    service: CheckService,
    target_stats: Arc<TargetStats>,
    urls: UrlStats,
    is_draining: AtomicBool,
}

impl AppState {
    /// With a first configuration.
    pub(crate) fn new(draft: Draft) -> Arc<Self> {
        let target_stats = draft.target_stats().clone();
        let (service, urls) = (CheckService::new(draft), UrlStats::default());
        let is_draining = AtomicBool::new(false);
        Arc::new(Self { service, target_stats, urls, is_draining })
    }

    pub(crate) const fn service(&self) -> &CheckService {
        &self.service
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.service.in_force()
    }

    /// A request that was read at a door.
    pub(crate) fn call<'s>(&'s self, in_force: &'s InForce, door: DoorName) -> Call<'s> {
        self.service.call(in_force, door)
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        self.service.metrics()
    }

    /// What is known of the services behind.
    pub(crate) const fn target_stats(&self) -> &Arc<TargetStats> {
        &self.target_stats
    }

    /// What is known of every URL that requests were passed on for.
    pub(crate) const fn urls(&self) -> &UrlStats {
        &self.urls
    }

    /// Hands over what others than the metrics count, at this instant.
    pub(crate) fn with_figures(&self, then: &mut dyn FnMut(&Figures<'_>)) {
        let in_force = self.in_force();
        let adaptive = &in_force.adaptive;
        let limits = adaptive.limits().into_iter();
        let seen = self.target_stats.summaries(SystemClock.now()).into_iter();
        then(&Figures {
            upstreams: in_force.upstreams().collect(),
            pressures: adaptive.pressures(),
            effective: limits.map(|moving| (moving.label(), moving.in_force())).collect(),
            p99_us: seen.map(|(target, summary)| (target, summary.p99_us)).collect(),
            urls: self.urls.busiest(URLS_MAX),
            leases: in_force.engine.lease_stats(),
            dropped_log_lines: self.service.dropped_log_lines(),
        });
    }

    /// Says from now on that the server is about to end. It serves on.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
