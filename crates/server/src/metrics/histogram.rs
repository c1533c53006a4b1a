//! Durations in fixed buckets: memory does not grow with what is counted.

use std::sync::LazyLock;

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

/// What a [`DurationHistogram`] has counted at one instant, in nanoseconds.
pub(crate) type Durations = BucketCounts<BUCKETS>;

/// Nothing counted yet.
pub(crate) static NO_DURATIONS: LazyLock<Durations> =
    LazyLock::new(|| Durations::with_sums(&BOUNDS_NS, [0; BUCKETS], [0; BUCKETS]));

/// A histogram whose cells threads do not share.
#[derive(Debug)]
pub(super) struct DurationHistogram {
    bounds_ns: &'static [u64; BOUNDS_NS.len()],
    /// The count and the sum of each bucket, side by side. With its sum, the percentile of a few durations is exact.
    cells: StripedCounters<{ 2 * BUCKETS }>,
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
        let bucket = bucket_index(self.bounds_ns, ns);
        self.cells.add(2 * bucket, count);
        self.cells.add(2 * bucket + 1, ns.saturating_mul(count));
    }

    pub(super) fn read(&self) -> Durations {
        let cells = self.cells.read();
        let counts = std::array::from_fn(|bucket| cells[2 * bucket]);
        let sums = std::array::from_fn(|bucket| cells[2 * bucket + 1]);
        Durations::with_sums(self.bounds_ns, counts, sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let times = DurationHistogram::default();
        for (ns, count) in [(0, 1), (1000, 2), (1001, 4), (2_000_000_000, 8)] {
            times.add(ns, count);
        }
        let times = times.read();
        let counts = times.counts();
        assert_eq!((counts[0], counts[1], counts[19]), (3, 4, 8));
        assert_eq!(counts.iter().sum::<u64>(), 15);
        assert_eq!(times.sum(), 2000 + 4004 + 16_000_000_000);
    }
}
