//! The report of a replay.

use serde::Serialize;

use super::counts::{DeniedKey, PolicyCounts, ReplayCounts, Unreadable};
use super::plans::PlanReport;
use super::rates::RateReport;
use super::record::rfc_3339_utc;
use super::timeline::TimelineSteps;

#[derive(Debug, Serialize)]
pub struct ReplayReport {
    pub lines: u64,
    pub from: Option<String>,
    pub until: Option<String>,
    /// Requests that no route limits.
    pub unlimited: u64,
    pub unreadable: u64,
    pub first_unreadable: Vec<Unreadable>,
    pub policies: Vec<PolicyReport>,
    /// How fast clients were.
    pub rates: RateReport,
    /// Lines more than a minute older than one before them. If there are any, the first note is about them.
    pub out_of_order: u64,
    /// The decisions of all policies together, over time.
    pub timeline: TimelineSteps,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct PolicyReport {
    pub policy: String,
    pub requests: u64,
    pub admitted: u64,
    pub denied: u64,
    pub denied_percent: f64,
    pub keys_denied: usize,
    /// By the header that names the plan, if it was asked for and the log has it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<PlanReport>,
    /// The most denied first.
    pub keys: Vec<DeniedKey>,
    /// Denials of keys beyond those that are counted one by one.
    pub denied_by_others: u64,
}

impl ReplayReport {
    pub(super) fn new(counts: ReplayCounts, top: usize) -> Self {
        let row = |(name, policy): (&String, &PolicyCounts)| PolicyReport {
            policy: name.clone(),
            requests: policy.requests,
            admitted: policy.requests - policy.denied,
            denied: policy.denied,
            denied_percent: percent(policy.denied, policy.requests),
            keys_denied: policy.keys_denied(),
            plans: policy.plans.iter().map(|(plan, counts)| counts.report(plan)).collect(),
            keys: policy.most_denied(top),
            denied_by_others: policy.others,
        };
        Self {
            lines: counts.lines,
            from: counts.span.map(|(first, _)| rfc_3339_utc(first)),
            until: counts.span.map(|(_, last)| rfc_3339_utc(last)),
            unlimited: counts.unlimited,
            unreadable: counts.unreadable,
            policies: counts.policies.iter().map(row).collect(),
            rates: counts.rates.report(),
            out_of_order: counts.stepped_back,
            timeline: counts.timeline.steps(),
            notes: notes(&counts),
            first_unreadable: counts.shown,
        }
    }

    /// Whether there were lines, and none of them is a line of an access log.
    pub const fn is_no_log(&self) -> bool {
        self.lines > 0 && self.unreadable == self.lines
    }
}

pub(super) fn notes(counts: &ReplayCounts) -> Vec<String> {
    let mut notes = Vec::new();
    if counts.stepped_back > 0 {
        notes.push(format!(
            "{} lines are more than a minute older than one before them, and counted at its time: sort the log, or these \
             numbers are wrong",
            counts.stepped_back
        ));
    }
    if counts.span.is_some() && !counts.has_fraction {
        notes.push(
            "the log has whole seconds: requests of one second count as simultaneous, so that limits with a \
             small burst deny more here than they would have"
                .to_owned(),
        );
    }
    if counts.lacks_headers > 0 {
        notes.push(format!(
            "{} requests should be counted or routed by headers or cookies that the log does not have: they were counted by \
             what is left, or by client_ip",
            counts.lacks_headers
        ));
    }
    if counts.lacks_contents > 0 {
        notes.push(format!(
            "{} requests should be counted or routed by tokens or bodies (`jwt:`, `json:`), which a replay does not read: \
             they were counted by what is left, or by client_ip, and choices by a token took `else`",
            counts.lacks_contents
        ));
    }
    if counts.not_replayed > 0 {
        notes.push(format!(
            "{} requests were not replayed: their policies limit concurrency, and a log does not say how long requests took",
            counts.not_replayed
        ));
    }
    if counts.shadow_denied > 0 {
        notes.push(format!(
            "{} requests were denied in shadow by one of the files, and count as admitted there: shadow refuses nobody. \
             Without --against, they count as denied",
            counts.shadow_denied
        ));
    }
    if counts.evicted > 0 {
        notes.push(format!(
            "{} counters were forgotten while they mattered, for there were more keys than fit into memory: more was \
             admitted here than would have been. Replay a shorter part of the log, or fewer routes",
            counts.evicted
        ));
    }
    notes.extend(counts.first_periods.iter().cloned());
    notes
}

/// To a tenth, so that it prints the same everywhere.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    let permille = (u128::from(part) * 2000 + u128::from(whole)) / u128::from(whole.max(1)) / 2;
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 10.0
}
