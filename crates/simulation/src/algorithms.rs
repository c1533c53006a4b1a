//! The same requests through all algorithms: what each admits, how large its bursts are, how large its state is.

use serde::Serialize;
use tidegate_core::State;

use crate::algorithm::{Algorithm, most_within};
use crate::experiment::{InputError, experiment};
use crate::rng::Rng;
use crate::{START_US, StopFlag, WINDOW_MS, index};

/// On average; a trace is cut off at twice as many. Six algorithms decide them: about 20 ms.
const MAX_REQUESTS: u64 = 20_000;
/// How often the state is measured, because serializing a long log takes time.
const SAMPLES: usize = 64;
/// How many points a timeline has, beside its start.
pub const POINTS: u64 = 100;

experiment! {
    Algorithms -> AlgorithmsReport {
        limit: 100 in 1..=10_000,
        window_ms: 1000 in WINDOW_MS,
        /// The length of the trace.
        windows: 10 in 1..=100,
        /// The demand in thousandths of the limit.
        demand_milli: 1500 in 1..=100_000,
        /// How many requests arrive at the same instant.
        clump: 5 in 1..=1000,
        seed: 1,
    }
}

#[derive(Debug, Serialize)]
pub struct AlgorithmsReport {
    #[serde(flatten)]
    pub input: Algorithms,
    pub offered: u64,
    pub algorithms: Vec<AlgorithmsRow>,
}

#[derive(Debug, Serialize)]
pub struct AlgorithmsRow {
    pub algorithm: &'static str,
    pub admitted: u64,
    pub denied: u64,
    /// The longest delay of an admitted request.
    pub longest_wait_us: u64,
    /// What went ahead in any window, and in any tenth of one, wherever it begins.
    pub most_in_a_window: u64,
    pub largest_burst: u64,
    /// The largest state, as a store writes it.
    pub state_bytes: u64,
    /// What had gone ahead by each hundredth of the trace.
    pub timeline: Vec<u64>,
}

fn simulate(input: &Algorithms, stop: &StopFlag) -> Result<AlgorithmsReport, InputError> {
    let &Algorithms { limit, window_ms, windows, demand_milli, .. } = input;
    if limit * windows * demand_milli / 1000 > MAX_REQUESTS {
        let expected = format!("at most {MAX_REQUESTS} requests: fewer windows or a lower limit");
        return Err(InputError::new("demand_milli", expected));
    }
    let trace = trace(input);
    let row = |algorithm: &Algorithm| follow(input, algorithm, &trace, stop);
    let algorithms = Algorithm::all(limit, window_ms)?.iter().map(row).collect();
    Ok(AlgorithmsReport { input: *input, offered: trace.len() as u64, algorithms })
}

fn start_us(input: &Algorithms) -> u64 {
    START_US.next_multiple_of(input.window_ms * 1000)
}

/// Clumps at random instants, on average as many as the demand asks for.
fn trace(input: &Algorithms) -> Vec<u64> {
    let (start_us, window_us) = (start_us(input), input.window_ms * 1000);
    let end_us = start_us + window_us * input.windows;
    let mut rng = Rng::new(input.seed, 1);
    // The mean gap between clumps in units of 2^−20 µs: clump × window / (limit × demand).
    let gap = (u128::from(input.clump * window_us * 1000) << 20)
        / u128::from(input.limit * input.demand_milli);
    let mut next = u128::from(start_us) << 20;
    let mut requests = Vec::new();
    while requests.len() < index(2 * MAX_REQUESTS) {
        next += (gap * u128::from(rng.exponential())) >> 32;
        let at_us = u64::try_from(next >> 20).unwrap_or(u64::MAX);
        if at_us >= end_us {
            break;
        }
        requests.extend((0..input.clump).map(|_| at_us));
    }
    requests
}

fn follow(
    input: &Algorithms,
    algorithm: &Algorithm,
    trace: &[u64],
    stop: &StopFlag,
) -> AlgorithmsRow {
    let mut state = State::Empty;
    let mut instants = Vec::new();
    let (mut longest_wait_us, mut state_bytes, mut written) = (0, 0, Vec::new());
    let every = trace.len().div_ceil(SAMPLES).max(1);
    for (index, &at_us) in stop.until(trace.iter().enumerate()) {
        if let Some(ahead_us) = algorithm.admit(&mut state, at_us) {
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
    let ahead_by = |point: u64| {
        let until_us = start_us(input) + window_us * input.windows * point / POINTS;
        instants.partition_point(|at_us| *at_us < until_us) as u64
    };
    AlgorithmsRow {
        algorithm: algorithm.name(),
        admitted: instants.len() as u64,
        denied: (trace.len() - instants.len()) as u64,
        longest_wait_us,
        most_in_a_window: most_within(window_us, &instants),
        largest_burst: most_within(window_us / 10, &instants),
        state_bytes: state_bytes as u64,
        timeline: (0..=POINTS).map(ahead_by).collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Experiment;

    fn row<'a>(report: &'a AlgorithmsReport, algorithm: &str) -> &'a AlgorithmsRow {
        report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap()
    }

    #[test]
    fn an_instant_is_smaller_than_slots_and_slots_than_a_log() {
        let report = Algorithms { limit: 1000, clump: 1, ..Algorithms::default() }.run().unwrap();
        let bytes = |algorithm| row(&report, algorithm).state_bytes;
        assert!(bytes("fixed-window") < bytes("gcra") && bytes("gcra") < bytes("sliding-window"));
        assert!(bytes("sliding-window") * 10 < bytes("sliding-log"));
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let valid = Algorithms::default();
        for (input, field) in [
            (Algorithms { limit: 0, ..valid }, "limit"),
            (Algorithms { limit: 10_001, ..valid }, "limit"),
            (Algorithms { window_ms: 86_400_001, ..valid }, "window_ms"),
            (Algorithms { windows: 101, ..valid }, "windows"),
            (Algorithms { demand_milli: 0, ..valid }, "demand_milli"),
            (Algorithms { demand_milli: 100_000, ..valid }, "demand_milli"),
            (Algorithms { clump: 1001, ..valid }, "clump"),
        ] {
            assert_eq!(input.run().unwrap_err().field, field, "{input:?}");
        }
        for (limit, window_ms, clump) in [(1, 86_400_000, 1000), (10_000, 1, 1)] {
            Algorithms { limit, window_ms, clump, windows: 1, ..Algorithms::default() }
                .run()
                .unwrap();
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
            let input = Algorithms { limit, window_ms, windows, demand_milli, clump, seed };
            let report = input.run().unwrap();
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
