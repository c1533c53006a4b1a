//! The units in force of each adaptive limit, and why: for operators and metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;
use tidegate::adaptive::{Mode, Status};

use super::feeds::SignalTarget;
use super::plan::{Follows, Plan, Source, UrlCap};
use super::{ActivePlan, AdaptiveLimits};

/// The slowest URL is searched among this many of the busiest.
const URLS_MAX: usize = 100;

#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct AdaptiveLimitView {
    pub(crate) policy: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) limit: String,
    /// `enforce`, or `shadow` where it is only computed.
    pub(crate) mode: &'static str,
    pub(crate) declared: u64,
    /// The units in force, or that would be in shadow mode; for limits by URL the fewest.
    pub(crate) effective: u64,
    /// 0 healthy, 1 overloaded.
    pub(crate) pressure: f64,
    /// The signal that reduces the limit.
    pub(crate) binding: Option<String>,
    /// Whether that signal is a URL.
    #[serde(skip)]
    pub(crate) is_by_url: bool,
    /// Whether a signal has been missing for so long that the limit does not rise.
    pub(crate) stale: bool,
    /// Whether the limit rises slowly after it was nearly closed.
    pub(crate) warming: bool,
    /// The second in which all nodes agreed. Nodes with the same value have the same units in force.
    pub(crate) agreed: Option<u64>,
}

impl AdaptiveLimitView {
    /// The policy, followed by the limit if there are several.
    pub(crate) fn label(&self) -> String {
        let slash = if self.limit.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.policy, self.limit)
    }

    /// The units that checks use.
    pub(crate) fn in_force(&self) -> u64 {
        if self.mode == "shadow" { self.declared } else { self.effective }
    }
}

impl AdaptiveLimits {
    /// All adaptive limits, in the order of the configuration.
    pub(crate) fn limits(&self) -> Vec<AdaptiveLimitView> {
        self.each().into_iter().map(|(_, limit)| limit).collect()
    }

    /// The pressure of each target: the highest that any limit sees.
    pub(crate) fn pressures(&self) -> BTreeMap<String, f64> {
        let mut pressures = BTreeMap::new();
        for (plan, limit) in self.each() {
            for target in plan.targets() {
                let worst: &mut f64 = pressures.entry(target.to_owned()).or_default();
                *worst = worst.max(limit.pressure);
            }
        }
        pressures.extend(self.target_stats.operator_pressures());
        pressures
    }

    /// Whether each probe and each query fails, by target and signal. One that two limits share has one name.
    pub(crate) fn failing_signals(&self) -> BTreeMap<[String; 2], bool> {
        let mut failing = BTreeMap::new();
        for SignalTarget { signal, is_failing, .. } in &self.active.load().signal_targets {
            if matches!(signal.source, Source::Asked(_)) {
                let name = [signal.target.clone(), signal.chain.name().to_owned()];
                *failing.entry(name).or_default() |= is_failing.load(Relaxed);
            }
        }
        failing
    }

    fn each(&self) -> Vec<(Plan, AdaptiveLimitView)> {
        let named = |status: Status| (status.name.clone(), status);
        let status: BTreeMap<_, _> = self.runtime.status().into_iter().map(named).collect();
        let view = |active_plan: &ActivePlan| {
            let plan = &active_plan.plan;
            let limit = match &plan.follows {
                Follows::Signals(_) => by_signals(plan, status.get(&plan.name())?),
                Follows::Urls { .. } => self.by_urls(active_plan),
            };
            Some((plan.clone(), limit))
        };
        self.active.load().plans.iter().filter_map(view).collect()
    }

    fn by_urls(&self, active_plan: &ActivePlan) -> AdaptiveLimitView {
        let plan = &active_plan.plan;
        let Follows::Urls { ramp, target, cap } = &plan.follows else { return declared(plan) };
        if let Some(pressure) = self.target_stats.operator_pressures().get(target) {
            let effective = active_plan.effective.units().unwrap_or(plan.units);
            let binding = Some("operator".to_owned());
            return AdaptiveLimitView { effective, pressure: *pressure, binding, ..declared(plan) };
        }
        let busiest = self.runtime.target(target).busiest_urls(URLS_MAX).into_iter();
        let slowest = busiest.max_by(|(_, one), (_, other)| one.mean_ms.total_cmp(&other.mean_ms));
        let Some((url, summary)) = slowest else { return declared(plan) };
        let ends = ramp.ends();
        let position = (summary.mean_ms - ends.x_lo) / (ends.x_hi - ends.x_lo);
        let effective = match *cap {
            UrlCap::Units => ramp.limit(summary.mean_ms, plan.units),
            UrlCap::None { least } => summary.limit_from_busiest(least).unwrap_or(plan.units),
        };
        let binding = (effective < plan.units).then(|| url.unwrap_or_else(|| "other".to_owned()));
        AdaptiveLimitView {
            effective,
            pressure: position.clamp(0.0, 1.0),
            binding,
            is_by_url: true,
            ..declared(plan)
        }
    }
}

fn by_signals(plan: &Plan, status: &Status) -> AdaptiveLimitView {
    AdaptiveLimitView {
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
        ..declared(plan)
    }
}

/// A limit that nothing reduces.
fn declared(plan: &Plan) -> AdaptiveLimitView {
    AdaptiveLimitView {
        policy: plan.policy.clone(),
        limit: plan.limit.clone(),
        mode: if plan.mode == Mode::Shadow { "shadow" } else { "enforce" },
        declared: plan.units,
        effective: plan.units,
        pressure: 0.0,
        binding: None,
        is_by_url: false,
        stale: false,
        warming: false,
        agreed: None,
    }
}
