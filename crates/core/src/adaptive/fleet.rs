//! One reading of many nodes.

use std::collections::BTreeMap;

use super::{Reading, Signal};

/// Of more nodes than this, those with the lowest numbers count.
const NODES_MAX: usize = 10_000;

/// What one node read.
///
/// ```
/// use tidegate_core::adaptive::{FleetReadings, NodeReading, Reading, Signal};
///
/// let mut all = FleetReadings::default();
/// all.note(1, NodeReading { tick: 7, reading: Reading::Failed, weight: 1 });
/// assert_eq!(all.reading(Signal::Share, 7), Reading::Failed);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeReading {
    /// The tick in which it was read: a later one replaces an earlier one.
    pub tick: u64,
    /// What was read.
    pub reading: Reading,
    /// How much it counts, like the number of requests behind it.
    pub weight: u64,
}

/// Readings of one signal by node. The order in which they come, and repeats, change nothing: nodes with the
/// same readings agree. Start with an empty one now and then, to forget nodes that are gone.
///
/// ```
/// use tidegate_core::adaptive::{FleetReadings, NodeReading, Reading, Signal};
///
/// let at = |value, weight| NodeReading { tick: 7, reading: Reading::Value(value), weight };
/// let mut one = FleetReadings::default();
/// one.note(1, at(20.0, 500));
/// one.note(2, at(900.0, 10));
/// let mut other = FleetReadings::default();
/// other.note(3, at(30.0, 400));
/// other.merge(&one);
/// other.merge(&one);
/// assert_eq!(other.reading(Signal::Millis, 7), Reading::Value(20.0));
/// assert_eq!(other.reading(Signal::Millis, 8), Reading::Missing);
/// ```
#[derive(Clone, PartialEq, Default, Debug)]
pub struct FleetReadings {
    nodes: BTreeMap<u64, NodeReading>,
}

impl FleetReadings {
    /// Notes what a node read.
    pub fn note(&mut self, node: u64, read: NodeReading) {
        let before = self.nodes.get(&node);
        let is_newer = before.is_none_or(|before| rank(before) < rank(&read));
        if is_newer {
            self.nodes.insert(node, read);
        }
        // Always the same ones, in whatever order they came.
        if self.nodes.len() > NODES_MAX {
            self.nodes.pop_last();
        }
    }

    /// Adds the readings of another one.
    pub fn merge(&mut self, other: &Self) {
        other.nodes.iter().for_each(|(node, read)| self.note(*node, *read));
    }

    /// What was read in a tick: of all numbers the one with half of the weight on either side, so that one odd
    /// node does not decide for all. Numbers outweigh failures; without any number, one
    /// failure makes the reading a failure.
    pub fn reading(&self, signal: Signal, tick: u64) -> Reading {
        let of_tick = || self.nodes.values().filter(|read| read.tick == tick);
        let value = |read: &NodeReading| match read.reading {
            Reading::Value(raw) => Some((signal.sanitise(raw)?, u128::from(read.weight.max(1)))),
            Reading::Missing | Reading::Failed => None,
        };
        let mut values: Vec<_> = of_tick().filter_map(value).collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let all: u128 = values.iter().map(|(_, weight)| weight).sum();
        let mut below = 0;
        let middle = values.iter().find(|(_, weight)| {
            below += weight;
            below * 2 > all
        });
        match middle {
            Some((value, _)) => Reading::Value(*value),
            None if of_tick().any(|read| read.reading == Reading::Failed) => Reading::Failed,
            None => Reading::Missing,
        }
    }
}

/// A total order, so that of two readings of one tick the same is kept by everybody.
fn rank(read: &NodeReading) -> (u64, u8, u64, u64) {
    let (kind, bits) = match read.reading {
        Reading::Missing => (0, 0),
        Reading::Failed => (1, 0),
        Reading::Value(raw) => (2, raw.to_bits()),
    };
    (read.tick, kind, bits, read.weight)
}
