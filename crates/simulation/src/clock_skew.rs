//! Nodes whose clocks differ and one state that they share: decided by their clocks, and by that of the store.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use tidegate_core::State;

use super::chance::Chance;
use super::crowd::most_within;
use super::knob::Knob;
use super::subject::Subject;
use super::unfit::Unfit;
use super::{START_US, WINDOW_MS};

const NODES: RangeInclusive<u64> = 2..=50;
const LIMIT: RangeInclusive<u64> = 1..=1000;
const SKEW_MS: RangeInclusive<u64> = 0..=86_400_000;
const WINDOWS: RangeInclusive<u64> = 1..=100;
/// Of all nodes in all windows. Six algorithms decide them by two clocks: about 40 ms.
const MAX_REQUESTS: u64 = 20_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    pub nodes: u64,
    pub limit: u64,
    pub window_ms: u64,
    /// The first node's clock is behind by this much and the last one's ahead; the others lie between.
    pub skew_ms: u64,
    pub windows: u64,
    pub seed: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { nodes: 3, limit: 60, window_ms: 1000, skew_ms: 1500, windows: 10, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub nodes: u64,
    pub limit: u64,
    pub window_ms: u64,
    pub skew_ms: u64,
    pub windows: u64,
    pub seed: u64,
    pub offered: u64,
    pub algorithms: Vec<Row>,
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub algorithm: &'static str,
    pub own_clocks: Outcome,
    pub store_clock: Outcome,
}

#[derive(Debug, Serialize)]
pub struct Outcome {
    pub admitted: u64,
    /// What went ahead in any window, wherever it begins.
    pub most_in_a_window: u64,
    /// What the nodes got that got least and most.
    pub least_by_node: u64,
    pub most_by_node: u64,
}

/// A request: when it comes, to which node, and what that node's clock shows then.
struct Request {
    at_us: u64,
    node: usize,
    shows_us: u64,
}

/// What can be chosen.
pub fn knobs(input: &Input) -> [Knob; 5] {
    [
        Knob::new("nodes", input.nodes, &NODES),
        Knob::new("limit", input.limit, &LIMIT),
        Knob::new("window_ms", input.window_ms, &WINDOW_MS),
        Knob::new("skew_ms", input.skew_ms, &SKEW_MS),
        Knob::new("windows", input.windows, &WINDOWS),
    ]
}

pub fn run(input: &Input) -> Result<Report, Unfit> {
    check(input)?;
    let &Input { nodes, limit, window_ms, skew_ms, windows, seed } = input;
    let requests = requests(input);
    let row = |subject: &Subject| Row {
        algorithm: subject.name(),
        own_clocks: outcome(input, subject, &requests, |request| request.shows_us),
        store_clock: outcome(input, subject, &requests, |request| request.at_us),
    };
    let algorithms = Subject::all(limit, window_ms)?.iter().map(row).collect();
    let offered = nodes * limit * windows;
    Ok(Report { nodes, limit, window_ms, skew_ms, windows, seed, offered, algorithms })
}

fn check(input: &Input) -> Result<(), Unfit> {
    Knob::within(&knobs(input))?;
    let most = MAX_REQUESTS / (input.nodes * input.limit);
    if input.windows > most {
        return Err(Unfit::new("windows", format!("at most {most} at this limit and these nodes")));
    }
    Ok(())
}

/// Each node is asked as often as the limit allows in all windows, at random: where requests come evenly, some node
/// is always the one that comes too late.
fn requests(input: &Input) -> Vec<Request> {
    let (window_us, skew_us) = (input.window_ms * 1000, input.skew_ms * 1000);
    let start_us = START_US.next_multiple_of(window_us);
    let mut chance = Chance::new(input.seed, 1);
    let mut requests = Vec::new();
    for number in 0..input.nodes {
        let node = usize::try_from(number).unwrap_or(0);
        let ahead_us = 2 * skew_us * number / (input.nodes - 1);
        for _ in 0..input.limit * input.windows {
            let at_us = start_us + chance.below(window_us * input.windows);
            requests.push(Request { at_us, node, shows_us: at_us + ahead_us - skew_us });
        }
    }
    requests.sort_by_key(|request| (request.at_us, request.node));
    requests
}

fn outcome(
    input: &Input,
    subject: &Subject,
    requests: &[Request],
    clock: fn(&Request) -> u64,
) -> Outcome {
    let mut state = State::Empty;
    let mut by_node = vec![0; usize::try_from(input.nodes).unwrap_or(0)];
    let mut instants = Vec::new();
    for request in requests {
        let now_us = clock(request);
        if let Some(ahead_us) = subject.ask(&mut state, now_us) {
            by_node[request.node] += 1;
            // A node waits as long as it is told, whatever its clock shows.
            instants.push(request.at_us + (ahead_us - now_us));
        }
    }
    instants.sort_unstable();
    Outcome {
        admitted: by_node.iter().sum(),
        most_in_a_window: most_within(input.window_ms * 1000, &instants),
        least_by_node: by_node.iter().copied().min().unwrap_or(0),
        most_by_node: by_node.iter().copied().max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of<'a>(report: &'a Report, algorithm: &str) -> &'a Row {
        report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap()
    }

    #[test]
    fn clocks_that_are_windows_apart_forget_what_was_counted() {
        let report = run(&Input::default()).unwrap();
        let fixed = of(&report, "fixed-window");
        assert_eq!(fixed.store_clock.admitted, 600);
        assert!(fixed.own_clocks.admitted > 900, "{fixed:?}");
    }

    #[test]
    fn a_node_whose_clock_is_behind_gets_almost_nothing() {
        let report = run(&Input { skew_ms: 400, ..Input::default() }).unwrap();
        for algorithm in ["gcra", "token-bucket"] {
            let row = of(&report, algorithm);
            assert!(row.own_clocks.least_by_node * 10 < row.own_clocks.most_by_node, "{row:?}");
            assert!(row.store_clock.least_by_node * 2 > row.store_clock.most_by_node, "{row:?}");
        }
    }

    #[test]
    fn bounds_hold_for_whoever_asks() {
        let sound = Input::default();
        for (input, field) in [
            (Input { nodes: 1, ..sound.clone() }, "nodes"),
            (Input { nodes: 51, ..sound.clone() }, "nodes"),
            (Input { limit: 1001, ..sound.clone() }, "limit"),
            (Input { window_ms: 0, ..sound.clone() }, "window_ms"),
            (Input { skew_ms: 86_400_001, ..sound.clone() }, "skew_ms"),
            (Input { windows: 0, ..sound.clone() }, "windows"),
            (Input { windows: 112, ..sound.clone() }, "windows"),
            (Input { nodes: 50, limit: 1000, windows: 1, ..sound.clone() }, "windows"),
        ] {
            assert_eq!(run(&input).unwrap_err().field, field, "{input:?}");
        }
        let widest = Input { skew_ms: 86_400_000, window_ms: 86_400_000, windows: 100, ..sound };
        run(&widest).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn the_stores_clock_is_as_good_as_no_skew_at_all(
            nodes in 2_u64..10,
            limit in 1_u64..50,
            window_ms in 1_u64..10_000,
            skew_ms in 0_u64..20_000,
            seed: u64,
        ) {
            let windows = 5;
            let skewed = run(&Input { nodes, limit, window_ms, skew_ms, windows, seed }).unwrap();
            let even = run(&Input { nodes, limit, window_ms, skew_ms: 0, windows, seed }).unwrap();
            for (skewed, even) in skewed.algorithms.iter().zip(&even.algorithms) {
                prop_assert_eq!(skewed.store_clock.admitted, even.own_clocks.admitted);
            }
            let log = of(&skewed, "sliding-log");
            prop_assert!(log.store_clock.most_in_a_window <= limit, "{log:?}");
        }
    }
}
