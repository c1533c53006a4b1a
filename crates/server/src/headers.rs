//! The headers that tell a client about its limit, on every HTTP door.
//!
//! `RateLimit-Policy` and `RateLimit` follow draft-ietf-httpapi-ratelimit-headers-11; `X-RateLimit-*` is what
//! clients know from elsewhere, its reset in epoch seconds.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use axum::http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::{Answer, Limit, Timestamp};

const SECOND_US: u64 = 1_000_000;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds what an answer tells the client. Where no limit had a say, because the key is allowed or blocked as
/// such, there is nothing to tell.
pub(crate) fn add(headers: &mut HeaderMap, answer: &Answer<'_>, now: Timestamp) {
    let decision = &answer.decision;
    if let Some(limit) = answer.limit {
        let reset_s = decision.reset_after_us().div_ceil(SECOND_US);
        let reset_epoch_s = (now.as_micros() + decision.reset_after_us()).div_ceil(SECOND_US);
        headers.insert(POLICY, policy(answer.binding, limit));
        headers.insert(RATELIMIT, state(answer.binding, decision.remaining(), reset_s));
        headers.insert(LIMIT, decision.limit().into());
        headers.insert(REMAINING, decision.remaining().into());
        headers.insert(RESET, reset_epoch_s.into());
    }
    if !decision.allowed() {
        add_retry_after(headers, decision.retry_after_us());
    }
}

/// Adds when to come back, unless that is never.
pub(crate) fn add_retry_after(headers: &mut HeaderMap, retry_after_us: Option<u64>) {
    if let Some(us) = retry_after_us {
        headers.insert(RETRY_AFTER, retry_after_s(us, RandomState::new().hash_one(())).into());
    }
}

/// Whole seconds, at least one, and up to a fifth more by chance, so that those refused together do not all
/// come back together. Never less than the wait, and never more than a fifth above it.
fn retry_after_s(us: u64, random: u64) -> u64 {
    let seconds = us.div_ceil(SECOND_US).max(1);
    seconds + random % (seconds / 5 + 1)
}

/// `"api";q=100;w=60`. A window that is no whole number of seconds is left out: the draft has no word for it.
fn policy(name: &str, limit: &Limit) -> HeaderValue {
    let mut text = quoted(name);
    let _ = write!(text, ";q={}", limit.units());
    let period = limit.period();
    if period.subsec_nanos() == 0 && !matches!(limit, Limit::Concurrency(_)) {
        let _ = write!(text, ";w={}", period.as_secs());
    }
    value(text)
}

/// `"api";r=19;t=1`.
fn state(name: &str, remaining: u64, reset_s: u64) -> HeaderValue {
    let mut text = quoted(name);
    let _ = write!(text, ";r={remaining};t={reset_s}");
    value(text)
}

/// A name as a structured-field string: printable ASCII, with `"` and `\` escaped and the rest replaced.
fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 40);
    text.push('"');
    for char in name.chars() {
        match char {
            '"' | '\\' => text.extend(['\\', char]),
            ' '..='~' => text.push(char),
            _ => text.push('_'),
        }
    }
    text.push('"');
    text
}

/// Infallible in truth: what [`quoted`] lets through is what a header may hold.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Engine, ManualClock, Override, Policy};

    use super::*;

    fn check(
        policy: impl TryInto<Policy, Error: Into<tidegate::LimitError>>,
        expected: &[(&str, &str)],
    ) {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_250_000));
        let engine = Engine::builder().clock(clock).policy("p\"ö", policy).build().unwrap();
        let mut headers = HeaderMap::new();
        let answer = engine.check("p\"ö", "k").unwrap();
        add(&mut headers, &answer, Timestamp::from_micros(1_700_000_000_250_000));
        let got: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_answer_tells_the_rate_and_what_is_left() {
        check(
            "100/min burst 20",
            &[
                ("ratelimit-policy", "\"p\\\"_\";q=100;w=60"),
                ("ratelimit", "\"p\\\"_\";r=19;t=1"),
                ("x-ratelimit-limit", "20"),
                ("x-ratelimit-remaining", "19"),
                ("x-ratelimit-reset", "1700000001"),
            ],
        );
        check(
            "10/500ms",
            &[
                ("ratelimit-policy", "\"p\\\"_\";q=10"),
                ("ratelimit", "\"p\\\"_\";r=9;t=1"),
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

    #[test]
    fn retry_after_stays_within_a_fifth_above_the_wait() {
        for (wait, from_s, to_s) in [
            (Duration::from_micros(1), 1, 1),
            (Duration::from_millis(1001), 2, 2),
            (Duration::from_secs(10), 10, 12),
            (Duration::from_secs(3599), 3599, 4318),
        ] {
            let us = u64::try_from(wait.as_micros()).unwrap();
            let all: Vec<u64> = (0..10_000).map(|random| retry_after_s(us, random)).collect();
            assert_eq!(all.iter().min(), Some(&from_s), "{wait:?}");
            assert_eq!(all.iter().max(), Some(&to_s), "{wait:?}");
        }
    }
}
