//! What a replay found, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use crate::simulate::table::Table;
use tidegate_simulation::replay::{DeniedKey, Report, Row, Unreadable};

#[derive(Serialize)]
struct Named<'a> {
    log: &'a str,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn json(log: &str, report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Named { log, report })?;
    out.write_all(b"\n")
}

pub(super) fn text(log: &str, report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    let Report { lines, unlimited, unreadable, .. } = report;
    write!(out, "{log}: {lines} lines")?;
    if let (Some(from), Some(until)) = (&report.from, &report.until) {
        write!(out, " from {from} to {until}")?;
    }
    writeln!(out, "; {unlimited} not limited, {unreadable} could not be read\n")?;
    let mut table = Table::new(&["policy", "requests", "admitted", "denied", "", "keys denied"]);
    for row in &report.policies {
        let percent = format!("{:.1} %", row.denied_percent);
        let Row { policy, requests, admitted, denied, keys_denied, .. } = row;
        table.row(&[policy, requests, admitted, denied, &percent, keys_denied]);
    }
    table.print(out)?;
    for row in report.policies.iter().filter(|row| !row.keys.is_empty()) {
        most_denied(row, out)?;
    }
    if !report.first_unreadable.is_empty() {
        writeln!(out, "\nlines that could not be read, the first of them:")?;
    }
    for Unreadable { line, reason } in &report.first_unreadable {
        writeln!(out, "  line {line}: {reason}")?;
    }
    for note in &report.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn most_denied(row: &Row, out: &mut Vec<u8>) -> io::Result<()> {
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
    Ok(())
}
