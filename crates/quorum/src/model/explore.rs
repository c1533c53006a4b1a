//! Visits every state of a model, the nearest first.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{Hash, Hasher};

/// States, and what can happen in each.
pub(crate) trait Model {
    type State: Clone + Hash;
    /// What happened, short to keep and readable.
    type Event: Copy + Display;

    fn start(&self) -> Self::State;
    fn next(&self, state: &Self::State, found: &mut Vec<(Self::Event, Self::State)>);
    /// Which promise is broken.
    fn violation(&self, state: &Self::State) -> Option<String>;
}

pub(crate) struct Explored {
    pub(crate) states: usize,
    /// All states that can be reached with so many events were visited.
    pub(crate) depth: usize,
    /// Whether there are no others.
    pub(crate) is_all: bool,
    /// The shortest way to a broken promise; empty if none is broken.
    pub(crate) history: Vec<String>,
}

/// Visits all states of a depth before those of the next, and begins no further depth after `states_max`. Of those visited it keeps 128 bits each: at ten million, two that collide are less likely than 10^-24.
pub(crate) fn explore<M: Model>(model: &M, states_max: usize) -> Explored {
    let mut visited = HashSet::new();
    // How each state was reached: from which, and by what.
    let mut ways: Vec<Option<(usize, M::Event)>> = vec![None];
    let mut frontier = vec![(0, model.start())];
    visited.insert(fingerprint(&frontier[0].1));
    let (mut depth, mut next) = (0, Vec::new());
    loop {
        let mut reached = Vec::new();
        for (from, state) in frontier {
            model.next(&state, &mut next);
            for (event, state) in next.drain(..) {
                if !visited.insert(fingerprint(&state)) {
                    continue;
                }
                ways.push(Some((from, event)));
                if let Some(broken) = model.violation(&state) {
                    let history = history(&ways, broken);
                    let (states, depth) = (visited.len(), depth + 1);
                    return Explored { states, depth, is_all: false, history };
                }
                reached.push((ways.len() - 1, state));
            }
        }
        let is_all = reached.is_empty();
        if is_all || visited.len() > states_max {
            let depth = if is_all { depth } else { depth + 1 };
            return Explored { states: visited.len(), depth, is_all, history: Vec::new() };
        }
        (frontier, depth) = (reached, depth + 1);
    }
}

fn history<E: Copy + Display>(ways: &[Option<(usize, E)>], broken: String) -> Vec<String> {
    let (mut lines, mut at) = (vec![broken], ways.len() - 1);
    while let Some((from, event)) = ways[at] {
        lines.push(event.to_string());
        at = from;
    }
    lines.reverse();
    lines
}

/// Two lanes of 64 bits that are mixed by different numbers.
#[derive(Default)]
struct Lanes(u64, u64);

impl Hasher for Lanes {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 60);
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mix = |lane: u64, by: u64| {
            let product = u128::from(lane ^ word ^ by) * u128::from(by | 1);
            #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
            let folded = (product >> 64) as u64 ^ product as u64;
            folded.rotate_left(23).wrapping_add(by)
        };
        self.0 = mix(self.0, 0x9e37_79b9_7f4a_7c15);
        self.1 = mix(self.1, 0xd6e8_feb8_6659_fd93);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn fingerprint(state: &impl Hash) -> (u64, u64) {
    let mut lanes = Lanes::default();
    state.hash(&mut lanes);
    (lanes.0, lanes.1)
}

/// A number to sort by.
pub(crate) fn hashed(it: &impl Hash) -> u64 {
    fingerprint(it).0
}
