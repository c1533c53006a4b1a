//! The attack on the edge of a window: a limit's worth just before it, and another one at it.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_core::State;

use super::knob::Knob;
use super::subject::Subject;
use super::unfit::Unfit;
use super::{START_US, WINDOW_MS, float};

/// At most 2 × 10,000 requests to each of six algorithms: about 10 ms.
const LIMIT: RangeInclusive<u64> = 1..=10_000;
const POSITION_PERMILLE: RangeInclusive<u64> = 0..=999;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    pub limit: u64,
    pub window_ms: u64,
    /// Where in the window the first requests come, in thousandths of it.
    pub position_permille: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { limit: 20, window_ms: 1000, position_permille: 850 }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub limit: u64,
    pub window_ms: u64,
    pub position_permille: u64,
    /// From the first requests to the second.
    pub gap_us: u64,
    pub algorithms: Vec<Row>,
}

/// What one algorithm admits.
#[derive(Debug, Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    /// Of the first and of the second requests.
    pub first: u64,
    pub second: u64,
    /// What went ahead from the first instant to the second: a leaky bucket lets the rest wait.
    pub in_gap: u64,
    pub per_second: f64,
    pub times_limit: f64,
}

/// What can be chosen.
pub fn knobs(input: &Input) -> [Knob; 3] {
    [
        Knob::new("limit", input.limit, &LIMIT),
        Knob::new("window_ms", input.window_ms, &WINDOW_MS),
        Knob::new("position_permille", input.position_permille, &POSITION_PERMILLE),
    ]
}

pub fn run(input: &Input) -> Result<Report, Unfit> {
    let &Input { limit, window_ms, position_permille } = input;
    Knob::within(&knobs(input))?;
    // Whole, since a window is whole milliseconds.
    let (window_us, gap_us) = (window_ms * 1000, window_ms * (1000 - position_permille));
    let edge_us = START_US.next_multiple_of(window_us);
    let attack = |subject: &Subject| {
        let mut state = State::Empty;
        let mut ask = |at_us| -> Vec<u64> {
            (0..limit).filter_map(|_| subject.ask(&mut state, at_us)).collect()
        };
        let (first, second) = (ask(edge_us - gap_us), ask(edge_us));
        let ahead = first.iter().chain(&second).filter(|at_us| **at_us <= edge_us).count();
        let in_gap = u64::try_from(ahead).unwrap_or(u64::MAX);
        Row {
            algorithm: subject.name(),
            first: u64::try_from(first.len()).unwrap_or(u64::MAX),
            second: u64::try_from(second.len()).unwrap_or(u64::MAX),
            in_gap,
            per_second: float(in_gap) * 1e6 / float(gap_us),
            times_limit: float(in_gap) / float(limit),
        }
    };
    let algorithms = Subject::all(limit, window_ms)?.iter().map(attack).collect();
    Ok(Report { limit, window_ms, position_permille, gap_us, algorithms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(report: &Report, algorithm: &str) -> (u64, u64, u64) {
        let row = report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap();
        (row.first, row.second, row.in_gap)
    }

    #[test]
    fn a_fixed_window_admits_twice_its_limit_within_150_ms() {
        let report = run(&Input::default()).unwrap();
        assert_eq!(report.gap_us, 150_000);
        assert_eq!(of(&report, "fixed-window"), (20, 20, 40));
        let per_second = report.algorithms[0].per_second;
        assert!((per_second - 266.67).abs() < 0.01, "{per_second}");
        // Three more are what 150 ms refill, and four is what leaves at 20/s.
        assert_eq!(of(&report, "gcra"), (20, 3, 23));
        assert_eq!(of(&report, "token-bucket"), (20, 3, 23));
        assert_eq!(of(&report, "sliding-window"), (20, 0, 20));
        assert_eq!(of(&report, "sliding-log"), (20, 0, 20));
        assert_eq!(of(&report, "leaky-bucket"), (20, 4, 4));
    }

    #[test]
    fn the_later_the_attack_the_shorter_the_gap() {
        let report = run(&Input { position_permille: 990, ..Input::default() }).unwrap();
        assert_eq!((report.gap_us, of(&report, "fixed-window").2), (10_000, 40));
    }

    #[test]
    fn bounds_hold_for_whoever_asks() {
        let bad = [
            (Input { limit: 0, ..Input::default() }, "limit: expected 1 to 10000"),
            (Input { limit: 10_001, ..Input::default() }, "limit: expected 1 to 10000"),
            (Input { window_ms: 0, ..Input::default() }, "window_ms: expected 1 to 86400000"),
            (
                Input { position_permille: 1000, ..Input::default() },
                "position_permille: expected 0 to 999",
            ),
        ];
        for (input, expected) in bad {
            assert_eq!(run(&input).unwrap_err().to_string(), expected);
        }
        let edges = [(1, 1, 999), (10_000, 86_400_000, 0), (10_000, 1, 999), (1, 86_400_000, 1)];
        for (limit, window_ms, position_permille) in edges {
            run(&Input { limit, window_ms, position_permille }).unwrap();
        }
    }
}
