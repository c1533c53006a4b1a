//! What the server has done, counted for Prometheus: `GET /metrics`, told in docs/metrics.md.
//!
//! A registry of our own, because a door may decide two million times a second: to record is a few additions to
//! counters that threads do not share, without a lock, an allocation or a string. The common exporters keep every
//! sample of a histogram until the next scrape, which at such rates is tens of megabytes a second; ours have fixed
//! buckets. Labels are bounded: the policies of the configuration, and never a key.
//!
//! How a door tells what it did, in this order and all of it cheap:
//!
//! ```text
//! let (metrics, since_us) = (gate.metrics(), SystemClock.steady_us());   // once per read, however much was read
//! gate.tell(&check, &engine.ask(&check, Op::Take).await);                // and a line about a refusal, now and then
//! metrics.took(DoorName::Resp, since_us, 1);                             // once per read: `count` answers
//! ```
//!
//! Only what spends is counted: a peek, a refund or a reset decides nothing. A door that decides without a policy, by
//! limits that came with the request, counts under [`Metrics::by_request`].

mod catalog;
mod glance;
mod histogram;
mod load;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
mod policies;
mod process;
mod render;
mod sink;
mod striped;
mod text;
mod upstreams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use tidegate::{
    Answer, CheckError, Clock, Decision, Reservation, Source, StoreErrorKind, SystemClock,
};

pub(crate) use self::glance::{Glance, PolicyGlance};
use self::histogram::Histogram;
pub(crate) use self::histogram::Times;
use self::policies::{Outcome, Policies, Status};
use self::striped::Striped;
pub(crate) use self::text::CONTENT_TYPE;
pub(crate) use self::upstreams::{UpstreamCounts, UpstreamTrouble, UpstreamView};
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
    store_errors: Striped<{ StoreErrorKind::ALL.len() }>,
    shed: Striped<{ Shed::ALL.len() }>,
    reloads: Reloads,
    store: ArcSwapOption<OpenStore>,
}

#[derive(Debug, Default)]
struct DoorCounts {
    accepted: AtomicU64,
    closed: AtomicU64,
    times: Histogram,
}

#[derive(Debug, Default)]
struct Reloads {
    ok: AtomicU64,
    error: AtomicU64,
    /// Whether the last one was refused.
    refused: AtomicBool,
}

impl Metrics {
    /// Which policies there are now. Those that stay keep their counts; what is asked of others counts as one.
    pub(crate) fn policies_are<'a>(&self, names: impl Iterator<Item = &'a str>) {
        self.policies.replace(names);
    }

    /// Which store is asked now.
    pub(crate) fn watches(&self, store: OpenStore) {
        self.store.store(Some(Arc::new(store)));
    }

    /// The store that is asked now.
    pub(crate) fn store(&self) -> Option<Arc<OpenStore>> {
        self.store.load_full()
    }

    /// `count` checks were answered alike.
    pub(crate) fn decided(&self, answer: &Answer<'_>, count: u64) {
        if let Some(trouble) = answer.store_error {
            self.store_errors.add(trouble as usize, count);
        }
        let status = if answer.fails_closed() {
            Status::Error // which must not look like a refusal
        } else if answer.shadow_denied {
            Status::ShadowDenied
        } else {
            Status::of(answer.decision.allowed())
        };
        self.policies.add(answer.policy, Outcome { status, source: Some(answer.source) }, count);
    }

    /// A place in a queue was given or refused. Who decided is not told.
    pub(crate) fn reserved(&self, policy: &str, reservation: &Reservation) {
        let status = if reservation.shadow_denied() {
            Status::ShadowDenied
        } else {
            Status::of(reservation.accepted())
        };
        self.policies.add(policy, Outcome { status, source: None }, 1);
    }

    /// `count` checks were decided by limits that came with the request.
    pub(crate) fn by_request(&self, decision: &Decision, source: Source, count: u64) {
        let outcome = Outcome { status: Status::of(decision.allowed()), source: Some(source) };
        self.policies.add_by_request(outcome, count);
    }

    /// `count` checks had no answer.
    pub(crate) fn errored(&self, policy: &str, error: &CheckError, count: u64) {
        if let CheckError::Store(error) = error {
            self.store_errors.add(error.kind() as usize, count);
        }
        self.policies.add(policy, Outcome { status: Status::Error, source: None }, count);
    }

    /// The proxy turned somebody away.
    pub(crate) fn shed(&self, why: Shed) {
        self.shed.add(why as usize, 1);
    }

    /// `count` checks have been answered since `since_us` of the [steady clock](Clock::steady_us): each counts with
    /// the time that all of them took, for its client has waited that long.
    pub(crate) fn took(&self, door: DoorName, since_us: u64, count: u64) {
        let us = SystemClock.steady_us().saturating_sub(since_us);
        self.doors[door as usize].times.add(us.saturating_mul(1000), count);
    }

    /// A check of a policy was answered, and was begun at `since_us`. Where checks are too many, some of them will do.
    pub(crate) fn policy_took(&self, policy: &str, since_us: u64) {
        let us = SystemClock.steady_us().saturating_sub(since_us);
        self.policies.took(policy, us.saturating_mul(1000));
    }

    /// Both of one check, at one look at the clock.
    pub(crate) fn took_alone(&self, door: DoorName, policy: &str, since_us: u64) {
        let ns = SystemClock.steady_us().saturating_sub(since_us).saturating_mul(1000);
        self.doors[door as usize].times.add(ns, 1);
        self.policies.took(policy, ns);
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
