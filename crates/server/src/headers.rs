//! The headers that tell a client about its limit, on every HTTP door.

use std::cell::RefCell;

use axum::http::HeaderMap;
use rapidhash::RapidHashMap;
use tidegate::tower::{Headers, Label, Report};
use tidegate::{Answer, Limit, Timestamp};

/// How many labels a thread remembers.
const LABELS_MAX: usize = 256;

thread_local! {
    /// A label takes longer to write than a check takes to decide, and hardly ever changes.
    static LABELS: RefCell<RapidHashMap<Box<str>, (Limit, Label)>> = RefCell::default();
}

/// Adds what an answer tells the client.
pub(crate) fn add(headers: &mut HeaderMap, dialect: Headers, answer: &Answer<'_>, now: Timestamp) {
    if let Some(report) = report(dialect, answer, now) {
        report.write(headers);
    }
}

/// What an answer tells the client about the limit that decided. Nothing where none did, because the key is allowed or
/// blocked as such: not even when to come back. Only that where the store should have decided and did not.
pub(crate) fn report(dialect: Headers, answer: &Answer<'_>, now: Timestamp) -> Option<Report> {
    let label = label(answer.binding, answer.limit.as_ref()?);
    let headers = if answer.fails_closed() { Headers::Off } else { dialect };
    Some(Report { headers, label, decision: answer.decision, now })
}

/// The label of a limit, written anew only if the limit of this name is another one now.
fn label(name: &str, limit: &Limit) -> Label {
    LABELS.with_borrow_mut(|labels| match labels.get(name) {
        Some((known, label)) if known == limit => label.clone(),
        _ => {
            if labels.len() == LABELS_MAX {
                labels.clear();
            }
            let label = Label::new(name, limit);
            labels.insert(name.into(), (limit.clone(), label.clone()));
            label
        }
    })
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
