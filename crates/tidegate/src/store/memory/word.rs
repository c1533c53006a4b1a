//! States that fit one word.
//!
//! | bits | 63 | 62 | 61 | 60–0 |
//! |---|---|---|---|---|
//! | arrival | 1 | spent | count of [units](super::units), in 62 bits | |
//! | window | 0 | 1 | spent | end in seconds (33), count (28) |
//! | wide | 0 | 0 | 1 | number of the state kept beside the table |
//!
//! The number of an arrival's unit stands beside the word. So a word is whole in itself: it can be read under a changed
//! limit, and swept without knowing any. What does not fit (a rate whose interval has a large denominator, a window of
//! part of a second, the states that are more than a word) is kept wide.

use tidegate_core::{State, Window};

use super::bucket::Word;
use super::units::{COUNT_MAX, Units};

const ARRIVAL: u64 = 1 << 63;
const ARRIVAL_SPENT: u64 = 1 << 62;
const WINDOW: u64 = 0b01 << 62;
const WINDOW_SPENT: u64 = 1 << 61;
const WIDE: u64 = 0b001 << 61;

const HITS_BITS: u32 = 28;
const HITS_MAX: u64 = (1 << HITS_BITS) - 1;
const END_MAX: u64 = (1 << 33) - 1;
const SECOND_US: u64 = 1_000_000;

/// The bits of an arrival. A spent key is given up last.
#[inline]
pub(super) fn from_count(count: u64, spent: bool) -> Option<u64> {
    (count <= COUNT_MAX).then_some(ARRIVAL | if spent { ARRIVAL_SPENT } else { 0 } | count)
}

/// The count in the bits of an arrival.
#[inline]
pub(super) fn to_count(bits: u64) -> u64 {
    bits & COUNT_MAX
}

#[inline]
pub(super) fn from_window(window: Window, spent: bool) -> Option<Word> {
    let end = window.end / SECOND_US;
    if !window.end.is_multiple_of(SECOND_US) || end > END_MAX || window.count > HITS_MAX {
        return None;
    }
    let spent = if spent { WINDOW_SPENT } else { 0 };
    Some(Word { bits: WINDOW | spent | end << HITS_BITS | window.count, unit: 0 })
}

#[inline]
pub(super) fn to_window(word: Word) -> Option<Window> {
    if word.bits >> 62 != WINDOW >> 62 {
        return None;
    }
    let end = (word.bits >> HITS_BITS & END_MAX) * SECOND_US;
    Some(Window { end, count: word.bits & HITS_MAX })
}

pub(super) fn from_wide(number: u32) -> Word {
    Word { bits: WIDE | u64::from(number), unit: 0 }
}

/// The number of a wide state, if the word stands for one.
#[inline]
pub(super) fn to_wide(word: Word) -> Option<u32> {
    if word.bits >> 61 != WIDE >> 61 {
        return None;
    }
    u32::try_from(word.bits & u64::from(u32::MAX)).ok()
}

/// Whether nothing was left when the word was written.
pub(super) fn is_spent(word: Word) -> bool {
    let flag = if word.bits & ARRIVAL != 0 { ARRIVAL_SPENT } else { WINDOW_SPENT };
    word.bits & flag != 0
}

impl Units {
    /// A state as a word, if it fits one.
    pub(super) fn to_word(&self, state: &State, spent: bool) -> Option<Word> {
        match state {
            State::Arrival(arrival) if arrival.tick_us == 1 => {
                let unit = self.find_or_add(arrival.scale, arrival.ticks)?;
                let bits = from_count(unit.count_arrival(*arrival)?, spent)?;
                Some(Word { bits, unit: unit.number })
            }
            State::Window(window) => from_window(*window, spent),
            _ => None,
        }
    }

    /// The state a word holds, [`State::Empty`] for none. Not for wide words.
    pub(super) fn to_state(&self, word: Word) -> State {
        let arrival = self.numbered(word.unit).map(|unit| unit.arrival(to_count(word.bits)));
        let window = || to_window(word).map(State::Window).unwrap_or_default();
        arrival.map_or_else(window, State::Arrival)
    }

    /// From when on the key is idle: its word means the same as no word. In µs.
    pub(super) fn idle_from_us(&self, word: Word) -> u64 {
        let arrival = self.numbered(word.unit).map(|unit| unit.end_us(to_count(word.bits)));
        arrival.or_else(|| to_window(word).map(|window| window.end)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Arrival;

    use super::*;

    #[test]
    fn arrivals_survive_a_word() {
        let units = Units::default();
        for (scale, frac) in [(1, 0), (3, 2), (1000, 0), (1000, 999), (7919, 7918)] {
            for ticks in [1_800_000_000_000_000, (1 << 52) - 1] {
                for spent in [false, true] {
                    let state = State::Arrival(Arrival { ticks, frac, scale, tick_us: 1 });
                    let word = units.to_word(&state, spent);
                    // A large unit starts to count at its first use.
                    let Some(word) = word else {
                        assert!(scale > 1000 && ticks > 1_800_000_000_000_000);
                        continue;
                    };
                    assert_eq!(units.to_state(word), state);
                    assert_eq!((to_window(word), to_wide(word)), (None, None));
                    assert_eq!(is_spent(word), spent);
                }
            }
        }
    }

    #[test]
    fn windows_survive_a_word() {
        let units = Units::default();
        for (end, count) in [(1_000_000, 0), (END_MAX * SECOND_US, HITS_MAX)] {
            for spent in [false, true] {
                let window = Window { end, count };
                let word = from_window(window, spent).unwrap();
                assert_eq!(to_window(word), Some(window));
                assert_eq!(units.to_state(word), State::Window(window));
                assert_eq!((to_wide(word), is_spent(word)), (None, spent));
            }
        }
        let wide = from_wide(u32::MAX);
        assert_eq!((to_wide(wide), to_window(wide)), (Some(u32::MAX), None));
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_wide_states() {
        let units = Units::default();
        let arrival = Arrival { ticks: 1, frac: 0, scale: 1, tick_us: 1 };
        let word = |arrival| units.to_word(&State::Arrival(arrival), false);
        assert!(word(arrival).is_some());
        assert_eq!(word(Arrival { scale: 1 << 15, ..arrival }), None);
        assert_eq!(word(Arrival { tick_us: 1000, ..arrival }), None);
        assert_eq!(word(Arrival { ticks: COUNT_MAX + 1, ..arrival }), None);
        assert_eq!(from_window(Window { end: 1_500_000, count: 0 }, false), None);
        assert_eq!(from_window(Window { end: 1_000_000, count: HITS_MAX + 1 }, false), None);
    }
}
