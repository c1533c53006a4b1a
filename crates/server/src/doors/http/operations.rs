//! What operators ask, and what they are told of every check.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tidegate::{Answer, Check, CheckError, Clock, Reservation, SystemClock};

use crate::gate::Gate;
use crate::metrics::{self, DoorName, Metrics};

/// `GET /metrics`, for Prometheus.
pub(super) async fn metrics(State(gate): State<Arc<Gate>>) -> impl IntoResponse {
    let page = gate.metrics().render(&gate.now().engine);
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page)
}

/// Tells what became of the checks of one request.
pub(super) struct Told<'a> {
    metrics: &'a Metrics,
    since_us: u64,
}

impl<'a> Told<'a> {
    /// Once the request was read: how long it took to arrive is its sender's doing.
    pub(super) fn begin(metrics: &'a Metrics) -> Self {
        Self { metrics, since_us: SystemClock.steady_us() }
    }

    pub(super) fn decided(&self, check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) {
        match answer {
            Ok(answer) => self.metrics.decided(answer, 1),
            Err(error) => self.metrics.errored(check.policy, error, 1),
        }
        self.took();
    }

    pub(super) fn reserved(&self, check: &Check<'_>, place: &Result<Reservation, CheckError>) {
        match place {
            Ok(reservation) => self.metrics.reserved(check.policy, reservation),
            Err(error) => self.metrics.errored(check.policy, error, 1),
        }
        self.took();
    }

    fn took(&self) {
        self.metrics.took(DoorName::Http, self.since_us, 1);
    }
}
