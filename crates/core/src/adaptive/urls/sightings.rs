//! How often URLs without an entry were requested lately: a count-min sketch of a fixed size.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::time::Timestamp;

/// Counts start again after this time.
pub(super) const PERIOD: Duration = Duration::from_mins(1);
/// Counters per row.
const COUNTERS: u32 = 65_536;
/// A URL needs this many requests within [`PERIOD`] to replace another.
const SIGHTINGS_MIN: u32 = 3;

/// Counts that are never too low. The hash is keyed, so that nobody can choose URLs that share counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Sightings {
    hasher: RandomState,
    since: Timestamp,
    /// Empty until the first URL: most tables are never full.
    rows: [Vec<u16>; 2],
    /// All requests of this period.
    total: u32,
}

impl Sightings {
    /// Counts a request, and returns whether its URL has been requested often enough in this period. The more URLs share
    /// the counters, the more is asked for: twice the average of a counter is far above what a URL has by chance.
    pub(super) fn note(&mut self, url: &str, now: Timestamp) -> bool {
        if self.rows[0].is_empty() || now < self.since || now.since(self.since) >= PERIOD {
            self.rows = [vec![0; COUNTERS as usize], vec![0; COUNTERS as usize]];
            (self.since, self.total) = (now, 0);
        }
        self.total = self.total.saturating_add(1);
        let hash = self.hasher.hash_one(url);
        let mut seen = u16::MAX;
        for (row, half) in self.rows.iter_mut().zip([hash, hash >> 32]) {
            let index = usize::try_from(half % u64::from(COUNTERS)).unwrap_or(0);
            row[index] = row[index].saturating_add(1);
            seen = seen.min(row[index]);
        }
        u32::from(seen) >= SIGHTINGS_MIN + 2 * (self.total / COUNTERS)
    }
}
