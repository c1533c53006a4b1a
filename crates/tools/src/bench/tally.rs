//! What is counted, by many at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::door::{Answers, Kind, Trouble};
use super::histogram::Histogram;

/// What came of some requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// How long decisions took; what came to none took no time that could be told.
    pub(super) times: Histogram,
    /// How often, and what was said the first time.
    pub(super) errors: BTreeMap<Kind, (u64, String)>,
}

impl Tally {
    /// Each took `ns`. An error does not: one that is answered at once would make a server look fast that decides
    /// nothing.
    pub(super) fn answered(&mut self, answers: Answers, ns: u64) {
        self.allowed += answers.allowed;
        self.denied += answers.denied;
        self.times.add(ns, answers.allowed + answers.denied);
        if let Some((count, trouble)) = answers.refused {
            self.failed(trouble, count);
        }
    }

    pub(super) fn failed(&mut self, trouble: Trouble, count: u64) {
        self.errors.entry(trouble.kind).or_insert((0, trouble.message)).0 += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.times.merge(&other.times);
        for (kind, (count, first)) in &other.errors {
            self.errors.entry(*kind).or_insert_with(|| (0, first.clone())).0 += count;
        }
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }

    /// All that were sent.
    pub(super) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.errors()
    }
}

/// Shared by so many lines as there are connections; one tally for each would be a gigabyte.
const SHARDS: usize = 16;

/// Where lines write down what they find. Each has a place that it shares with few.
#[derive(Debug)]
pub(super) struct Board {
    shards: [Mutex<Tally>; SHARDS],
}

impl Default for Board {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Board {
    pub(super) fn of(&self, line: usize) -> MutexGuard<'_, Tally> {
        // A tally is whole after each step, so that nothing is wrong with one whose owner has panicked.
        self.shards[line % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests, and how many of them failed.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let both = (0..SHARDS).map(|shard| {
            let tally = self.of(shard);
            (tally.requests(), tally.errors())
        });
        both.fold((0, 0), |(all, failed), (more, more_failed)| (all + more, failed + more_failed))
    }

    pub(super) fn total(&self) -> Tally {
        let mut total = Tally::default();
        (0..SHARDS).for_each(|shard| total.merge(&self.of(shard)));
        total
    }
}
