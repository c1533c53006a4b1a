//! A server under overload, protected by different controllers.
//!
//! Those of tidegate are the production code; the others are common alternatives.

mod admission;
mod backend;
mod meter;
mod scenario;
mod world;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use self::admission::CONTROLLERS;
pub use self::scenario::{ALL as SCENARIOS, Scenario};
use crate::{InputError, Knob, StopFlag, index};

const SEEDS: RangeInclusive<u64> = 1..=1000;
const LIMIT: RangeInclusive<u64> = 1..=100_000;

/// What is simulated. It is no `Experiment`, because a run may take minutes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overload {
    /// Names; all scenarios if there is none.
    pub scenario: Vec<String>,
    /// How many runs, with consecutive seeds from `seed`.
    pub seeds: u64,
    pub seed: u64,
    /// The declared limit per second.
    pub limit: u64,
}

impl Default for Overload {
    /// A limit a tenth above the capacity, as after an optimistic measurement.
    fn default() -> Self {
        Self { scenario: Vec::new(), seeds: 20, seed: 1, limit: 440 }
    }
}

#[derive(Debug, Serialize)]
pub struct OverloadReport {
    pub seeds: u64,
    pub seed: u64,
    pub limit: u64,
    pub scenarios: Vec<ScenarioReport>,
}

/// One scenario with every controller.
#[derive(Debug, Serialize)]
pub struct ScenarioReport {
    pub scenario: &'static str,
    pub about: &'static str,
    /// The seconds that are judged.
    pub judged_s: [u64; 2],
    /// The best possible goodput per second.
    pub possible: u64,
    pub controllers: Vec<ControllerRow>,
}

/// One controller in one scenario: with one seed, or on average over all of them.
#[derive(Debug, Serialize)]
pub struct ControllerRow {
    pub controller: &'static str,
    /// Served in time, per second.
    pub goodput: f64,
    /// The same for people, where there are bots.
    pub people: Option<f64>,
    pub p99_ms: f64,
    /// The coefficient of variation of the goodput, by seconds and by five seconds.
    pub cv_1s: Option<f64>,
    pub cv_5s: Option<f64>,
    pub settling_s: Option<f64>,
    pub refused: f64,
    pub false_rejects: f64,
    /// Served in time by second, with the first seed, for a picture.
    #[serde(skip)]
    pub course: Vec<f64>,
}

/// Runs everything on `threads` threads, until it is done or stopped. `progress` gets the number of finished runs, and of all.
pub fn run(
    input: &Overload,
    threads: usize,
    stop: &StopFlag,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<OverloadReport, InputError> {
    Knob::check_all(&[
        Knob::new("seeds", input.seeds, &SEEDS),
        Knob::new("limit", input.limit, &LIMIT),
    ])?;
    let Overload { seeds, seed, limit, .. } = *input;
    let scenarios = choose(&input.scenario)?;
    let jobs: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| CONTROLLERS.map(|controller| (*scenario, controller)))
        .flat_map(|pair| (0..seeds).map(move |number| (pair, seed.wrapping_add(number))))
        .collect();
    let runs = run_all(jobs.len(), threads, progress, |job| {
        let ((scenario, (kind, name)), number) = jobs[job];
        Ok(world::run(scenario, kind, limit, number, stop)?.row(scenario, name))
    })?;
    let mut rows = runs.chunks(index(seeds)).map(ControllerRow::mean);
    let report = |scenario: &Scenario| ScenarioReport {
        scenario: scenario.name,
        about: scenario.about,
        judged_s: [scenario.judged_s().start, scenario.judged_s().end],
        possible: scenario.possible(),
        controllers: rows.by_ref().take(CONTROLLERS.len()).collect(),
    };
    let scenarios = scenarios.into_iter().map(report).collect();
    Ok(OverloadReport { seeds, seed, limit, scenarios })
}

/// The scenarios of these names, each at most once.
fn choose(names: &[String]) -> Result<Vec<&'static Scenario>, InputError> {
    let all = || SCENARIOS.iter().map(|scenario| scenario.name);
    if !names.iter().all(|name| all().any(|known| known == name)) {
        let known = all().collect::<Vec<_>>().join(", ");
        return Err(InputError::new("scenario", format!("one of {known}")));
    }
    let is_chosen =
        |scenario: &&Scenario| names.is_empty() || names.iter().any(|it| it == scenario.name);
    Ok(SCENARIOS.iter().filter(is_chosen).collect())
}

/// Does every job once, on `threads` threads, and returns the results in order.
fn run_all<T: Send>(
    jobs: usize,
    threads: usize,
    progress: impl Fn(usize, usize) + Sync,
    job: impl Fn(usize) -> Result<T, InputError> + Sync,
) -> Result<Vec<T>, InputError> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut results = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return Ok::<_, InputError>(results);
            }
            results.push((number, job(number)?));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs);
        }
    };
    let threads = threads.min(jobs.max(1));
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work()?;
        for worker in workers {
            // A panicked worker has printed why.
            all.extend(worker.join().unwrap_or_else(|_| Ok(Vec::new()))?);
        }
        Ok::<_, InputError>(all)
    })?;
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}
