//! Durations in fixed buckets: memory does not grow with what is counted.

use tidegate_core::{BucketCounts, bucket_index};

use super::striped::StripedCounters;

/// The upper bounds of all buckets but the last: from a decision in memory to a missed deadline.
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

/// The bounds for upstreams: from a response out of memory to one that no client waits for.
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

/// One more than there are bounds: the last bucket counts what is longer.
const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// A histogram whose cells threads do not share.
#[derive(Debug)]
pub(super) struct DurationHistogram {
    bounds_ns: &'static [u64; BOUNDS_NS.len()],
    /// The buckets, then the sum.
    cells: StripedCounters<{ BUCKETS + 1 }>,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self::new(&BOUNDS_NS)
    }
}

impl DurationHistogram {
    pub(super) fn new(bounds_ns: &'static [u64; BOUNDS_NS.len()]) -> Self {
        Self { bounds_ns, cells: StripedCounters::default() }
    }

    /// Records `count` durations of `ns` each.
    pub(super) fn add(&self, ns: u64, count: u64) {
        self.cells.add(bucket_index(self.bounds_ns, ns), count);
        self.cells.add(BUCKETS, ns.saturating_mul(count));
    }

    pub(super) fn read(&self) -> Durations {
        let cells = self.cells.read();
        let counts = std::array::from_fn(|bucket| cells[bucket]);
        Durations(BucketCounts::new(self.bounds_ns, counts, cells[BUCKETS]))
    }
}

/// What a [`DurationHistogram`] has counted at one instant, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Durations(pub(super) BucketCounts<BUCKETS>);

impl Default for Durations {
    fn default() -> Self {
        Self(BucketCounts::new(&BOUNDS_NS, [0; BUCKETS], 0))
    }
}

impl Durations {
    /// What was counted after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(self.0.since(&before.0))
    }

    pub(crate) fn merged(&self, other: &Self) -> Self {
        Self(self.0.merged(&other.0))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.count()
    }

    /// The percentile in microseconds, to a tenth; interpolated within its bucket.
    pub(crate) fn percentile_us(&self, percent: u64) -> Option<f64> {
        self.0.percentile(percent).map(|ns| (ns / 100.0).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_found_among_what_came_since() {
        let times = DurationHistogram::default();
        times.add(900_000_000, 50);
        let before = times.read();
        times.add(7_000, 99);
        times.add(80_000, 1);
        let since = times.read().since(&before);
        assert_eq!(since.count(), 100);
        assert_eq!(since.percentile_us(99), Some(10.0));
        let half = since.percentile_us(50).unwrap();
        assert!((5.0..10.0).contains(&half), "{half}");
        assert_eq!(since.percentile_us(100), Some(100.0));
        assert_eq!(Durations::default().percentile_us(50), None);
        assert_eq!(since.merged(&since).count(), 200);
    }

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let times = DurationHistogram::default();
        for (ns, count) in [(0, 1), (1000, 2), (1001, 4), (2_000_000_000, 8)] {
            times.add(ns, count);
        }
        let times = times.read().0;
        let counts = times.counts();
        assert_eq!((counts[0], counts[1], counts[19]), (3, 4, 8));
        assert_eq!(counts.iter().sum::<u64>(), 15);
        assert_eq!(times.sum(), 2000 + 4004 + 16_000_000_000);
    }
}
