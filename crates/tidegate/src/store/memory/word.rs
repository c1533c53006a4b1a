//! States that fit one word.
//!
//! | bits | 63–62 | 61 | 60–0 |
//! |---|---|---|---|
//! | arrival | 01 | spent | whole µs (53), exact fraction (8) |
//! | window | 10 | spent | end in seconds (33), count (28) |
//! | wide | 11 | – | number of the state kept beside the table |
//!
//! A word is whole in itself: it can be read under a changed limit, and swept without knowing any. What does
//! not fit (a rate whose fraction has a denominator above 22, a window of part of a second, the states that
//! are more than a word) is kept wide.

use tidegate_core::{Arrival, State, Window};

const ARRIVAL: u64 = 0b01 << 62;
const WINDOW: u64 = 0b10 << 62;
const WIDE: u64 = 0b11 << 62;
const TAG: u64 = 0b11 << 62;
/// Nothing was left when this was written. Such keys are given up last.
const SPENT: u64 = 1 << 61;

const FRACTION_BITS: u32 = 8;
const TICKS_MAX: u64 = (1 << 53) - 1;
const COUNT_BITS: u32 = 28;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const END_MAX: u64 = (1 << 33) - 1;
const SECOND_US: u64 = 1_000_000;

/// The largest denominator whose fractions, with those of all smaller ones, can be numbered in 8 bits.
const MAX_SCALE: u64 = 22;

/// Numerator and denominator of each numbered fraction.
static FRACTIONS: [(u8, u8); 253] = numbered_fractions();

const fn numbered_fractions() -> [(u8, u8); 253] {
    let mut table = [(0, 1); 253];
    let (mut scale, mut at) = (1, 0);
    while scale as u64 <= MAX_SCALE {
        let mut frac = 0;
        while frac < scale {
            table[at] = (frac, scale);
            (frac, at) = (frac + 1, at + 1);
        }
        scale += 1;
    }
    table
}

#[inline]
pub(super) fn from_arrival(arrival: Arrival, spent: bool) -> Option<u64> {
    let Arrival { ticks, frac, scale, tick_us } = arrival;
    if tick_us != 1 || scale > MAX_SCALE || ticks > TICKS_MAX {
        return None;
    }
    let number = scale * (scale - 1) / 2 + frac;
    Some(ARRIVAL | flag(spent) | ticks << FRACTION_BITS | number)
}

#[inline]
pub(super) fn to_arrival(word: u64) -> Option<Arrival> {
    if word & TAG != ARRIVAL {
        return None;
    }
    let ticks = word >> FRACTION_BITS & TICKS_MAX;
    let number = word & 0xff;
    let (frac, scale) = match number {
        0 => (0, 1),
        _ => FRACTIONS.get(usize::try_from(number).unwrap_or(0)).copied().unwrap_or((0, 1)),
    };
    Some(Arrival { ticks, frac: frac.into(), scale: scale.into(), tick_us: 1 })
}

/// [`from_arrival`] for whole microseconds.
#[inline]
pub(super) fn from_whole_us(us: u64, spent: bool) -> Option<u64> {
    (us <= TICKS_MAX).then_some(ARRIVAL | flag(spent) | us << FRACTION_BITS)
}

/// [`to_arrival`] for whole microseconds; `None` for others.
#[inline]
pub(super) fn to_whole_us(word: u64) -> Option<u64> {
    let whole = word & (TAG | ((1 << FRACTION_BITS) - 1)) == ARRIVAL;
    whole.then_some(word >> FRACTION_BITS & TICKS_MAX)
}

#[inline]
pub(super) fn from_window(window: Window, spent: bool) -> Option<u64> {
    let end = window.end / SECOND_US;
    if !window.end.is_multiple_of(SECOND_US) || end > END_MAX || window.count > COUNT_MAX {
        return None;
    }
    Some(WINDOW | flag(spent) | end << COUNT_BITS | window.count)
}

#[inline]
pub(super) fn to_window(word: u64) -> Option<Window> {
    if word & TAG != WINDOW {
        return None;
    }
    let end = (word >> COUNT_BITS & END_MAX) * SECOND_US;
    Some(Window { end, count: word & COUNT_MAX })
}

pub(super) fn from_wide(number: u32) -> u64 {
    WIDE | u64::from(number)
}

/// The number of a wide state, if the word stands for one.
#[inline]
pub(super) fn to_wide(word: u64) -> Option<u32> {
    if word & TAG != WIDE {
        return None;
    }
    u32::try_from(word & u64::from(u32::MAX)).ok()
}

/// A state as a word, if it fits one.
pub(super) fn from_state(state: &State, spent: bool) -> Option<u64> {
    match state {
        State::Arrival(arrival) => from_arrival(*arrival, spent),
        State::Window(window) => from_window(*window, spent),
        _ => None,
    }
}

/// The state a word holds, [`State::Empty`] for none. Not for wide words.
pub(super) fn to_state(word: u64) -> State {
    let arrival = to_arrival(word).map(State::Arrival);
    arrival.or_else(|| to_window(word).map(State::Window)).unwrap_or_default()
}

/// From when on the key is idle: its word means the same as no word. In µs.
pub(super) fn idle_from_us(word: u64) -> u64 {
    let arrival = to_arrival(word).map(|arrival| arrival.end_us());
    arrival.or_else(|| to_window(word).map(|window| window.end)).unwrap_or(0)
}

/// Whether nothing was left when the word was written.
pub(super) fn is_spent(word: u64) -> bool {
    word & SPENT != 0
}

const fn flag(spent: bool) -> u64 {
    if spent { SPENT } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_fraction_survives_a_word() {
        for scale in 1..=MAX_SCALE {
            for frac in 0..scale {
                for ticks in [0, 1, 1_800_000_000_000_000, TICKS_MAX] {
                    for spent in [false, true] {
                        let arrival = Arrival { ticks, frac, scale, tick_us: 1 };
                        let word = from_arrival(arrival, spent).unwrap();
                        let back = to_arrival(word).unwrap();
                        // A fraction of 0 is 0 under any denominator.
                        assert_eq!((back.ticks, back.frac), (ticks, frac));
                        assert!(frac == 0 || back.scale == scale);
                        let whole = (scale == 1).then_some(ticks);
                        assert_eq!(to_whole_us(word), whole);
                        assert!(whole.is_none_or(|us| from_whole_us(us, spent) == Some(word)));
                        assert_eq!((to_window(word), to_wide(word)), (None, None));
                        assert_eq!(is_spent(word), spent);
                    }
                }
            }
        }
    }

    #[test]
    fn windows_survive_a_word() {
        for (end, count) in [(1_000_000, 0), (END_MAX * SECOND_US, COUNT_MAX)] {
            let window = Window { end, count };
            let word = from_window(window, true).unwrap();
            assert_eq!(to_window(word), Some(window));
            assert_eq!((to_arrival(word), to_wide(word)), (None, None));
        }
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_wide_states() {
        let arrival = Arrival { ticks: 1, frac: 0, scale: 1, tick_us: 1 };
        assert_eq!(from_arrival(Arrival { scale: 23, ..arrival }, false), None);
        assert_eq!(from_arrival(Arrival { tick_us: 1000, ..arrival }, false), None);
        assert_eq!(from_arrival(Arrival { ticks: TICKS_MAX + 1, ..arrival }, false), None);
        assert_eq!(from_window(Window { end: 1_500_000, count: 0 }, false), None);
        assert_eq!(from_window(Window { end: 1_000_000, count: COUNT_MAX + 1 }, false), None);
    }
}
