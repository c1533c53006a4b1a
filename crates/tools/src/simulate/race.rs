//! `tidegate simulate race`: what slips through between a read and a write.

use std::process::ExitCode;

use super::options::OutputArgs;
use super::svg::{Chart, Group, Plot};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::float;
use tidegate_simulation::race::{Race, RaceReport};

const EXAMPLES: &str = "\
Examples:
  tidegate simulate race                             3 nodes: up to 2 slip through
  tidegate simulate race --nodes 8 --limit 10 --runs 5000
  tidegate simulate race --svg race.svg              how often how many do

Nodes share a counter and ask as often as they are admitted. One that reads the counter, decides and
then writes it lets others read in between, so that up to nodes − 1 are admitted above the limit.
An atomic step, as tidegate's stores take it, leaves no room for that.

Exit codes: 0 ok, 1 error, 64 usage.";

/// Let nodes read a counter, decide, then write it: how many slip through?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RaceArgs {
    /// How many nodes, up to 64
    #[arg(long, value_name = "N", default_value_t = Race::default().nodes)]
    nodes: u64,
    /// What the counter allows, up to 10000
    #[arg(long, value_name = "N", default_value_t = Race::default().limit)]
    limit: u64,
    /// How many times, each with other luck; times limit and nodes together up to 250000
    #[arg(long, value_name = "N", default_value_t = Race::default().runs)]
    runs: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = Race::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &RaceArgs) -> Result<ExitCode, Failure> {
    let &RaceArgs { nodes, limit, runs, seed, .. } = args;
    args.output.run(&Race { nodes, limit, runs, seed }, chart, text)
}

fn title(report: &RaceReport) -> String {
    let Race { nodes, limit, runs, .. } = report.input;
    format!("{nodes} nodes at a counter of {limit}, {runs} times")
}

fn text(report: &RaceReport) -> String {
    let head = ["way", "over the limit at worst", "on average", "in how many runs"];
    let mut table = Table::new(&head);
    for way in &report.ways {
        let mean = format!("{:.3}", way.over_limit_mean);
        let over = report.input.runs - way.runs_by_over_limit.first().unwrap_or(&0);
        table.row(&[&way.way, &way.over_limit_worst, &mean, &over]);
    }
    format!("{}; at most {} can slip through\n\n{table}", title(report), report.bound)
}

fn chart(report: &RaceReport) -> Chart {
    let runs =
        |over: usize| report.ways.iter().map(|way| float(way.runs_by_over_limit[over])).collect();
    let group = |over: usize| Group { name: format!("limit + {over}"), values: runs(over) };
    let bars = report.ways[0].runs_by_over_limit.len();
    Chart {
        title: title(report),
        x: "runs".to_owned(),
        y: String::new(),
        mark: None,
        plot: Plot::Bars {
            series: report.ways.iter().map(|way| way.way.to_owned()).collect(),
            groups: (0..bars).map(group).collect(),
        },
    }
}
