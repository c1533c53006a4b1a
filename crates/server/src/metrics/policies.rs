//! What was decided, by policy. One counter per check: how it ended is one view of it, who decided another.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate::{Answer, Source, StoreErrorKind};
use tidegate_config::{BY_REQUEST, RESERVED_NAMES, UNKNOWN};

use super::histogram::{DurationHistogram, Durations};
use super::striped::StripedCounters;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Allowed,
    Denied,
    /// Allowed, because the policy is only tried out.
    ShadowDenied,
    Error,
}

impl Status {
    pub(super) const ALL: [Self; 4] =
        [Self::Allowed, Self::Denied, Self::ShadowDenied, Self::Error];

    pub(crate) const fn from_allowed(allowed: bool) -> Self {
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

/// How a question ended, for those who record it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) status: Status,
    /// Who decided, where anybody did.
    pub(crate) source: Option<Source>,
    /// What was wrong with the store, where it should have decided and did not.
    pub(crate) store_error: Option<StoreErrorKind>,
    /// The limit that decided.
    pub(crate) binding: &'a str,
    /// What is left, where that is known.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans tell it"))]
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
}

impl Outcome<'_> {
    /// Whether nobody has decided, and the policy turns everybody away then. It must not look like a refusal.
    pub(crate) fn is_closed(&self) -> bool {
        self.status == Status::Error && self.source == Some(Source::FailClosed)
    }

    /// Whether it is more than an admission by a store that works.
    pub(crate) const fn is_notable(&self) -> bool {
        !matches!(self.status, Status::Allowed) || self.store_error.is_some()
    }

    fn index(&self) -> usize {
        let source = self.source.map_or(Source::ALL.len(), |source| source as usize);
        self.status as usize * SOURCES + source
    }
}

impl<'a> From<&'a Answer<'_>> for Outcome<'a> {
    fn from(answer: &'a Answer<'_>) -> Self {
        let decision = &answer.decision;
        let status = if answer.fails_closed() {
            Status::Error
        } else if answer.shadow_denied {
            Status::ShadowDenied
        } else {
            Status::from_allowed(decision.allowed())
        };
        Self {
            status,
            source: Some(answer.source),
            store_error: answer.store_error,
            binding: answer.binding,
            remaining: Some(decision.remaining()),
            retry_after_us: decision.retry_after_us(),
        }
    }
}

/// Every source, and none.
const SOURCES: usize = Source::ALL.len() + 1;

/// The counts of one policy, and how long its answers took. They outlive reloads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    ended: StripedCounters<{ Status::ALL.len() * SOURCES }>,
    times: DurationHistogram,
}

/// The counts of one policy, as they were at one instant.
pub(super) struct Counts([u64; Status::ALL.len() * SOURCES]);

impl Counters {
    pub(super) fn add(&self, outcome: &Outcome<'_>) {
        self.ended.add(outcome.index(), 1);
    }

    pub(super) fn took(&self, ns: u64) {
        self.times.add(ns, 1);
    }

    pub(super) fn read(&self) -> Counts {
        Counts(self.ended.read())
    }

    pub(super) fn times(&self) -> Durations {
        self.times.read()
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

type Named = BTreeMap<Box<str>, Arc<Counters>>;

/// The counts of all policies. To be read: a check finds its counters with its policy.
#[derive(Debug, Default)]
pub(super) struct Policies {
    named: ArcSwap<Named>,
    pub(super) unknown: Counters,
    pub(super) by_request: Counters,
}

impl Policies {
    pub(super) fn replace(&self, named: impl Iterator<Item = (Box<str>, Arc<Counters>)>) {
        self.named.store(Arc::new(named.collect()));
    }

    /// Every policy in the order of names, and then what has no name.
    pub(super) fn each(&self, mut show: impl FnMut(&str, &Counters)) {
        self.named.load().iter().for_each(|(name, tally)| show(name, tally));
        show(BY_REQUEST, &self.by_request);
        show(UNKNOWN, &self.unknown);
    }

    /// By name, in order; what has no name comes last, once there is any.
    pub(super) fn read(&self) -> Vec<(String, Counts)> {
        let mut all = Vec::new();
        self.each(|name, counters| all.push((name.to_owned(), counters.read())));
        all.retain(|(name, counts)| {
            !RESERVED_NAMES.contains(&name.as_str()) || counts.0.iter().any(|count| *count > 0)
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_count_answers_how_it_ended_and_who_decided() {
        let counters = Counters::default();
        for (status, source, count) in [
            (Status::Allowed, Some(Source::Store), 3),
            (Status::Denied, Some(Source::DenyCache), 4),
            (Status::Error, None, 5),
        ] {
            let (store_error, remaining, retry_after_us) = (None, None, None);
            let binding = "";
            let outcome =
                Outcome { status, source, store_error, binding, remaining, retry_after_us };
            (0..count).for_each(|_| counters.add(&outcome));
        }
        let counts = counters.read();
        assert_eq!(Status::ALL.map(|status| counts.ended(status)), [3, 4, 0, 5]);
        assert_eq!(Source::ALL.map(|source| counts.decided_by(source)), [3, 0, 4, 0, 0, 0]);
    }
}
