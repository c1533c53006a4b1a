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
    /// By bucket, where they are known.
    sums: Option<[u64; N]>,
}

impl<const N: usize> BucketCounts<N> {
    /// The counts by bucket, and the sum of all values.
    pub const fn new(bounds: &'static [u64], counts: [u64; N], sum: u64) -> Self {
        debug_assert!(bounds.len() + 1 == N, "one bucket more than bounds");
        Self { bounds, counts, sum, sums: None }
    }

    /// The counts and the sums by bucket: then percentiles are more exact.
    ///
    /// ```
    /// # use tidegate_core::BucketCounts;
    /// let times = BucketCounts::with_sums(&[10, 100], [5, 1, 0], [20, 73, 0]);
    /// assert_eq!((times.sum(), times.percentile(99)), (93, Some(73.0)));
    /// ```
    pub fn with_sums(bounds: &'static [u64], counts: [u64; N], sums: [u64; N]) -> Self {
        let sum = sums.iter().fold(0, |all: u64, sum| all.saturating_add(*sum));
        Self { sums: Some(sums), ..Self::new(bounds, counts, sum) }
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
        let both = |one: &[u64; N], other: &[u64; N]| {
            std::array::from_fn(|bucket| each(one[bucket], other[bucket]))
        };
        let sums = self.sums.zip(other.sums).map(|(one, other)| both(&one, &other));
        let counts = both(&self.counts, &other.counts);
        Self { counts, sum: each(self.sum, other.sum), sums, ..*self }
    }

    /// The value that `percent` of a hundred do not exceed: as if its bucket were filled evenly, unless the sum says that it
    /// lies higher or lower. So a few values, which fill no bucket evenly, are not taken for the bound of their bucket.
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.count() * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            if below + count >= rank {
                return Some(self.ranked(bucket, rank - below));
            }
            below += count;
        }
        None
    }

    /// The value of a rank within its bucket, from 1.
    #[expect(clippy::cast_precision_loss, reason = "a bucket is wider than what is lost")]
    fn ranked(&self, bucket: usize, rank: u64) -> f64 {
        let (from, to, count) = (self.from(bucket), self.bounds.get(bucket), self.counts[bucket]);
        let most_of_one = to.map_or(f64::INFINITY, |to| *to as f64);
        let evenly =
            to.map_or(from, |to| (*to as f64 - from) * rank as f64 / count.max(1) as f64 + from);
        let (least, most) = self.sum_within(bucket);
        // It and those above it share what the values below it leave at most, and the other way round.
        let high = (most - from * (rank - 1) as f64) / (count - rank + 1) as f64;
        let above = if count == rank { 0.0 } else { most_of_one * (count - rank) as f64 };
        let low = (least - above) / rank as f64;
        // Sums and counts are read one after another: within the bucket in any case.
        let (low, high) = (low.clamp(from, most_of_one), high.clamp(from, most_of_one));
        evenly.min(high).max(low)
    }

    /// The least and the most that the values of a bucket sum up to: what is known of it, or what the others leave.
    #[expect(clippy::cast_precision_loss, reason = "a bucket is wider than what is lost")]
    fn sum_within(&self, bucket: usize) -> (f64, f64) {
        if let Some(sums) = self.sums {
            return (sums[bucket] as f64, sums[bucket] as f64);
        }
        let (mut least_others, mut most_others) = (0.0, 0.0);
        let others = self.counts.iter().enumerate();
        for (at, count) in others.filter(|(at, count)| *at != bucket && **count > 0) {
            least_others += self.from(at) * *count as f64;
            let to = self.bounds.get(at).map_or(f64::INFINITY, |to| *to as f64);
            most_others += to * *count as f64;
        }
        (self.sum as f64 - most_others, self.sum as f64 - least_others)
    }

    /// The lower bound of a bucket.
    #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
    fn from(&self, bucket: usize) -> f64 {
        bucket.checked_sub(1).map_or(0, |before| self.bounds[before]) as f64
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
        BucketCounts::new(self.bounds, counts, self.sum.load(Relaxed))
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
        let [half, most, all] = [50, 99, 100].map(|percent| since.percentile(percent).unwrap());
        assert!((5_000.0..10_000.0).contains(&half), "{half}");
        assert!((half..=10_000.0).contains(&most), "{most}");
        assert!((10_000.0..=100_000.0).contains(&all), "{all}");
        assert_eq!(before.since(&before).percentile(50), None);
        assert_eq!(since.merged(&since).count(), 200);
        // The sum tells more of what passes every bound.
        assert!(before.percentile(50).is_some_and(|it| (100_000.0..=900_000.0).contains(&it)));
    }

    #[test]
    fn a_few_values_are_not_taken_for_the_bound_of_their_bucket() {
        let percentiles = |values: &[u64]| {
            let times = AtomicBuckets::<5>::new(&BOUNDS);
            for value in values {
                times.record(*value, 1);
            }
            [50, 99].map(|percent| times.read().percentile(percent).unwrap())
        };
        let [half, most] = percentiles(&[5_200]);
        assert_eq!((half, most), (5_200.0, 5_200.0));
        let [half, most] = percentiles(&[1_100, 1_300]);
        assert_eq!((half, most), (1_200.0, 1_400.0)); // at most
        let [half, most] = percentiles(&[5_100, 5_100, 5_100, 9_000]);
        assert!(half <= 6_450.0 && most <= 9_300.0, "{half} {most}");
        // With the sums of buckets, the only value of a bucket is exact.
        let counts = BucketCounts::with_sums(
            &BOUNDS,
            [40, 0, 50, 1, 1],
            [20_000, 0, 400_000, 44_000, 123_000],
        );
        assert_eq!([99, 100].map(|it| counts.percentile(it)), [Some(123_000.0); 2]);
        assert_eq!(counts.percentile(98), Some(44_000.0));
        let half = counts.percentile(50).unwrap();
        assert!((5_000.0..8_000.0).contains(&half), "{half}");
        assert_eq!(counts.merged(&counts).sum(), 2 * counts.sum());
        // A sum that was read before the last value was added to it.
        let torn = BucketCounts::new(&BOUNDS, [0, 2, 0, 0, 0], 1_100);
        assert_eq!(torn.percentile(99), Some(1_000.0));
        let torn = BucketCounts::new(&BOUNDS, [0, 1, 0, 0, 0], 90_000);
        assert_eq!(torn.percentile(50), Some(5_000.0));
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
