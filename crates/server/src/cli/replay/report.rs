//! What a replay found, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::record::told;
use super::tally::{DeniedKey, Tally, Unreadable};
use crate::cli::simulate::table::Table;

#[derive(Serialize)]
pub(super) struct Report {
    log: String,
    lines: u64,
    from: Option<String>,
    until: Option<String>,
    /// Requests that no route limits.
    unlimited: u64,
    unreadable: u64,
    first_unreadable: Vec<Unreadable>,
    policies: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    policy: String,
    requests: u64,
    admitted: u64,
    denied: u64,
    denied_percent: f64,
    keys_denied: usize,
    /// The most denied first.
    keys: Vec<DeniedKey>,
    /// Denied by keys that came when too many were told apart already.
    denied_by_others: u64,
}

impl Report {
    pub(super) fn new(log: String, tally: Tally, top: usize) -> Self {
        let row = |(name, policy): (&String, &super::tally::PolicyTally)| Row {
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
            log,
            lines: tally.lines,
            from: tally.span.map(|(first, _)| told(first)),
            until: tally.span.map(|(_, last)| told(last)),
            unlimited: tally.unlimited,
            unreadable: tally.unreadable,
            policies: tally.policies.iter().map(row).collect(),
            notes: notes(&tally),
            first_unreadable: tally.shown,
        }
    }

    pub(super) fn json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn text(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let Self { log, lines, unlimited, unreadable, .. } = self;
        write!(out, "{log}: {lines} lines")?;
        if let (Some(from), Some(until)) = (&self.from, &self.until) {
            write!(out, " from {from} to {until}")?;
        }
        writeln!(out, "; {unlimited} not limited, {unreadable} could not be read\n")?;
        let mut table =
            Table::new(&["policy", "requests", "admitted", "denied", "", "keys denied"]);
        for row in &self.policies {
            let percent = format!("{:.1} %", row.denied_percent);
            let Row { policy, requests, admitted, denied, keys_denied, .. } = row;
            table.row(&[policy, requests, admitted, denied, &percent, keys_denied]);
        }
        table.print(out)?;
        for row in self.policies.iter().filter(|row| !row.keys.is_empty()) {
            writeln!(out, "\nmost denied by {}:", row.policy)?;
            let mut table = Table::new(&["key", "denied", "first", "last"]);
            for DeniedKey { key, denied, first, last } in &row.keys {
                table.row(&[key, denied, first, last]);
            }
            table.print(out)?;
            if row.denied_by_others > 0 {
                let others = row.denied_by_others;
                writeln!(out, "and {others} more, by keys beyond the most that are told apart")?;
            }
        }
        if !self.first_unreadable.is_empty() {
            writeln!(out, "\nlines that could not be read, the first of them:")?;
        }
        for Unreadable { line, reason } in &self.first_unreadable {
            writeln!(out, "  line {line}: {reason}")?;
        }
        for note in &self.notes {
            writeln!(out, "\nnote: {note}")?;
        }
        Ok(())
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
    notes
}

/// To a tenth, so that it prints the same everywhere.
fn percent(part: u64, whole: u64) -> f64 {
    let permille = (u128::from(part) * 2000 + u128::from(whole)) / u128::from(whole.max(1)) / 2;
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 10.0
}
