//! A server that is asked for more than it can do, and who keeps it useful.
//!
//! The controllers of tidegate are the production code; beside them stand what others do.

mod gate;
mod meter;
mod plant;
mod scenario;
mod world;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use self::gate::Way;
use self::meter::Outcome;
pub use self::scenario::{ALL as SCENARIOS, Scenario};
use super::Unfit;
use super::knob::Knob;

const SEEDS: RangeInclusive<u64> = 1..=1000;
const LIMIT: RangeInclusive<u64> = 1..=100_000;

/// What is simulated.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    /// Their names; all of them if there is none.
    pub scenario: Vec<String>,
    /// How many runs, with seeds from `seed` on.
    pub seeds: u64,
    pub seed: u64,
    /// The limit per second that is declared.
    pub limit: u64,
}

impl Default for Input {
    /// A limit a tenth above what the plant can do: somebody measured once, and was optimistic.
    fn default() -> Self {
        Self { scenario: Vec::new(), seeds: 20, seed: 1, limit: 440 }
    }
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub seeds: u64,
    pub seed: u64,
    pub limit: u64,
    pub scenarios: Vec<Block>,
}

/// One scenario.
#[derive(Debug, Serialize)]
pub struct Block {
    pub scenario: &'static str,
    pub about: &'static str,
    /// From which second to which it happens.
    pub judged_s: [u64; 2],
    /// What could be served in a second at best.
    pub possible: u64,
    pub controllers: Vec<Row>,
}

/// One controller in one scenario, on average over all seeds.
#[derive(Debug, Serialize)]
pub struct Row {
    pub controller: &'static str,
    /// Served in time, per second.
    pub goodput: f64,
    /// The same for people, where there are bots.
    pub people: Option<f64>,
    pub p99_ms: f64,
    /// How much the goodput varies from second to second, and from five seconds to five seconds.
    pub cv_1s: Option<f64>,
    pub cv_5s: Option<f64>,
    pub settling_s: Option<f64>,
    pub refused: f64,
    pub false_rejects: f64,
    /// Served in time, second by second, with the first seed: for a picture.
    #[serde(skip)]
    pub course: Vec<f64>,
}

/// Runs everything, on so many threads. `progress` is told how many runs are done, of how many.
pub fn run(
    input: &Input,
    threads: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Report, Unfit> {
    Knob::within(&[
        Knob::new("seeds", input.seeds, &SEEDS),
        Knob::new("limit", input.limit, &LIMIT),
    ])?;
    let Input { seeds, seed, limit, .. } = *input;
    let scenarios = chosen(&input.scenario)?;
    let pairs = || {
        let ways = |scenario: &&'static Scenario| Way::ALL.map(|way| (*scenario, way));
        scenarios.iter().flat_map(ways)
    };
    let numbers = || (0..seeds).map(|number| seed.wrapping_add(number));
    let jobs: Vec<_> =
        pairs().flat_map(|pair| numbers().map(move |number| (pair, number))).collect();
    let outcomes = spread(jobs.len(), threads, progress, |job| {
        let ((scenario, way), number) = jobs[job];
        world::run(scenario, way, limit, number)
    })?;
    let per_pair = usize::try_from(seeds).unwrap_or(1);
    let means = outcomes.chunks(per_pair).map(Outcome::mean);
    let rows: Vec<_> = pairs().zip(means).collect();
    let blocks = rows.chunks(Way::ALL.len()).map(|rows| Block::new(rows[0].0.0, rows));
    Ok(Report { seeds, seed, limit, scenarios: blocks.collect() })
}

/// The scenarios of these names, each at most once.
fn chosen(names: &[String]) -> Result<Vec<&'static Scenario>, Unfit> {
    let all = || SCENARIOS.iter().map(|scenario| scenario.name);
    if !names.iter().all(|name| all().any(|known| known == name)) {
        let known = all().collect::<Vec<_>>().join(", ");
        return Err(Unfit::new("scenario", format!("one of {known}")));
    }
    let is_chosen =
        |scenario: &&Scenario| names.is_empty() || names.iter().any(|it| it == scenario.name);
    Ok(SCENARIOS.iter().filter(is_chosen).collect())
}

impl Block {
    fn new(scenario: &Scenario, rows: &[((&Scenario, Way), Outcome)]) -> Self {
        let row = |((scenario, way), outcome): &((&Scenario, Way), Outcome)| {
            Row::new(scenario, *way, outcome)
        };
        Self {
            scenario: scenario.name,
            about: scenario.about,
            judged_s: [scenario.judged_s().start, scenario.judged_s().end],
            possible: scenario.possible(),
            controllers: rows.iter().map(row).collect(),
        }
    }
}

impl Row {
    fn new(scenario: &Scenario, way: Way, outcome: &Outcome) -> Self {
        let rounded = |value: f64, to: f64| (value * to).round() / to;
        Self {
            controller: way.name(),
            goodput: rounded(outcome.goodput, 10.0),
            people: (scenario.bots_percent > 0).then(|| rounded(outcome.people, 10.0)),
            p99_ms: rounded(outcome.p99_ms, 10.0),
            cv_1s: outcome.cv_1s.map(|cv| rounded(cv, 1000.0)),
            cv_5s: outcome.cv_5s.map(|cv| rounded(cv, 1000.0)),
            settling_s: outcome.settling_s.map(|seconds| rounded(seconds, 10.0)),
            refused: rounded(outcome.refused, 10.0),
            false_rejects: rounded(outcome.refused_in_vain, 10.0),
            course: outcome.course.clone(),
        }
    }
}

/// Does every job once, on so many threads, and returns what came of them in their order.
fn spread<T: Send>(
    jobs: usize,
    threads: usize,
    progress: impl Fn(usize, usize) + Sync,
    job: impl Fn(usize) -> Result<T, Unfit> + Sync,
) -> Result<Vec<T>, Unfit> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return Ok::<_, Unfit>(made);
            }
            made.push((number, job(number)?));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs);
        }
    };
    let threads = threads.min(jobs.max(1));
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work()?;
        for worker in workers {
            // A worker that panicked has said why.
            all.extend(worker.join().unwrap_or_else(|_| Ok(Vec::new()))?);
        }
        Ok::<_, Unfit>(all)
    })?;
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, made)| made).collect())
}
