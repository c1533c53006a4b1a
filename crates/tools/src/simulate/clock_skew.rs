//! `tidegate simulate clock-skew`: whose clock decides.

use std::io::{self, Write};
use std::process::ExitCode;

use super::options::{span_ms, told_ms, usage};
use super::output::Output;
use super::svg::{Chart, Group, Plot};
use super::table::Table;
use crate::Failure;
use tidegate_simulation::clock_skew::{Input, Outcome, Report, run as simulate};
use tidegate_simulation::float;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate clock-skew                       3 nodes, up to 1.5 s off, 60/s
  tidegate simulate clock-skew --skew 400ms          who is behind gets nothing
  tidegate simulate clock-skew --nodes 10 --limit 100 --skew 1min --svg clock-skew.svg

Nodes share one state, each is asked for the whole limit at random, and their clocks are spread evenly
from SKEW behind to SKEW ahead. Either each decides by its own clock, or all by the one of the store,
as tidegate's stores do.

Columns:
  admitted      in all windows
  in a window   the most that goes ahead in any window, wherever it begins
  per node      what the nodes get that get least and most

Exit codes: 0 ok, 1 error, 64 usage.";

/// Let nodes decide by clocks that differ, and by the one of the store.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// How many nodes, from 2 to 50
    #[arg(long, value_name = "N", default_value_t = Input::default().nodes)]
    nodes: u64,
    /// Units per window, for all nodes together, up to 1000
    #[arg(long, value_name = "N", default_value_t = Input::default().limit)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ms)]
    window: u64,
    /// How far a clock is behind or ahead at most, up to 24h
    #[arg(long, value_name = "TIME", default_value = "1500ms", value_parser = span_ms)]
    skew: u64,
    /// How many windows, up to 100; times nodes and limit up to 20000
    #[arg(long, value_name = "N", default_value_t = Input::default().windows)]
    windows: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = Input::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let &Args { nodes, limit, window: window_ms, skew: skew_ms, windows, seed, .. } = args;
    let input = Input { nodes, limit, window_ms, skew_ms, windows, seed };
    let report = simulate(&input).map_err(|unfit| usage(&unfit))?;
    args.output.write(&report, chart, text)
}

fn title(report: &Report) -> String {
    let (window, skew) = (told_ms(report.window_ms), told_ms(report.skew_ms));
    let Report { nodes, limit, windows, .. } = report;
    format!("{nodes} nodes, clocks off by up to {skew}, {limit} per {window}, {windows} windows")
}

fn text(report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "{}, {} requests\n", title(report), report.offered)?;
    let head = ["algorithm", "clock", "admitted", "in a window", "per node"];
    let mut table = Table::new(&head);
    for row in &report.algorithms {
        for (name, clock, outcome) in
            [(row.algorithm, "own", &row.own_clocks), ("", "store", &row.store_clock)]
        {
            let Outcome { admitted, most_in_a_window, least_by_node, most_by_node } = outcome;
            let per_node = format!("{least_by_node} to {most_by_node}");
            table.row(&[&name, &clock, &admitted, &most_in_a_window, &per_node]);
        }
    }
    table.print(out)
}

fn chart(report: &Report) -> Chart {
    let group = |row: &tidegate_simulation::clock_skew::Row| Group {
        name: row.algorithm.to_owned(),
        values: vec![float(row.own_clocks.admitted), float(row.store_clock.admitted)],
    };
    Chart {
        title: title(report),
        x: "admitted".to_owned(),
        y: String::new(),
        mark: Some(("limit × windows".to_owned(), float(report.limit * report.windows))),
        plot: Plot::Bars {
            series: vec!["decided by the nodes' clocks".to_owned(), "by the store's".to_owned()],
            groups: report.algorithms.iter().map(group).collect(),
        },
    }
}
