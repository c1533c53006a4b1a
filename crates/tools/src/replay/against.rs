//! `tidegate replay --against`: what a new configuration changes for whom.

use std::fmt::Write;
use std::io;
use std::process::ExitCode;

use serde::Serialize;

use super::super::output::{Table, print_report};
use super::super::{ERROR, Failure, OK};
use super::{ReplayArgs, no_plan, not_a_log, open, read_lines, reasons, unreadable};
use tidegate_simulation::StopFlag;
use tidegate_simulation::replay::{
    ChangedClient, ComparisonReport, FlipRow, Flips, Replayer, compare,
};

#[derive(Serialize)]
struct NamedComparison<'a> {
    log: &'a str,
    #[serde(flatten)]
    report: &'a ComparisonReport,
}

/// Replays through both, and prints the report.
pub(super) fn run(args: &ReplayArgs, old: &Replayer, new: &Replayer) -> Result<ExitCode, Failure> {
    let (log, size) = open(&args.log)?;
    let name = args.log.display().to_string();
    let compared = read_lines(size, |progress| {
        compare((old, new), log, args.top, &StopFlag::default(), progress)
    });
    let mut report = compared.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    if report.is_no_log() {
        return Err(not_a_log(&name, &report.first_unreadable));
    }
    if args.max_flips.is_some()
        && let Some(why) = too_little(&report)
    {
        let why = format!("{name} {why}: a check with --max-flips needs more");
        return Err(Failure::new(why + &reasons(&report.first_unreadable)));
    }
    if report.plans.is_empty() {
        report.notes.extend(no_plan(args));
    }
    let named = NamedComparison { log: &name, report: &report };
    print_report(&named, args.json, || text(&named))?;
    match args.max_flips {
        Some(most) if report.flips > most => {
            let why = format!("{} requests are decided otherwise: more than {most}", report.flips);
            // The exit code matters even if the pipe is closed.
            let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("tidegate: {why}\n"));
            Ok(ExitCode::from(ERROR))
        }
        _ => Ok(ExitCode::from(OK)),
    }
}

/// Why a report without flips would not show that nothing changes.
fn too_little(report: &ComparisonReport) -> Option<String> {
    let ComparisonReport { lines, unreadable, total, .. } = report;
    if *lines == 0 {
        return Some("has no lines".to_owned());
    }
    if *unreadable > lines / 2 {
        return Some(format!("has {lines} lines, and {unreadable} of them cannot be read"));
    }
    (total.requests == 0).then(|| {
        "has no request that both files decide: limits of concurrency are not replayed".to_owned()
    })
}

fn text(NamedComparison { log, report }: &NamedComparison<'_>) -> String {
    let ComparisonReport { lines, unreadable: bad, flips, total, .. } = report;
    let span = match (&report.from, &report.until) {
        (Some(from), Some(until)) => format!(" from {from} to {until}"),
        _ => String::new(),
    };
    let Flips { newly_denied, newly_admitted, .. } = total;
    let mut out = format!(
        "{log}: {lines} lines{span}; {bad} could not be read\n\n{flips} requests are decided otherwise: {newly_denied} \
         newly denied, {newly_admitted} newly admitted\n\n"
    );
    out.push_str(&rows("policy", &report.policies));
    if !report.plans.is_empty() {
        let _ = write!(out, "\n{}", rows("plan", &report.plans));
    }
    if !report.clients.is_empty() {
        out.push_str(&clients(report));
    }
    out.push_str(&unreadable(&report.first_unreadable));
    for note in &report.notes {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

fn rows(of: &str, rows: &[FlipRow]) -> String {
    let mut table =
        Table::new(&[of, "requests", "newly denied", "", "newly admitted", "denied by both"]);
    for FlipRow { name, flips, newly_denied_percent } in rows {
        let percent = format!("{newly_denied_percent:.1} %");
        let Flips { requests, newly_denied, newly_admitted, denied_by_both } = flips;
        table.row(&[name, requests, newly_denied, &percent, newly_admitted, denied_by_both]);
    }
    table.to_string()
}

fn clients(report: &ComparisonReport) -> String {
    let mut table =
        Table::new(&["client", "requests", "newly denied", "newly admitted", "first", "last"]);
    for ChangedClient { client, flips, first, last } in &report.clients {
        let Flips { requests, newly_denied, newly_admitted, .. } = flips;
        table.row(&[client, requests, newly_denied, newly_admitted, first, last]);
    }
    let others = match report.flips_of_others {
        0 => String::new(),
        others => {
            format!("and {others} requests of clients beyond those that are counted one by one\n")
        }
    };
    format!("\n{} clients notice:\n{table}{others}", report.clients_changed)
}
