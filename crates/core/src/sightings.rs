//! How often names without an entry in a table were seen lately: a count-min sketch of a fixed size.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use crate::time::Timestamp;

/// Counters per row.
const COUNTERS: u32 = 65_536;
/// A name needs this many sightings within a period to get an entry.
const SIGHTINGS_MIN: u32 = 3;

/// Counts that are never too low. The hash is keyed, so that nobody can choose names that share counters.
#[derive(Clone, Debug)]
pub(crate) struct Sightings {
    hasher: RandomState,
    /// Counts start again after this time.
    period: Duration,
    since: Timestamp,
    /// Empty until the first name: most tables are never full.
    rows: [Vec<u16>; 2],
    /// All sightings of this period.
    total: u32,
}

impl Sightings {
    pub(crate) fn within(period: Duration) -> Self {
        let (hasher, since) = (RandomState::new(), Timestamp::EPOCH);
        Self { hasher, period, since, rows: [vec![], vec![]], total: 0 }
    }

    /// Counts a sighting, and returns whether there were enough of this name in this period. The more names share the
    /// counters, the more is asked for: twice the average of a counter is far above what a name has by chance.
    pub(crate) fn note(&mut self, name: &(impl Hash + ?Sized), now: Timestamp) -> bool {
        if self.rows[0].is_empty() || now < self.since || now.since(self.since) >= self.period {
            self.rows = [vec![0; COUNTERS as usize], vec![0; COUNTERS as usize]];
            (self.since, self.total) = (now, 0);
        }
        self.total = self.total.saturating_add(1);
        let hash = self.hasher.hash_one(name);
        let mut seen = u16::MAX;
        for (row, half) in self.rows.iter_mut().zip([hash, hash >> 32]) {
            let index = usize::try_from(half % u64::from(COUNTERS)).unwrap_or(0);
            row[index] = row[index].saturating_add(1);
            seen = seen.min(row[index]);
        }
        u32::from(seen) >= SIGHTINGS_MIN + 2 * (self.total / COUNTERS)
    }
}
