//! The counters of a sliding window, as narrow as what they count.

use std::ops::Range;

/// Slots that need no memory of their own: ten buckets, and the one that is leaving.
const FEW: usize = 11;

/// Counts by age: the newest slot first. Two bytes each, until one passes 65,535; then all have eight.
#[derive(Clone, Debug)]
pub(super) enum Counts {
    Few { len: u8, counts: [u16; FEW] },
    Many(Box<[u16]>),
    Large(Box<[u64]>),
}

enum Slices<'a> {
    Narrow(&'a [u16]),
    Large(&'a [u64]),
}

impl Counts {
    pub(super) fn new(len: usize) -> Self {
        match u8::try_from(len) {
            Ok(few) if len <= FEW => Self::Few { len: few, counts: [0; FEW] },
            _ => Self::Many(vec![0; len].into()),
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few { len, .. } => usize::from(*len),
            Self::Many(counts) => counts.len(),
            Self::Large(counts) => counts.len(),
        }
    }

    /// The count of the slot of this age; 0 if it is older than all.
    #[inline]
    pub(super) fn get(&self, age: usize) -> u64 {
        match self.slices() {
            Slices::Narrow(counts) => counts.get(age).map_or(0, |count| u64::from(*count)),
            Slices::Large(counts) => counts.get(age).copied().unwrap_or(0),
        }
    }

    /// The sum over slots of these ages.
    #[inline]
    pub(super) fn sum(&self, ages: Range<usize>) -> u64 {
        let end = ages.end.min(self.len());
        let ages = ages.start.min(end)..end;
        match self.slices() {
            Slices::Narrow(counts) => counts[ages].iter().map(|count| u64::from(*count)).sum(),
            Slices::Large(counts) => {
                counts[ages].iter().fold(0, |sum, count| sum.saturating_add(*count))
            }
        }
    }

    /// Sets the count of a slot, if there is one of this age.
    #[inline]
    pub(super) fn set(&mut self, age: usize, count: u64) {
        if age >= self.len() {
            return;
        }
        match (u16::try_from(count), &mut *self) {
            (Ok(count), Self::Few { counts, .. }) => counts[age] = count,
            (Ok(count), Self::Many(counts)) => counts[age] = count,
            (_, Self::Large(counts)) => counts[age] = count,
            (Err(_), _) => {
                let mut counts: Box<[u64]> = self.iter().collect();
                counts[age] = count;
                *self = Self::Large(counts);
            }
        }
    }

    /// Makes every slot older by this much. Those that become older than all are forgotten.
    pub(super) fn grow_older(&mut self, by: usize) {
        match self {
            Self::Few { len, counts } => shift(&mut counts[..usize::from(*len)], by),
            Self::Many(counts) => shift(counts, by),
            Self::Large(counts) => shift(counts, by),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|age| self.get(age))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Few { .. } => 0,
            Self::Many(counts) => size_of_val(&**counts),
            Self::Large(counts) => size_of_val(&**counts),
        }
    }

    #[inline]
    fn slices(&self) -> Slices<'_> {
        match self {
            Self::Few { len, counts } => Slices::Narrow(&counts[..usize::from(*len)]),
            Self::Many(counts) => Slices::Narrow(counts),
            Self::Large(counts) => Slices::Large(counts),
        }
    }
}

impl FromIterator<u64> for Counts {
    fn from_iter<T: IntoIterator<Item = u64>>(counts: T) -> Self {
        let counts: Vec<u64> = counts.into_iter().collect();
        let mut kept = Self::new(counts.len());
        (0..).zip(counts).for_each(|(age, count)| kept.set(age, count));
        kept
    }
}

/// However wide they are.
impl PartialEq for Counts {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Counts {}

fn shift<T: Copy + Default>(counts: &mut [T], by: usize) {
    let by = by.min(counts.len());
    counts.copy_within(..counts.len() - by, by);
    counts[..by].fill(T::default());
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_are_what_was_set_however_wide(
            len in 1..40_usize,
            steps in vec((0..40_usize, prop_oneof![0..3_u64, 65_534..65_538_u64, any::<u64>()], 0..4_usize), 0..20)
        ) {
            let (mut counts, mut plain) = (Counts::new(len), vec![0; len]);
            for (age, count, older) in steps {
                counts.set(age, count);
                if let Some(slot) = plain.get_mut(age) {
                    *slot = count;
                }
                counts.grow_older(older);
                plain.splice(0..0, std::iter::repeat_n(0, older));
                plain.truncate(len);
                prop_assert!(counts.iter().eq(plain.iter().copied()), "{counts:?} {plain:?}");
                let tail = plain.iter().skip(age).fold(0, |sum: u64, count| sum.saturating_add(*count));
                prop_assert_eq!(counts.sum(age..usize::MAX), tail);
                prop_assert_eq!(&plain.iter().copied().collect::<Counts>(), &counts);
                prop_assert_eq!(counts.get(len), 0);
            }
        }
    }

    #[test]
    fn ten_buckets_need_memory_of_their_own_only_for_large_counts() {
        let bytes = |len: usize, count: u64| {
            let mut counts = Counts::new(len);
            counts.set(0, count);
            counts.heap_bytes()
        };
        assert_eq!((bytes(11, 65_535), bytes(11, 65_536)), (0, 11 * 8));
        assert_eq!((bytes(61, 65_535), bytes(61, 65_536)), (61 * 2, 61 * 8));
    }
}
