//! Nodes that count by themselves and learn of each other late, beside one store that decides, and beside leases.

use std::time::Duration;

use serde::Serialize;
use tidegate_core::{FixedWindow, Limit, State, Timestamp};

use crate::experiment::{InputError, experiment};
use crate::fleet::{self, FleetSettings};
use crate::rng::Rng;
use crate::{START_US, StopFlag, WINDOW_MS, float, index, micros};

/// Of all nodes together. They are decided thirteen times, once through leases: about 30 ms.
const MAX_REQUESTS: u64 = 30_000;
/// How many intervals the curve has, beside 0.
const POINTS: u64 = 10;

experiment! {
    SyncLag -> SyncLagReport {
        nodes: 3 in 1..=100,
        limit: 60 in 1..=10_000,
        window_ms: 1000 in WINDOW_MS,
        /// How much later a node learns what another one has admitted.
        interval_ms: 400 in 0..=*WINDOW_MS.end(),
        seed: 1,
    }
}

#[derive(Debug, Serialize)]
pub struct SyncLagReport {
    #[serde(flatten)]
    pub input: SyncLag,
    /// The demand of all nodes in the window.
    pub offered: u64,
    /// `limit × ((1 − s) + nodes × s)`, where `s` is the interval as a part of the window.
    pub formula: f64,
    pub ways: [SyncLagRow; 3],
    /// What each of the naive nodes admits.
    pub naive_per_node: Vec<u64>,
    pub curve: Vec<CurvePoint>,
}

#[derive(Debug, Serialize)]
pub struct SyncLagRow {
    pub way: &'static str,
    pub admitted: u64,
    pub over_limit: u64,
    pub over_limit_percent: f64,
    /// Calls to the store; naive nodes have none to call before they admit.
    pub calls: Option<u64>,
}

/// What the naive nodes admit at one interval.
#[derive(Debug, Serialize)]
pub struct CurvePoint {
    pub interval_ms: f64,
    pub formula: f64,
    pub naive: u64,
}

fn simulate(input: &SyncLag, stop: &StopFlag) -> Result<SyncLagReport, InputError> {
    let &SyncLag { nodes, limit, window_ms, interval_ms, seed } = input;
    if nodes * limit > MAX_REQUESTS {
        let expected = format!("at most {MAX_REQUESTS} for all nodes together");
        return Err(InputError::new("limit", expected));
    }
    let window = FixedWindow::new(limit, Duration::from_millis(window_ms))?;
    let requests = requests(input);
    let naive = |interval_us| naive_admissions(&window, nodes, interval_us, stop.until(&requests));
    let naive_per_node = naive(interval_ms * 1000);
    let point = |count| {
        let interval_us = window_ms * 1000 * count / POINTS;
        CurvePoint {
            interval_ms: float(interval_us) / 1000.0,
            formula: formula(input, interval_us),
            naive: naive(interval_us).iter().sum(),
        }
    };
    // A network without latency and loss: only who decides differs.
    let settings = FleetSettings {
        nodes,
        keys: 1,
        demand_milli: nodes * 1000,
        latency_us: 0,
        loss_ppm: 0,
        kills: 0,
        duration_us: window_ms * 1000,
        seed,
    };
    let [strict, lease] = fleet::run_requests(&settings, &Limit::from(window), &requests, stop)?;
    Ok(SyncLagReport {
        input: *input,
        offered: nodes * limit,
        formula: formula(input, interval_ms * 1000),
        ways: [
            SyncLagRow::new("naive", limit, naive_per_node.iter().sum(), None),
            SyncLagRow::new("atomic", limit, strict.admitted, Some(strict.calls)),
            SyncLagRow::new("leases", limit, lease.admitted, Some(lease.calls)),
        ],
        naive_per_node,
        curve: (0..=POINTS).map(point).collect(),
    })
}

/// Every node gets the whole limit, evenly over the window, from a random phase: µs since the start, and the node,
/// sorted.
fn requests(input: &SyncLag) -> Vec<(u64, usize)> {
    let window_us = input.window_ms * 1000;
    let mut rng = Rng::new(input.seed, 1);
    let mut first: Vec<(u64, usize)> =
        (0..index(input.nodes)).map(|node| (rng.below(window_us), node)).collect();
    first.sort_unstable();
    let round = |count| {
        let at = move |&(phase, node)| ((count * window_us + phase) / input.limit, node);
        first.iter().map(at)
    };
    (0..input.limit).flat_map(round).collect()
}

fn formula(input: &SyncLag, interval_us: u64) -> f64 {
    let window_us = input.window_ms * 1000;
    let stale = float(interval_us.min(window_us)) / float(window_us);
    float(input.limit) * ((1.0 - stale) + float(input.nodes) * stale)
}

/// The counter of a naive node.
#[derive(Clone, Default)]
struct NodeCounter {
    state: State,
    /// How many admissions of other nodes are in the state.
    others: u64,
    /// How many of its own admissions the others have learned of.
    announced: u64,
    admitted: u64,
}

/// What each naive node admits of requests in one window: µs since its start, and the node, sorted. A node counts its
/// own admissions at once, and those of others one interval later.
fn naive_admissions<'a>(
    window: &FixedWindow,
    nodes: u64,
    interval_us: u64,
    requests: impl Iterator<Item = &'a (u64, usize)>,
) -> Vec<u64> {
    let limit = Limit::from(*window);
    let start_us = START_US.next_multiple_of(micros(window.period()));
    let mut counters = vec![NodeCounter::default(); index(nodes)];
    // All admissions in order, and how many of them are an interval old.
    let mut log: Vec<(u64, usize)> = Vec::new();
    let mut known = 0;
    for &(at_us, node) in requests {
        while let Some(&(then_us, sender)) = log.get(known)
            && then_us + interval_us <= at_us
        {
            counters[sender].announced += 1;
            known += 1;
        }
        let now = Timestamp::from_micros(start_us + at_us);
        let counter = &mut counters[node];
        counter.sync(&limit, now, known as u64 - counter.announced);
        if limit.take(&mut counter.state, now, 1).allowed() {
            counter.admitted += 1;
            log.push((at_us, node));
        }
    }
    counters.iter().map(|counter| counter.admitted).collect()
}

impl NodeCounter {
    fn sync(&mut self, limit: &Limit, now: Timestamp, others: u64) {
        let news = others - std::mem::replace(&mut self.others, others);
        let left = limit.peek(&self.state, now, 0).remaining();
        // The rest was admitted as well, but a full counter stays full.
        let _ = limit.take(&mut self.state, now, news.min(left));
    }
}

impl SyncLagRow {
    fn new(way: &'static str, limit: u64, admitted: u64, calls: Option<u64>) -> Self {
        let over_limit = admitted.saturating_sub(limit);
        let over_limit_percent = float(over_limit) * 100.0 / float(limit);
        Self { way, admitted, over_limit, over_limit_percent, calls }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Experiment;

    fn admitted(report: &SyncLagReport) -> [u64; 3] {
        report.ways.each_ref().map(|way| way.admitted)
    }

    #[test]
    fn the_later_nodes_hear_of_each_other_the_more_they_admit() {
        for (nodes, limit, window_ms, interval_ms, expected) in [
            (3, 60, 1000, 0, 60),
            (3, 60, 1000, 400, 108),
            (3, 60, 1000, 1000, 180),
            (3, 60, 1000, 5000, 180),
            (10, 100, 5000, 5000, 1000),
            (1, 60, 1000, 1000, 60),
        ] {
            for seed in 1..20 {
                let input = SyncLag { nodes, limit, window_ms, interval_ms, seed };
                let report = input.run().unwrap();
                assert_eq!(admitted(&report)[..2], [expected, limit], "{input:?}");
                assert!((report.formula - float(expected)).abs() < 1e-6, "{input:?}");
            }
        }
    }

    #[test]
    fn three_nodes_that_are_400_ms_late_admit_36_each() {
        let report = SyncLag::default().run().unwrap();
        assert_eq!(report.naive_per_node, [36, 36, 36]);
        assert!((report.ways[0].over_limit_percent - 80.0).abs() < 1e-9);
        assert_eq!((report.curve.len(), report.curve[4].naive), (11, 108));
    }

    /// Leases may leave a little unused, so that "never more" alone would also hold for one that admits nothing.
    #[test]
    fn leases_use_most_of_the_limit_with_fewer_calls_than_checks() {
        let report = SyncLag { limit: 1000, ..SyncLag::default() }.run().unwrap();
        let [_, atomic, leases] = &report.ways;
        assert!((900..=1000).contains(&leases.admitted), "{leases:?}");
        assert!(leases.calls.unwrap() * 5 < atomic.calls.unwrap(), "{leases:?} {atomic:?}");
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let valid = SyncLag::default();
        for (input, field) in [
            (SyncLag { nodes: 0, ..valid }, "nodes"),
            (SyncLag { nodes: 101, ..valid }, "nodes"),
            (SyncLag { limit: 0, ..valid }, "limit"),
            (SyncLag { limit: 10_001, nodes: 1, ..valid }, "limit"),
            (SyncLag { limit: 10_000, nodes: 4, ..valid }, "limit"),
            (SyncLag { window_ms: 0, ..valid }, "window_ms"),
            (SyncLag { interval_ms: 86_400_001, ..valid }, "interval_ms"),
        ] {
            assert_eq!(input.run().unwrap_err().field, field, "{input:?}");
        }
        for (nodes, limit) in [(100, 300), (3, 10_000), (1, 1), (100, 1)] {
            for window_ms in [1, 86_400_000] {
                SyncLag { nodes, limit, window_ms, interval_ms: 7, seed: u64::MAX }.run().unwrap();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_simulation_is_the_formula_but_for_whole_requests_and_nobody_else_passes_the_limit(
            nodes in 1_u64..20,
            limit in 1_u64..200,
            window_ms in 1_u64..100_000,
            part in 0_u64..=1000,
            seed: u64,
        ) {
            let interval_ms = window_ms * part / 1000;
            let report = SyncLag { nodes, limit, window_ms, interval_ms, seed }.run().unwrap();
            let [naive, atomic, leases] = admitted(&report);
            // Each node stops at a whole request.
            prop_assert!((float(naive) - report.formula).abs() <= float(nodes), "{report:?}");
            for point in &report.curve {
                prop_assert!((float(point.naive) - point.formula).abs() <= float(nodes), "{point:?}");
            }
            prop_assert_eq!(atomic, limit);
            prop_assert!(leases <= limit, "{:?}", report);
        }
    }
}
