//! `tidegate simulate boundary`: what an attack on the edge of a window gets through.

use std::process::ExitCode;

use super::options::{OutputArgs, format_ms, read_ms, read_percent, read_units};
use super::svg::{Chart, Group, Plot};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::boundary::{Boundary, BoundaryReport, BoundaryRow};
use tidegate_simulation::float;

const EXAMPLES: &str = "\
Examples:
  tidegate simulate boundary                         20/s, attacked at 85 % of a window
  tidegate simulate boundary --position 99%          the same within 10 ms
  tidegate simulate boundary --limit 100 --window 1min --svg boundary.svg
  tidegate simulate boundary --json | jq '.algorithms[] | {algorithm, in_gap}'

LIMIT requests come at POSITION in a window, and LIMIT more at the start of the next one.

Columns:
  first, second   how many of either are admitted
  in the gap      how many go ahead from the first instant to the second; a leaky bucket
                  admits more, and lets them wait
  req/s           the rate that is; × limit: how many times the limit

Exit codes: 0 ok, 1 error, 64 usage.";

/// Attack the edge of a window: which algorithm lets twice the limit through?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BoundaryArgs {
    /// Units per window, up to 10000
    #[arg(long, value_name = "N", default_value_t = Boundary::default().limit, value_parser = read_units)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_ms)]
    window: u64,
    /// Where in the window the first requests come, below 100%
    #[arg(long, value_name = "PERCENT", default_value = "85%", value_parser = read_percent)]
    position: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &BoundaryArgs) -> Result<ExitCode, Failure> {
    let &BoundaryArgs { limit, window: window_ms, position: position_permille, .. } = args;
    let input = Boundary { limit, window_ms, position_permille };
    args.output.run(&input, chart, text)
}

fn gap(report: &BoundaryReport) -> String {
    format!("{:?}", std::time::Duration::from_micros(report.gap_us))
}

fn title(report: &BoundaryReport) -> String {
    let Boundary { limit, window_ms, position_permille } = report.input;
    let (position, window) = (float(position_permille) / 10.0, format_ms(window_ms));
    format!(
        "{limit} per {window}: {limit} requests at {position} % of a window, {limit} more {} later",
        gap(report)
    )
}

fn text(report: &BoundaryReport) -> String {
    let mut table = Table::new(&["algorithm", "first", "second", "in the gap", "req/s", "× limit"]);
    for row in &report.algorithms {
        let rate = format!("{:.1}", row.per_second);
        let times = format!("{:.2}", row.times_limit);
        table.row(&[&row.algorithm, &row.first, &row.second, &row.in_gap, &rate, &times]);
    }
    format!("{}\n\n{table}", title(report))
}

fn chart(report: &BoundaryReport) -> Chart {
    let group = |row: &BoundaryRow| Group {
        name: row.algorithm.to_owned(),
        values: vec![float(row.in_gap)],
    };
    Chart {
        title: title(report),
        x: format!("went ahead within {}", gap(report)),
        y: String::new(),
        mark: Some(("limit".to_owned(), float(report.input.limit))),
        plot: Plot::Bars { series: vec![], groups: report.algorithms.iter().map(group).collect() },
    }
}
