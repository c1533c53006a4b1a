//! The race between reading a counter and writing it: what slips through, beside a step that is atomic.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::{FixedWindow, Limit, State, Timestamp};

use super::chance::Chance;
use super::knob::Knob;
use super::unfit::Unfit;
use super::{START_US, float};

const NODES: RangeInclusive<u64> = 1..=64;
const LIMIT: RangeInclusive<u64> = 1..=10_000;
const RUNS: RangeInclusive<u64> = 1..=10_000;
/// Units and nodes of all runs together, each of them a few reads and writes: about 20 ms.
const MAX_STEPS: u64 = 250_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    pub nodes: u64,
    pub limit: u64,
    /// How often it is tried, each time with other luck.
    pub runs: u64,
    pub seed: u64,
}

impl Default for Input {
    fn default() -> Self {
        Self { nodes: 3, limit: 60, runs: 1000, seed: 1 }
    }
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub nodes: u64,
    pub limit: u64,
    pub runs: u64,
    pub seed: u64,
    /// The most that can slip through: every other node, once.
    pub bound: u64,
    pub ways: [Row; 2],
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub way: &'static str,
    pub over_limit_mean: f64,
    pub over_limit_worst: u64,
    /// In how many runs as many were admitted above the limit as the place in the list says.
    pub runs_by_over_limit: Vec<u64>,
}

/// What can be chosen.
pub fn knobs(input: &Input) -> [Knob; 3] {
    [
        Knob::new("nodes", input.nodes, &NODES),
        Knob::new("limit", input.limit, &LIMIT),
        Knob::new("runs", input.runs, &RUNS),
    ]
}

pub fn run(input: &Input) -> Result<Report, Unfit> {
    let &Input { nodes, limit, runs, seed } = input;
    Knob::within(&knobs(input))?;
    if runs * (limit + nodes) > MAX_STEPS {
        let most = MAX_STEPS / (limit + nodes);
        return Err(Unfit::new("runs", format!("at most {most} at this limit and these nodes")));
    }
    // A window that nobody leaves: the race is about the counter, not about time.
    let window = FixedWindow::new(limit, Duration::from_hours(1))?.into();
    let chance = |number| Chance::new(seed, number);
    let overs = |admit: fn(&Limit, u64, Chance) -> u64| {
        (0..runs)
            .map(|number| admit(&window, nodes, chance(number)).saturating_sub(limit))
            .collect::<Vec<_>>()
    };
    let ways = [
        Row::new("read, then write", &overs(read_then_write), nodes),
        Row::new("atomic", &overs(atomic), nodes),
    ];
    Ok(Report { nodes, limit, runs, seed, bound: nodes - 1, ways })
}

const NOW: Timestamp = Timestamp::from_micros(START_US);

/// Whose turn it is, among those that were not refused yet. Every node asks again until it is refused, and a refused one
/// leaves, so that there are at most two turns for each unit and each node.
struct Turns {
    nodes: Vec<usize>,
    chance: Chance,
}

impl Turns {
    fn new(nodes: u64, chance: Chance) -> Self {
        Self { nodes: (0..usize::try_from(nodes).unwrap_or(0)).collect(), chance }
    }

    /// The place of the next node in the list.
    fn next(&mut self) -> Option<usize> {
        let count = u64::try_from(self.nodes.len()).unwrap_or(0);
        (count > 0).then(|| usize::try_from(self.chance.below(count)).unwrap_or(0))
    }
}

/// A node reads and decides at one turn, and writes at its next one. Meanwhile others read what it read.
fn read_then_write(limit: &Limit, nodes: u64, chance: Chance) -> u64 {
    let mut turns = Turns::new(nodes, chance);
    let (mut store, mut admitted) = (State::Empty, 0);
    let mut decided = vec![false; turns.nodes.len()];
    while let Some(place) = turns.next() {
        let node = turns.nodes[place];
        if std::mem::take(&mut decided[node]) {
            admitted += 1;
            // One more in the counter, which cannot say more than full.
            let _ = limit.take(&mut store, NOW, 1);
        } else if limit.peek(&store, NOW, 1).allowed() {
            decided[node] = true;
        } else {
            turns.nodes.swap_remove(place);
        }
    }
    admitted
}

/// A node reads, decides and writes at one turn.
fn atomic(limit: &Limit, nodes: u64, chance: Chance) -> u64 {
    let mut turns = Turns::new(nodes, chance);
    let (mut store, mut admitted) = (State::Empty, 0);
    while let Some(place) = turns.next() {
        if limit.take(&mut store, NOW, 1).allowed() {
            admitted += 1;
        } else {
            turns.nodes.swap_remove(place);
        }
    }
    admitted
}

impl Row {
    fn new(way: &'static str, overs: &[u64], nodes: u64) -> Self {
        let count = |over| u64::try_from(overs.iter().filter(|it| **it == over).count());
        let worst = overs.iter().copied().max().unwrap_or(0);
        let runs = u64::try_from(overs.len()).unwrap_or(u64::MAX);
        Self {
            way,
            over_limit_mean: float(overs.iter().sum()) / float(runs),
            over_limit_worst: worst,
            runs_by_over_limit: (0..nodes).map(|over| count(over).unwrap_or(u64::MAX)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn some_luck_lets_every_other_node_through_once() {
        for nodes in 2..=8 {
            let report = run(&Input { nodes, ..Input::default() }).unwrap();
            let [racing, atomic] = &report.ways;
            assert_eq!((racing.over_limit_worst, report.bound), (nodes - 1, nodes - 1));
            assert_eq!(atomic.over_limit_worst, 0);
        }
    }

    #[test]
    fn bounds_hold_for_whoever_asks() {
        let sound = Input::default();
        for (input, field) in [
            (Input { nodes: 0, ..sound.clone() }, "nodes"),
            (Input { nodes: 65, ..sound.clone() }, "nodes"),
            (Input { limit: 0, ..sound.clone() }, "limit"),
            (Input { limit: 10_001, ..sound.clone() }, "limit"),
            (Input { runs: 0, ..sound.clone() }, "runs"),
            (Input { limit: 10_000, runs: 1000, ..sound.clone() }, "runs"),
        ] {
            assert_eq!(run(&input).unwrap_err().field, field, "{input:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn never_more_than_every_other_node_slips_through(
            nodes in 1_u64..=64,
            limit in 1_u64..200,
            seed: u64,
        ) {
            let report = run(&Input { nodes, limit, runs: 20, seed }).unwrap();
            let [racing, atomic] = &report.ways;
            prop_assert!(racing.over_limit_worst < nodes, "{report:?}");
            prop_assert_eq!(racing.runs_by_over_limit.iter().sum::<u64>(), 20);
            prop_assert_eq!(atomic.over_limit_worst, 0);
        }
    }
}
