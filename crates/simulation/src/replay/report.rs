//! What a replay found.

use serde::Serialize;

use super::record::told;
use super::tally::{DeniedKey, PolicyTally, Tally, Unreadable};
use super::timeline::Course;

#[derive(Debug, Serialize)]
pub struct Report {
    pub lines: u64,
    pub from: Option<String>,
    pub until: Option<String>,
    /// Requests that no route limits.
    pub unlimited: u64,
    pub unreadable: u64,
    pub first_unreadable: Vec<Unreadable>,
    pub policies: Vec<Row>,
    /// What all policies together have decided, over time.
    pub timeline: Course,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub policy: String,
    pub requests: u64,
    pub admitted: u64,
    pub denied: u64,
    pub denied_percent: f64,
    pub keys_denied: usize,
    /// The most denied first.
    pub keys: Vec<DeniedKey>,
    /// Denied by keys that came when too many were told apart already.
    pub denied_by_others: u64,
}

impl Report {
    pub(super) fn new(tally: Tally, top: usize) -> Self {
        let row = |(name, policy): (&String, &PolicyTally)| Row {
            policy: name.clone(),
            requests: policy.requests,
            admitted: policy.requests - policy.denied,
            denied: policy.denied,
            denied_percent: percent(policy.denied, policy.requests),
            keys_denied: policy.keys_denied(),
            keys: policy.most_denied(top),
            denied_by_others: policy.others,
        };
        Self {
            lines: tally.lines,
            from: tally.span.map(|(first, _)| told(first)),
            until: tally.span.map(|(_, last)| told(last)),
            unlimited: tally.unlimited,
            unreadable: tally.unreadable,
            policies: tally.policies.iter().map(row).collect(),
            timeline: tally.timeline.course(),
            notes: notes(&tally),
            first_unreadable: tally.shown,
        }
    }

    /// Whether there was something, and nothing of it is a log's.
    pub const fn is_no_log(&self) -> bool {
        self.lines > 0 && self.unreadable == self.lines
    }
}

fn notes(tally: &Tally) -> Vec<String> {
    let mut notes = Vec::new();
    if tally.span.is_some() && !tally.is_fine {
        notes.push(
            "the log has whole seconds: requests of one second count as simultaneous, so that limits with a \
             small burst deny more here than they would have"
                .to_owned(),
        );
    }
    if tally.stepped_back > 0 {
        notes.push(format!(
            "{} lines are more than a minute older than one before them: sort the log",
            tally.stepped_back
        ));
    }
    if tally.guessed > 0 {
        notes.push(format!(
            "{} requests should be counted by headers or cookies that the log does not have: they were counted by \
             what is left, or by client_ip",
            tally.guessed
        ));
    }
    if tally.forgotten > 0 {
        notes.push(format!(
            "{} counters were forgotten while they mattered, for there were more keys than fit into memory: more was \
             admitted here than would have been. Replay a shorter part of the log, or fewer routes",
            tally.forgotten
        ));
    }
    notes
}

/// To a tenth, so that it prints the same everywhere.
fn percent(part: u64, whole: u64) -> f64 {
    let permille = (u128::from(part) * 2000 + u128::from(whole)) / u128::from(whole.max(1)) / 2;
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 10.0
}
