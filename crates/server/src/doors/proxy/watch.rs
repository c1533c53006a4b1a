//! What is measured of every request that is passed on. Whoever wants to learn from it, learns it here.

use std::sync::Arc;

use axum::http::StatusCode;
use tidegate::adaptive::{Observation, Priority};
use tidegate::{Clock, SystemClock};
use tidegate_core::adaptive::UrlRequest;

use crate::metrics::UpstreamTrouble;
use crate::service::AppState;
use crate::upstreams::failure::Failure;
use crate::upstreams::upstream::{Load, Upstream};

/// A request on its way: from when it left until its answer's body has ended, or whoever waited has gone.
#[derive(Debug)]
pub(super) struct Watch {
    /// Counts it as under way for as long as it is.
    load: Load,
    app: Arc<AppState>,
    sent_us: u64,
    /// Until the head of its answer is there.
    waiting: Option<UrlRequest>,
    /// The same, for limits that follow it.
    passing: Vec<Observation>,
}

impl Watch {
    /// It leaves now, to whoever has the load, for a path in its only spelling.
    /// `None` if there is no room for it behind.
    pub(super) fn begin(
        app: &Arc<AppState>,
        load: Load,
        path: &str,
        priority: Option<Priority>,
    ) -> Option<Self> {
        let passing = app.observed().enter(&load.upstream().name, path, priority)?;
        let waiting = Some(app.urls().begin(path));
        let sent_us = SystemClock.steady_us();
        Some(Self { load, app: app.clone(), sent_us, waiting, passing })
    }

    pub(super) const fn upstream(&self) -> &Arc<Upstream> {
        self.load.upstream()
    }

    /// The head of the answer is there. The rest of its time is the client's, who may read slowly.
    pub(super) fn answered(&mut self, status: StatusCode) {
        let took_us = self.ended();
        self.upstream().counts.answered(status, took_us);
        self.note(took_us, !status.is_server_error());
    }

    /// No answer will come.
    pub(super) fn failed(mut self, why: &Failure) {
        if self.missed(why) {
            self.ended();
        }
    }

    /// Nobody was there to take it: it goes to whoever has the load, and is one request for whoever counts them.
    /// `None` if there is no room for it there.
    pub(super) fn onwards(
        mut self,
        why: &Failure,
        load: Load,
        path: &str,
        priority: Option<Priority>,
    ) -> Option<Self> {
        self.missed(why);
        let entered = self.app.observed().enter(&load.upstream().name, path, priority);
        let Some(passing) = entered else {
            self.ended();
            return None;
        };
        let (app, sent_us) = (self.app.clone(), SystemClock.steady_us());
        Some(Self { load, app, sent_us, waiting: self.waiting.take(), passing })
    }

    /// Counts a failure of whom it went to. Whether it was one, and not the client's.
    fn missed(&mut self, why: &Failure) -> bool {
        let Some(trouble) = why.trouble() else { return false };
        self.upstream().counts.failed(trouble);
        self.note(SystemClock.steady_us().saturating_sub(self.sent_us), false);
        true
    }

    fn ended(&mut self) -> u64 {
        if let Some(ticket) = self.waiting.take() {
            self.app.urls().end(ticket);
        }
        SystemClock.steady_us().saturating_sub(self.sent_us)
    }

    fn note(&mut self, took_us: u64, ok: bool) {
        self.passing.drain(..).for_each(|observation| observation.done(ok));
        // There are far fewer upstreams than may be observed; if others have taken all places, ours is not among them.
        let _ = self.app.observed().passed(&self.upstream().name, took_us, ok, SystemClock.now());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The client has gone: nothing is known of the upstream, but that it was not done yet.
        if self.waiting.is_some() {
            self.ended();
            self.upstream().counts.failed(UpstreamTrouble::Abandoned);
        }
    }
}
