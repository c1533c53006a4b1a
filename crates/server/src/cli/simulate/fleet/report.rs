//! The table, for people and for programs.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::Args;
use super::meter::Meter;
use super::setting::{Setting, Tally};

/// One fleet in one way.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) way: &'static str,
    nodes: u64,
    offered: u64,
    admitted: u64,
    utilisation: f64,
    pub(super) overshoot: u64,
    calls: u64,
    calls_per_admission: f64,
    calls_per_second: f64,
    in_process: f64,
    units_lost: u64,
}

impl Row {
    pub(super) fn new(
        way: &'static str,
        setting: &Setting,
        meters: &[Meter],
        tally: &Tally,
    ) -> Self {
        let admitted: u64 = meters.iter().map(Meter::admitted).sum();
        let steady = meters.iter().map(Meter::utilisation);
        let (used, usable) = steady.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let used_up = admitted + tally.returned;
        Self {
            way,
            nodes: setting.nodes,
            offered: tally.offered,
            admitted,
            utilisation: ratio(used, usable),
            overshoot: meters.iter().map(Meter::overshoot).max().unwrap_or(0),
            calls: tally.calls,
            calls_per_admission: ratio(tally.calls, admitted),
            calls_per_second: ratio(tally.calls * 1_000_000, setting.duration_us),
            in_process: ratio(tally.in_process, tally.offered),
            units_lost: tally.charged.saturating_sub(used_up),
        }
    }
}

/// To four decimals, so that it prints the same everywhere.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    let tenths_of_thousandths = u128::from(part) * 10_000 / u128::from(whole);
    u32::try_from(tenths_of_thousandths).map_or(f64::INFINITY, f64::from) / 10_000.0
}

pub(super) fn print(args: &Args, ttl: Duration, rows: &[Row]) {
    let mut out = io::stdout().lock();
    // A closed pipe is no reason to fail: whoever closed it has read enough.
    let _ = if args.json { json(&mut out, rows) } else { table(&mut out, args, ttl, rows) };
}

fn json(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, rows)?;
    writeln!(out)
}

fn table(out: &mut impl Write, args: &Args, ttl: Duration, rows: &[Row]) -> io::Result<()> {
    let demand = ratio(args.demand, 1000);
    writeln!(
        out,
        "{} on {} {}, {demand} × the demand, {:?} each way, {} % lost, {} kills, {:?}, seed {}; leases live {ttl:?}\n",
        args.limit,
        args.keys,
        if args.keys == 1 { "key" } else { "keys" },
        args.latency,
        ratio(args.loss, 10_000),
        args.kills,
        args.duration,
        args.seed,
    )?;
    writeln!(
        out,
        "{:>6} {:<7} {:>9} {:>9} {:>11} {:>9} {:>10} {:>9} {:>10} {:>7}",
        "nodes",
        "way",
        "offered",
        "admitted",
        "utilisation",
        "overshoot",
        "calls/adm.",
        "calls/s",
        "in process",
        "lost"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:>6} {:<7} {:>9} {:>9} {:>11.3} {:>9} {:>10.3} {:>9.0} {:>8.1} % {:>7}",
            row.nodes,
            row.way,
            row.offered,
            row.admitted,
            row.utilisation,
            row.overshoot,
            row.calls_per_admission,
            row.calls_per_second,
            row.in_process * 100.0,
            row.units_lost
        )?;
    }
    Ok(())
}
