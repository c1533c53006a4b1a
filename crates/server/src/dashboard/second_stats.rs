//! What happened in one second. The history of these makes the charts.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::driver::CallTimes;
use tidegate_core::BucketCounts;

use crate::adaptive::AdaptiveLimitView;
use crate::metrics::{Durations, MetricsSnapshot, NO_DURATIONS};

/// Further policies are summed up: a page cannot show them, and their history would be large.
pub(super) const POLICIES_MAX: usize = 100;
const OTHERS: &str = "(others)";
/// Adaptive limits, and targets.
const LIMITS_MAX: usize = 32;

#[derive(Debug, Serialize)]
pub(super) struct SecondStats {
    /// The end, in milliseconds since 1970.
    t: u64,
    /// The duration.
    ms: u64,
    /// Policies with checks.
    policies: BTreeMap<String, PolicyStats>,
    /// Doors with answers.
    doors: BTreeMap<&'static str, LatencyStats>,
    /// All doors together.
    all: LatencyStats,
    /// The units in force of adaptive limits.
    limits: BTreeMap<String, u64>,
    /// By target: 0 healthy, 1 overloaded.
    pressure: BTreeMap<String, f64>,
    /// Checks that the store failed to decide.
    store_errors: u64,
    /// Calls of a network store.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<LatencyStats>,
}

/// The outcomes of a policy.
#[derive(Debug, Default, Serialize)]
struct PolicyStats {
    allowed: u64,
    denied: u64,
    #[serde(skip_serializing_if = "is_zero")]
    shadow_denied: u64,
    #[serde(skip_serializing_if = "is_zero")]
    error: u64,
    /// Of the errors: turned away because the store fails.
    #[serde(skip_serializing_if = "is_zero")]
    fail_closed: u64,
    /// Of what was allowed: without the store, because it fails.
    #[serde(skip_serializing_if = "is_zero")]
    fail_open: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LatencyStats {
    count: u64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
}

/// Two snapshots, and the current state of adaptive limits.
#[derive(Debug)]
pub(super) struct SecondInput<'a> {
    pub(super) before: &'a MetricsSnapshot,
    pub(super) now: &'a MetricsSnapshot,
    pub(super) calls: Option<(&'a CallTimes, &'a CallTimes)>,
    pub(super) limits: &'a [AdaptiveLimitView],
    pub(super) pressure: BTreeMap<String, f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl SecondStats {
    pub(super) fn between(input: SecondInput<'_>, t: u64, ms: u64) -> Self {
        let SecondInput { before, now, calls, limits, pressure } = input;
        let limits = limits.iter().take(LIMITS_MAX);
        let pressure = pressure.into_iter().take(LIMITS_MAX);
        let mut all = *NO_DURATIONS;
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
            policies: bounded(changed(before, now)),
            doors,
            all: LatencyStats::from_times(&all),
            limits: limits.map(|limit| (limit.label(), limit.in_force())).collect(),
            pressure: pressure.map(|(target, it)| (target, rounded(it))).collect(),
            store_errors: now.store_errors.saturating_sub(before.store_errors),
            calls: calls.map(|(before, now)| LatencyStats::from_calls(before, now)),
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.policies.values().map(|asked| asked.denied + asked.shadow_denied).sum()
    }
}

/// The policies with checks between two snapshots.
fn changed(before: &MetricsSnapshot, now: &MetricsSnapshot) -> Vec<(String, PolicyStats)> {
    // Both are sorted by name.
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
                fail_closed: policy.fail_closed.saturating_sub(known.fail_closed),
                fail_open: policy.fail_open.saturating_sub(known.fail_open),
                p50_us: percentile_us(&times, 50),
                p99_us: percentile_us(&times, 99),
            },
        ));
    }
    asked
}

/// The busiest policies, and one entry for all others.
fn bounded(mut asked: Vec<(String, PolicyStats)>) -> BTreeMap<String, PolicyStats> {
    if asked.len() > POLICIES_MAX {
        asked.sort_by_key(|(_, it)| std::cmp::Reverse(it.allowed + it.denied));
        let mut others = PolicyStats::default();
        for (_, it) in asked.drain(POLICIES_MAX..) {
            others.allowed += it.allowed;
            others.denied += it.denied;
            others.shadow_denied += it.shadow_denied;
            others.error += it.error;
            others.fail_closed += it.fail_closed;
            others.fail_open += it.fail_open;
        }
        asked.push((OTHERS.to_owned(), others));
    }
    asked.into_iter().collect()
}

impl LatencyStats {
    fn from_times(times: &Durations) -> Self {
        let (p50_us, p99_us) = (percentile_us(times, 50), percentile_us(times, 99));
        Self { count: times.count(), p50_us, p99_us }
    }

    fn from_calls(before: &CallTimes, now: &CallTimes) -> Self {
        let buckets = |times: &CallTimes| {
            BucketCounts::new(&CallTimes::BOUNDS_US, times.counts, times.total_us)
        };
        let times = buckets(now).since(&buckets(before));
        let percentile = |percent| times.percentile(percent).map(f64::round);
        Self { count: times.count(), p50_us: percentile(50), p99_us: percentile(99) }
    }
}

/// In microseconds, to a tenth; interpolated within its bucket.
fn percentile_us(times: &Durations, percent: u64) -> Option<f64> {
    times.percentile(percent).map(|ns| (ns / 100.0).round() / 10.0)
}

/// Three digits are enough for a chart.
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
            SecondInput { before, now, calls: None, limits: &[], pressure: BTreeMap::new() };
        serde_json::to_value(SecondStats::between(input, 2000, 1000)).unwrap()
    }

    #[test]
    fn only_policies_with_checks_are_named() {
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
    fn percentiles_are_microseconds_to_a_tenth() {
        let counts = std::array::from_fn(|bucket| u64::from(bucket == 0));
        let sums = counts.map(|count| count * 1_260);
        assert_eq!(
            percentile_us(&Durations::with_sums(&[2_000; 19], counts, sums), 100),
            Some(1.3)
        );
        assert_eq!(percentile_us(&NO_DURATIONS, 50), None);
    }

    #[test]
    fn store_latencies_lie_between_the_bounds_of_their_bucket() {
        let mut now = CallTimes::default();
        // Between 2 and 5 ms.
        (now.counts[9], now.total_us) = (1, 2_345);
        let stats = LatencyStats::from_calls(&CallTimes::default(), &now);
        assert_eq!((stats.p50_us, stats.p99_us), (Some(2_345.0), Some(2_345.0)));
        let none = LatencyStats::from_calls(&now, &now);
        assert_eq!((none.count, none.p50_us), (0, None));
    }

    #[test]
    fn what_an_outage_decides_is_counted_apart() {
        let mut now = snapshot(&[("login", 0, 0), ("open", 9, 0)]);
        (now.policies[0].error, now.policies[0].fail_closed) = (7, 6);
        now.policies[1].fail_open = 9;
        let tick = between(&MetricsSnapshot::default(), &now);
        let login = serde_json::json!({"allowed": 0, "denied": 0, "error": 7, "fail_closed": 6});
        assert_eq!(tick["policies"]["login"], login);
        assert_eq!(tick["policies"]["open"]["fail_open"], 9);
    }

    #[test]
    fn policies_beyond_the_bound_are_summed_up() {
        let names: Vec<_> = (0..1000).map(|number| format!("{number:04}")).collect();
        let now: Vec<_> = names.iter().zip(1..).map(|(name, n)| (name.as_str(), n, 0)).collect();
        let tick = between(&MetricsSnapshot::default(), &snapshot(&now));
        let policies = tick["policies"].as_object().unwrap();
        assert_eq!(policies.len(), POLICIES_MAX + 1);
        assert!(policies.contains_key("0999") && !policies.contains_key("0000"));
        assert_eq!(policies[OTHERS]["allowed"], (1..=900).sum::<u64>());
    }
}
