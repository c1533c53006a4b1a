//! One trace through all algorithms: what each admits, what it remembers, and how large its bursts are.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_core::State;

use super::chance::Chance;
use super::crowd::most_within;
use super::knob::Knob;
use super::subject::Subject;
use super::unfit::Unfit;
use super::{START_US, WINDOW_MS};

const LIMIT: RangeInclusive<u64> = 1..=10_000;
const WINDOWS: RangeInclusive<u64> = 1..=100;
const DEMAND_MILLI: RangeInclusive<u64> = 1..=100_000;
const CLUMP: RangeInclusive<u64> = 1..=1000;
/// On average; a trace is cut off at twice as many. Six algorithms decide them: about 20 ms.
const MAX_REQUESTS: u64 = 20_000;
/// How often the state is measured, since the longest log takes a while to write down.
const SAMPLES: u64 = 64;
/// How many points a timeline has, beside its start.
pub const POINTS: u64 = 100;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    pub limit: u64,
    pub window_ms: u64,
    /// How long, in windows.
    pub windows: u64,
    /// How much is asked for, in thousandths of the limit.
    pub demand_milli: u64,
    /// How many requests come at once.
    pub clump: u64,
    pub seed: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { limit: 100, window_ms: 1000, windows: 10, demand_milli: 1500, clump: 5, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub limit: u64,
    pub window_ms: u64,
    pub windows: u64,
    pub demand_milli: u64,
    pub clump: u64,
    pub seed: u64,
    pub offered: u64,
    pub algorithms: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    pub admitted: u64,
    pub denied: u64,
    /// The longest that an admitted request had to wait.
    pub longest_wait_us: u64,
    /// What went ahead in any window, and in any tenth of one, wherever it begins.
    pub most_in_a_window: u64,
    pub largest_burst: u64,
    /// The largest state, as it is written into a store.
    pub state_bytes: u64,
    /// What had gone ahead by each hundredth of the trace.
    pub timeline: Vec<u64>,
}

/// What can be chosen.
pub fn knobs(input: &Input) -> [Knob; 5] {
    [
        Knob::new("limit", input.limit, &LIMIT),
        Knob::new("window_ms", input.window_ms, &WINDOW_MS),
        Knob::new("windows", input.windows, &WINDOWS),
        Knob::new("demand_milli", input.demand_milli, &DEMAND_MILLI),
        Knob::new("clump", input.clump, &CLUMP),
    ]
}

pub fn run(input: &Input) -> Result<Report, Unfit> {
    check(input)?;
    let &Input { limit, window_ms, windows, demand_milli, clump, seed } = input;
    let trace = trace(input);
    let row = |subject: &Subject| follow(input, subject, &trace);
    let algorithms = Subject::all(limit, window_ms)?.iter().map(row).collect();
    let offered = u64::try_from(trace.len()).unwrap_or(u64::MAX);
    Ok(Report { limit, window_ms, windows, demand_milli, clump, seed, offered, algorithms })
}

fn check(input: &Input) -> Result<(), Unfit> {
    Knob::within(&knobs(input))?;
    if expected(input) > MAX_REQUESTS {
        let problem = format!("at most {MAX_REQUESTS} requests: fewer windows or a lower limit");
        return Err(Unfit::new("demand_milli", problem));
    }
    Ok(())
}

/// How many requests there are on average.
fn expected(input: &Input) -> u64 {
    input.limit * input.windows * input.demand_milli / 1000
}

fn start_us(input: &Input) -> u64 {
    START_US.next_multiple_of(input.window_ms * 1000)
}

/// Clumps at random, as many as the demand asks for on average.
fn trace(input: &Input) -> Vec<u64> {
    let (start_us, window_us) = (start_us(input), input.window_ms * 1000);
    let end_us = start_us + window_us * input.windows;
    let mut chance = Chance::new(input.seed, 1);
    // The mean gap between clumps in units of 2^−20 µs: clump × window / (limit × demand).
    let gap = (u128::from(input.clump * window_us * 1000) << 20)
        / u128::from(input.limit * input.demand_milli);
    let mut next = u128::from(start_us) << 20;
    let mut requests = Vec::new();
    let most = usize::try_from(2 * MAX_REQUESTS).unwrap_or(0);
    while requests.len() < most {
        next += (gap * u128::from(chance.exponential())) >> 32;
        let at_us = u64::try_from(next >> 20).unwrap_or(u64::MAX);
        if at_us >= end_us {
            break;
        }
        requests.extend((0..input.clump).map(|_| at_us));
    }
    requests
}

fn follow(input: &Input, subject: &Subject, trace: &[u64]) -> Row {
    let mut state = State::Empty;
    let mut instants = Vec::new();
    let (mut longest_wait_us, mut state_bytes, mut written) = (0, 0, Vec::new());
    let every = trace.len().div_ceil(usize::try_from(SAMPLES).unwrap_or(1)).max(1);
    for (index, &at_us) in trace.iter().enumerate() {
        if let Some(ahead_us) = subject.ask(&mut state, at_us) {
            longest_wait_us = longest_wait_us.max(ahead_us - at_us);
            instants.push(ahead_us);
        }
        if (index + 1).is_multiple_of(every) || index + 1 == trace.len() {
            written.clear();
            state.write_bytes(&mut written);
            state_bytes = state_bytes.max(written.len());
        }
    }
    let window_us = input.window_ms * 1000;
    let by = |point: u64| {
        let until_us = start_us(input) + window_us * input.windows * point / POINTS;
        count(instants.partition_point(|at_us| *at_us < until_us))
    };
    Row {
        algorithm: subject.name(),
        admitted: count(instants.len()),
        denied: count(trace.len() - instants.len()),
        longest_wait_us,
        most_in_a_window: most_within(window_us, &instants),
        largest_burst: most_within(window_us / 10, &instants),
        state_bytes: count(state_bytes),
        timeline: (0..=POINTS).map(by).collect(),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of<'a>(report: &'a Report, algorithm: &str) -> &'a Row {
        report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap()
    }

    #[test]
    fn an_instant_is_smaller_than_slots_and_slots_than_a_log() {
        let report = run(&Input { limit: 1000, clump: 1, ..Input::default() }).unwrap();
        let bytes = |algorithm| of(&report, algorithm).state_bytes;
        assert!(bytes("fixed-window") < bytes("gcra") && bytes("gcra") < bytes("sliding-window"));
        assert!(bytes("sliding-window") * 10 < bytes("sliding-log"));
    }

    #[test]
    fn bounds_hold_for_whoever_asks() {
        let sound = Input::default();
        for (input, field) in [
            (Input { limit: 0, ..sound.clone() }, "limit"),
            (Input { limit: 10_001, ..sound.clone() }, "limit"),
            (Input { window_ms: 86_400_001, ..sound.clone() }, "window_ms"),
            (Input { windows: 101, ..sound.clone() }, "windows"),
            (Input { demand_milli: 0, ..sound.clone() }, "demand_milli"),
            (Input { demand_milli: 100_000, ..sound.clone() }, "demand_milli"),
            (Input { clump: 1001, ..sound.clone() }, "clump"),
        ] {
            assert_eq!(run(&input).unwrap_err().field, field, "{input:?}");
        }
        for (limit, window_ms, clump) in [(1, 86_400_000, 1000), (10_000, 1, 1)] {
            run(&Input { limit, window_ms, clump, windows: 1, ..Input::default() }).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn nobody_passes_what_its_algorithm_promises(
            limit in 1_u64..100,
            window_ms in 1_u64..10_000,
            demand_milli in 1_u64..5000,
            clump in 1_u64..50,
            seed: u64,
        ) {
            let windows = 5;
            let input = Input { limit, window_ms, windows, demand_milli, clump, seed };
            let report = run(&input).unwrap();
            for row in &report.algorithms {
                prop_assert_eq!(row.admitted + row.denied, report.offered);
                prop_assert!(row.largest_burst <= row.most_in_a_window);
                prop_assert!(row.timeline.is_sorted());
                let most = match row.algorithm {
                    "sliding-log" => limit,
                    // Leaves evenly; the fraction of a microsecond is rounded up.
                    "leaky-bucket" => limit + 1,
                    _ => 2 * limit,
                };
                prop_assert!(row.most_in_a_window <= most, "{row:?}");
            }
        }
    }
}
