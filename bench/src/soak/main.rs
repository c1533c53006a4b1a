//! `./dev bench soak [--minutes N]`: a fleet over a Redis Cluster under a flood, for ten minutes.
//!
//! Three nodes, six Redis servers and the load share two processors. First the load grows step by step until the marks are
//! missed, and the last step is halved a few times; then it stays at a rate somewhat below the highest that kept them, since
//! what five seconds keep, ten minutes need not. If the marks are missed there, it is repeated at a lower rate. `QUICK=1`
//! only shows that everything works.

mod fleet;
mod load;
mod report;
mod tally;
mod traffic;
mod trend;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use fleet::Fleet;
use tidegate_bench::report::{Report, Table};
use tidegate_bench::{is_quick, rerun_on_two_processors};
use watch::Run;

/// The figures that users quote: requests a second, and the latency that a check adds.
const RATE_MARK: f64 = 52_400.0;
const P99_MARK_MS: f64 = 4.2;
const SIDECAR_MARK_MB: f64 = 15.0;

/// The steps of the search, in requests a second.
const STEPS: [f64; 6] = [20_000.0, 40_000.0, 53_000.0, 70_000.0, 90_000.0, 120_000.0];
/// How often the distance between the highest rate that kept the marks and the lowest that missed them is halved.
const HALVINGS: usize = 3;
/// How often a step is tried.
const TRIES: usize = 3;
/// How often the soak is tried, and what each try leaves of the rate.
const SOAKS: usize = 3;
const LOWER: f64 = 0.85;
const MINUTES_MAX: u64 = 24 * 60;

struct Effort {
    steps: &'static [f64],
    step: Duration,
    soak: Duration,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut args = args.iter().map(String::as_str).collect::<Vec<_>>();
    let is_rerun = args.first() == Some(&"measure");
    if is_rerun {
        args.remove(0);
    }
    let minutes = match args[..] {
        [] => Some(10),
        ["--minutes", minutes] => minutes.parse().ok(),
        _ => None,
    };
    let Some(minutes) = minutes.filter(|minutes| (1..=MINUTES_MAX).contains(minutes)) else {
        eprintln!("usage: bench-soak [--minutes N], 1 to {MINUTES_MAX}; default: 10");
        return ExitCode::from(64);
    };
    if !is_rerun {
        rerun_on_two_processors();
    }
    let (step, soak) = (Duration::from_secs(5), Duration::from_secs(60 * minutes));
    measure(&match is_quick() {
        true => Effort { steps: &STEPS[..1], step: step / 5, soak: step },
        false => Effort { steps: &STEPS, step, soak },
    });
    ExitCode::SUCCESS
}

fn measure(effort: &Effort) {
    let fleet = Fleet::start();
    // Connections, scripts and caches.
    Run::at(&fleet, STEPS[0], effort.step);
    let mut report = Report::new("soak");
    let (mut table, mut rate) = highest_rate(&fleet, effort);
    for soak in 1..=SOAKS {
        // The mark itself, if it is between the two.
        let lower = (rate * LOWER).round();
        rate = if rate > RATE_MARK { lower.max(RATE_MARK) } else { lower };
        println!("{rate:.0} requests/s for {} s:\n", effort.soak.as_secs());
        let run = Run::at(&fleet, rate, effort.soak);
        let is_kept = keeps_marks(&run, rate);
        report::add_step(
            &mut table,
            &run,
            (rate, &format!(", for {} s", effort.soak.as_secs())),
            is_kept,
        );
        if is_kept || soak == SOAKS {
            report.add(&table);
            return report::add(&mut report, &run, &fleet);
        }
    }
}

/// The highest rate of the search that kept the marks; half of its first step if none did.
fn highest_rate(fleet: &Fleet, effort: &Effort) -> (Table, f64) {
    let mut table = report::search();
    // A step that missed the marks is tried again: another program may have disturbed it.
    let mut keeps = |rate: f64| {
        (0..TRIES).any(|attempt| {
            let run = Run::at(fleet, rate, effort.step);
            let is_kept = keeps_marks(&run, rate);
            let again = ["", ", again", ", once more"][attempt];
            report::add_step(&mut table, &run, (rate, again), is_kept);
            is_kept
        })
    };
    let mut highest = effort.steps[0] / 2.0;
    for rate in effort.steps.iter().copied() {
        if keeps(rate) {
            highest = rate;
            continue;
        }
        let mut missed = rate;
        for _ in 0..HALVINGS {
            let middle = ((highest + missed) / 2.0).round();
            *(if keeps(middle) { &mut highest } else { &mut missed }) = middle;
        }
        break;
    }
    (table, highest)
}

/// Whether all requests were answered in time, by Redis or from what it had said.
fn keeps_marks(run: &Run, rate: f64) -> bool {
    let is_sustained = run.tally.rate() > 0.99 * rate;
    is_sustained
        && run.tally.errors() + run.without_redis() == 0
        && run.tally.p99_ms() <= P99_MARK_MS
}
