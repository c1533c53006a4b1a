//! Counts between fixed bounds, as a metrics page shows them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bucket of a value: the first whose upper bound it does not pass, or the one behind the last bound.
///
/// ```
/// use tidegate_core::bucket_index;
///
/// assert_eq!([10, 11, 100, 101].map(|value| bucket_index(&[10, 100], value)), [0, 1, 1, 2]);
/// ```
#[inline]
pub fn bucket_index(bounds: &[u64], value: u64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

/// What was counted between fixed bounds, at one instant. `N` is one more than there are bounds: the last bucket counts
/// what passes them all.
///
/// ```
/// use tidegate_core::BucketCounts;
///
/// let before = BucketCounts::new(&[10, 100], [5, 0, 0], 20);
/// let after = BucketCounts::new(&[10, 100], [6, 98, 1], 6_000);
/// let since = after.since(&before);
/// assert_eq!((since.count(), since.sum()), (100, 5_980));
/// assert_eq!(since.percentile(99), Some(100.0));
/// assert_eq!(since.bounds(), [10, 100]);
/// assert_eq!(before.merged(&since), after);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketCounts<const N: usize> {
    bounds: &'static [u64],
    counts: [u64; N],
    sum: u64,
}

impl<const N: usize> BucketCounts<N> {
    /// The counts by bucket, and the sum of all values.
    pub const fn new(bounds: &'static [u64], counts: [u64; N], sum: u64) -> Self {
        debug_assert!(bounds.len() + 1 == N, "one bucket more than bounds");
        Self { bounds, counts, sum }
    }

    /// The upper bounds of all buckets but the last.
    pub const fn bounds(&self) -> &'static [u64] {
        self.bounds
    }

    /// How many values each bucket has.
    pub const fn counts(&self) -> &[u64; N] {
        &self.counts
    }

    /// The sum of all values.
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What came after `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Both together.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, each: fn(u64, u64) -> u64) -> Self {
        let counts = std::array::from_fn(|bucket| each(self.counts[bucket], other.counts[bucket]));
        Self { counts, sum: each(self.sum, other.sum), ..*self }
    }

    /// The value that `percent` of a hundred do not exceed, as if its bucket were filled evenly.
    #[expect(clippy::cast_precision_loss, reason = "a bucket is wider than what is lost")]
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            if below + count >= rank {
                let from = bucket.checked_sub(1).map_or(0, |before| self.bounds[before]);
                let to = self.bounds.get(bucket).copied().unwrap_or(from);
                let part = (rank - below) as f64 / (*count).max(1) as f64;
                return Some((to - from) as f64 * part + from as f64);
            }
            below += count;
        }
        None
    }
}

/// Cells that many threads count into: a value costs two additions.
///
/// ```
/// use tidegate_core::AtomicBuckets;
///
/// let times = AtomicBuckets::<3>::new(&[10, 100]);
/// times.record(7, 1);
/// times.record(2_000, 1);
/// assert_eq!(times.read().counts(), &[1, 0, 1]);
/// assert_eq!(times.read().sum(), 2_007);
/// ```
#[derive(Debug)]
pub struct AtomicBuckets<const N: usize> {
    bounds: &'static [u64],
    counts: [AtomicU64; N],
    sum: AtomicU64,
}

impl<const N: usize> AtomicBuckets<N> {
    /// Nothing counted yet.
    pub const fn new(bounds: &'static [u64]) -> Self {
        debug_assert!(bounds.len() + 1 == N, "one bucket more than bounds");
        Self { bounds, counts: [const { AtomicU64::new(0) }; N], sum: AtomicU64::new(0) }
    }

    /// Counts `count` values of `value`.
    #[inline]
    pub fn record(&self, value: u64, count: u64) {
        self.counts[bucket_index(self.bounds, value)].fetch_add(count, Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Relaxed);
    }

    /// What was counted so far.
    pub fn read(&self) -> BucketCounts<N> {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed));
        BucketCounts { bounds: self.bounds, counts, sum: self.sum.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [u64; 4] = [1_000, 5_000, 10_000, 100_000];

    #[test]
    fn percentiles_are_found_among_what_came_since() {
        let times = AtomicBuckets::<5>::new(&BOUNDS);
        times.record(900_000, 50);
        let before = times.read();
        times.record(7_000, 99);
        times.record(80_000, 1);
        let since = times.read().since(&before);
        assert_eq!(since.count(), 100);
        assert_eq!(since.percentile(99), Some(10_000.0));
        let half = since.percentile(50).unwrap();
        assert!((5_000.0..10_000.0).contains(&half), "{half}");
        assert_eq!(since.percentile(100), Some(100_000.0));
        assert_eq!(before.since(&before).percentile(50), None);
        assert_eq!(since.merged(&since).count(), 200);
        assert_eq!(before.percentile(50), Some(100_000.0)); // all that is known of what passes every bound
    }

    #[test]
    fn a_value_is_counted_in_the_first_bucket_that_holds_it() {
        let times = AtomicBuckets::<5>::new(&BOUNDS);
        for (value, count) in [(0, 1), (1_000, 2), (1_001, 4), (2_000_000, 8)] {
            times.record(value, count);
        }
        assert_eq!(times.read().counts(), &[3, 4, 0, 0, 8]);
        assert_eq!(times.read().sum(), 2_000 + 4_004 + 16_000_000);
    }
}
