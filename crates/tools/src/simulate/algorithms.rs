//! `tidegate simulate algorithms`: one trace through all of them.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::options::{multiple, span_ms, told_ms, usage};
use super::output::Output;
use super::svg::{Chart, Line, Plot, Shape};
use super::table::Table;
use crate::Failure;
use tidegate_simulation::algorithms::{Input, POINTS, Report, Row, run as simulate};
use tidegate_simulation::float;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate algorithms                       100/s, one and a half times the demand
  tidegate simulate algorithms --clump 50            requests that come fifty at once
  tidegate simulate algorithms --limit 20 --window 1min --demand 0.8 --svg algorithms.svg
  tidegate simulate algorithms --json | jq '.algorithms[] | {algorithm, admitted, state_bytes}'

The same requests, at random instants, go through every algorithm with the same limit and window; what
else can be chosen is as it is by default, and nobody waits in the leaky bucket for more than a window.

Columns:
  in a window   the most that goes ahead in any window, wherever it begins
  burst         the same for a tenth of a window
  waits         the longest that an admitted request has to wait
  bytes         the largest state of the key, as it is written into a store

Exit codes: 0 ok, 1 error, 64 usage.";

/// Send one trace through all algorithms: what each admits, how large its bursts are, what it remembers.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Units per window, up to 10000
    #[arg(long, value_name = "N", default_value_t = Input::default().limit)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ms)]
    window: u64,
    /// How many windows, up to 100
    #[arg(long, value_name = "N", default_value_t = Input::default().windows)]
    windows: u64,
    /// How much is asked for, as a multiple of the limit, from 0.001 to 100; up to 20000 requests in all
    #[arg(long, value_name = "X", default_value = "1.5", value_parser = multiple)]
    demand: u64,
    /// How many requests come at once, up to 1000
    #[arg(long, value_name = "N", default_value_t = Input::default().clump)]
    clump: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = Input::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let &Args { limit, window: window_ms, windows, demand: demand_milli, clump, seed, .. } = args;
    let input = Input { limit, window_ms, windows, demand_milli, clump, seed };
    let report = simulate(&input).map_err(|unfit| usage(&unfit))?;
    args.output.write(&report, chart, text)
}

fn title(report: &Report) -> String {
    let (limit, window) = (report.limit, told_ms(report.window_ms));
    let demand = float(report.demand_milli) / 1000.0;
    format!("{limit} per {window}, {demand} × the demand, {} at once", report.clump)
}

fn text(report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    let Report { windows, offered, seed, .. } = report;
    writeln!(out, "{}: {offered} requests in {windows} windows, seed {seed}\n", title(report))?;
    let head = ["algorithm", "admitted", "denied", "in a window", "burst", "waits", "bytes"];
    let mut table = Table::new(&head);
    for row in &report.algorithms {
        let waits = match row.longest_wait_us {
            0 => String::new(),
            us => format!("{:?}", Duration::from_millis(us.div_ceil(1000))),
        };
        let Row { algorithm, admitted, denied, .. } = row;
        let (window, burst, bytes) = (row.most_in_a_window, row.largest_burst, row.state_bytes);
        table.row(&[algorithm, admitted, denied, &window, &burst, &waits, &bytes]);
    }
    table.print(out)
}

fn chart(report: &Report) -> Chart {
    Chart {
        title: title(report),
        x: "time, ms".to_owned(),
        y: "went ahead".to_owned(),
        mark: None,
        plot: Plot::Lines(lines(report)),
    }
}

/// Lines that lie on each other, as those of GCRA and the token bucket, are one.
fn lines(report: &Report) -> Vec<Line> {
    let step_ms = float(report.window_ms * report.windows) / float(POINTS);
    let mut lines: Vec<(String, &Vec<u64>)> = Vec::new();
    for Row { algorithm, timeline, .. } in &report.algorithms {
        match lines.iter_mut().find(|line| line.1 == timeline) {
            Some((name, _)) => *name = format!("{name}, {algorithm}"),
            None => lines.push(((*algorithm).to_owned(), timeline)),
        }
    }
    let point = |(count, ahead)| (float(count) * step_ms, float(ahead));
    let line = |(name, timeline): (String, &Vec<u64>)| Line {
        name,
        points: (0..).zip(timeline.iter().copied()).map(point).collect(),
        shape: Shape::Steps,
    };
    lines.into_iter().map(line).collect()
}
