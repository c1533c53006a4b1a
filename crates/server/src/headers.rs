//! The headers that tell a client about its limit, on every HTTP door.

use axum::http::HeaderMap;
use tidegate::tower::{Headers, Label, Report, write_retry_after};
use tidegate::{Answer, Timestamp};

/// Adds what an answer tells the client. Where no limit had a say, because the key is allowed or blocked as
/// such, there is nothing to tell but when to come back.
pub(crate) fn add(headers: &mut HeaderMap, dialect: Headers, answer: &Answer<'_>, now: Timestamp) {
    let decision = answer.decision;
    let Some(limit) = &answer.limit else {
        if !decision.allowed() {
            write_retry_after(headers, decision.retry_after());
        }
        return;
    };
    let label = Label::new(answer.binding, limit);
    Report { headers: dialect, label, decision, now }.write(headers);
}

#[cfg(test)]
mod tests {
    use tidegate::{Engine, ManualClock, Override, Policy};

    use super::*;

    fn check(
        policy: impl TryInto<Policy, Error: Into<tidegate::LimitError>>,
        expected: &[(&str, &str)],
    ) {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_250_000));
        let engine = Engine::builder().clock(clock).policy("p\"ö", policy).build().unwrap();
        let mut headers = HeaderMap::new();
        let answer = engine.check("p\"ö", "k").now().unwrap();
        add(
            &mut headers,
            Headers::LegacyEpoch,
            &answer,
            Timestamp::from_micros(1_700_000_000_250_000),
        );
        let got: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_answer_tells_the_rate_and_what_is_left() {
        check(
            "100/min burst 20",
            &[
                ("ratelimit-policy", "\"p\\\"?\";q=100;w=60"),
                ("ratelimit", "\"p\\\"?\";r=19;t=1"),
                ("x-ratelimit-limit", "20"),
                ("x-ratelimit-remaining", "19"),
                ("x-ratelimit-reset", "1700000001"),
            ],
        );
        check(
            "10/500ms",
            &[
                ("ratelimit-policy", "\"p\\\"?\";q=10"),
                ("ratelimit", "\"p\\\"?\";r=9;t=1"),
                ("x-ratelimit-limit", "10"),
                ("x-ratelimit-remaining", "9"),
                ("x-ratelimit-reset", "1700000001"),
            ],
        );
    }

    #[test]
    fn a_key_that_no_limit_decided_on_is_told_nothing() {
        let limited = || Policy::all().limit("", "1/s");
        check(limited().with_override("k", Override::Allow), &[]);
        check(limited().with_override("k", Override::Block), &[]);
    }
}
