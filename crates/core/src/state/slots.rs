//! The slots of a sliding window.

use super::State;
use super::counts::Counts;
use crate::time::Timestamp;

/// Counts per slot, over the newest slots.
///
/// ```
/// use tidegate_core::{Limit, State, Timestamp};
///
/// let limit: Limit = "sliding-window 1000000/h buckets 10".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 1000);
/// assert!(matches!(state, State::Slots(_)));
/// // Ten counters, and the one that is leaving, are part of the state.
/// assert_eq!(state.heap_bytes(), 0);
/// // Once more than 65,535 are counted in a slot, they are wider.
/// let _ = limit.take(&mut state, now, 999_000);
/// assert_eq!(state.heap_bytes(), 11 * size_of::<u64>());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slots {
    pub(crate) width_us: u64,
    /// The index of the newest slot: its start divided by the width.
    pub(crate) newest: u64,
    counts: Counts,
}

/// Moves to slot `current`, then adds and takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotChange {
    pub(crate) width_us: u64,
    pub(crate) slots: u64,
    pub(crate) current: u64,
    /// Forget the slots and put this count into the current one.
    pub(crate) gather: Option<u64>,
    pub(crate) add: u64,
    /// Take this much back: from this slot, or from the newest slots first.
    pub(crate) take: u64,
    pub(crate) take_from: Option<u64>,
}

impl Slots {
    fn new(width_us: u64, current: u64, slots: u64) -> Self {
        // At most 1001: a sliding window has no more than 1000 buckets.
        let counts = Counts::new(usize::try_from(slots).unwrap_or(0));
        Self { width_us, newest: current, counts }
    }

    /// The slots whose counts stand in a ring, as [`Slots::ring`] has them.
    pub(super) fn from_ring(width_us: u64, newest: u64, ring: &[u64]) -> Self {
        let counts = turned(newest, ring.len()).map(|place| ring[place]).collect();
        Self { width_us, newest, counts }
    }

    /// The counts in a ring: slot `index` is in place `index % len`.
    pub(super) fn ring(&self) -> impl Iterator<Item = u64> {
        turned(self.newest, self.counts.len()).map(|age| self.counts.get(age))
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// What slot `index` holds; 0 if it is none of these.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> u64 {
        self.age(index).map_or(0, |age| self.counts.get(age))
    }

    /// What the slots from `first` to `last` hold.
    #[inline]
    pub(crate) fn sum(&self, first: u64, last: u64) -> u64 {
        let newest = self.age(last).unwrap_or(0);
        self.age(first).map_or(0, |oldest| self.counts.sum(newest..oldest.saturating_add(1)))
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.sum(0..self.counts.len())
    }

    /// The sum of the slots that have not wholly left at `now`.
    pub(crate) fn counted_at(&self, now: Timestamp) -> u64 {
        let leaves_us = |index: u64| (index + self.len()).saturating_mul(self.width_us);
        self.indices()
            .filter(|index| leaves_us(*index) > now.as_micros())
            .fold(0, |sum, index| sum.saturating_add(self.get(index)))
    }

    /// When the newest counted slot has left.
    pub(super) fn end_us(&self) -> u64 {
        let newest = self.indices().rev().find(|index| self.get(*index) > 0);
        newest.map_or(0, |index| (index + self.len()).saturating_mul(self.width_us))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.counts.heap_bytes()
    }

    pub(super) fn apply(state: &mut State, change: SlotChange) {
        if change.gather.is_some() || !matches!(state, State::Slots(_)) {
            let mut fresh = Self::new(change.width_us, change.current, change.slots);
            fresh.add(change.current, change.gather.unwrap_or(0));
            *state = State::Slots(fresh);
        }
        let State::Slots(slots) = state else { return };
        slots.advance(change.current);
        slots.add(change.current, change.add);
        match change.take_from {
            Some(slot) => slots.take(slot, change.take),
            None => slots.take_newest(change.take),
        };
    }

    fn advance(&mut self, current: u64) {
        if let Some(by) = current.checked_sub(self.newest).filter(|by| *by > 0) {
            self.counts.grow_older(usize::try_from(by).unwrap_or(usize::MAX));
            self.newest = current;
        }
    }

    fn add(&mut self, index: u64, amount: u64) {
        if let Some(age) = self.age(index) {
            self.counts.set(age, self.counts.get(age).saturating_add(amount));
        }
    }

    fn take_newest(&mut self, amount: u64) -> u64 {
        if amount == 0 {
            return 0;
        }
        self.indices().rev().fold(amount, |left, index| left - self.take(index, left))
    }

    /// Takes up to `amount` from one slot, and answers how much that was.
    fn take(&mut self, index: u64, amount: u64) -> u64 {
        let Some(age) = self.age(index) else { return 0 };
        let count = self.counts.get(age);
        let taken = amount.min(count);
        self.counts.set(age, count - taken);
        taken
    }

    fn indices(&self) -> std::ops::RangeInclusive<u64> {
        (self.newest + 1).saturating_sub(self.len())..=self.newest
    }

    /// By how many slots slot `index` is older than the newest; `None` if it is newer.
    #[inline]
    fn age(&self, index: u64) -> Option<usize> {
        usize::try_from(self.newest.checked_sub(index)?).ok()
    }
}

/// The ages of the places of a ring, and the places of the ages.
fn turned(newest: u64, len: usize) -> impl Iterator<Item = usize> {
    let newest = usize::try_from(newest % len.max(1) as u64).unwrap_or(0);
    (0..len).map(move |at| (newest + len - at) % len)
}
