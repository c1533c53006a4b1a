//! Counters and histograms for Prometheus: `GET /metrics`, described in docs/metrics.md.
//!
//! A registry of our own, because a door may decide two million times a second: to record is a few additions to
//! counters that threads do not share, without a lock, an allocation or a string. The common exporters keep every
//! sample of a histogram until the next scrape, which at such rates is tens of megabytes a second; ours have fixed
//! buckets. Labels are bounded: the policies of the configuration, and never a key.
//!
//! The [service](crate::service) records every question here: only what spends is counted, since a peek, a refund or a
//! reset decides nothing.

mod catalog;
mod histogram;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
mod policies;
mod process;
mod refusals;
mod render;
mod sink;
mod snapshot;
mod striped;
mod text;
mod upstreams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use tidegate::{Clock, StoreErrorKind, SystemClock};

use self::histogram::DurationHistogram;
pub(crate) use self::histogram::Durations;
use self::policies::Policies;
pub(crate) use self::policies::{Counters, Outcome, Status};
pub(crate) use self::refusals::{RefusalReport, Refusals};
pub(crate) use self::render::Figures;
#[cfg(feature = "otlp")]
pub(crate) use self::render::WithFigures;
pub(crate) use self::snapshot::{MetricsSnapshot, PolicySnapshot};
use self::striped::StripedCounters;
pub(crate) use self::text::CONTENT_TYPE;
pub(crate) use self::upstreams::{URLS_MAX, UpstreamCounts, UpstreamError, UpstreamView};
pub(crate) use tidegate_config::DoorName;

use tidegate::driver::OpenStore;

/// Why the proxy turned somebody away whom no limit has refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shed {
    /// As many are under way as the pool behind can bear.
    InFlight,
    /// As many are under way as there may be at all.
    Requests,
    /// As many wait in leaky buckets as may.
    Waiting,
}

impl Shed {
    const ALL: [Self; 3] = [Self::InFlight, Self::Requests, Self::Waiting];

    /// As the setting is called that bounds it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Requests => "max_requests",
            Self::Waiting => "max_waiting",
        }
    }
}

/// All that is counted. It outlives reloads of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    policies: Policies,
    doors: [DoorCounts; DoorName::ALL.len()],
    store_errors: StripedCounters<{ StoreErrorKind::ALL.len() }>,
    shed: StripedCounters<{ Shed::ALL.len() }>,
    reloads: Reloads,
    store: ArcSwapOption<OpenStore>,
}

#[derive(Debug, Default)]
struct DoorCounts {
    accepted: AtomicU64,
    closed: AtomicU64,
    times: DurationHistogram,
}

#[derive(Debug, Default)]
struct Reloads {
    ok: AtomicU64,
    error: AtomicU64,
    /// Whether the last one was refused.
    refused: AtomicBool,
}

impl Metrics {
    /// Which policies there are now, with their counters.
    pub(crate) fn policies_are(&self, named: impl Iterator<Item = (Box<str>, Arc<Counters>)>) {
        self.policies.replace(named);
    }

    /// Which store is asked now.
    pub(crate) fn watches(&self, store: OpenStore) {
        self.store.store(Some(Arc::new(store)));
    }

    /// The store that is asked now.
    pub(crate) fn store(&self) -> Option<Arc<OpenStore>> {
        self.store.load_full()
    }

    /// Counts how a question ended.
    #[inline]
    pub(crate) fn record(&self, counters: &Counters, outcome: &Outcome<'_>) {
        if let Some(kind) = outcome.store_error {
            self.store_failed(kind);
        }
        counters.add(outcome);
    }

    /// Counts a failure of the store.
    pub(crate) fn store_failed(&self, kind: StoreErrorKind) {
        self.store_errors.add(kind as usize, 1);
    }

    /// Where questions about policies that there are none of are counted.
    pub(crate) const fn unknown(&self) -> &Counters {
        &self.policies.unknown
    }

    /// Where questions are counted whose limit came with them.
    pub(crate) const fn by_request(&self) -> &Counters {
        &self.policies.by_request
    }

    /// The proxy turned somebody away.
    pub(crate) fn shed(&self, why: Shed) {
        self.shed.add(why as usize, 1);
    }

    /// `count` checks have been answered since `since_us` of the [steady clock](Clock::steady_us): each counts with
    /// the time that all of them took, for its client has waited that long.
    pub(crate) fn door_took(&self, door: DoorName, since_us: u64, count: u64) {
        self.doors[door as usize].times.add(ns_since(since_us), count);
    }

    /// A check was answered that began at `since_us`; at a door whose times are counted by themselves it is `None`.
    pub(crate) fn took(&self, door: Option<DoorName>, counters: &Counters, since_us: u64) {
        let ns = ns_since(since_us);
        if let Some(door) = door {
            self.doors[door as usize].times.add(ns, 1);
        }
        counters.took(ns);
    }

    /// A connection came; it is open until what is returned is dropped.
    pub(crate) fn connected(self: &Arc<Self>, door: DoorName) -> Connected {
        self.doors[door as usize].accepted.fetch_add(1, Relaxed);
        Connected { metrics: self.clone(), door }
    }

    /// The configuration was read again: taken, or refused whole.
    pub(crate) fn reloaded(&self, taken: bool) {
        let Reloads { ok, error, refused } = &self.reloads;
        if taken { ok } else { error }.fetch_add(1, Relaxed);
        refused.store(!taken, Relaxed);
    }
}

fn ns_since(since_us: u64) -> u64 {
    SystemClock.steady_us().saturating_sub(since_us).saturating_mul(1000)
}

/// Counts a connection for as long as it is open.
#[derive(Debug)]
pub(crate) struct Connected {
    metrics: Arc<Metrics>,
    door: DoorName,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.metrics.doors[self.door as usize].closed.fetch_add(1, Relaxed);
    }
}
