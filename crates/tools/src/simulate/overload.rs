//! `tidegate simulate overload`: a server that is asked for more than it can do.

use std::fmt::Write;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use super::options::{OutputArgs, usage};
use super::svg::{Chart, Line, Plot, Shape};
use crate::Failure;
use crate::output::Table;
use crate::progress::Progress;
use tidegate_simulation::overload::{
    self, ControllerRow, Overload, OverloadReport, ScenarioReport,
};
use tidegate_simulation::{StopFlag, float};

const EXAMPLES: &str = "\
Examples:
  tidegate simulate overload                             everything, half a minute
  tidegate simulate overload --scenario spike,slow-db    two of them
  tidegate simulate overload --scenario spike --svg spike.svg
  tidegate simulate overload --seeds 3 --json | jq '.scenarios[].controllers[].goodput'

The plant: 16 workers, 40 ms each on average, one queue: 400/s. Clients give up after a
second, 60 % of them try again once, and who gave up is served all the same. What waits
beyond one per worker makes all slower, by 0.02 % each (in `harsh` by 0.5 %).
Half of what it can do comes for 30 s before, and for 15 s after.

Scenarios:
  spike      3 × what it can do             slow-db    each takes three times as long
  twice      2 ×                            harsh      3 ×, and what waits slows all down
  delay-2s   2 ×, readings are 2 s late     delay-5s   2 ×, readings are 5 s late
  ramp       from 1 × to 3 × in a minute    burst      3 × for 10 s
  bots       0.5 × people, 2 × bots         soak       2 × for 30 minutes
  outage     2 ×, no reading for 20 s       nan        2 ×, 20 s of readings that are no numbers
  healthy    half of what it can do

Columns:
  goodput   served within a second, per second
  p99       how long all took that were served, whether or not anybody still waited
  CV        how much the goodput varies after the first 5 s, as a part of it, from second to
            second and from 5 s to 5 s: chance alone makes 0.05 and 0.022 of 400/s, and 0.087
            and 0.039 of 133/s
  settling  seconds until the goodput stays within 15 % of where it ends; - is not always
  refused   requests turned away; in vain: while the plant could have served all

  people/s  the goodput of those who are no bots

Controllers: all but `none` and `static 360` begin with the limit. `raw` and `pressure` read
the use of the processor, `AIMD` and `default` how long responses take. `cap 32` admits 32 at
once, `gradient` 16 to 64; to `classes` people are critical and bots best-effort.

Exit codes: 0 ok, 1 error, 64 usage.";

/// Ask a server for more than it can do: which controller keeps it useful?
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct OverloadArgs {
    /// Scenarios, separated by commas; all of them by default
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scenario: Vec<String>,
    /// How many runs to take the mean of, up to 1000
    #[arg(long, value_name = "N", default_value_t = Overload::default().seeds)]
    seeds: u64,
    /// The first seed; same seed, same output
    #[arg(long, value_name = "N", default_value_t = Overload::default().seed)]
    seed: u64,
    /// The limit per second that adaptive controllers begin with, up to 100000
    #[arg(long, value_name = "N", default_value_t = Overload::default().limit)]
    limit: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &OverloadArgs) -> Result<ExitCode, Failure> {
    let OverloadArgs { scenario, seeds, seed, limit, output } = args.clone();
    let input = Overload { scenario, seeds, seed, limit };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let progress = Progress::start();
    let show = |done, of| progress.show(|_| format!("{done} of {of} runs"));
    let report = overload::run(&input, threads, &StopFlag::default(), show);
    let report = report.map_err(|error| usage(&error))?;
    progress.done();
    output.write(&report, chart, text)
}

fn text(report: &OverloadReport) -> String {
    let &OverloadReport { seeds, seed, limit, .. } = report;
    let mut out = format!("limit {limit}/s, means of {seeds} runs from seed {seed}\n");
    for block in &report.scenarios {
        let ScenarioReport { scenario, about, possible, .. } = block;
        let _ = write!(out, "\n{scenario}: {about}; at best {possible}/s\n{}", table(block));
    }
    out
}

fn table(block: &ScenarioReport) -> Table {
    let mut table = Table::new(&[
        "controller",
        "goodput/s",
        "of best",
        "p99 ms",
        "CV 1s",
        "CV 5s",
        "settling s",
        "refused",
        "in vain",
        if block.controllers.iter().any(|row| row.people.is_some()) { "people/s" } else { "" },
    ]);
    for row in &block.controllers {
        let people = row.people.map_or(String::new(), |people| format!("{people:.1}"));
        table.row(&[
            &row.controller,
            &format!("{:.1}", row.goodput),
            &format!("{:.3}", row.goodput / float(block.possible)),
            &format!("{:.0}", row.p99_ms),
            &or_dash(row.cv_1s, 3),
            &or_dash(row.cv_5s, 3),
            &or_dash(row.settling_s, 1),
            &format!("{:.0}", row.refused),
            &format!("{:.1}", row.false_rejects),
            &people,
        ]);
    }
    table
}

fn or_dash(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The picture has this many colours.
const LINES: usize = 6;

/// The course of the first scenario, with the first seed.
fn chart(report: &OverloadReport) -> Chart {
    let line = |row: &ControllerRow| Line {
        name: row.controller.to_owned(),
        points: (0_u32..).map(f64::from).zip(row.course.iter().copied()).collect(),
        shape: Shape::Straight,
    };
    let first = report.scenarios.first();
    let mut lines: Vec<Line> =
        first.map_or(vec![], |it| it.controllers.iter().take(LINES).map(line).collect());
    // The controller of interest is the last one; the first is drawn with a solid line.
    lines.reverse();
    Chart {
        title: first.map_or(String::new(), |block| format!("{}: {}", block.scenario, block.about)),
        x: "seconds".to_owned(),
        y: "served in time, per second".to_owned(),
        mark: first.map(|block| ("at best".to_owned(), float(block.possible))),
        plot: Plot::Lines(lines),
    }
}
