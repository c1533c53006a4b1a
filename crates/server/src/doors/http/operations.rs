//! What operators ask, and what they are told of every check.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use tidegate::{Answer, Check, CheckError, Clock, Reservation, SystemClock, Timestamp};

use crate::gate::Gate;
use crate::metrics::{self, DoorName};

/// `GET /metrics`, for Prometheus.
pub(super) async fn metrics(State(gate): State<Arc<Gate>>) -> impl IntoResponse {
    let page = gate.metrics().render(&gate);
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page)
}

/// Tells what became of the checks of one request.
pub(crate) struct Told<'a> {
    gate: &'a Gate,
    door: DoorName,
    since_us: u64,
    began: Timestamp,
}

impl<'a> Told<'a> {
    /// Once the request was read: how long it took to arrive is its sender's doing.
    pub(crate) fn begin(gate: &'a Gate, door: DoorName) -> Self {
        let (since_us, began) = (SystemClock.steady_us(), SystemClock.now());
        Self { gate, door, since_us, began }
    }

    /// When that was: from before it was decided, so that the end of a window does not seem to be just after its edge.
    pub(crate) const fn began(&self) -> Timestamp {
        self.began
    }

    pub(crate) fn decided(&self, check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) {
        self.gate.tell(check, answer);
        self.gate.metrics().took_alone(self.door, check.policy, self.since_us);
    }

    pub(crate) fn reserved(&self, check: &Check<'_>, place: Result<Reservation, &CheckError>) {
        self.gate.tell_reserved(check, place);
        self.gate.metrics().took_alone(self.door, check.policy, self.since_us);
    }
}
