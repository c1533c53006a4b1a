//! Nodes that read a counter and then write it, beside nodes whose check is one atomic step.

use std::time::Duration;

use serde::Serialize;
use tidegate_core::{FixedWindow, Limit, State, Timestamp};

use crate::experiment::{InputError, experiment};
use crate::rng::Rng;
use crate::{START_US, StopFlag, float, index};

/// Units and nodes of all runs together. Each costs a few reads and writes: about 20 ms in all.
const MAX_STEPS: u64 = 250_000;

experiment! {
    Race -> RaceReport {
        nodes: 3 in 1..=64,
        limit: 60 in 1..=10_000,
        /// How many times the race is run, each time with other random numbers.
        runs: 1000 in 1..=10_000,
        seed: 1,
    }
}

#[derive(Debug, Serialize)]
pub struct RaceReport {
    #[serde(flatten)]
    pub input: Race,
    /// The most that can be admitted above the limit: one request of every other node.
    pub bound: u64,
    pub ways: [RaceRow; 2],
}

#[derive(Debug, Serialize)]
pub struct RaceRow {
    pub way: &'static str,
    pub over_limit_mean: f64,
    pub over_limit_worst: u64,
    /// How many runs admitted 0, 1, 2, … above the limit.
    pub runs_by_over_limit: Vec<u64>,
}

fn simulate(input: &Race, stop: &StopFlag) -> Result<RaceReport, InputError> {
    let &Race { nodes, limit, runs, seed } = input;
    if runs * (limit + nodes) > MAX_STEPS {
        let most = MAX_STEPS / (limit + nodes);
        return Err(InputError::new(
            "runs",
            format!("at most {most} at this limit and these nodes"),
        ));
    }
    // No run leaves this window: the race is about the counter, not about time.
    let window = FixedWindow::new(limit, Duration::from_hours(1))?.into();
    let row = |way, admit: fn(&Limit, Turns) -> u64| {
        let admitted = |run| admit(&window, Turns::new(nodes, Rng::new(seed, run)));
        let over_limit: Vec<u64> =
            stop.until(0..runs).map(|run| admitted(run).saturating_sub(limit)).collect();
        RaceRow::new(way, nodes, &over_limit)
    };
    let ways = [row("read, then write", read_then_write), row("atomic", atomic)];
    Ok(RaceReport { input: *input, bound: nodes - 1, ways })
}

const NOW: Timestamp = Timestamp::from_micros(START_US);

/// The order in which nodes act. A node asks again until it is refused, so there are at most two turns for each unit
/// and each node.
struct Turns {
    /// Those that were not refused yet.
    nodes: Vec<usize>,
    rng: Rng,
}

impl Turns {
    fn new(nodes: u64, rng: Rng) -> Self {
        Self { nodes: (0..index(nodes)).collect(), rng }
    }

    /// The position of the next node in the list.
    fn next(&mut self) -> Option<usize> {
        let count = self.nodes.len() as u64;
        (count > 0).then(|| index(self.rng.below(count)))
    }
}

/// A node reads and decides in one turn, and writes in its next one. Other nodes read the old value in between.
fn read_then_write(limit: &Limit, mut turns: Turns) -> u64 {
    let (mut store, mut admitted) = (State::Empty, 0);
    let mut decided = vec![false; turns.nodes.len()];
    while let Some(position) = turns.next() {
        let node = turns.nodes[position];
        if std::mem::take(&mut decided[node]) {
            admitted += 1;
            // A full counter stays full.
            let _ = limit.take(&mut store, NOW, 1);
        } else if limit.peek(&store, NOW, 1).allowed() {
            decided[node] = true;
        } else {
            turns.nodes.swap_remove(position);
        }
    }
    admitted
}

/// A node reads, decides and writes in one turn.
fn atomic(limit: &Limit, mut turns: Turns) -> u64 {
    let (mut store, mut admitted) = (State::Empty, 0);
    while let Some(position) = turns.next() {
        if limit.take(&mut store, NOW, 1).allowed() {
            admitted += 1;
        } else {
            turns.nodes.swap_remove(position);
        }
    }
    admitted
}

impl RaceRow {
    fn new(way: &'static str, nodes: u64, over_limit: &[u64]) -> Self {
        let runs = |over| over_limit.iter().filter(|it| **it == over).count() as u64;
        Self {
            way,
            over_limit_mean: float(over_limit.iter().sum()) / float(over_limit.len() as u64),
            over_limit_worst: over_limit.iter().copied().max().unwrap_or(0),
            runs_by_over_limit: (0..nodes).map(runs).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Experiment;

    #[test]
    fn some_luck_lets_every_other_node_through_once() {
        for nodes in 2..=8 {
            let report = Race { nodes, ..Race::default() }.run().unwrap();
            let [racing, atomic] = &report.ways;
            assert_eq!((racing.over_limit_worst, report.bound), (nodes - 1, nodes - 1));
            assert_eq!(atomic.over_limit_worst, 0);
        }
    }

    #[test]
    fn parameters_out_of_bounds_are_refused() {
        let valid = Race::default();
        for (input, field) in [
            (Race { nodes: 0, ..valid }, "nodes"),
            (Race { nodes: 65, ..valid }, "nodes"),
            (Race { limit: 0, ..valid }, "limit"),
            (Race { limit: 10_001, ..valid }, "limit"),
            (Race { runs: 0, ..valid }, "runs"),
            (Race { limit: 10_000, runs: 1000, ..valid }, "runs"),
        ] {
            assert_eq!(input.run().unwrap_err().field, field, "{input:?}");
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
            let report = Race { nodes, limit, runs: 20, seed }.run().unwrap();
            let [racing, atomic] = &report.ways;
            prop_assert!(racing.over_limit_worst < nodes, "{report:?}");
            prop_assert_eq!(racing.runs_by_over_limit.iter().sum::<u64>(), 20);
            prop_assert_eq!(atomic.over_limit_worst, 0);
        }
    }
}
