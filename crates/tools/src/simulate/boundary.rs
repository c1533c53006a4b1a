//! `tidegate simulate boundary`: what an attack on the edge of a window gets through.

use std::io::{self, Write};
use std::process::ExitCode;

use super::options::{percent, span_ms, told_ms, usage};
use super::output::Output;
use super::svg::{Chart, Group, Plot};
use super::table::Table;
use crate::Failure;
use tidegate_simulation::boundary::{Input, Report, run as simulate};
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
pub(super) struct Args {
    /// Units per window, up to 10000
    #[arg(long, value_name = "N", default_value_t = Input::default().limit)]
    limit: u64,
    /// The length of a window, from 1ms to 24h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span_ms)]
    window: u64,
    /// Where in the window the first requests come, below 100%
    #[arg(long, value_name = "PERCENT", default_value = "85%", value_parser = percent)]
    position: u64,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let &Args { limit, window: window_ms, position: position_permille, .. } = args;
    let input = Input { limit, window_ms, position_permille };
    let report = simulate(&input).map_err(|unfit| usage(&unfit))?;
    args.output.write(&report, chart, text)
}

/// The gap in the milliseconds that people think in.
fn gap(report: &Report) -> String {
    format!("{:?}", std::time::Duration::from_micros(report.gap_us))
}

fn title(report: &Report) -> String {
    let position = float(report.position_permille) / 10.0;
    let (limit, window) = (report.limit, told_ms(report.window_ms));
    format!(
        "{limit} per {window}: {limit} requests at {position} % of a window, {limit} more {} later",
        gap(report)
    )
}

fn text(report: &Report, out: &mut Vec<u8>) -> io::Result<()> {
    writeln!(out, "{}\n", title(report))?;
    let mut table = Table::new(&["algorithm", "first", "second", "in the gap", "req/s", "× limit"]);
    for row in &report.algorithms {
        let rate = format!("{:.1}", row.per_second);
        let times = format!("{:.2}", row.times_limit);
        table.row(&[&row.algorithm, &row.first, &row.second, &row.in_gap, &rate, &times]);
    }
    table.print(out)
}

fn chart(report: &Report) -> Chart {
    let group = |row: &tidegate_simulation::boundary::Row| Group {
        name: row.algorithm.to_owned(),
        values: vec![float(row.in_gap)],
    };
    Chart {
        title: title(report),
        x: format!("went ahead within {}", gap(report)),
        y: String::new(),
        mark: Some(("limit".to_owned(), float(report.limit))),
        plot: Plot::Bars { series: vec![], groups: report.algorithms.iter().map(group).collect() },
    }
}
