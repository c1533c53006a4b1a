//! Histograms in memory that does not grow with what they count.
//!
//! There are two, because their users need opposite things. [`Histogram`] chooses its own steps, as fine as asked for,
//! and answers quantiles; one thread records. [`BucketCounts`] has the few bounds that a metrics page shows, and many
//! threads record into [`AtomicBuckets`] or into cells of their own. One type over both layouts and both kinds of cells
//! would share nothing but the name.

mod buckets;

pub use buckets::{AtomicBuckets, BucketCounts, bucket_index};

/// Counts in steps of equal relative width: 2^`BITS` steps per doubling, up to 2^`TOP_BITS`. What is larger counts into
/// the last step.
///
/// `C` is what a step is counted in: `u64`, or `u32` where memory matters.
///
/// ```
/// use tidegate_core::Histogram;
///
/// let mut times_us: Histogram<10, 42> = Histogram::default(); // to a thousandth
/// (1..=1000).for_each(|us| times_us.record(us * 100, 1));
/// assert_eq!(times_us.count(), 1000);
/// assert_eq!(times_us.range(), Some((100, 100_000)));
/// assert_eq!(times_us.mean(), Some(50_050));
/// let p99 = times_us.quantile(990).unwrap_or(0);
/// assert!((99_000..=99_100).contains(&p99));
/// assert_eq!(times_us.between(0, 1024), 10);
///
/// let mut both = times_us.clone();
/// both.merge(&times_us);
/// assert_eq!((both.count(), both.median()), (2000, times_us.median()));
/// both.clear();
/// assert_eq!(both.median(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram<const BITS: u32, const TOP_BITS: u32, C = u64> {
    steps: Box<[C]>,
    count: u64,
    /// Exact, unlike what lies between them.
    min: u64,
    max: u64,
    sum: u128,
}

/// What a step of a [`Histogram`] is counted in.
///
/// ```
/// use tidegate_core::Cell;
///
/// let mut step = u32::MAX - 1;
/// step.add(5);
/// assert_eq!(step.get(), u64::from(u32::MAX));
/// ```
pub trait Cell: Copy + Default {
    /// Adds; where it is full, it stays full.
    fn add(&mut self, count: u64);
    /// What was added.
    fn get(self) -> u64;
}

impl Cell for u64 {
    fn add(&mut self, count: u64) {
        *self = self.saturating_add(count);
    }

    fn get(self) -> u64 {
        self
    }
}

impl Cell for u32 {
    fn add(&mut self, count: u64) {
        *self = self.saturating_add(Self::try_from(count).unwrap_or(Self::MAX));
    }

    fn get(self) -> u64 {
        self.into()
    }
}

impl<const BITS: u32, const TOP_BITS: u32, C: Cell> Default for Histogram<BITS, TOP_BITS, C> {
    fn default() -> Self {
        let steps = vec![C::default(); Self::STEPS].into_boxed_slice();
        Self { steps, count: 0, min: u64::MAX, max: 0, sum: 0 }
    }
}

impl<const BITS: u32, const TOP_BITS: u32, C: Cell> Histogram<BITS, TOP_BITS, C> {
    const STEPS: usize = ((TOP_BITS - BITS + 1) as usize) << BITS;
    const TOP: u64 = (1 << TOP_BITS) - 1;

    /// Counts `count` values of `value`.
    #[inline]
    pub fn record(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.steps[Self::step(value)].add(count);
        self.count += count;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value) * u128::from(count);
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.steps.iter_mut().zip(&other.steps) {
            own.add(other.get());
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Forgets everything, and keeps its memory.
    pub fn clear(&mut self) {
        self.steps.fill(C::default());
        (self.count, self.min, self.max, self.sum) = (0, u64::MAX, 0, 0);
    }

    /// How many values there are.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest and the largest, exactly; `None` if there is no value.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.min, self.max))
    }

    /// The mean, rounded down.
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(self.count.into())?).ok()
    }

    /// The value that `permille` of a thousand do not exceed: never less than the truth, and at most one step more.
    pub fn quantile(&self, permille: u64) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000).max(1);
        let mut below = 0;
        let step = self.steps.iter().position(|count| {
            below += u128::from(count.get());
            below >= rank
        })?;
        Some((Self::start(step + 1) - 1).clamp(self.min, self.max))
    }

    /// The median, as if the values in a step were spread evenly over it.
    #[expect(clippy::cast_precision_loss, reason = "a step is wider than what is lost")]
    pub fn median(&self) -> Option<f64> {
        let half = self.count as f64 / 2.0;
        let mut below = 0.0;
        for (step, count) in self.steps.iter().enumerate() {
            let count = count.get() as f64;
            if count > 0.0 && below + count >= half {
                let (from, to) = (Self::start(step) as f64, Self::start(step + 1) as f64);
                return Some(from + (to - from) * (half - below) / count);
            }
            below += count;
        }
        None
    }

    /// How many values lie from `from` up to, and not at, `to`, by the steps that begin there.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        let end = if to > Self::TOP { Self::STEPS } else { Self::step(to) };
        self.steps[Self::step(from).min(end)..end].iter().map(|count| count.get()).sum()
    }

    #[inline]
    fn step(value: u64) -> usize {
        let value = value.min(Self::TOP);
        let step = if value < 1 << BITS {
            value
        } else {
            let doubling = value.ilog2() - BITS;
            (u64::from(doubling) << BITS) + (value >> doubling)
        };
        usize::try_from(step).unwrap_or(Self::STEPS).min(Self::STEPS - 1)
    }

    /// The smallest value of a step.
    fn start(step: usize) -> u64 {
        let (fine, step) = (1_u64 << BITS, step as u64);
        if step < 2 * fine { step } else { (fine + step % fine) << (step / fine - 1) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fine = Histogram<10, 42>;
    type Coarse = Histogram<2, 28, u32>;

    fn record<const B: u32, const T: u32, C: Cell>(values: &[u64]) -> Histogram<B, T, C> {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value, 1);
        }
        histogram
    }

    proptest! {
        #[test]
        fn every_quantile_is_right_to_one_step(
            values in prop::collection::vec((0_u32..42, any::<u64>()), 1..200),
            permille in 1_u64..=1000,
        ) {
            let mut values: Vec<u64> =
                values.into_iter().map(|(bits, value)| value % (1 << bits).max(1)).collect();
            let (fine, coarse): (Fine, Coarse) = (record(&values), record(&values));
            values.sort_unstable();
            let rank = (values.len() * usize::try_from(permille).unwrap()).div_ceil(1000);
            let exact = values[rank - 1];
            let found = fine.quantile(permille).unwrap();
            prop_assert!(found >= exact && found - exact <= exact / 1000 + 1, "{found} {exact}");
            prop_assert_eq!(fine.range(), Some((values[0], values[values.len() - 1])));
            let found = coarse.quantile(permille).unwrap();
            let is_near = found >= exact && found - exact <= exact / 4;
            prop_assert!(is_near || exact >= 1 << 28, "{found} {exact}");
        }

        #[test]
        fn parts_make_the_same_whole(values in prop::collection::vec(0..1_u64 << 42, 2..100)) {
            let (left, right) = values.split_at(values.len() / 2);
            let mut merged: Fine = record(left);
            merged.merge(&record(right));
            prop_assert_eq!(merged, record(&values));
        }
    }

    #[test]
    fn a_value_is_within_its_step() {
        for value in (0..100_000).chain([1 << 20, 123_456_789, Coarse::TOP]) {
            let (fine, coarse) = (Fine::step(value), Coarse::step(value));
            assert!(Fine::start(fine) <= value && value < Fine::start(fine + 1), "{value}");
            assert!(Coarse::start(coarse) <= value && value < Coarse::start(coarse + 1), "{value}");
        }
        assert_eq!(Fine::step(u64::MAX), Fine::STEPS - 1);
        assert_eq!(Coarse::step(u64::MAX), Coarse::STEPS - 1);
    }

    #[test]
    fn what_is_above_the_top_is_counted_too() {
        let histogram: Fine = record(&[1, u64::MAX]);
        assert_eq!(histogram.between(1_000_000, u64::MAX), 1);
        assert_eq!(histogram.quantile(500), Some(1));
        assert_eq!(histogram.range(), Some((1, u64::MAX)));
        assert_eq!(Fine::default().quantile(500), None);
    }

    #[test]
    fn a_median_is_off_by_a_few_per_cent() {
        let mut histogram: Histogram<3, 28, u32> = Histogram::default();
        assert_eq!(histogram.median(), None);
        (0..=2000).for_each(|n| histogram.record(n * 37, 1));
        let median = histogram.median().unwrap();
        assert!((median - 37_000.0).abs() < 500.0, "{median}");
        histogram.clear();
        assert_eq!(histogram, Histogram::default());
    }
}
