//! The table, for people and for programs.

use std::io::{self, Write};
use std::time::Duration;

use super::Args;
use crate::Failure;
use tidegate_simulation::fleet::{Row, ratio};

pub(super) fn print(args: &Args, ttl: Duration, rows: &[Row]) -> Result<(), Failure> {
    let mut said = Vec::new();
    let made = if args.json { json(&mut said, rows) } else { table(&mut said, args, ttl, rows) };
    made.map_err(|error| Failure::new(error.to_string()))?;
    crate::print(&said)
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
