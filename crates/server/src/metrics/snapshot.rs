//! What moves, at one instant: for those who look once a second and compare.

use super::histogram::Durations;
use super::policies::Status;
use super::{DoorName, Metrics, Relaxed};

/// All counters that a look at the whole needs.
#[derive(Clone, Default, Debug)]
pub(crate) struct MetricsSnapshot {
    pub(crate) policies: Vec<PolicySnapshot>,
    pub(crate) doors: Vec<DoorSnapshot>,
    /// Checks that the store should have decided and did not.
    pub(crate) store_errors: u64,
    /// How often another configuration was put in force.
    pub(crate) reloads: u64,
}

/// What has become of the checks of a policy.
#[derive(Clone, Default, Debug)]
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

impl PolicySnapshot {
    pub(crate) fn total(&self) -> u64 {
        self.allowed + self.denied + self.shadow_denied + self.error
    }
}

impl Metrics {
    /// A look at it. Policies that there are none of are left out until somebody asks for one.
    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        let mut policies = Vec::new();
        self.policies.each(|name, tally| {
            let counts = tally.read();
            let [allowed, denied, shadow_denied, error] =
                Status::ALL.map(|status| counts.ended(status));
            let name = name.to_owned();
            let times = tally.times();
            policies.push(PolicySnapshot { name, allowed, denied, shadow_denied, error, times });
        });
        policies.retain(|policy| !policy.name.starts_with('(') || policy.total() > 0);
        policies.sort_by(|one, other| one.name.cmp(&other.name));
        let door = |door: DoorName| {
            let counts = &self.doors[door as usize];
            let closed = counts.closed.load(Relaxed);
            let open = counts.accepted.load(Relaxed).saturating_sub(closed);
            DoorSnapshot { name: door.as_str(), open, times: counts.times.read() }
        };
        MetricsSnapshot {
            policies,
            doors: DoorName::ALL.map(door).into(),
            store_errors: self.store_errors.read().iter().sum(),
            reloads: self.reloads.ok.load(Relaxed),
        }
    }
}
