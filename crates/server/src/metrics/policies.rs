//! Outcomes of checks by policy. Each check raises one counter, which is read by status and by source.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate::{Answer, Decision, Source, StoreErrorKind};
use tidegate_config::{BY_REQUEST, RESERVED_NAMES, UNKNOWN};

use super::histogram::{DurationHistogram, Durations};
use super::striped::StripedCounters;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Allowed,
    Denied,
    /// Over the limit, and allowed because the policy is in shadow mode.
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

/// How a check ended, for metrics, logs and spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) status: Status,
    /// What decided; `None` without a decision.
    pub(crate) source: Option<Source>,
    /// The error of the store, if it failed to decide.
    pub(crate) store_error: Option<StoreErrorKind>,
    /// The limit that decided.
    pub(crate) binding: &'a str,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans have it"))]
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
}

impl Outcome<'_> {
    /// Whether the store failed and the policy denies then. Such a check must not look like a refusal.
    pub(crate) fn is_closed(&self) -> bool {
        self.status == Status::Error && self.source == Some(Source::FailClosed)
    }

    /// Anything but an admission by a healthy store.
    pub(crate) const fn is_notable(&self) -> bool {
        !matches!(self.status, Status::Allowed) || self.store_error.is_some()
    }

    /// Of a limit that came with the request.
    #[inline]
    pub(crate) fn by_request(decision: &Decision, source: Source) -> Self {
        Self {
            status: Status::from_allowed(decision.allowed()),
            source: Some(source),
            store_error: None,
            binding: BY_REQUEST,
            remaining: Some(decision.remaining()),
            retry_after_us: decision.retry_after_us(),
        }
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

/// One more than there are sources: for checks without a decision.
const SOURCES: usize = Source::ALL.len() + 1;

/// The outcomes and latencies of one policy. They outlive reloads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    ended: StripedCounters<{ Status::ALL.len() * SOURCES }>,
    times: DurationHistogram,
}

/// The outcomes of one policy at one instant.
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

    pub(super) fn ended_by(&self, status: Status, source: Source) -> u64 {
        self.0[status as usize * SOURCES + source as usize]
    }
}

type Named = BTreeMap<Box<str>, Arc<Counters>>;

/// The counters of all policies, for reading. A check finds its own through the policy handle.
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

    /// Every policy in the order of names, then the reserved names.
    pub(super) fn each(&self, mut show: impl FnMut(&str, &Counters)) {
        self.named.load().iter().for_each(|(name, counters)| show(name, counters));
        show(BY_REQUEST, &self.by_request);
        show(UNKNOWN, &self.unknown);
    }

    /// The outcomes by name; reserved names come last, and only with a count.
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
    fn one_count_gives_status_and_source() {
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
        assert_eq!(counts.ended_by(Status::Denied, Source::DenyCache), 4);
        assert_eq!(counts.ended_by(Status::Allowed, Source::DenyCache), 0);
    }
}
