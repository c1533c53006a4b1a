//! Measures every forwarded request, for metrics and adaptive limits.

use std::sync::Arc;

use http::StatusCode;
use tidegate::adaptive::{Observation, Priority};
use tidegate::{Clock, SystemClock};
use tidegate_core::adaptive::UrlRequest;

use crate::metrics::UpstreamError;
use crate::service::AppState;
use crate::upstreams::failure::Failure;
use crate::upstreams::upstream::{Load, Upstream};

/// A forwarded request, from sending it until its response body has ended or the client has disconnected.
#[derive(Debug)]
pub(super) struct RequestTracker {
    /// Counts the request as in flight until dropped.
    load: Load,
    app: Arc<AppState>,
    sent_us: u64,
    /// Set until the response head has arrived.
    url_request: Option<UrlRequest>,
    /// Observations for adaptive limits, likewise.
    observations: Vec<Observation>,
}

impl RequestTracker {
    /// Starts measuring. `path` is normalised. `None` if the upstream has no capacity.
    pub(super) fn start(
        app: &Arc<AppState>,
        load: Load,
        path: &str,
        priority: Option<Priority>,
    ) -> Option<Self> {
        let observations = app.target_stats().enter(&load.upstream().name, path, priority)?;
        let url_request = Some(app.urls().begin(path));
        let sent_us = SystemClock.steady_us();
        Some(Self { load, app: app.clone(), sent_us, url_request, observations })
    }

    pub(super) const fn upstream(&self) -> &Arc<Upstream> {
        self.load.upstream()
    }

    /// The response head has arrived. The time of the body does not count: it depends on how fast the client reads.
    pub(super) fn answered(&mut self, status: StatusCode) {
        let took_us = self.end_wait();
        self.upstream().counts.answered(status, took_us);
        self.observe(took_us, !status.is_server_error());
    }

    /// The upstream did not respond.
    pub(super) fn failed(mut self, why: &Failure) {
        let is_unsent = matches!(why, Failure::PlaceLost);
        if self.count_failure(why) || is_unsent {
            self.end_wait();
        }
    }

    /// Moves the request to another upstream after a failed connect; it still counts as one request. `None` if that
    /// upstream has no capacity.
    pub(super) fn retry_on(
        mut self,
        why: &Failure,
        load: Load,
        path: &str,
        priority: Option<Priority>,
    ) -> Option<Self> {
        self.count_failure(why);
        let entered = self.app.target_stats().enter(&load.upstream().name, path, priority);
        let Some(observations) = entered else {
            self.end_wait();
            return None;
        };
        let (app, sent_us) = (self.app.clone(), SystemClock.steady_us());
        Some(Self { load, app, sent_us, url_request: self.url_request.take(), observations })
    }

    /// Counts a failure of the upstream. Returns false if the client failed.
    fn count_failure(&mut self, why: &Failure) -> bool {
        let Some(trouble) = why.upstream_error() else { return false };
        self.upstream().counts.failed(trouble);
        self.observe(SystemClock.steady_us().saturating_sub(self.sent_us), false);
        true
    }

    fn end_wait(&mut self) -> u64 {
        if let Some(request) = self.url_request.take() {
            self.app.urls().end(request);
        }
        SystemClock.steady_us().saturating_sub(self.sent_us)
    }

    fn observe(&mut self, took_us: u64, ok: bool) {
        self.observations.drain(..).for_each(|observation| observation.done(ok));
        // Fails only if too many targets are observed already; then this upstream is not.
        let _ =
            self.app.target_stats().passed(&self.upstream().name, took_us, ok, SystemClock.now());
    }
}

impl Drop for RequestTracker {
    fn drop(&mut self) {
        // The client disconnected before the upstream responded.
        if self.url_request.is_some() {
            self.end_wait();
            self.upstream().counts.failed(UpstreamError::Abandoned);
        }
    }
}
