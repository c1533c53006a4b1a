//! `tidegate simulate algorithms`: one trace through all of them.

use std::process::ExitCode;
use std::time::Duration;

use super::options::{OutputArgs, format_ms, read_ms, read_multiple, read_units};
use super::svg::{Chart, Line, Plot, Shape};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::algorithms::{Algorithms, AlgorithmsReport, AlgorithmsRow, POINTS};
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
pub(super) struct AlgorithmsArgs {
    /// Units per window, up to 10000
    #[arg(long, value_name = "N", default_value_t = Algorithms::default().limit, value_parser = read_units)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_ms)]
    window: u64,
    /// How many windows, up to 100
    #[arg(long, value_name = "N", default_value_t = Algorithms::default().windows)]
    windows: u64,
    /// How much is asked for, as a multiple of the limit, from 0.001 to 100; up to 20000 requests in all
    #[arg(long, value_name = "X", default_value = "1.5", value_parser = read_multiple)]
    demand: u64,
    /// How many requests come at once, up to 1000
    #[arg(long, value_name = "N", default_value_t = Algorithms::default().clump)]
    clump: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = Algorithms::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &AlgorithmsArgs) -> Result<ExitCode, Failure> {
    let &AlgorithmsArgs {
        limit,
        window: window_ms,
        windows,
        demand: demand_milli,
        clump,
        seed,
        ..
    } = args;
    let input = Algorithms { limit, window_ms, windows, demand_milli, clump, seed };
    args.output.run(&input, chart, text)
}

fn title(report: &AlgorithmsReport) -> String {
    let Algorithms { limit, window_ms, demand_milli, clump, .. } = report.input;
    let (window, demand) = (format_ms(window_ms), float(demand_milli) / 1000.0);
    format!("{limit} per {window}, {demand} × the demand, {clump} at once")
}

fn text(report: &AlgorithmsReport) -> String {
    let head = ["algorithm", "admitted", "denied", "in a window", "burst", "waits", "bytes"];
    let mut table = Table::new(&head);
    for row in &report.algorithms {
        let waits = match row.longest_wait_us {
            0 => String::new(),
            us => format!("{:?}", Duration::from_millis(us.div_ceil(1000))),
        };
        let AlgorithmsRow { algorithm, admitted, denied, .. } = row;
        let (window, burst, bytes) = (row.most_in_a_window, row.largest_burst, row.state_bytes);
        table.row(&[algorithm, admitted, denied, &window, &burst, &waits, &bytes]);
    }
    let (offered, Algorithms { windows, seed, .. }) = (report.offered, report.input);
    format!("{}: {offered} requests in {windows} windows, seed {seed}\n\n{table}", title(report))
}

fn chart(report: &AlgorithmsReport) -> Chart {
    Chart {
        title: title(report),
        x: "time, ms".to_owned(),
        y: "went ahead".to_owned(),
        mark: None,
        plot: Plot::Lines(lines(report)),
    }
}

/// Equal lines, like those of GCRA and the token bucket, become one.
fn lines(report: &AlgorithmsReport) -> Vec<Line> {
    let step_ms = float(report.input.window_ms * report.input.windows) / float(POINTS);
    let mut lines: Vec<(String, &Vec<u64>)> = Vec::new();
    for AlgorithmsRow { algorithm, timeline, .. } in &report.algorithms {
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
