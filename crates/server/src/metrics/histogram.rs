//! Durations in fixed buckets: memory does not grow with what is counted.

use super::striped::Striped;

/// The upper bounds of all buckets but the last: from a decision in memory to a deadline that was missed by far.
pub(super) const BOUNDS_NS: [u64; 19] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];

/// The same for what others do: from a page out of memory to one that nobody waits for.
pub(super) const LONG_BOUNDS_NS: [u64; BOUNDS_NS.len()] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// The buckets, one for what is longer, and the sum behind them.
const SUM: usize = BOUNDS_NS.len() + 1;

#[derive(Debug)]
pub(super) struct Histogram {
    bounds_ns: &'static [u64; BOUNDS_NS.len()],
    counts: Striped<{ SUM + 1 }>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::within(&BOUNDS_NS)
    }
}

impl Histogram {
    pub(super) fn within(bounds_ns: &'static [u64; BOUNDS_NS.len()]) -> Self {
        Self { bounds_ns, counts: Striped::default() }
    }

    /// `count` durations of `ns` each.
    pub(super) fn add(&self, ns: u64, count: u64) {
        self.counts.add(self.bounds_ns.partition_point(|bound| *bound < ns), count);
        self.counts.add(SUM, ns.saturating_mul(count));
    }

    /// The counts by bucket, to be compared with later ones.
    pub(super) fn times(&self) -> Times {
        let all = self.counts.read();
        Times { bounds_ns: self.bounds_ns, counts: std::array::from_fn(|bucket| all[bucket]) }
    }

    /// The counts by bucket, and the sum in nanoseconds.
    pub(super) fn read(&self) -> (Vec<u64>, u64) {
        let all = self.counts.read();
        (all[..SUM].to_vec(), all[SUM])
    }
}

/// How many durations there were of each length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    bounds_ns: &'static [u64; BOUNDS_NS.len()],
    counts: [u64; SUM],
}

impl Default for Times {
    fn default() -> Self {
        Self { bounds_ns: &BOUNDS_NS, counts: [0; SUM] }
    }
}

impl Times {
    /// Those that came after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let counts = |bucket: usize| self.counts[bucket].saturating_sub(before.counts[bucket]);
        Self { counts: std::array::from_fn(counts), ..*self }
    }

    /// These and those, in the same buckets.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let counts = |bucket: usize| self.counts[bucket].saturating_add(other.counts[bucket]);
        Self { counts: std::array::from_fn(counts), ..*self }
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What so many of a hundred did not exceed, in microseconds: somewhere in its bucket, as if that were evenly filled.
    #[expect(clippy::cast_precision_loss, reason = "a bucket is wider than what is lost")]
    pub(crate) fn percentile_us(&self, percent: u64) -> Option<f64> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            if below + count >= rank {
                let from = bucket.checked_sub(1).map_or(0, |before| self.bounds_ns[before]);
                let to = self.bounds_ns.get(bucket).copied().unwrap_or(from);
                let within = (rank - below) as f64 / (*count).max(1) as f64;
                let ns = (to - from) as f64 * within + from as f64;
                return Some((ns / 100.0).round() / 10.0);
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_found_among_what_came_since() {
        let times = Histogram::default();
        times.add(900_000_000, 50);
        let before = times.times();
        times.add(7_000, 99);
        times.add(80_000, 1);
        let since = times.times().since(&before);
        assert_eq!(since.count(), 100);
        assert_eq!(since.percentile_us(99), Some(10.0));
        let half = since.percentile_us(50).unwrap();
        assert!((5.0..10.0).contains(&half), "{half}");
        assert_eq!(since.percentile_us(100), Some(100.0));
        assert_eq!(Times::default().percentile_us(50), None);
        assert_eq!(since.with(&since).count(), 200);
    }

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let times = Histogram::default();
        for (ns, count) in [(0, 1), (1000, 2), (1001, 4), (2_000_000_000, 8)] {
            times.add(ns, count);
        }
        let (counts, sum) = times.read();
        assert_eq!((counts[0], counts[1], counts[19]), (3, 4, 8));
        assert_eq!(counts.iter().sum::<u64>(), 15);
        assert_eq!(sum, 2000 + 4004 + 16_000_000_000);
    }
}
