//! What is in force of limits that follow, and why: for operators and metrics.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::adaptive::{Mode, Status};

use super::plan::{By, Plan};
use super::{Followed, Follower};

/// How many URLs are looked at, the busiest first.
const URLS_MAX: usize = 100;

/// A limit that follows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Moving {
    pub(crate) policy: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) limit: String,
    /// `enforce`, or `shadow` where it is only computed.
    pub(crate) mode: &'static str,
    /// All of its units.
    pub(crate) declared: u64,
    /// Those in force, or those that would be; of URLs the fewest.
    pub(crate) effective: u64,
    /// From 0, well, to 1.
    pub(crate) pressure: f64,
    /// The signal that takes something away.
    pub(crate) binding: Option<String>,
    /// Whether a signal has been missing for so long that nothing opens.
    pub(crate) stale: bool,
    /// Whether it comes back slowly after it was nearly closed.
    pub(crate) warming: bool,
    /// In which second all nodes agreed on it. Those with the same have the same in force.
    pub(crate) agreed: Option<u64>,
}

impl Moving {
    /// For people: the policy, with the limit if there are several.
    pub(crate) fn label(&self) -> String {
        let slash = if self.limit.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.policy, self.limit)
    }

    /// What checks go by.
    pub(crate) fn in_force(&self) -> u64 {
        if self.mode == "shadow" { self.declared } else { self.effective }
    }
}

impl Follower {
    /// All limits that follow, in the order of the configuration.
    pub(crate) fn limits(&self) -> Vec<Moving> {
        self.each().into_iter().map(|(_, moving)| moving).collect()
    }

    /// The pressure of every target that is followed: the worst that a limit sees.
    pub(crate) fn pressures(&self) -> BTreeMap<String, f64> {
        let mut pressures = BTreeMap::new();
        for (plan, moving) in self.each() {
            for target in plan.targets() {
                let worst: &mut f64 = pressures.entry(target.to_owned()).or_default();
                *worst = worst.max(moving.pressure);
            }
        }
        pressures.extend(self.observed.said());
        pressures
    }

    fn each(&self) -> Vec<(Plan, Moving)> {
        let named = |status: Status| (status.name.clone(), status);
        let status: BTreeMap<_, _> = self.runtime.status().into_iter().map(named).collect();
        let moving = |followed: &Followed| {
            let plan = &followed.plan;
            let moving = match &plan.by {
                By::Signals(_) => moving(plan, status.get(&plan.name())?),
                By::Urls { .. } => self.of_urls(followed),
            };
            Some((plan.clone(), moving))
        };
        self.following.load().plans.iter().filter_map(moving).collect()
    }

    fn of_urls(&self, followed: &Followed) -> Moving {
        let plan = &followed.plan;
        let By::Urls { ramp, target } = &plan.by else { return still(plan) };
        if let Some(pressure) = self.observed.said().get(target) {
            let effective = followed.effective.units().unwrap_or(plan.units);
            let binding = Some("operator".to_owned());
            return Moving { effective, pressure: *pressure, binding, ..still(plan) };
        }
        let busiest = self.runtime.target(target).busiest_urls(URLS_MAX).into_iter();
        let means = busiest.map(|(url, summary)| (url, summary.mean_ms));
        let slowest = means.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((url, mean_ms)) = slowest else { return still(plan) };
        let ends = ramp.ends();
        let position = (mean_ms - ends.x_lo) / (ends.x_hi - ends.x_lo);
        let effective = ramp.limit(mean_ms, plan.units);
        let binding = (effective < plan.units).then(|| url.unwrap_or_else(|| "other".to_owned()));
        Moving { effective, pressure: position.clamp(0.0, 1.0), binding, ..still(plan) }
    }
}

fn moving(plan: &Plan, status: &Status) -> Moving {
    Moving {
        effective: status.units,
        pressure: status.output.pressure,
        binding: if status.fixed.is_some() {
            Some("operator".to_owned())
        } else {
            status.binding.clone()
        },
        stale: status.output.is_stale,
        warming: status.output.is_warming,
        agreed: status.agreed,
        ..still(plan)
    }
}

/// As it was declared.
fn still(plan: &Plan) -> Moving {
    Moving {
        policy: plan.policy.clone(),
        limit: plan.limit.clone(),
        mode: if plan.mode == Mode::Shadow { "shadow" } else { "enforce" },
        declared: plan.units,
        effective: plan.units,
        pressure: 0.0,
        binding: None,
        stale: false,
        warming: false,
        agreed: None,
    }
}
