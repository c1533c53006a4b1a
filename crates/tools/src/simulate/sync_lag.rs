//! `tidegate simulate sync-lag`: what nodes admit that hear of each other late.

use std::process::ExitCode;

use super::options::{OutputArgs, format_ms, read_ms, read_units};
use super::svg::{Chart, Line, Plot, Shape};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::float;
use tidegate_simulation::sync_lag::{CurvePoint, SyncLag, SyncLagReport};

const EXAMPLES: &str = "\
Examples:
  tidegate simulate sync-lag                         3 nodes, 60/s, 400 ms late: 108 instead of 60
  tidegate simulate sync-lag --interval 1s           each node admits the whole limit
  tidegate simulate sync-lag --nodes 10 --limit 100 --window 5s --interval 5s
  tidegate simulate sync-lag --svg sync-lag.svg      over all intervals up to a window

Each node is asked for the whole limit in one window, evenly. A naive node counts what it admits
itself at once, and what others admit one interval later. With s = min(1, interval / window) they
admit limit × ((1 − s) + nodes × s).

Ways:
  naive    as above, beside the formula
  atomic   one store decides each check in one step: tidegate without leases
  leases   nodes take units ahead from that store; the code is the one that runs in production

Exit codes: 0 ok, 1 error, 64 usage.";

/// Let nodes hear of each other late: how much more do they admit?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SyncLagArgs {
    /// How many nodes, up to 100
    #[arg(long, value_name = "N", default_value_t = SyncLag::default().nodes)]
    nodes: u64,
    /// Units per window, for all nodes together, up to 10000; times the nodes up to 30000
    #[arg(long, value_name = "N", default_value_t = SyncLag::default().limit, value_parser = read_units)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_ms)]
    window: u64,
    /// How late a node hears of what others admit, up to 24h
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = read_ms)]
    interval: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = SyncLag::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &SyncLagArgs) -> Result<ExitCode, Failure> {
    let &SyncLagArgs { nodes, limit, window: window_ms, interval: interval_ms, seed, .. } = args;
    let input = SyncLag { nodes, limit, window_ms, interval_ms, seed };
    args.output.run(&input, chart, text)
}

fn title(report: &SyncLagReport) -> String {
    let SyncLag { nodes, limit, window_ms, .. } = report.input;
    format!("{nodes} nodes, {limit} per {}, each asked for {limit}", format_ms(window_ms))
}

fn text(report: &SyncLagReport) -> String {
    let head = ["way", "admitted", "formula", "over the limit", "", "calls to the store"];
    let mut table = Table::new(&head);
    for way in &report.ways {
        let formula =
            if way.calls.is_none() { format!("{:.1}", report.formula) } else { String::new() };
        let percent = format!("+{:.0} %", way.over_limit_percent);
        let calls = way.calls.map(|calls| calls.to_string()).unwrap_or_default();
        table.row(&[&way.way, &way.admitted, &formula, &way.over_limit, &percent, &calls]);
    }
    let least = report.naive_per_node.iter().min().unwrap_or(&0);
    let most = report.naive_per_node.iter().max().unwrap_or(&0);
    let each = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let (title, late) = (title(report), format_ms(report.input.interval_ms));
    format!(
        "{title}; naive nodes hear of each other {late} late\n\n{table}\nEach naive node admits {each}.\n"
    )
}

fn chart(report: &SyncLagReport) -> Chart {
    let curve = |name: &str, shape, value: fn(&CurvePoint) -> f64| Line {
        name: name.to_owned(),
        points: report.curve.iter().map(|point| (point.interval_ms, value(point))).collect(),
        shape,
    };
    let flat = |index: usize| {
        let (way, end) = (&report.ways[index], float(report.input.window_ms));
        let admitted = float(way.admitted);
        let points = vec![(0.0, admitted), (end, admitted)];
        Line { name: way.way.to_owned(), points, shape: Shape::Straight }
    };
    Chart {
        title: title(report),
        x: "how late they hear of each other, ms".to_owned(),
        y: "admitted in one window".to_owned(),
        mark: Some(("limit".to_owned(), float(report.input.limit))),
        plot: Plot::Lines(vec![
            curve("naive, by the formula", Shape::Straight, |point| point.formula),
            curve("naive, simulated", Shape::Dots, |point| float(point.naive)),
            flat(1),
            flat(2),
        ]),
    }
}
