//! `GET /v1/policies`: what the engine holds, an object by name.

use std::collections::BTreeMap;

use axum::http::header::{CONTENT_TYPE, HeaderName};
use serde::Serialize;
use tidegate::{Effective, LeakyBucket, Limit, Member, Mode, PolicyView};

use crate::service::InForce;
use tidegate_core::text::rate;

/// A policy of one limit is that limit; one of several says how they make one answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    One(ShownLimit<'a>),
    Many { mode: &'static str, members: Vec<ShownLimit<'a>> },
}

/// A limit, in the words of configuration and of the vector files.
#[derive(Serialize)]
struct ShownLimit<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    algorithm: &'static str,
    /// For people: `100/min`.
    rate: String,
    limit: u64,
    period_us: u128,
    #[serde(flatten)]
    extra: Option<Extra>,
    /// What is in force of a limit that follows the load; of one that does so for each key, for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    effective: Option<u64>,
    /// Whether that is enforced, or only computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<&'static str>,
}

/// What only some algorithms have.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Extra {
    Burst(u64),
    Capacity(u64),
    Buckets(u64),
    MaxWaitUs(u128),
}

/// The answer to `GET /v1/policies`.
pub(super) fn render(in_force: &InForce) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "application/json")], rendered(in_force))
}

pub(super) fn rendered(in_force: &InForce) -> String {
    let shown: BTreeMap<_, _> =
        in_force.policies().map(|policy| (policy.name().to_owned(), show(policy))).collect();
    serde_json::to_string(&shown).unwrap_or_default()
}

fn show(policy: PolicyView<'_>) -> Shown<'_> {
    if let Some(shaper) = policy.shaper() {
        return Shown::One(show_shaper(shaper));
    }
    let mut members: Vec<_> = policy.members().map(show_member).collect();
    if let [ShownLimit { name: None, .. }] = *members {
        return Shown::One(members.remove(0));
    }
    let mode = match policy.mode() {
        Some(Mode::Any) => "any",
        _ => "all",
    };
    Shown::Many { mode, members }
}

fn show_member(member: &Member) -> ShownLimit<'_> {
    let limit = &member.limit;
    let extra = match limit {
        Limit::Gcra(gcra) => Some(Extra::Burst(gcra.burst())),
        Limit::TokenBucket(gcra) => Some(Extra::Capacity(gcra.burst())),
        Limit::SlidingWindow(window) => Some(Extra::Buckets(window.buckets())),
        _ => None,
    };
    let every = match limit {
        Limit::Quota(quota) => quota.every(),
        _ => None,
    };
    ShownLimit {
        name: Some(member.name.as_str()).filter(|name| !name.is_empty()),
        key: member.key.as_deref(),
        algorithm: limit.algorithm(),
        rate: match every {
            Some(every) => format!("{}/{}", limit.units(), every.as_str()),
            None => rate(limit.units(), limit.period()),
        },
        limit: limit.units(),
        period_us: limit.period().as_micros(),
        extra,
        effective: member.effective.as_ref().map(|it| in_force(limit, it)),
        adaptive: member
            .effective
            .as_ref()
            .map(|it| if it.is_enforced() { "enforce" } else { "shadow" }),
    }
}

fn show_shaper(shaper: &LeakyBucket) -> ShownLimit<'static> {
    ShownLimit {
        name: None,
        key: None,
        algorithm: "leaky-bucket",
        rate: rate(shaper.limit(), shaper.period()),
        limit: shaper.limit(),
        period_us: shaper.period().as_micros(),
        extra: Some(Extra::MaxWaitUs(shaper.max_wait().as_micros())),
        effective: None,
        adaptive: None,
    }
}

fn in_force(limit: &Limit, effective: &Effective) -> u64 {
    effective.units().map_or(limit.units(), |units| units.clamp(1, limit.units()))
}
