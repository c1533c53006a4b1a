//! `./dev bench soak [--minutes N]`: a fleet over a Redis Cluster under a flood, for ten minutes.
//!
//! Three nodes, six Redis servers and the load share the machine's processors. First the load grows step by step until
//! the marks are missed; then it stays at the last step that kept them. `QUICK=1` only shows that everything works.

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
use tidegate_bench::is_quick;
use tidegate_bench::report::Report;
use watch::Run;

/// The figures that users quote: requests a second, and the latency that a check adds.
const RATE_MARK: f64 = 52_400.0;
const P99_MARK_MS: f64 = 4.2;
const SIDECAR_MARK_MB: f64 = 15.0;

/// The steps of the search, in requests a second.
const STEPS: [f64; 10] = [
    15_000.0, 30_000.0, 45_000.0, 53_000.0, 56_000.0, 60_000.0, 65_000.0, 75_000.0, 90_000.0,
    120_000.0,
];
/// How often a step is tried.
const TRIES: usize = 2;
const MINUTES_MAX: u64 = 24 * 60;

struct Effort {
    steps: &'static [f64],
    step: Duration,
    soak: Duration,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let minutes = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Some(10),
        ["--minutes", minutes] => minutes.parse().ok(),
        _ => None,
    };
    let Some(minutes) = minutes.filter(|minutes| (1..=MINUTES_MAX).contains(minutes)) else {
        eprintln!("usage: bench-soak [--minutes N], 1 to {MINUTES_MAX}; default: 10");
        return ExitCode::from(64);
    };
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
    let rate = highest_rate(&mut report, &fleet, effort);
    println!("{rate:.0} requests/s for {} s:\n", effort.soak.as_secs());
    let run = Run::at(&fleet, rate, effort.soak);
    report::add(&mut report, &run, &fleet);
}

/// The highest rate of the search that kept the marks; half of its first step if none did. A step that missed them is
/// tried once more: another program may have disturbed it.
fn highest_rate(report: &mut Report, fleet: &Fleet, effort: &Effort) -> f64 {
    let mut table = report::search();
    let mut highest = effort.steps[0] / 2.0;
    for rate in effort.steps.iter().copied() {
        let is_kept = (0..TRIES).any(|attempt| {
            let run = Run::at(fleet, rate, effort.step);
            let is_kept = keeps_marks(&run, rate);
            report::add_step(&mut table, &run, (rate, attempt), is_kept);
            is_kept
        });
        if !is_kept {
            break;
        }
        highest = rate;
    }
    report.add(&table);
    highest
}

/// Whether all requests were answered in time, by Redis or from what it had said.
fn keeps_marks(run: &Run, rate: f64) -> bool {
    let is_sustained = run.tally.rate() > 0.99 * rate;
    is_sustained
        && run.tally.errors() + run.without_redis() == 0
        && run.tally.p99_ms() <= P99_MARK_MS
}
