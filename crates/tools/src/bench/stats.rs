//! Counts and latencies, recorded by many clients at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connection::BatchResult;
use super::error::{ErrorKind, RequestError};
use tidegate_core::Histogram;

/// Nanoseconds to three digits, up to 2^42 ns, which is more than an hour.
pub(super) type Latencies = Histogram<10, 42>;

#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// Latencies of decisions, without errors.
    pub(super) times: Latencies,
    /// How many, and the first message.
    pub(super) errors: BTreeMap<ErrorKind, (u64, String)>,
}

impl Stats {
    /// Each decision took `ns`. Errors are not timed: fast errors would make a server look fast.
    pub(super) fn answered(&mut self, result: BatchResult, ns: u64) {
        self.allowed += result.allowed;
        self.denied += result.denied;
        self.times.record(ns, result.allowed + result.denied);
        if let Some((count, error)) = result.refused {
            self.failed(error, count);
        }
    }

    pub(super) fn failed(&mut self, error: RequestError, count: u64) {
        self.errors.entry(error.kind).or_insert((0, error.message)).0 += count;
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

    /// All requests that were sent.
    pub(super) fn requests(&self) -> u64 {
        self.allowed + self.denied + self.errors()
    }
}

/// Clients share shards, because one histogram for each of thousands would take a gigabyte.
const SHARDS: usize = 16;

#[derive(Debug)]
pub(super) struct ShardedStats {
    shards: [Mutex<Stats>; SHARDS],
}

impl Default for ShardedStats {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl ShardedStats {
    pub(super) fn shard(&self, client: usize) -> MutexGuard<'_, Stats> {
        // Stats are consistent after each step, even if a client has panicked.
        self.shards[client % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests, and how many of them failed.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let both = (0..SHARDS).map(|shard| {
            let stats = self.shard(shard);
            (stats.requests(), stats.errors())
        });
        both.fold((0, 0), |(all, failed), (more, more_failed)| (all + more, failed + more_failed))
    }

    pub(super) fn total(&self) -> Stats {
        let mut total = Stats::default();
        (0..SHARDS).for_each(|shard| total.merge(&self.shard(shard)));
        total
    }
}
