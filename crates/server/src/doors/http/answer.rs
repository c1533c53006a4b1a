//! Answers, as they go over the wire. These types stop at this door.

use serde::Serialize;
use tidegate::{Answer, EXACT_MAX};

/// A decision, as clients know it.
#[derive(Serialize)]
pub(super) struct Decision<'a> {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    policy: &'a str,
    binding: &'a str,
    source: &'static str,
}

/// The answers to a batch, in order.
#[derive(Serialize)]
pub(super) struct BatchAnswer<'a> {
    pub(super) decisions: Vec<Decision<'a>>,
}

/// A place in a queue, or none.
#[derive(Serialize)]
pub(super) struct Reservation {
    accepted: bool,
    delay_ms: u64,
    retry_after_ms: Option<u64>,
}

impl<'a> From<&Answer<'a>> for Decision<'a> {
    fn from(answer: &Answer<'a>) -> Self {
        let decision = &answer.decision;
        Self {
            allowed: decision.allowed(),
            // A key without a limit has all that a JSON number can hold.
            limit: decision.limit().min(EXACT_MAX),
            remaining: decision.remaining().min(EXACT_MAX),
            retry_after_ms: decision.retry_after_us().map(millis_up),
            reset_after_ms: millis_up(decision.reset_after_us()),
            policy: answer.policy,
            binding: answer.binding,
            source: answer.source.as_str(),
        }
    }
}

impl From<&tidegate::Reservation> for Reservation {
    fn from(reservation: &tidegate::Reservation) -> Self {
        Self {
            accepted: reservation.accepted(),
            delay_ms: millis_up(reservation.delay_us()),
            retry_after_ms: reservation.retry_after_us().map(millis_up),
        }
    }
}

/// Rounded up: who waits that long has waited long enough.
fn millis_up(us: u64) -> u64 {
    us.div_ceil(1000)
}
