//! What was decided, by policy. One counter per check: how it ended and who decided are two views of the same.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rapidhash::RapidHashMap;
use tidegate::Source;
use tidegate_config::{BY_REQUEST, UNKNOWN};

use super::histogram::{Histogram, Times};
use super::striped::Striped;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Allowed,
    Denied,
    /// Allowed, because the policy is only tried out.
    ShadowDenied,
    Error,
}

impl Status {
    pub(super) const ALL: [Self; 4] =
        [Self::Allowed, Self::Denied, Self::ShadowDenied, Self::Error];

    pub(super) const fn of(allowed: bool) -> Self {
        if allowed { Self::Allowed } else { Self::Denied }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::Error => "error",
        }
    }
}

/// How a check ended, and who decided, where anybody did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) status: Status,
    pub(super) source: Option<Source>,
}

/// Every source, and none.
const SOURCES: usize = Source::ALL.len() + 1;

impl Outcome {
    fn index(self) -> usize {
        let source = self.source.map_or(Source::ALL.len(), |source| source as usize);
        self.status as usize * SOURCES + source
    }
}

/// The counts of one policy, and how long its answers took.
#[derive(Debug, Default)]
pub(super) struct Tally {
    ended: Striped<{ Status::ALL.len() * SOURCES }>,
    times: Histogram,
}

/// The counts of one policy, as they were at one instant.
pub(super) struct Counts([u64; Status::ALL.len() * SOURCES]);

impl Tally {
    pub(super) fn read(&self) -> Counts {
        Counts(self.ended.read())
    }

    pub(super) fn times(&self) -> Times {
        self.times.times()
    }
}

impl Counts {
    pub(super) fn ended(&self, status: Status) -> u64 {
        let first = status as usize * SOURCES;
        self.0[first..first + SOURCES].iter().sum()
    }

    pub(super) fn decided_by(&self, source: Source) -> u64 {
        self.0.iter().skip(source as usize).step_by(SOURCES).sum()
    }
}

type Named = RapidHashMap<Box<str>, Arc<Tally>>;

/// The counts of all policies, found by name: the engine knows no numbers, and a name is short.
#[derive(Debug, Default)]
pub(super) struct Policies {
    named: ArcSwap<Named>,
    unknown: Tally,
    by_request: Tally,
}

impl Policies {
    /// Those that stay keep their counts.
    pub(super) fn replace<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let before = self.named.load();
        let keep = |name: &str| (name.into(), before.get(name).cloned().unwrap_or_default());
        self.named.store(Arc::new(names.map(keep).collect()));
    }

    pub(super) fn add(&self, policy: &str, outcome: Outcome, count: u64) {
        let named = self.named.load();
        let tally = named.get(policy).map_or(&self.unknown, |tally| tally);
        tally.ended.add(outcome.index(), count);
    }

    /// An answer of a policy took so long.
    pub(super) fn took(&self, policy: &str, ns: u64) {
        if let Some(tally) = self.named.load().get(policy) {
            tally.times.add(ns, 1);
        }
    }

    /// Every policy, in no order, and then what has no name.
    pub(super) fn each(&self, mut show: impl FnMut(&str, &Tally)) {
        self.named.load().iter().for_each(|(name, tally)| show(name, tally));
        show(BY_REQUEST, &self.by_request);
        show(UNKNOWN, &self.unknown);
    }

    pub(super) fn add_by_request(&self, outcome: Outcome, count: u64) {
        self.by_request.ended.add(outcome.index(), count);
    }

    /// By name, in order; what has no name comes last, once there is any.
    pub(super) fn read(&self) -> Vec<(String, Counts)> {
        let named = self.named.load();
        let mut all: Vec<_> =
            named.iter().map(|(name, tally)| (name.to_string(), tally.read())).collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, tally) in [(BY_REQUEST, &self.by_request), (UNKNOWN, &self.unknown)] {
            let counts = tally.read();
            if counts.0.iter().any(|count| *count > 0) {
                all.push((name.to_owned(), counts));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Outcome = Outcome { status: Status::Allowed, source: Some(Source::Store) };
    const REFUSED: Outcome = Outcome { status: Status::Denied, source: Some(Source::DenyCache) };
    const FAILED: Outcome = Outcome { status: Status::Error, source: None };

    #[test]
    fn one_count_answers_how_it_ended_and_who_decided() {
        let tally = Tally::default();
        for (outcome, count) in [(ALLOWED, 3), (REFUSED, 4), (FAILED, 5)] {
            tally.ended.add(outcome.index(), count);
        }
        let counts = tally.read();
        assert_eq!(Status::ALL.map(|status| counts.ended(status)), [3, 4, 0, 5]);
        assert_eq!(Source::ALL.map(|source| counts.decided_by(source)), [3, 0, 4, 0, 0, 0]);
    }

    #[test]
    fn a_reload_keeps_the_counts_of_policies_that_stay() {
        let policies = Policies::default();
        policies.replace(["api", "login"].into_iter());
        policies.add("api", ALLOWED, 2);
        policies.add("login", ALLOWED, 1);
        policies.replace(["api", "upload"].into_iter());
        policies.add("api", ALLOWED, 1);
        let counts = |name: &str| {
            let all = policies.read();
            all.iter().find(|(given, _)| given == name).map(|(_, it)| it.ended(Status::Allowed))
        };
        assert_eq!((counts("api"), counts("upload"), counts("login")), (Some(3), Some(0), None));
    }

    #[test]
    fn names_that_nobody_configured_are_one_label() {
        let policies = Policies::default();
        policies.replace(["api"].into_iter());
        assert_eq!(policies.read().len(), 1);
        for number in 0..1000 {
            policies.add(&format!("made-up-{number}"), FAILED, 1);
        }
        let all = policies.read();
        assert_eq!(all.len(), 2);
        assert_eq!((all[1].0.as_str(), all[1].1.ended(Status::Error)), (UNKNOWN, 1000));
    }
}
