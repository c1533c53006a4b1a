//! Nodes that count by themselves and hear of each other late, beside one store that decides, and beside leases.

mod naive;

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{FixedWindow, Limit};

use super::chance::Chance;
use super::fleet::{self, Setting};
use super::knob::Knob;
use super::unfit::Unfit;
use super::{WINDOW_MS, float};

const NODES: RangeInclusive<u64> = 1..=100;
const LIMIT: RangeInclusive<u64> = 1..=10_000;
const INTERVAL_MS: RangeInclusive<u64> = 0..=*WINDOW_MS.end();
/// Of all nodes together. They are decided thirteen times over, once through leases: about 30 ms.
const MAX_REQUESTS: u64 = 30_000;
/// How many intervals the curve has, beside none at all.
const POINTS: u64 = 10;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    pub nodes: u64,
    pub limit: u64,
    pub window_ms: u64,
    /// How late a node hears of what another one has admitted.
    pub interval_ms: u64,
    pub seed: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { nodes: 3, limit: 60, window_ms: 1000, interval_ms: 400, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub nodes: u64,
    pub limit: u64,
    pub window_ms: u64,
    pub interval_ms: u64,
    pub seed: u64,
    /// What is asked for in the window, by all nodes.
    pub offered: u64,
    /// `limit × ((1 − s) + nodes × s)`, where `s` is the part of the window that an interval takes.
    pub formula: f64,
    pub ways: [Row; 3],
    /// What each of the naive nodes admits.
    pub naive_per_node: Vec<u64>,
    pub curve: Vec<Point>,
}

/// One way to count.
#[derive(Debug, Serialize)]
pub struct Row {
    pub way: &'static str,
    pub admitted: u64,
    pub over_limit: u64,
    pub over_limit_percent: f64,
    /// To the store; the naive nodes have none to call before they admit.
    pub calls: Option<u64>,
}

/// What the naive nodes admit at one interval.
#[derive(Debug, Serialize)]
pub struct Point {
    pub interval_ms: f64,
    pub formula: f64,
    pub naive: u64,
}

/// What can be chosen.
pub fn knobs(input: &Input) -> [Knob; 4] {
    [
        Knob::new("nodes", input.nodes, &NODES),
        Knob::new("limit", input.limit, &LIMIT),
        Knob::new("window_ms", input.window_ms, &WINDOW_MS),
        Knob::new("interval_ms", input.interval_ms, &INTERVAL_MS),
    ]
}

pub fn run(input: &Input) -> Result<Report, Unfit> {
    check(input)?;
    let &Input { nodes, limit, window_ms, interval_ms, seed } = input;
    let window = FixedWindow::new(limit, Duration::from_millis(window_ms))?;
    let requests = requests(input);
    let naive = |interval_us| naive::admitted(&window, nodes, interval_us, &requests);
    let naive_per_node = naive(interval_ms * 1000);
    let point = |count| {
        let interval_us = window_ms * 1000 * count / POINTS;
        Point {
            interval_ms: float(interval_us) / 1000.0,
            formula: formula(input, interval_us),
            naive: naive(interval_us).iter().sum(),
        }
    };
    let [strict, lease] = fleet::given(&setting(input), &Limit::from(window), &requests)?;
    Ok(Report {
        nodes,
        limit,
        window_ms,
        interval_ms,
        seed,
        offered: nodes * limit,
        formula: formula(input, interval_ms * 1000),
        ways: [
            Row::new("naive", limit, naive_per_node.iter().sum(), None),
            Row::new("atomic", limit, strict.admitted, Some(strict.calls)),
            Row::new("leases", limit, lease.admitted, Some(lease.calls)),
        ],
        naive_per_node,
        curve: (0..=POINTS).map(point).collect(),
    })
}

fn check(input: &Input) -> Result<(), Unfit> {
    Knob::within(&knobs(input))?;
    if input.nodes * input.limit > MAX_REQUESTS {
        return Err(Unfit::new("limit", format!("at most {MAX_REQUESTS} for all nodes together")));
    }
    Ok(())
}

/// Each node is asked for the limit, evenly over the window, and begins where chance has it: the µs since the start,
/// and the node, in order.
fn requests(input: &Input) -> Vec<(u64, usize)> {
    let window_us = input.window_ms * 1000;
    let mut chance = Chance::new(input.seed, 1);
    let nodes = usize::try_from(input.nodes).unwrap_or(0);
    let mut first: Vec<(u64, usize)> = (0..nodes).map(|n| (chance.below(window_us), n)).collect();
    first.sort_unstable();
    let round = |count| {
        let at = move |&(phase, node)| ((count * window_us + phase) / input.limit, node);
        first.iter().map(at)
    };
    (0..input.limit).flat_map(round).collect()
}

fn formula(input: &Input, interval_us: u64) -> f64 {
    let window_us = input.window_ms * 1000;
    let stale = float(interval_us.min(window_us)) / float(window_us);
    float(input.limit) * ((1.0 - stale) + float(input.nodes) * stale)
}

/// A network that takes no time and loses nothing: what differs is only who decides.
fn setting(input: &Input) -> Setting {
    Setting {
        nodes: input.nodes,
        keys: 1,
        demand_milli: input.nodes * 1000,
        latency_us: 0,
        loss_ppm: 0,
        kills: 0,
        duration_us: input.window_ms * 1000,
        seed: input.seed,
    }
}

impl Row {
    fn new(way: &'static str, limit: u64, admitted: u64, calls: Option<u64>) -> Self {
        let over_limit = admitted.saturating_sub(limit);
        let over_limit_percent = float(over_limit) * 100.0 / float(limit);
        Self { way, admitted, over_limit, over_limit_percent, calls }
    }
}

#[cfg(test)]
mod tests;
