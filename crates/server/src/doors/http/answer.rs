//! Answers, as they go over the wire. These types stop at this door.

use axum::http::HeaderMap;
use serde::{Serialize, Serializer};
use tidegate::tower::{Headers, write_retry_after};
use tidegate::{Answer, EXACT_MAX, Source, Timestamp};

use crate::headers;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<ToldHeaders>,
}

/// Names and values as an object.
struct ToldHeaders(HeaderMap);

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
            headers: None,
        }
    }
}

impl<'a> Decision<'a> {
    /// With the headers that a check of its own would be answered with.
    pub(super) fn with_headers(answer: &Answer<'a>, dialect: Headers, now: Timestamp) -> Self {
        let mut told = HeaderMap::new();
        if answer.source == Source::FailClosed {
            write_retry_after(&mut told, answer.decision.retry_after());
        } else {
            headers::add(&mut told, dialect, answer, now);
        }
        Self { headers: Some(ToldHeaders(told)), ..Self::from(answer) }
    }
}

impl Serialize for ToldHeaders {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // They are ASCII, whatever a policy is called.
        let pairs = self.0.iter();
        to.collect_map(
            pairs.map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default())),
        )
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
