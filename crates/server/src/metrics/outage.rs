//! Outages of the stores, while there are any: since when, and the last real error. Checks only learn that the breaker is
//! open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tidegate::driver::OpenStore;
use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_core::text::printable;

use super::sink::Sink;
use super::{Metrics, catalog};

/// Longer texts are cut: a server may answer anything.
const ERROR_CHARS_MAX: usize = 300;

/// Which of the stores of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StoreRole {
    /// `store`, or its `url`.
    Main,
    /// `store.quorum`.
    Quorum,
}

impl StoreRole {
    pub(crate) const ALL: [Self; 2] = [Self::Main, Self::Quorum];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "store",
            Self::Quorum => "quorum",
        }
    }

    /// The store that has this role, if one has.
    pub(crate) fn of(self, store: &OpenStore) -> Option<&OpenStore> {
        match self {
            Self::Main => Some(store.main()),
            Self::Quorum => store.quorum(),
        }
    }
}

/// What is known of the stores, by [role](StoreRole).
#[derive(Debug, Default)]
pub(super) struct StoreStates([StoreState; StoreRole::ALL.len()]);

#[derive(Debug, Default)]
struct StoreState {
    outage: ArcSwapOption<StoreOutage>,
    /// When the first check failed since the store was last seen to serve, in microseconds since 1970; 0 if none has.
    failing_since_us: AtomicU64,
    servers: ArcSwapOption<ServerCounts>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreOutage {
    pub(crate) since: Timestamp,
    pub(crate) error: StoreError,
    /// The URL without secrets.
    pub(crate) url: Arc<str>,
    /// It is one of policies whose states matter for at least this long.
    pub(crate) lives_from: Duration,
}

impl StoreOutage {
    pub(crate) const fn kind(&self) -> StoreErrorKind {
        self.error.kind()
    }

    /// The error as one short line. Errors of stores have no secrets.
    pub(crate) fn text(&self) -> String {
        one_line(&self.error)
    }
}

/// The error of a store as one short line.
pub(crate) fn one_line(error: &StoreError) -> String {
    printable(&error.to_string()).chars().take(ERROR_CHARS_MAX).collect()
}

/// How many servers of a quorum are in each state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(crate) struct ServerCounts {
    /// They answer, and count for every policy.
    pub(crate) serving: u64,
    /// They answer, and have lost their data: they do not count for every policy.
    pub(crate) recovering: u64,
    /// They do not answer.
    pub(crate) away: u64,
}

impl ServerCounts {
    const fn plus(self, other: Self) -> Self {
        Self {
            serving: self.serving + other.serving,
            recovering: self.recovering + other.recovering,
            away: self.away + other.away,
        }
    }
}

impl Metrics {
    /// Begins, updates or ends an outage.
    pub(crate) fn set_outage(&self, role: StoreRole, outage: Option<StoreOutage>) {
        self.state(role).outage.store(outage.map(Arc::new));
    }

    pub(crate) fn outage(&self, role: StoreRole) -> Option<Arc<StoreOutage>> {
        self.state(role).outage.load_full()
    }

    /// The store that counts a policy.
    pub(crate) fn role_of(&self, is_in_quorum: bool) -> StoreRole {
        let has_quorum = || self.store().is_some_and(|store| store.quorum().is_some());
        if is_in_quorum && has_quorum() { StoreRole::Quorum } else { StoreRole::Main }
    }

    /// A check failed now because of its store.
    pub(crate) fn failing(&self, role: StoreRole, now: Timestamp) {
        // Only the first one counts.
        let since = &self.state(role).failing_since_us;
        let _ = since.compare_exchange(0, now.as_micros(), Relaxed, Relaxed);
    }

    /// When the first check failed since the store was last [seen](Self::seen_serving).
    pub(crate) fn failing_since(&self, role: StoreRole) -> Option<Timestamp> {
        let us = self.state(role).failing_since_us.load(Relaxed);
        (us > 0).then(|| Timestamp::from_micros(us))
    }

    /// The store has just served.
    pub(crate) fn seen_serving(&self, role: StoreRole) {
        self.state(role).failing_since_us.store(0, Relaxed);
    }

    pub(crate) fn set_servers(&self, role: StoreRole, counts: ServerCounts) {
        self.state(role).servers.store(Some(Arc::new(counts)));
    }

    /// The servers of all quorums; `None` if there is none.
    pub(crate) fn servers(&self) -> Option<ServerCounts> {
        let counts = StoreRole::ALL.iter().filter_map(|role| self.state(*role).servers.load_full());
        counts.map(|counts| *counts).reduce(ServerCounts::plus)
    }

    /// Why the store does not serve, as one line: known from the first failure on.
    pub(crate) fn store_cause(&self, role: StoreRole) -> Option<String> {
        let now = self.store().and_then(|store| role.of(&store)?.cause());
        now.map(|error| one_line(&error)).or_else(|| self.outage(role).map(|it| it.text()))
    }

    fn state(&self, role: StoreRole) -> &StoreState {
        &self.stores.0[role as usize]
    }

    /// Every kind of each store, also with 0: an alert must see it end.
    pub(super) fn store_outage(&self, to: &mut impl Sink) {
        to.family(&catalog::STORE_OUTAGE);
        let store = self.store();
        let is_there = |role: &StoreRole| match &store {
            Some(store) => role.of(store).is_some(),
            None => *role == StoreRole::Main,
        };
        for role in StoreRole::ALL.into_iter().filter(is_there) {
            let current = self.outage(role).map(|outage| outage.kind());
            for kind in StoreErrorKind::ALL {
                let labels = [role.as_str(), kind.as_str()];
                to.sample(&catalog::STORE_OUTAGE, &labels, u64::from(current == Some(*kind)));
            }
        }
    }

    pub(super) fn quorum_servers(&self, to: &mut impl Sink) {
        let Some(ServerCounts { serving, recovering, away }) = self.servers() else { return };
        let samples = [(["serving"], serving), (["recovering"], recovering), (["away"], away)];
        to.samples(&catalog::QUORUM_SERVERS, samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_short_line() {
        let error = StoreError::new(StoreErrorKind::Other, format!("a\nb{}", "x".repeat(1000)));
        let text = one_line(&error);
        assert!(text.starts_with("other: a\\nbx"), "{text}");
        assert_eq!(text.chars().count(), ERROR_CHARS_MAX);
    }

    #[test]
    fn the_first_failure_since_the_store_served_is_kept() {
        let (metrics, at) = (Metrics::default(), Timestamp::from_micros);
        let [main, quorum] = StoreRole::ALL;
        metrics.failing(main, at(5));
        metrics.failing(main, at(7));
        assert_eq!(
            (metrics.failing_since(main), metrics.failing_since(quorum)),
            (Some(at(5)), None)
        );
        metrics.seen_serving(main);
        assert_eq!(metrics.failing_since(main), None);
        metrics.failing(main, at(9));
        assert_eq!(metrics.failing_since(main), Some(at(9)));
    }
}
