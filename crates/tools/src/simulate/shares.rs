//! `tidegate simulate shares`: tenants that contend for one limit.

use std::process::ExitCode;

use super::options::{OutputArgs, format_ms};
use super::svg::{Chart, Group, Plot};
use crate::Failure;
use crate::output::Table;
use tidegate_simulation::float;
use tidegate_simulation::shares::{Shares, SharesReport};

const EXAMPLES: &str = "\
Examples:
  tidegate simulate shares                       ten quiet tenants, and one that asks 100 times as much
  tidegate simulate shares --nodes 16            the fleet has 16 nodes
  tidegate simulate shares --tenants 200 --limit 5000 --loud 500
  tidegate simulate shares --svg shares.svg      what the worst served tenant gets

The quiet tenants together ask for half of the limit, at random times. After a second the loud one
begins. Its fair share is what the others leave.

Ways:
  one limit     first come, first served
  fixed parts   each tenant has the limit divided by their number, whether it uses it or not
  shares        a policy with `share`; the code is the one that runs in production

Columns: what the worst served tenant got of its fair share, and the best served; what was used of the
limit; both from the first second of contention on. How long it took to settle. What was admitted beyond
the limit.

Exit codes: 0 ok, 1 error, 64 usage.";

/// Let tenants contend for one limit: who gets how much of it?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SharesArgs {
    /// How many quiet tenants, up to 500
    #[arg(long, value_name = "N", default_value_t = Shares::default().tenants)]
    tenants: u64,
    /// Units a second for all tenants, from 100 to 10000
    #[arg(long, value_name = "N", default_value_t = Shares::default().limit)]
    limit: u64,
    /// How many times as much as a quiet tenant the loud one asks for, up to 10000
    #[arg(long, value_name = "N", default_value_t = Shares::default().loud)]
    loud: u64,
    /// How many nodes the fleet has, from 2 to 16
    #[arg(long, value_name = "N", default_value_t = Shares::default().nodes)]
    nodes: u64,
    /// How long, in seconds of virtual time, from 4 to 20
    #[arg(long, value_name = "N", default_value_t = Shares::default().seconds)]
    seconds: u64,
    /// Same seed, same output
    #[arg(long, value_name = "N", default_value_t = Shares::default().seed)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &SharesArgs) -> Result<ExitCode, Failure> {
    let &SharesArgs { tenants, limit, loud, nodes, seconds, seed, .. } = args;
    args.output.run(&Shares { tenants, limit, loud, nodes, seconds, seed }, chart, text)
}

fn title(report: &SharesReport) -> String {
    let Shares { tenants, limit, loud, .. } = report.input;
    format!("{limit}/s for {tenants} quiet tenants, and one that asks for {loud} times as much")
}

fn text(report: &SharesReport) -> String {
    let head =
        ["scenario", "way", "worst served", "best served", "used", "settled", "over the limit"];
    let mut table = Table::new(&head);
    for scenario in &report.scenarios {
        for (index, way) in scenario.ways.iter().enumerate() {
            let name = if index == 0 { scenario.scenario } else { "" };
            let percent = |value: f64| format!("{value:.0} %");
            let settled = way.settled_ms.map_or("-".to_owned(), format_ms);
            let [worst, best, used] =
                [way.least_percent, way.most_percent, way.used_percent].map(percent);
            table.row(&[&name, &way.way, &worst, &best, &used, &settled, &way.over_limit]);
        }
    }
    format!("{}\n\n{table}", title(report))
}

fn chart(report: &SharesReport) -> Chart {
    let group = |scenario: &tidegate_simulation::shares::Scenario| Group {
        name: scenario.scenario.to_owned(),
        values: scenario.ways.iter().map(|way| way.least_percent).collect(),
    };
    let ways = report.scenarios.first().map(|scenario| &scenario.ways);
    Chart {
        title: title(report),
        x: "scenario".to_owned(),
        y: "worst served tenant, % of its fair share".to_owned(),
        mark: Some(("fair".to_owned(), float(100))),
        plot: Plot::Bars {
            series: ways.into_iter().flatten().map(|way| way.way.to_owned()).collect(),
            groups: report.scenarios.iter().map(group).collect(),
        },
    }
}
