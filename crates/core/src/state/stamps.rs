//! The stamps of a sliding log: eight bytes each, in a ring.

use std::iter::repeat_n;

use super::Run;

/// An entry is an instant in these low bits, as instants end at 2^53 µs, and above them the units beside the first. What
/// does not fit takes more entries of the same instant.
const INSTANT_BITS: u32 = 54;
const INSTANT_MAX: u64 = (1 << INSTANT_BITS) - 1;
const ENTRY_UNITS_MAX: u64 = 1 << (u64::BITS - INSTANT_BITS);

/// The ring grows by an eighth, and by no less than what fits into the smallest piece of memory that allocators give.
const GROWTH: usize = 8;
const GROWTH_MIN: usize = 3;

/// Instants at which units were spent, oldest first.
#[derive(Clone, Default)]
pub(super) struct Stamps {
    ring: Box<[u64]>,
    extent: Extent,
}

/// Which part of a ring is in use, and how many units that stands for. In one word: each is at most the largest limit of
/// a sliding log, a million.
#[derive(Clone, Copy, Default)]
struct Extent(u64);

impl Extent {
    const BITS: u32 = 21;
    const MASK: u64 = (1 << Self::BITS) - 1;

    const fn new(head: usize, len: usize, units: u64) -> Self {
        Self((head as u64) << (2 * Self::BITS) | (len as u64) << Self::BITS | units)
    }

    /// With one more entry, of so many units.
    const fn with_entry(self, units: u64) -> Self {
        Self(self.0 + (1 << Self::BITS) + units)
    }

    /// The place of the oldest entry.
    fn head(self) -> usize {
        usize::try_from(self.0 >> (2 * Self::BITS)).unwrap_or(0)
    }

    fn len(self) -> usize {
        usize::try_from(self.0 >> Self::BITS & Self::MASK).unwrap_or(0)
    }

    const fn units(self) -> u64 {
        self.0 & Self::MASK
    }
}

impl Stamps {
    /// The largest number of units that can be kept.
    pub(super) const UNITS_MAX: u64 = crate::SlidingLog::MAX_LIMIT;

    /// Of runs with ascending instants, and at most [`Stamps::UNITS_MAX`] units.
    pub(super) fn from_runs(runs: impl Iterator<Item = Run> + Clone) -> Self {
        let units = runs.clone().map(|run| run.count).sum();
        let ring: Box<[u64]> = runs.flat_map(split).collect();
        Self { extent: Extent::new(0, ring.len(), units), ring }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.extent.len()
    }

    #[inline]
    pub(super) fn units(&self) -> u64 {
        self.extent.units()
    }

    /// The entries, oldest first. Several may be of one instant.
    #[inline]
    pub(super) fn entries(&self) -> impl Iterator<Item = Run> {
        let (older, newer) = self.slices();
        older.iter().chain(newer).map(|entry| read(*entry))
    }

    /// The units of each instant, oldest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let mut entries = self.entries().peekable();
        std::iter::from_fn(move || {
            let mut run = entries.next()?;
            while let Some(more) = entries.next_if(|more| more.at_us == run.at_us) {
                run.count += more.count;
            }
            Some(run)
        })
    }

    /// An entry by its number: the oldest is 0.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Option<Run> {
        (index < self.len()).then(|| read(self.ring[self.place(index)]))
    }

    #[inline]
    pub(super) fn newest(&self) -> Option<Run> {
        self.entry(self.len().checked_sub(1)?)
    }

    /// Where the entries of instants after this one begin.
    pub(super) fn end_of(&self, at_us: u64) -> usize {
        let (older, newer) = self.slices();
        let is_before = |entry: &u64| read(*entry).at_us <= at_us;
        older.partition_point(is_before) + newer.partition_point(is_before)
    }

    /// Forgets the oldest entries.
    pub(super) fn forget_oldest(&mut self, entries: usize) {
        let entries = entries.min(self.len());
        let units: u64 =
            (0..entries).filter_map(|index| self.entry(index)).map(|run| run.count).sum();
        self.extent = Extent::new(
            self.place(entries),
            self.len() - entries,
            self.units().saturating_sub(units),
        );
    }

    /// Adds units of an instant that no other is after. With them there are at most `most`.
    pub(super) fn push(&mut self, at_us: u64, count: u64, most: u64) {
        let mut left = count.min(Self::UNITS_MAX.saturating_sub(self.units()));
        if let Some(newest) = self.newest().filter(|newest| newest.at_us == at_us) {
            let fit = left.min(ENTRY_UNITS_MAX - newest.count);
            let place = self.place(self.len() - 1);
            self.ring[place] += fit << INSTANT_BITS;
            self.extent.0 += fit;
            left -= fit;
        }
        while left > 0 {
            let count = left.min(ENTRY_UNITS_MAX);
            if self.len() == self.ring.len() {
                self.grow(usize::try_from(most).unwrap_or(usize::MAX));
            }
            let place = self.place(self.len());
            self.ring[place] = entry(at_us, count);
            self.extent = self.extent.with_entry(count);
            left -= count;
        }
    }

    /// Takes up to `amount` units of instants since `since_us` from the entries before `end`, newest first. Answers how
    /// many that were.
    pub(super) fn take(&mut self, since_us: u64, end: usize, amount: u64) -> u64 {
        let len = self.len();
        let (mut gap, mut left) = (end, amount);
        while let Some(last) = gap.checked_sub(1).filter(|_| left > 0) {
            let Some(run) = self.entry(last).filter(|run| run.at_us >= since_us) else { break };
            let taken = left.min(run.count);
            left -= taken;
            if taken < run.count {
                let place = self.place(last);
                self.ring[place] = entry(run.at_us, run.count - taken);
                break;
            }
            gap = last;
        }
        for index in end..len {
            let (to, from) = (self.place(gap + index - end), self.place(index));
            self.ring[to] = self.ring[from];
        }
        let taken = amount - left;
        let units = self.units().saturating_sub(taken);
        self.extent = Extent::new(self.extent.head(), len - (end - gap), units);
        taken
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.ring)
    }

    /// Makes room for at least one entry, and for no more than `most` altogether unless that is needed.
    #[cold]
    fn grow(&mut self, most: usize) {
        let len = self.len();
        let places = (len + (len / GROWTH).max(GROWTH_MIN)).min(most).max(len + 1);
        let (older, newer) = self.slices();
        let mut ring = Vec::with_capacity(places);
        ring.extend(older.iter().chain(newer).chain(repeat_n(&0, places - len)));
        self.ring = ring.into();
        self.extent = Extent::new(0, len, self.units());
    }

    /// Where the entry of this number is: the oldest is 0.
    #[inline]
    fn place(&self, index: usize) -> usize {
        let place = self.extent.head() + index;
        if place < self.ring.len() { place } else { place - self.ring.len() }
    }

    /// The entries in two parts, the older first.
    #[inline]
    fn slices(&self) -> (&[u64], &[u64]) {
        let (start, len) = (self.extent.head(), self.len());
        let end = (start + len).min(self.ring.len());
        (&self.ring[start..end], &self.ring[..start + len - end])
    }
}

/// The same units at the same instants.
impl PartialEq for Stamps {
    fn eq(&self, other: &Self) -> bool {
        self.runs().eq(other.runs())
    }
}

impl Eq for Stamps {}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.runs()).finish()
    }
}

#[inline]
fn entry(at_us: u64, count: u64) -> u64 {
    (count - 1) << INSTANT_BITS | at_us
}

#[inline]
fn read(entry: u64) -> Run {
    Run { at_us: entry & INSTANT_MAX, count: (entry >> INSTANT_BITS) + 1 }
}

/// The entries of a run: full ones, and one of what is left.
fn split(Run { at_us, count }: Run) -> impl Iterator<Item = u64> {
    let full = usize::try_from(count / ENTRY_UNITS_MAX).unwrap_or(usize::MAX);
    let rest = Some(count % ENTRY_UNITS_MAX).filter(|rest| *rest > 0);
    repeat_n(entry(at_us, ENTRY_UNITS_MAX), full).chain(rest.map(|rest| entry(at_us, rest)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::time::EXACT_MAX;

    /// The same by instant, and what is taken from it since an instant, before another, newest first.
    fn take(plain: &mut BTreeMap<u64, u64>, since_us: u64, until_us: u64, amount: u64) -> u64 {
        let mut left = amount;
        for (_, count) in plain.range_mut(since_us..=until_us).rev() {
            let taken = left.min(*count);
            (left, *count) = (left - taken, *count - taken);
        }
        plain.retain(|_, count| *count > 0);
        amount - left
    }

    proptest! {
        #[test]
        fn stamps_are_what_was_pushed_less_what_was_taken(
            steps in vec((0..4_u8, 0..3_u64, prop_oneof![0..4_u64, 1000..3000_u64], any::<u8>()), 0..60)
        ) {
            let (mut stamps, mut plain, mut now) = (Stamps::default(), BTreeMap::new(), EXACT_MAX - 200);
            for (kind, later, amount, back) in steps {
                let at_us = now - u64::from(back) % 8;
                match kind {
                    0 => {
                        now += later;
                        stamps.push(now, amount, 50_000);
                        plain.entry(now).and_modify(|count| *count += amount).or_insert(amount);
                        plain.retain(|_, count| *count > 0);
                    }
                    1 => {
                        let end = stamps.end_of(at_us);
                        let taken = take(&mut plain, at_us, at_us, amount);
                        prop_assert_eq!(stamps.take(at_us, end, amount), taken);
                    }
                    2 => {
                        let taken = take(&mut plain, 0, u64::MAX, amount);
                        prop_assert_eq!(stamps.take(0, stamps.len(), amount), taken);
                    }
                    _ => {
                        stamps.forget_oldest(stamps.end_of(at_us));
                        plain.retain(|instant, _| *instant > at_us);
                    }
                }
                let runs = || plain.iter().map(|(&at_us, &count)| Run { at_us, count });
                prop_assert!(stamps.runs().eq(runs()), "{stamps:?} {plain:?}");
                prop_assert_eq!(stamps.units(), plain.values().sum::<u64>());
                prop_assert_eq!(&Stamps::from_runs(runs()), &stamps);
            }
        }
    }

    #[test]
    fn a_full_log_has_a_place_per_stamp_and_one_that_grows_an_eighth_more() {
        let bytes = |count: u64, most: u64| {
            let mut stamps = Stamps::default();
            (0..count).for_each(|at_us| stamps.push(at_us, 1, most));
            stamps.heap_bytes()
        };
        assert_eq!((bytes(1, 100), bytes(5, 5), bytes(100, 100)), (3 * 8, 5 * 8, 100 * 8));
        assert!(bytes(1000, 1_000_000) <= 1000 * 9);
    }

    #[test]
    fn there_are_never_more_units_than_a_limit_can_have() {
        let mut stamps = Stamps::default();
        stamps.push(1, u64::MAX, u64::MAX);
        stamps.push(2, 1, u64::MAX);
        assert_eq!(stamps.units(), Stamps::UNITS_MAX);
        assert!(stamps.runs().eq([Run { at_us: 1, count: Stamps::UNITS_MAX }]));
    }
}
