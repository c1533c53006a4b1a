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

    /// The counts by bucket, and the sum in nanoseconds.
    pub(super) fn read(&self) -> (Vec<u64>, u64) {
        let all = self.counts.read();
        (all[..SUM].to_vec(), all[SUM])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
