//! Virtual time: what happens when, and what the nodes' own clocks show.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::chance::Chance;

/// What is going to happen: the earliest first, and of several at one instant the one that was added first.
pub(super) struct Schedule<E> {
    coming: BinaryHeap<Scheduled<E>>,
    added: u64,
}

struct Scheduled<E> {
    at_us: u64,
    number: u64,
    event: E,
}

impl<E> Default for Schedule<E> {
    fn default() -> Self {
        Self { coming: BinaryHeap::new(), added: 0 }
    }
}

impl<E> Schedule<E> {
    pub(super) fn add(&mut self, at_us: u64, event: E) {
        self.added += 1;
        self.coming.push(Scheduled { at_us, number: self.added, event });
    }

    pub(super) fn next(&mut self) -> Option<(u64, E)> {
        self.coming.pop().map(|next| (next.at_us, next.event))
    }
}

/// The other way round, because a heap gives out the greatest first.
impl<E> Ord for Scheduled<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.number).cmp(&(self.at_us, self.number))
    }
}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Scheduled<E> {}

/// A node's own clock: off by up to an hour, and up to 200 millionths fast or slow.
#[derive(Clone, Copy)]
pub(super) struct OwnClock {
    offset_us: u64,
    millionths: u64,
}

impl OwnClock {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        Self { offset_us: chance.below(3_600_000_000), millionths: 999_800 + chance.below(401) }
    }

    /// What it shows so long after the start.
    pub(super) fn shows_us(&self, passed_us: u64) -> u64 {
        self.offset_us + passed_us * self.millionths / 1_000_000
    }
}
