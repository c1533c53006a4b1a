//! Counters and histograms for Prometheus: `GET /metrics`, described in docs/metrics.md.
//!
//! The registry is our own, because a door may decide two million times a second: recording is a few additions to
//! counters that threads do not share, without a lock, an allocation or a string. The common exporters keep every
//! sample of a histogram until the next scrape, which at such rates is tens of megabytes a second; ours have fixed
//! buckets. Labels are bounded: the policies of the configuration, never a key.
//!
//! The [service](crate::service) records every check that spends. A peek, a refund or a reset decides nothing and is not
//! counted.

mod catalog;
mod histogram;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
mod outage;
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
pub(crate) use self::histogram::{Durations, NO_DURATIONS};
pub(crate) use self::outage::{ServerCounts, StoreOutage, StoreRole, one_line};
use self::policies::Policies;
pub(crate) use self::policies::{Counters, Outcome, Status};
pub(crate) use self::refusals::{RefusalReport, Refusals};
pub(crate) use self::render::Figures;
#[cfg(feature = "otlp")]
pub(crate) use self::render::WithFigures;
pub(crate) use self::snapshot::{MetricsSnapshot, PolicySnapshot};
use self::striped::StripedCounters;
pub(crate) use self::text::CONTENT_TYPE;
pub(crate) use self::upstreams::{
    InFlightFigures, URLS_MAX, UpstreamCounts, UpstreamError, UpstreamView,
};
pub(crate) use tidegate_config::Door;

use tidegate::driver::OpenStore;
use tidegate_request::BadToken;

/// Why the proxy refused a request that no limit refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shed {
    /// The pools of the upstreams are full.
    InFlight,
    /// All places at the upstreams are taken.
    Places,
    /// Too many requests in flight.
    Requests,
    /// Too many requests wait in leaky buckets.
    Waiting,
    /// Too many requests of one client in flight.
    PerClient,
}

impl Shed {
    const ALL: [Self; 5] =
        [Self::InFlight, Self::Places, Self::Requests, Self::Waiting, Self::PerClient];

    /// The setting that bounds it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Places => "proxy.in_flight",
            Self::Requests => "max_requests",
            Self::Waiting => "max_waiting",
            Self::PerClient => "per_client",
        }
    }
}

/// All counters. They outlive reloads of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    policies: Policies,
    doors: [DoorCounts; Door::ALL.len()],
    store_errors: StripedCounters<{ StoreErrorKind::ALL.len() }>,
    shed: StripedCounters<{ Shed::ALL.len() }>,
    bad_tokens: StripedCounters<{ BadToken::ALL.len() }>,
    reloads: Reloads,
    store: ArcSwapOption<OpenStore>,
    stores: outage::StoreStates,
}

#[derive(Debug, Default)]
struct DoorCounts {
    accepted: AtomicU64,
    closed: AtomicU64,
    /// Closed because their client has too many.
    refused: AtomicU64,
    auth_failures: AtomicU64,
    times: DurationHistogram,
}

impl DoorCounts {
    fn open(&self) -> u64 {
        // `closed` first: a connection that closes in between must not be subtracted.
        let closed = self.closed.load(Relaxed);
        self.accepted.load(Relaxed).saturating_sub(closed)
    }
}

#[derive(Debug, Default)]
struct Reloads {
    ok: AtomicU64,
    error: AtomicU64,
    /// Whether the last one was refused.
    refused: AtomicBool,
}

impl Metrics {
    /// Replaces the policies and their counters after a reload.
    pub(crate) fn set_policies(&self, named: impl Iterator<Item = (Box<str>, Arc<Counters>)>) {
        self.policies.replace(named);
    }

    pub(crate) fn set_store(&self, store: OpenStore) {
        self.store.store(Some(Arc::new(store)));
    }

    pub(crate) fn store(&self) -> Option<Arc<OpenStore>> {
        self.store.load_full()
    }

    /// Counts the outcome of a check.
    #[inline]
    pub(crate) fn record(&self, counters: &Counters, outcome: &Outcome<'_>) {
        if let Some(kind) = outcome.store_error {
            self.store_failed(kind);
        }
        counters.add(outcome);
    }

    pub(crate) fn store_failed(&self, kind: StoreErrorKind) {
        self.store_errors.add(kind as usize, 1);
    }

    /// The counters of checks that name an unknown policy.
    pub(crate) const fn unknown(&self) -> &Counters {
        &self.policies.unknown
    }

    /// The counters of checks whose limit came with the request.
    pub(crate) const fn by_request(&self) -> &Counters {
        &self.policies.by_request
    }

    pub(crate) fn shed(&self, why: Shed) {
        self.shed.add(why as usize, 1);
    }

    /// Counts a token of a request that counts as none.
    pub(crate) fn bad_token(&self, why: BadToken) {
        self.bad_tokens.add(why as usize, 1);
    }

    /// Records `count` checks that began at `since_us` of the [steady clock](Clock::steady_us). Each counts with the time of
    /// all of them, because its client has waited that long.
    pub(crate) fn door_took(&self, door: Door, since_us: u64, count: u64) {
        self.doors[door as usize].times.add(ns_since(since_us), count);
    }

    /// Records a check that began at `since_us`. `door` is `None` if [`door_took`](Self::door_took) records its time.
    pub(crate) fn took(&self, door: Option<Door>, counters: &Counters, since_us: u64) {
        let ns = ns_since(since_us);
        if let Some(door) = door {
            self.doors[door as usize].times.add(ns, 1);
        }
        counters.took(ns);
    }

    /// Counts a connection, which is open until the returned value is dropped.
    pub(crate) fn connected(self: &Arc<Self>, door: Door) -> Connected {
        self.doors[door as usize].accepted.fetch_add(1, Relaxed);
        Connected { metrics: self.clone(), door }
    }

    /// Counts a connection that was closed because its client has too many.
    pub(crate) fn connection_refused(&self, door: Door) {
        self.doors[door as usize].refused.fetch_add(1, Relaxed);
    }

    /// Counts a wrong password or token.
    pub(crate) fn auth_failed(&self, door: Door) {
        self.doors[door as usize].auth_failures.fetch_add(1, Relaxed);
    }

    /// Counts a reload: the new configuration was accepted or refused.
    pub(crate) fn reloaded(&self, taken: bool) {
        let Reloads { ok, error, refused } = &self.reloads;
        if taken { ok } else { error }.fetch_add(1, Relaxed);
        refused.store(!taken, Relaxed);
    }
}

fn ns_since(since_us: u64) -> u64 {
    SystemClock.steady_us().saturating_sub(since_us).saturating_mul(1000)
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connected {
    metrics: Arc<Metrics>,
    door: Door,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.metrics.doors[self.door as usize].closed.fetch_add(1, Relaxed);
    }
}
