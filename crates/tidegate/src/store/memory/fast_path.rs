//! The path of most checks: one key that is known, with a state that fits a word.

use tidegate_core::{Decision, FixedWindow, Gcra, Limit, Timestamp};

use super::table::FoundEntry;
use super::units::Unit;
use super::{Hint, MemoryStore, is_spent, word};

/// Pauses after a first lost race for a line, about half a microsecond; twice and four times as many after the next.
const MIN_PAUSES: u32 = 32;

impl MemoryStore {
    /// Inlined, so that a caller that only needs `allowed` pays for nothing else.
    #[expect(clippy::inline_always, reason = "called, it would take 14 ns instead of 11")]
    #[inline(always)]
    pub(crate) fn take(
        &self,
        fingerprint: u64,
        limit: &Limit,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        self.take_hinted(fingerprint, self.table.home(fingerprint), limit, now, cost)
    }

    /// [`MemoryStore::take`], with what [`MemoryStore::hint`] answered.
    ///
    /// One attempt on the path of most checks: a key that is known, in its home line, with an arrival in the unit of the
    /// limit. Nothing here calls anything, so that nothing has to be saved for it; all else is left to
    /// [`MemoryStore::take_again`].
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    pub(crate) fn take_hinted(
        &self,
        fingerprint: u64,
        hint: Hint<'_>,
        limit: &Limit,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        if let Limit::Gcra(gcra) | Limit::TokenBucket(gcra) = limit
            && let Some(unit) = self.unit_of(gcra)
            && let Some(spot) = hint.find(fingerprint, unit.number)
            && let Attempt::Done(decision) = take_gcra(&spot, unit, gcra, now, cost)
        {
            return decision;
        }
        self.take_again(fingerprint, limit, now, cost)
    }

    #[inline(never)]
    fn take_again(&self, fingerprint: u64, limit: &Limit, now: Timestamp, cost: u64) -> Decision {
        let mut races = 0;
        while let Some(spot) = self.table.find_entry(fingerprint) {
            let attempt = match limit {
                Limit::Gcra(gcra) | Limit::TokenBucket(gcra) => match self.unit_of(gcra) {
                    Some(unit) if unit.number == spot.word().unit => {
                        take_gcra(&spot, unit, gcra, now, cost)
                    }
                    _ => Attempt::Unfit,
                },
                Limit::FixedWindow(window) => take_window(&spot, window, now, cost),
                _ => Attempt::Unfit,
            };
            match attempt {
                Attempt::Done(decision) => return decision,
                Attempt::Raced => back_off(&mut races),
                Attempt::Unfit => break,
            }
        }
        self.take_state(fingerprint, limit, now, cost).0
    }

    /// The unit that arrivals of a limit are counted in, if they fit a word.
    #[inline]
    fn unit_of(&self, gcra: &Gcra) -> Option<Unit> {
        self.units.find(gcra.scale()?)
    }
}

/// The outcome of a check on a word.
enum Attempt {
    Done(Decision),
    /// The line changed meanwhile.
    Raced,
    /// The state is of another kind, or would have to be.
    Unfit,
}

impl Attempt {
    #[inline]
    fn done(done: bool, decision: Decision) -> Self {
        if done { Self::Done(decision) } else { Self::Raced }
    }
}

/// A check on an arrival in the unit of the limit: loads only, but for an admission's one compare-and-swap and two
/// stores.
#[expect(clippy::inline_always, reason = "as above")]
#[inline(always)]
fn take_gcra(spot: &FoundEntry<'_>, unit: Unit, gcra: &Gcra, now: Timestamp, cost: u64) -> Attempt {
    let arrival = word::to_count(spot.bits());
    let Some(now) = unit.count(now.as_micros()) else { return Attempt::Unfit };
    let (decision, next) = gcra.decide_scaled(arrival, now, cost);
    if next.units == arrival {
        return Attempt::done(spot.is_unchanged(), decision);
    }
    match word::from_count(next.units, next.spent) {
        Some(bits) => Attempt::done(spot.replace_bits(bits), decision),
        None => Attempt::Unfit,
    }
}

/// The same on the word of a window.
fn take_window(spot: &FoundEntry<'_>, limit: &FixedWindow, now: Timestamp, cost: u64) -> Attempt {
    let Some(window) = word::to_window(spot.word()) else { return Attempt::Unfit };
    let (decision, next) = limit.decide(Some(window), now, cost);
    match next.map(|next| word::from_window(next, is_spent(&decision))) {
        None => Attempt::done(spot.is_unchanged(), decision),
        Some(Some(word)) => Attempt::done(spot.replace_bits(word.bits), decision),
        Some(None) => Attempt::Unfit,
    }
}

/// Spins after a lost race, longer each time: the thread that holds the line gets through several checks before another
/// takes it.
fn back_off(races: &mut u32) {
    for _ in 0..MIN_PAUSES << *races {
        std::hint::spin_loop();
    }
    *races = (*races + 1).min(2);
}
