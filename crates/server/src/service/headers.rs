//! The rate limit headers of every HTTP door.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use tidegate::tower::{Headers, Label, Report};
use tidegate::{Answer, Limit, PolicyView, Timestamp};
use tidegate_config::plan::UNCAPPED_UNITS;

/// The labels of a policy's limits, cached: writing a label takes longer than a decision, and labels rarely change.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    declared: Vec<Labelled>,
    /// The last one of a changed limit: by an override or by the load.
    other: ArcSwapOption<Labelled>,
}

#[derive(Debug)]
struct Labelled {
    name: Box<str>,
    limit: Limit,
    label: Label,
}

impl Labelled {
    fn new(name: &str, limit: &Limit) -> Self {
        Self { name: name.into(), limit: limit.clone(), label: Label::new(name, limit) }
    }

    fn is(&self, name: &str, limit: &Limit) -> bool {
        *self.name == *name && self.limit == *limit
    }
}

impl Labels {
    pub(crate) fn new(policy: PolicyView<'_>) -> Self {
        let name =
            |own: &'_ str| if own.is_empty() { policy.name().to_owned() } else { own.to_owned() };
        let declared =
            policy.members().map(|member| Labelled::new(&name(&member.name), &member.limit));
        Self { declared: declared.collect(), other: ArcSwapOption::empty() }
    }

    fn find(&self, name: &str, limit: &Limit) -> Label {
        if let Some(known) = self.declared.iter().find(|known| known.is(name, limit)) {
            return known.label.clone();
        }
        if let Some(known) = &*self.other.load()
            && known.is(name, limit)
        {
            return known.label.clone();
        }
        let new = Labelled::new(name, limit);
        let label = new.label.clone();
        self.other.store(Some(Arc::new(new)));
        label
    }
}

/// Adds the headers of an answer.
pub(crate) fn add(
    headers: &mut HeaderMap,
    dialect: Headers,
    answer: &Answer<'_>,
    labels: &Labels,
    now: Timestamp,
) {
    if let Some(report) = report(dialect, answer, labels, now) {
        report.write(headers);
    }
}

/// The headers of the limit that decided. None where an override allowed or blocked the key: no limit decided. Only
/// `Retry-After` where the store failed and the policy denies.
pub(crate) fn report(
    dialect: Headers,
    answer: &Answer<'_>,
    labels: &Labels,
    now: Timestamp,
) -> Option<Report> {
    let limit = answer.limit.as_ref()?;
    // A number that stands for no limit means nothing to a client.
    if limit.units() == UNCAPPED_UNITS {
        return None;
    }
    let label = labels.find(answer.binding, limit);
    let headers = if answer.fails_closed() { Headers::OFF } else { dialect };
    Some(Report { headers, label, decision: answer.decision, now })
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
        let policy = engine.policy_ref("p\"ö").unwrap();
        let (answer, labels) = (policy.check("k").now().unwrap(), Labels::new(*policy));
        let now = Timestamp::from_micros(1_700_000_000_250_000);
        add(&mut headers, Headers::default(), &answer, &labels, now);
        let got: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn headers_have_the_rate_and_the_remaining_units() {
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
    fn without_a_deciding_limit_there_are_no_headers() {
        let limited = || Policy::all().limit("", "1/s");
        check(limited().with_override("k", Override::Allow), &[]);
        check(limited().with_override("k", Override::Block), &[]);
    }

    #[test]
    fn a_label_shows_the_units_in_force() {
        let effective = tidegate::Effective::default();
        let policy = Policy::all().limit("", "fixed-window 100/h").adaptive("", &effective);
        let engine = Engine::builder().policy("api", policy).build().unwrap();
        let policy = engine.policy_ref("api").unwrap();
        let labels = Labels::new(*policy);
        for (units, expected) in [(u64::MAX, 100), (50, 50), (50, 50), (20, 20), (u64::MAX, 100)] {
            effective.set(units);
            let mut headers = HeaderMap::new();
            let answer = policy.check("k").now().unwrap();
            add(&mut headers, Headers::STANDARD, &answer, &labels, Timestamp::EPOCH);
            let written = headers["ratelimit-policy"].to_str().unwrap();
            assert_eq!(written, format!("\"api\";q={expected};w=3600"));
        }
    }
}
