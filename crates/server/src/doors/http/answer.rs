//! Encodes answers as JSON.
//!
//! Nearly all answers are decisions. They are written without serde, which would check every field name for escapes.

use serde::Serialize;
use tidegate::tower::{Headers, Report};
use tidegate::{Answer, EXACT_MAX, Timestamp};

use crate::service::headers::{self, Labels};

/// The approximate size of a decision.
pub(super) const DECISION_BYTES: usize = 192;

#[derive(Serialize)]
pub(super) struct Reservation {
    accepted: bool,
    delay_ms: u64,
    retry_after_ms: Option<u64>,
}

/// Appends a decision.
pub(super) fn write(out: &mut Vec<u8>, answer: &Answer<'_>) {
    write_fields(out, answer);
    out.push(b'}');
}

/// A permit as text, and how long it is held if nobody renews it.
pub(super) struct Granted {
    pub(super) permit: String,
    pub(super) ttl_ms: Option<u64>,
}

/// Appends a decision and its permit.
pub(super) fn write_acquired(out: &mut Vec<u8>, answer: &Answer<'_>, granted: Option<&Granted>) {
    write_fields(out, answer);
    put(out, ",\"permit\":");
    json(out, &granted.map(|granted| &granted.permit));
    if let Some(ttl_ms) = granted.and_then(|granted| granted.ttl_ms) {
        number(out, ",\"ttl_ms\":", ttl_ms);
    }
    out.push(b'}');
}

/// Appends the answers to a batch, in order; with `dialect`, each with the headers of a single check.
pub(super) fn write_batch<'a>(
    out: &mut Vec<u8>,
    answers: impl Iterator<Item = (&'a Answer<'a>, &'a Labels)>,
    dialect: Option<Headers>,
    now: Timestamp,
) {
    put(out, "{\"decisions\":[");
    for (index, (answer, labels)) in answers.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_fields(out, answer);
        if let Some(dialect) = dialect {
            put(out, ",\"headers\":");
            write_headers(out, headers::report(dialect, answer, labels, now));
        }
        out.push(b'}');
    }
    put(out, "]}");
}

/// Appends the headers as an object.
fn write_headers(out: &mut Vec<u8>, report: Option<Report>) {
    out.push(b'{');
    let mut is_first = true;
    if let Some(report) = report {
        report.each(|name, value| {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            json(out, name.as_str());
            out.push(b':');
            json(out, value);
        });
    }
    out.push(b'}');
}

/// Appends all fields without the closing brace, so that others can follow.
fn write_fields(out: &mut Vec<u8>, answer: &Answer<'_>) {
    let decision = &answer.decision;
    put(out, if decision.allowed() { "{\"allowed\":true" } else { "{\"allowed\":false" });
    // An unlimited key reports the largest exact JSON number.
    number(out, ",\"limit\":", decision.limit().min(EXACT_MAX));
    number(out, ",\"remaining\":", decision.remaining().min(EXACT_MAX));
    match decision.retry_after_us() {
        Some(us) => number(out, ",\"retry_after_ms\":", millis_up(us)),
        None => put(out, ",\"retry_after_ms\":null"),
    }
    number(out, ",\"reset_after_ms\":", millis_up(decision.reset_after_us()));
    put(out, ",\"policy\":");
    json(out, answer.policy);
    put(out, ",\"binding\":");
    json(out, answer.binding);
    put(out, ",\"source\":\"");
    put(out, answer.source.as_str());
    out.push(b'"');
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, name: &str, number: u64) {
    put(out, name);
    put(out, itoa::Buffer::new().format(number));
}

/// A value that may need escapes.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out, value);
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

/// Rounded up, so that a client that waits that long is not too early.
fn millis_up(us: u64) -> u64 {
    us.div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tidegate::{Decision, Engine, Source};

    use super::*;

    fn answer<'a>(policy: &'a str, binding: &'a str, decision: Decision) -> Answer<'a> {
        let (limit, source) = (None, Source::Store);
        Answer { decision, policy, binding, limit, source, store_error: None, shadow_denied: false }
    }

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    proptest! {
        #[test]
        fn a_decision_is_valid_json_for_any_policy_name(
            (policy, binding) in any::<(String, String)>(),
            (allowed, limit, remaining) in any::<(bool, u64, u64)>(),
            (retry_after_us, reset_after_us) in (any::<Option<u64>>(), any::<u64>()),
        ) {
            let decision = if allowed {
                Decision::admitted(limit, remaining, reset_after_us)
            } else {
                Decision::refused(limit, remaining, retry_after_us, reset_after_us)
            };
            let retry_after_us = decision.retry_after_us();
            let expected = json!({
                "allowed": allowed,
                "limit": limit.min(EXACT_MAX),
                "remaining": remaining.min(EXACT_MAX),
                "retry_after_ms": retry_after_us.map(|us| us.div_ceil(1000)),
                "reset_after_ms": reset_after_us.div_ceil(1000),
                "policy": policy,
                "binding": binding,
                "source": "store",
            });
            let answer = answer(&policy, &binding, decision);
            prop_assert_eq!(written(|out| write(out, &answer)), expected.clone());
            let mut acquired = expected.clone();
            acquired["permit"] = Value::Null;
            prop_assert_eq!(written(|out| write_acquired(out, &answer, None)), acquired.clone());
            acquired["permit"] = policy.clone().into();
            acquired["ttl_ms"] = limit.into();
            let granted = Granted { permit: policy.clone(), ttl_ms: Some(limit) };
            prop_assert_eq!(written(|out| write_acquired(out, &answer, Some(&granted))), acquired);
            let all = [answer.clone(), answer];
            let labels = Labels::default();
            for count in 0..=all.len() {
                let some = all[..count].iter().map(|answer| (answer, &labels));
                let batch = written(|out| write_batch(out, some, None, Timestamp::EPOCH));
                prop_assert_eq!(batch, json!({ "decisions": vec![&expected; count] }));
            }
        }
    }

    #[test]
    fn each_decision_of_a_batch_has_headers_in_the_configured_dialect() {
        let engine = Engine::builder().policy("p\"", "100/min burst 20").build().unwrap();
        let policy = engine.policy_ref("p\"").unwrap();
        let (limited, labels) = (policy.check("k").now().unwrap(), Labels::new(*policy));
        let all = [limited, answer("p", "p", Decision::unlimited())];
        let headers_of = |dialect| {
            let all = all.iter().map(|answer| (answer, &labels));
            let batch = written(|out| write_batch(out, all, Some(dialect), Timestamp::EPOCH));
            [0, 1].map(|index| batch["decisions"][index]["headers"].clone())
        };
        let expected = json!({ "ratelimit-policy": "\"p\\\"\";q=100;w=60", "ratelimit": "\"p\\\"\";r=19;t=1" });
        assert_eq!(headers_of(Headers::STANDARD), [expected, json!({})]);
        assert_eq!(headers_of(Headers::OFF), [json!({}), json!({})]);
    }
}
