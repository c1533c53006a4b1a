//! What is measured of every request that is passed on. Whoever wants to learn from it, learns it here.

use std::sync::Arc;

use axum::http::StatusCode;
use tidegate::{Clock, SystemClock};

use super::failure::Failure;
use super::upstream::{Load, Upstream};
use crate::gate::Gate;
use crate::metrics::UpstreamTrouble;
use crate::observed::Observed;

/// A request on its way: from when it left until its answer's body has ended, or whoever waited has gone.
#[derive(Debug)]
pub(super) struct Watch {
    /// Counts it as under way for as long as it is.
    load: Load,
    observed: Arc<Observed>,
    sent_us: u64,
    is_answered: bool,
}

impl Watch {
    /// It leaves now. `_url` is its path in the only spelling, without the query: for statistics by URL.
    pub(super) fn begin(gate: &Gate, load: Load, _url: &str) -> Self {
        let observed = gate.observed().clone();
        Self { load, observed, sent_us: SystemClock.steady_us(), is_answered: false }
    }

    pub(super) const fn upstream(&self) -> &Arc<Upstream> {
        self.load.upstream()
    }

    /// The head of the answer is there. The rest of its time is the client's, who may read slowly.
    pub(super) fn answered(&mut self, status: StatusCode) {
        let took_us = self.took_us();
        self.is_answered = true;
        self.upstream().counts.answered(status, took_us);
        self.note(took_us, !status.is_server_error());
    }

    /// No answer will come.
    pub(super) fn failed(mut self, why: &Failure) {
        let Some(trouble) = why.trouble() else { return };
        self.is_answered = true;
        self.upstream().counts.failed(trouble);
        self.note(self.took_us(), false);
    }

    fn took_us(&self) -> u64 {
        SystemClock.steady_us().saturating_sub(self.sent_us)
    }

    fn note(&self, took_us: u64, ok: bool) {
        // There are far fewer upstreams than may be observed; if others have taken all places, ours is not among them.
        let _ = self.observed.note(&self.upstream().name, took_us, ok, SystemClock.now());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The client has gone: nothing is known of the upstream, but that it was not done yet.
        if !self.is_answered {
            self.upstream().counts.failed(UpstreamTrouble::Abandoned);
        }
    }
}
