//! `GET /v1/policies`: all policies as an object by name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Not;

use serde::Serialize;
use tidegate::{Effective, LeakyBucket, Limit, Member, Mode, PolicyView, ShareStatus, Zone};

use crate::service::InForce;
use tidegate_core::text::rate;

#[derive(Serialize)]
struct PolicyJson<'a> {
    #[serde(flatten)]
    limits: LimitsJson<'a>,
    /// Whether the policy refuses nothing.
    #[serde(skip_serializing_if = "Not::not")]
    shadow: bool,
    /// The part of the callers that it is enforced for, if not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    enforce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<ShareJson<'a>>,
}

/// How the tenants of a share divide the limit just now.
#[derive(Serialize)]
struct ShareJson<'a> {
    /// The policy whose limit is shared, and what tells its tenants apart.
    of: &'a str,
    by: &'a str,
    /// Those that asked this instance within the last second.
    active: usize,
    contended: bool,
    /// The part of the limit that a tenant of weight 1 may use.
    level: f64,
}

/// A policy of one limit is that limit; a policy of several has a mode and members.
#[derive(Serialize)]
#[serde(untagged)]
enum LimitsJson<'a> {
    One(LimitJson<'a>),
    Many { mode: &'static str, members: Vec<LimitJson<'a>> },
}

/// A limit, with the field names of the configuration and the test vectors.
#[derive(Serialize)]
struct LimitJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    algorithm: &'static str,
    /// Human-readable: `100/min`; `2 at once` for concurrency, which has no rate.
    rate: String,
    limit: u64,
    /// Whose midnight counts, for a quota by the calendar.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// Absent for concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_us: Option<u128>,
    #[serde(flatten)]
    extra: Option<Extra>,
    /// How many units each unit of a check's cost takes, where that is not 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    /// The current value of an adaptive limit; for an adaptive limit per key, the value for keys without their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<u64>,
    /// `enforce` or `shadow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<&'static str>,
    /// The targets of `/v1/observe` that an adaptive limit follows; `all` stands for every one.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    targets: BTreeSet<String>,
}

/// A parameter of some algorithms.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Extra {
    Burst(u64),
    Capacity(u64),
    Buckets(u64),
    MaxWaitUs(u128),
    TtlUs(u128),
}

/// By the names of a policy and its limit.
type Targets = BTreeMap<[String; 2], BTreeSet<String>>;

pub(super) fn to_json(in_force: &InForce) -> String {
    let targets = in_force.adaptive.reported_targets();
    let all = in_force.policies();
    let policies: BTreeMap<_, _> =
        all.map(|policy| (policy.name().to_owned(), policy_json(policy, &targets))).collect();
    serde_json::to_string(&policies).unwrap_or_default()
}

fn policy_json<'a>(policy: PolicyView<'a>, targets: &Targets) -> PolicyJson<'a> {
    let enforce = policy.enforce().filter(|_| !policy.is_shadow());
    let enforce = enforce.map(|part| part.to_string());
    let share = policy.share().zip(policy.share_status());
    let share = share.map(|(share, ShareStatus { active, level })| ShareJson {
        of: share.shared(),
        by: share.by(),
        active,
        contended: level.is_some(),
        level: level.unwrap_or(1.0),
    });
    PolicyJson { limits: limits_json(policy, targets), shadow: policy.is_shadow(), enforce, share }
}

fn limits_json<'a>(policy: PolicyView<'a>, targets: &Targets) -> LimitsJson<'a> {
    if let Some(shaper) = policy.shaper() {
        return LimitsJson::One(shaper_json(shaper));
    }
    // A tenant has at most all of the shared limit. How its part is counted is nobody's business.
    let shared = policy.share().and_then(|_| policy.members().next());
    let member = |member: &'a Member| {
        let limit = shared.map_or(&member.limit, |shared| &shared.limit);
        member_json(policy.name(), member, limit, targets)
    };
    let mut members: Vec<_> = policy.members().map(member).collect();
    if let [LimitJson { name: None, .. }] = *members {
        return LimitsJson::One(members.remove(0));
    }
    let mode = match policy.mode() {
        Some(Mode::Any) => "any",
        _ => "all",
    };
    LimitsJson::Many { mode, members }
}

fn member_json<'a>(
    policy: &str,
    member: &'a Member,
    limit: &'a Limit,
    targets: &Targets,
) -> LimitJson<'a> {
    let extra = match limit {
        Limit::Gcra(gcra) => Some(Extra::Burst(gcra.burst())),
        Limit::TokenBucket(gcra) => Some(Extra::Capacity(gcra.burst())),
        Limit::SlidingWindow(window) => Some(Extra::Buckets(window.buckets())),
        Limit::Concurrency(permits) => Some(Extra::TtlUs(permits.lease().as_micros())),
        _ => None,
    };
    let names = || [policy.to_owned(), member.name.clone()];
    let followed = member.effective.as_ref().and_then(|_| targets.get(&names()));
    LimitJson {
        name: Some(member.name.as_str()).filter(|name| !name.is_empty()),
        key: member.key.as_deref(),
        algorithm: limit.algorithm(),
        rate: rate_of(limit),
        limit: limit.units(),
        time_zone: match limit {
            Limit::Quota(quota) => quota.zone().map(Zone::name),
            _ => None,
        },
        period_us: (!limit.grants_permits()).then(|| limit.period().as_micros()),
        extra,
        cost: Some(member.cost.get()).filter(|cost| *cost > 1),
        effective: member.effective.as_ref().map(|it| effective_units(limit, it)),
        adaptive: member
            .effective
            .as_ref()
            .map(|it| if it.is_enforced() { "enforce" } else { "shadow" }),
        targets: followed.cloned().unwrap_or_default(),
    }
}

fn rate_of(limit: &Limit) -> String {
    let units = limit.units();
    let every = match limit {
        Limit::Quota(quota) => quota.every(),
        _ => None,
    };
    match every {
        Some(every) => format!("{units}/{}", every.as_str()),
        None if limit.grants_permits() => format!("{units} at once"),
        None => rate(units, limit.period()),
    }
}

fn shaper_json(shaper: &LeakyBucket) -> LimitJson<'static> {
    LimitJson {
        name: None,
        key: None,
        algorithm: "leaky-bucket",
        rate: rate(shaper.limit(), shaper.period()),
        limit: shaper.limit(),
        time_zone: None,
        period_us: Some(shaper.period().as_micros()),
        extra: Some(Extra::MaxWaitUs(shaper.max_wait().as_micros())),
        cost: None,
        effective: None,
        adaptive: None,
        targets: BTreeSet::new(),
    }
}

fn effective_units(limit: &Limit, effective: &Effective) -> u64 {
    effective.units().map_or(limit.units(), |units| units.clamp(1, limit.units()))
}
