//! The counters of a sliding window.

use super::State;
use crate::time::Timestamp;

/// Counts per slot, a ring over the newest slots.
///
/// ```
/// use tidegate_core::{Limit, State, Timestamp};
///
/// let limit: Limit = "sliding-window 1000000/h buckets 10".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 1_000_000);
/// assert!(matches!(state, State::Slots(_)));
/// // However much is counted: ten counters, and the one that is leaving.
/// assert_eq!(state.heap_bytes(), 11 * size_of::<u64>());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slots {
    pub(crate) width_us: u64,
    /// The index of the newest slot: its start divided by the width.
    pub(crate) newest: u64,
    pub(super) counts: Box<[u64]>,
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
        let counts = vec![0; usize::try_from(slots).unwrap_or(0)].into_boxed_slice();
        Self { width_us, newest: current, counts }
    }

    pub(crate) fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// What slot `index` holds; 0 outside the ring.
    pub(crate) fn get(&self, index: u64) -> u64 {
        if index > self.newest || index + self.len() <= self.newest {
            return 0;
        }
        self.counts[self.offset(index)]
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
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
        size_of_val(&*self.counts)
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
        let fresh_from = (self.newest + 1).max((current + 1).saturating_sub(self.len()));
        for index in fresh_from..=current {
            self.counts[self.offset(index)] = 0;
        }
        self.newest = self.newest.max(current);
    }

    fn add(&mut self, index: u64, amount: u64) {
        let offset = self.offset(index);
        self.counts[offset] = self.counts[offset].saturating_add(amount);
    }

    fn take_newest(&mut self, amount: u64) -> u64 {
        self.indices().rev().fold(amount, |left, index| left - self.take(index, left))
    }

    /// Takes up to `amount` from one slot, and answers how much that was.
    fn take(&mut self, index: u64, amount: u64) -> u64 {
        let offset = self.offset(index);
        let taken = amount.min(self.get(index));
        self.counts[offset] -= taken;
        taken
    }

    fn indices(&self) -> std::ops::RangeInclusive<u64> {
        (self.newest + 1).saturating_sub(self.len())..=self.newest
    }

    /// Where slot `index` is in `counts`.
    fn offset(&self, index: u64) -> usize {
        usize::try_from(index % self.len().max(1)).unwrap_or(0)
    }
}
