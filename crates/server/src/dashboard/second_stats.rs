//! One second: what happened in it. These are remembered, and make the charts.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::driver::CallTimes;

use crate::adaptive::AdaptiveLimitView;
use crate::metrics::{Durations, MetricsSnapshot};

/// More policies than that are told as one: a page cannot show them, and a history of all of them is large.
pub(super) const POLICIES_MAX: usize = 100;
/// What is left of the policies.
const OTHERS: &str = "(others)";
/// Limits that follow the load, and targets.
const LIMITS_MAX: usize = 32;

/// What happened since the tick before.
#[derive(Debug, Serialize)]
pub(super) struct SecondStats {
    /// When it ended, in milliseconds since 1970.
    t: u64,
    /// How long it was.
    ms: u64,
    /// Those that were asked.
    policies: BTreeMap<String, PolicyStats>,
    /// Those that answered.
    doors: BTreeMap<&'static str, LatencyStats>,
    /// All of them together.
    all: LatencyStats,
    /// What is in force of limits that follow the load.
    limits: BTreeMap<String, u64>,
    /// From 0, well, to 1, by target.
    pressure: BTreeMap<String, f64>,
    /// Checks that the store should have decided and did not.
    store_errors: u64,
    /// Calls of the store over a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<LatencyStats>,
}

/// How checks of a policy ended.
#[derive(Debug, Default, Serialize)]
struct PolicyStats {
    allowed: u64,
    denied: u64,
    #[serde(skip_serializing_if = "is_zero")]
    shadow_denied: u64,
    #[serde(skip_serializing_if = "is_zero")]
    error: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<f64>,
}

/// How many there were, and how long they took.
#[derive(Debug, Serialize)]
struct LatencyStats {
    count: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// What a tick is made of: two input, and what is so now.
#[derive(Debug)]
pub(super) struct SecondInput<'a> {
    pub(super) before: &'a MetricsSnapshot,
    pub(super) now: &'a MetricsSnapshot,
    pub(super) calls: Option<(&'a CallTimes, &'a CallTimes)>,
    pub(super) moving: &'a [AdaptiveLimitView],
    pub(super) pressure: BTreeMap<String, f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl SecondStats {
    pub(super) fn between(input: SecondInput<'_>, t: u64, ms: u64) -> Self {
        let SecondInput { before, now, calls, moving, pressure } = input;
        let limits = moving.iter().take(LIMITS_MAX);
        let pressure = pressure.into_iter().take(LIMITS_MAX);
        let mut all = Durations::default();
        let mut doors = BTreeMap::new();
        for (door, then) in now.doors.iter().zip(&before.doors) {
            let times = door.times.since(&then.times);
            all = all.merged(&times);
            if times.count() > 0 {
                doors.insert(door.name, LatencyStats::from_times(&times));
            }
        }
        Self {
            t,
            ms,
            policies: bounded(asked(before, now)),
            doors,
            all: LatencyStats::from_times(&all),
            limits: limits.map(|moving| (moving.label(), moving.in_force())).collect(),
            pressure: pressure.map(|(target, it)| (target, rounded(it))).collect(),
            store_errors: now.store_errors.saturating_sub(before.store_errors),
            calls: calls.map(|(before, now)| LatencyStats::from_calls(before, now)),
        }
    }

    /// How many checks were refused.
    pub(super) fn refused(&self) -> u64 {
        self.policies.values().map(|asked| asked.denied + asked.shadow_denied).sum()
    }
}

/// What was asked since; who was not asked is left out.
fn asked(before: &MetricsSnapshot, now: &MetricsSnapshot) -> Vec<(String, PolicyStats)> {
    // Both are in the order of names.
    let mut then = before.policies.iter().peekable();
    let mut asked = Vec::new();
    for policy in &now.policies {
        while then.next_if(|it| it.name < policy.name).is_some() {}
        let known = then.next_if(|it| it.name == policy.name).cloned().unwrap_or_default();
        if policy.total() == known.total() {
            continue;
        }
        let times = policy.times.since(&known.times);
        asked.push((
            policy.name.clone(),
            PolicyStats {
                allowed: policy.allowed.saturating_sub(known.allowed),
                denied: policy.denied.saturating_sub(known.denied),
                shadow_denied: policy.shadow_denied.saturating_sub(known.shadow_denied),
                error: policy.error.saturating_sub(known.error),
                p50_us: times.percentile_us(50),
                p99_us: times.percentile_us(99),
            },
        ));
    }
    asked
}

/// The busiest by name, and one for all others.
fn bounded(mut asked: Vec<(String, PolicyStats)>) -> BTreeMap<String, PolicyStats> {
    if asked.len() > POLICIES_MAX {
        asked.sort_by_key(|(_, it)| std::cmp::Reverse(it.allowed + it.denied));
        let mut others = PolicyStats::default();
        for (_, it) in asked.drain(POLICIES_MAX..) {
            others.allowed += it.allowed;
            others.denied += it.denied;
            others.shadow_denied += it.shadow_denied;
            others.error += it.error;
        }
        asked.push((OTHERS.to_owned(), others));
    }
    asked.into_iter().collect()
}

impl LatencyStats {
    fn from_times(times: &Durations) -> Self {
        let (p50_us, p99_us) = (times.percentile_us(50), times.percentile_us(99));
        Self { count: times.count(), p50_us, p99_us }
    }

    /// The upper edge of the bucket: how a store does is seen by its coarse steps.
    #[expect(clippy::cast_precision_loss, reason = "edges are round numbers")]
    fn from_calls(before: &CallTimes, now: &CallTimes) -> Self {
        let counts: Vec<_> = now
            .counts
            .iter()
            .zip(&before.counts)
            .map(|(now, before)| now.saturating_sub(*before))
            .collect();
        let count: u64 = counts.iter().sum();
        let within = |percent: u64| {
            let mut below = 0;
            let bucket = counts.iter().position(|it| {
                below += it;
                below >= (count * percent).div_ceil(100).max(1)
            })?;
            let edge = CallTimes::BOUNDS_US.get(bucket).or(CallTimes::BOUNDS_US.last());
            edge.map(|us| *us as f64)
        };
        Self { count, p50_us: within(50), p99_us: within(99) }
    }
}

/// As exact as a chart is.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::PolicySnapshot;

    fn snapshot(policies: &[(&str, u64, u64)]) -> MetricsSnapshot {
        let policy = |(name, allowed, denied): &(&str, u64, u64)| PolicySnapshot {
            name: (*name).to_owned(),
            allowed: *allowed,
            denied: *denied,
            ..PolicySnapshot::default()
        };
        MetricsSnapshot {
            policies: policies.iter().map(policy).collect(),
            ..MetricsSnapshot::default()
        }
    }

    fn between(before: &MetricsSnapshot, now: &MetricsSnapshot) -> serde_json::Value {
        let input =
            SecondInput { before, now, calls: None, moving: &[], pressure: BTreeMap::new() };
        serde_json::to_value(SecondStats::between(input, 2000, 1000)).unwrap()
    }

    #[test]
    fn a_tick_is_what_came_since_and_names_only_those_who_were_asked() {
        let before = snapshot(&[("api", 5, 1), ("gone", 3, 0), ("login", 2, 2)]);
        let now = snapshot(&[("api", 9, 2), ("login", 2, 2), ("new", 1, 0)]);
        let tick = between(&before, &now);
        assert_eq!(
            tick["policies"],
            serde_json::json!({"api": {"allowed": 4, "denied": 1}, "new": {"allowed": 1, "denied": 0}})
        );
        assert_eq!((&tick["t"], &tick["ms"]), (&2000.into(), &1000.into()));
        assert_eq!(tick["all"]["count"], 0);
    }

    #[test]
    fn thousands_of_policies_are_the_busiest_and_the_others() {
        let names: Vec<_> = (0..1000).map(|number| format!("{number:04}")).collect();
        let now: Vec<_> = names.iter().zip(1..).map(|(name, n)| (name.as_str(), n, 0)).collect();
        let tick = between(&MetricsSnapshot::default(), &snapshot(&now));
        let policies = tick["policies"].as_object().unwrap();
        assert_eq!(policies.len(), POLICIES_MAX + 1);
        assert!(policies.contains_key("0999") && !policies.contains_key("0000"));
        assert_eq!(policies[OTHERS]["allowed"], (1..=900).sum::<u64>());
    }
}
