//! The counters at one instant. The dashboard compares two snapshots a second apart.

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
        let (name, times) = (String::new(), NO_DURATIONS);
        Self { name, allowed: 0, denied: 0, shadow_denied: 0, error: 0, times }
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
            let name = name.to_owned();
            let times = counters.times();
            policies.push(PolicySnapshot { name, allowed, denied, shadow_denied, error, times });
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
