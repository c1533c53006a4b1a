//! The counters at one instant. The dashboard compares two snapshots a second apart.

use tidegate::Source;

use super::histogram::{Durations, NO_DURATIONS};
use super::policies::Status;
use super::{Door, Metrics, Relaxed};

#[derive(Clone, Default, Debug)]
pub(crate) struct MetricsSnapshot {
    pub(crate) policies: Vec<PolicySnapshot>,
    pub(crate) doors: Vec<DoorSnapshot>,
    /// Checks that the store failed to decide.
    pub(crate) store_errors: u64,
    /// Successful reloads.
    pub(crate) reloads: u64,
}

/// The checks of a policy by outcome.
#[derive(Clone, Debug)]
pub(crate) struct PolicySnapshot {
    pub(crate) name: String,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) shadow_denied: u64,
    pub(crate) error: u64,
    /// Of the errors: turned away because the store fails and the policy denies then.
    pub(crate) fail_closed: u64,
    /// Of what was allowed: without asking anything, because the store fails.
    pub(crate) fail_open: u64,
    pub(crate) times: Durations,
}

#[derive(Clone, Debug)]
pub(crate) struct DoorSnapshot {
    pub(crate) name: &'static str,
    pub(crate) open: u64,
    pub(crate) times: Durations,
}

impl Default for PolicySnapshot {
    fn default() -> Self {
        let (name, times) = (String::new(), *NO_DURATIONS);
        let (allowed, denied, shadow_denied, error) = (0, 0, 0, 0);
        let (fail_closed, fail_open) = (0, 0);
        Self { name, allowed, denied, shadow_denied, error, fail_closed, fail_open, times }
    }
}

impl PolicySnapshot {
    pub(crate) fn total(&self) -> u64 {
        self.allowed + self.denied + self.shadow_denied + self.error
    }
}

impl Metrics {
    /// The reserved names `(unknown)` and `(request)` are left out until they have a count.
    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        let mut policies = Vec::new();
        self.policies.each(|name, counters| {
            let counts = counters.read();
            let [allowed, denied, shadow_denied, error] =
                Status::ALL.map(|status| counts.ended(status));
            let passed = [Status::Allowed, Status::ShadowDenied].iter();
            // A shadow policy that denies without the store lets everything through.
            let open = passed.flat_map(|status| {
                [Source::FailOpen, Source::FailClosed].map(|by| counts.ended_by(*status, by))
            });
            policies.push(PolicySnapshot {
                name: name.to_owned(),
                allowed,
                denied,
                shadow_denied,
                error,
                fail_closed: counts.ended_by(Status::Error, Source::FailClosed),
                fail_open: open.sum(),
                times: counters.times(),
            });
        });
        policies.retain(|policy| !policy.name.starts_with('(') || policy.total() > 0);
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        let door = |door: Door| {
            let counts = &self.doors[door as usize];
            DoorSnapshot { name: door.as_str(), open: counts.open(), times: counts.times.read() }
        };
        MetricsSnapshot {
            policies,
            doors: Door::ALL.map(door).into(),
            store_errors: self.store_errors.read().iter().sum(),
            reloads: self.reloads.ok.load(Relaxed),
        }
    }
}
