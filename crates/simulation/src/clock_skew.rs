//! Nodes with different clocks and one shared state: decisions by the nodes' clocks, and by the clock of the store.

use serde::Serialize;
use tidegate_core::State;

use crate::algorithm::{Algorithm, most_within};
use crate::experiment::{InputError, experiment};
use crate::rng::Rng;
use crate::{START_US, StopFlag, WINDOW_MS, index};

/// Of all nodes in all windows. Six algorithms decide them by two clocks: about 40 ms.
const MAX_REQUESTS: u64 = 20_000;

experiment! {
    ClockSkew -> ClockSkewReport {
        nodes: 3 in 2..=50,
        limit: 60 in 1..=1000,
        window_ms: 1000 in WINDOW_MS,
        /// The first node's clock is behind by this much and the last one's ahead; the others lie between.
        skew_ms: 1500 in 0..=86_400_000,
        windows: 10 in 1..=100,
        seed: 1,
    }
}

#[derive(Debug, Serialize)]
pub struct ClockSkewReport {
    #[serde(flatten)]
    pub input: ClockSkew,
    pub offered: u64,
    pub algorithms: Vec<ClockSkewRow>,
}

#[derive(Debug, Serialize)]
pub struct ClockSkewRow {
    pub algorithm: &'static str,
    /// The most that the limit allows in all windows together, on a right clock. A bucket starts full, and a queue empty:
    /// they allow one more limit. So does any single window of theirs, and [`ClockOutcome::most_in_a_window`] is no sign
    /// of a wrong clock there.
    pub allowed: u64,
    pub own_clocks: ClockOutcome,
    pub store_clock: ClockOutcome,
}

#[derive(Debug, Serialize)]
pub struct ClockOutcome {
    pub admitted: u64,
    /// What went ahead in any window, wherever it begins.
    pub most_in_a_window: u64,
    /// What the node with the fewest admissions got, and the one with the most.
    pub least_by_node: u64,
    pub most_by_node: u64,
}

struct Request {
    at_us: u64,
    node: usize,
    /// The node's clock at that instant.
    node_clock_us: u64,
}

fn simulate(input: &ClockSkew, stop: &StopFlag) -> Result<ClockSkewReport, InputError> {
    let &ClockSkew { nodes, limit, window_ms, windows, .. } = input;
    let most = MAX_REQUESTS / (nodes * limit);
    if windows > most {
        let expected = format!("at most {most} at this limit and these nodes");
        return Err(InputError::new("windows", expected));
    }
    let requests = requests(input);
    let row = |algorithm: &Algorithm| ClockSkewRow {
        algorithm: algorithm.name(),
        allowed: limit * (windows + u64::from(algorithm.starts_full())),
        own_clocks: decide(input, algorithm, stop.until(&requests), |request| {
            request.node_clock_us
        }),
        store_clock: decide(input, algorithm, stop.until(&requests), |request| request.at_us),
    };
    let algorithms = Algorithm::all(limit, window_ms)?.iter().map(row).collect();
    Ok(ClockSkewReport { input: *input, offered: nodes * limit * windows, algorithms })
}

/// Every node gets the whole limit in every window, at random instants: with evenly spaced requests, the same node
/// would always come too late.
fn requests(input: &ClockSkew) -> Vec<Request> {
    let (window_us, skew_us) = (input.window_ms * 1000, input.skew_ms * 1000);
    let start_us = START_US.next_multiple_of(window_us);
    let mut rng = Rng::new(input.seed, 1);
    let mut requests = Vec::new();
    for node in 0..input.nodes {
        let ahead_us = 2 * skew_us * node / (input.nodes - 1);
        for _ in 0..input.limit * input.windows {
            let at_us = start_us + rng.below(window_us * input.windows);
            let node_clock_us = at_us + ahead_us - skew_us;
            requests.push(Request { at_us, node: index(node), node_clock_us });
        }
    }
    requests.sort_by_key(|request| (request.at_us, request.node));
    requests
}

fn decide<'a>(
    input: &ClockSkew,
    algorithm: &Algorithm,
    requests: impl Iterator<Item = &'a Request>,
    clock: fn(&Request) -> u64,
) -> ClockOutcome {
    let mut state = State::Empty;
    let mut by_node = vec![0; index(input.nodes)];
    let mut instants = Vec::new();
    for request in requests {
        let now_us = clock(request);
        if let Some(ahead_us) = algorithm.admit(&mut state, now_us) {
            by_node[request.node] += 1;
            // A delay lasts as long on every clock.
            instants.push(request.at_us + (ahead_us - now_us));
        }
    }
    instants.sort_unstable();
    ClockOutcome {
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
    use crate::Experiment;

    fn row<'a>(report: &'a ClockSkewReport, algorithm: &str) -> &'a ClockSkewRow {
        report.algorithms.iter().find(|row| row.algorithm == algorithm).unwrap()
    }

    #[test]
    fn clocks_that_are_windows_apart_forget_what_was_counted() {
        let report = ClockSkew::default().run().unwrap();
        let fixed = row(&report, "fixed-window");
        assert_eq!(fixed.store_clock.admitted, 600);
        assert!(fixed.own_clocks.admitted > 900, "{fixed:?}");
    }

    #[test]
    fn a_node_whose_clock_is_behind_gets_almost_nothing() {
        let report = ClockSkew { skew_ms: 400, ..ClockSkew::default() }.run().unwrap();
        for algorithm in ["gcra", "token-bucket"] {
            let row = row(&report, algorithm);
            assert!(row.own_clocks.least_by_node * 10 < row.own_clocks.most_by_node, "{row:?}");
            assert!(row.store_clock.least_by_node * 2 > row.store_clock.most_by_node, "{row:?}");
        }
    }

    #[test]
    fn by_the_stores_clock_no_algorithm_admits_more_than_it_allows() {
        for seed in 1..=5 {
            let report = ClockSkew { seed, ..ClockSkew::default() }.run().unwrap();
            for row in &report.algorithms {
                assert!(row.store_clock.admitted <= row.allowed, "{row:?}");
                assert!(row.own_clocks.admitted > row.allowed, "{row:?}");
            }
        }
        let allowed = |name| row(&ClockSkew::default().run().unwrap(), name).allowed;
        assert_eq!(["sliding-log", "gcra", "leaky-bucket"].map(allowed), [600, 660, 660]);
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let valid = ClockSkew::default();
        for (input, field) in [
            (ClockSkew { nodes: 1, ..valid }, "nodes"),
            (ClockSkew { nodes: 51, ..valid }, "nodes"),
            (ClockSkew { limit: 1001, ..valid }, "limit"),
            (ClockSkew { window_ms: 0, ..valid }, "window_ms"),
            (ClockSkew { skew_ms: 86_400_001, ..valid }, "skew_ms"),
            (ClockSkew { windows: 0, ..valid }, "windows"),
            (ClockSkew { windows: 112, ..valid }, "windows"),
            (ClockSkew { nodes: 50, limit: 1000, windows: 1, ..valid }, "windows"),
        ] {
            assert_eq!(input.run().unwrap_err().field, field, "{input:?}");
        }
        let widest =
            ClockSkew { skew_ms: 86_400_000, window_ms: 86_400_000, windows: 100, ..valid };
        widest.run().unwrap();
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
            let skewed = ClockSkew { nodes, limit, window_ms, skew_ms, windows, seed }.run().unwrap();
            let even = ClockSkew { nodes, limit, window_ms, skew_ms: 0, windows, seed }.run().unwrap();
            for (skewed, even) in skewed.algorithms.iter().zip(&even.algorithms) {
                prop_assert_eq!(skewed.store_clock.admitted, even.own_clocks.admitted);
            }
            let log = row(&skewed, "sliding-log");
            prop_assert!(log.store_clock.most_in_a_window <= limit, "{log:?}");
        }
    }
}
