//! The attack on the edge of a window: the whole limit just before it, and again right at it.

use serde::Serialize;
use tidegate_core::State;

use crate::algorithm::Algorithm;
use crate::experiment::{InputError, experiment};
use crate::{START_US, StopFlag, WINDOW_MS, float};

experiment! {
    Boundary -> BoundaryReport {
        /// At most 2 × 10,000 requests to each of six algorithms: about 10 ms.
        limit: 20 in 1..=10_000,
        window_ms: 1000 in WINDOW_MS,
        /// When the first requests arrive, in thousandths of the window.
        position_permille: 850 in 0..=999,
    }
}

#[derive(Debug, Serialize)]
pub struct BoundaryReport {
    #[serde(flatten)]
    pub input: Boundary,
    /// From the first requests to the second.
    pub gap_us: u64,
    pub algorithms: Vec<BoundaryRow>,
}

#[derive(Debug, Serialize)]
pub struct BoundaryRow {
    pub algorithm: &'static str,
    /// How many of the first and of the second requests are admitted.
    pub first: u64,
    pub second: u64,
    /// How many of each go ahead within the gap.
    pub first_in_gap: u64,
    pub second_in_gap: u64,
    /// Both together.
    pub in_gap: u64,
    /// Admitted, but later than the gap: a leaky bucket makes them wait.
    pub delayed: u64,
    pub per_second: f64,
    pub times_limit: f64,
}

fn simulate(input: &Boundary, stop: &StopFlag) -> Result<BoundaryReport, InputError> {
    let &Boundary { limit, window_ms, position_permille } = input;
    // Whole microseconds, because a window is whole milliseconds.
    let (window_us, gap_us) = (window_ms * 1000, window_ms * (1000 - position_permille));
    let edge_us = START_US.next_multiple_of(window_us);
    let attack = |algorithm: &Algorithm| {
        let mut state = State::Empty;
        let mut send = |at_us| -> Vec<u64> {
            stop.until(0..limit).filter_map(|_| algorithm.admit(&mut state, at_us)).collect()
        };
        let (first, second) = (send(edge_us - gap_us), send(edge_us));
        let within = |all: &[u64]| all.iter().filter(|at_us| **at_us <= edge_us).count() as u64;
        let (first_in_gap, second_in_gap) = (within(&first), within(&second));
        let (first, second) = (first.len() as u64, second.len() as u64);
        let in_gap = first_in_gap + second_in_gap;
        BoundaryRow {
            algorithm: algorithm.name(),
            first,
            second,
            first_in_gap,
            second_in_gap,
            in_gap,
            delayed: first + second - in_gap,
            per_second: float(in_gap) * 1e6 / float(gap_us),
            times_limit: float(in_gap) / float(limit),
        }
    };
    let algorithms = Algorithm::all(limit, window_ms)?.iter().map(attack).collect();
    Ok(BoundaryReport { input: *input, gap_us, algorithms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    fn row(report: &BoundaryReport, algorithm: &str) -> (u64, u64, u64) {
        let row = report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap();
        (row.first, row.second, row.in_gap)
    }

    #[test]
    fn a_fixed_window_admits_twice_its_limit_within_150_ms() {
        let report = Boundary::default().run().unwrap();
        assert_eq!(report.gap_us, 150_000);
        assert_eq!(row(&report, "fixed-window"), (20, 20, 40));
        let per_second = report.algorithms[0].per_second;
        assert!((per_second - 266.67).abs() < 0.01, "{per_second}");
        // Three more are what 150 ms refill, and four is what leaves at 20/s.
        assert_eq!(row(&report, "gcra"), (20, 3, 23));
        assert_eq!(row(&report, "token-bucket"), (20, 3, 23));
        assert_eq!(row(&report, "sliding-window"), (20, 0, 20));
        assert_eq!(row(&report, "sliding-log"), (20, 0, 20));
        assert_eq!(row(&report, "leaky-bucket"), (20, 4, 4));
        let leaky = report.algorithms.iter().find(|row| row.algorithm == "leaky-bucket").unwrap();
        assert_eq!((leaky.first_in_gap, leaky.second_in_gap, leaky.delayed), (4, 0, 20));
        assert!(
            report.algorithms.iter().all(|row| row.delayed == 0 || row.algorithm == "leaky-bucket")
        );
    }

    #[test]
    fn the_later_the_attack_the_shorter_the_gap() {
        let report = Boundary { position_permille: 990, ..Boundary::default() }.run().unwrap();
        assert_eq!((report.gap_us, row(&report, "fixed-window").2), (10_000, 40));
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let bad = [
            (Boundary { limit: 0, ..Boundary::default() }, "limit: expected 1 to 10000"),
            (Boundary { limit: 10_001, ..Boundary::default() }, "limit: expected 1 to 10000"),
            (Boundary { window_ms: 0, ..Boundary::default() }, "window_ms: expected 1 to 86400000"),
            (
                Boundary { position_permille: 1000, ..Boundary::default() },
                "position_permille: expected 0 to 999",
            ),
        ];
        for (input, expected) in bad {
            assert_eq!(input.run().unwrap_err().to_string(), expected);
        }
        let edges = [(1, 1, 999), (10_000, 86_400_000, 0), (10_000, 1, 999), (1, 86_400_000, 1)];
        for (limit, window_ms, position_permille) in edges {
            Boundary { limit, window_ms, position_permille }.run().unwrap();
        }
    }
}
