//! `tidegate simulate clock-skew`: whose clock decides.

use std::process::ExitCode;

use super::options::{OutputArgs, format_ms, read_ms, read_units};
use super::svg::{Chart, Group, Plot};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::clock_skew::{ClockOutcome, ClockSkew, ClockSkewReport, ClockSkewRow};
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
  allowed       the most that the limit allows in all windows, on a right clock: a bucket starts full
  admitted      in all windows; above `allowed`, the clocks are to blame
  in a window   the most that goes ahead in any window, wherever it begins: after a pause a full bucket
                lets nearly twice the limit through by any clock
  per node      what the nodes get that get least and most

Exit codes: 0 ok, 1 error, 64 usage.";

/// Let nodes decide by clocks that differ, and by the one of the store.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ClockSkewArgs {
    /// How many nodes, from 2 to 50
    #[arg(long, value_name = "N", default_value_t = ClockSkew::default().nodes)]
    nodes: u64,
    /// Units per window, for all nodes together, up to 1000
    #[arg(long, value_name = "N", default_value_t = ClockSkew::default().limit, value_parser = read_units)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_ms)]
    window: u64,
    /// How far a clock is behind or ahead at most, up to 24h
    #[arg(long, value_name = "TIME", default_value = "1500ms", value_parser = read_ms)]
    skew: u64,
    /// How many windows, up to 100; times nodes and limit up to 20000
    #[arg(long, value_name = "N", default_value_t = ClockSkew::default().windows)]
    windows: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = ClockSkew::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &ClockSkewArgs) -> Result<ExitCode, Failure> {
    let &ClockSkewArgs { nodes, limit, window: window_ms, skew: skew_ms, windows, seed, .. } = args;
    let input = ClockSkew { nodes, limit, window_ms, skew_ms, windows, seed };
    args.output.run(&input, chart, text)
}

fn title(report: &ClockSkewReport) -> String {
    let ClockSkew { nodes, limit, windows, window_ms, skew_ms, .. } = report.input;
    let (window, skew) = (format_ms(window_ms), format_ms(skew_ms));
    format!("{nodes} nodes, clocks off by up to {skew}, {limit} per {window}, {windows} windows")
}

fn text(report: &ClockSkewReport) -> String {
    let head = ["algorithm", "allowed", "clock", "admitted", "in a window", "per node"];
    let mut table = Table::new(&head);
    for row in &report.algorithms {
        let allowed = row.allowed.to_string();
        for (name, allowed, clock, outcome) in [
            (row.algorithm, allowed.as_str(), "own", &row.own_clocks),
            ("", "", "store", &row.store_clock),
        ] {
            let ClockOutcome { admitted, most_in_a_window, least_by_node, most_by_node } = outcome;
            let per_node = format!("{least_by_node} to {most_by_node}");
            table.row(&[&name, &allowed, &clock, &admitted, &most_in_a_window, &per_node]);
        }
    }
    format!("{}, {} requests\n\n{table}", title(report), report.offered)
}

fn chart(report: &ClockSkewReport) -> Chart {
    let group = |row: &ClockSkewRow| Group {
        name: row.algorithm.to_owned(),
        values: vec![float(row.own_clocks.admitted), float(row.store_clock.admitted)],
    };
    Chart {
        title: title(report),
        x: "admitted".to_owned(),
        y: String::new(),
        mark: Some((
            "limit × windows".to_owned(),
            float(report.input.limit * report.input.windows),
        )),
        plot: Plot::Bars {
            series: vec!["decided by the nodes' clocks".to_owned(), "by the store's".to_owned()],
            groups: report.algorithms.iter().map(group).collect(),
        },
    }
}
