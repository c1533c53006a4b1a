//! The parts of a microsecond that arrivals are counted in, each with a number of ten bits.
//!
//! A limit of 60/s has an interval of 50,000/3 µs, so its arrivals are whole numbers of thirds of a microsecond. Up to
//! [`SMALL_MAX`] parts, the number of a unit is how many parts there are. Of the larger ones, the first few that are used
//! get the numbers that are left, and count from [`BACK_US`] before the first arrival, so that their counts stay small.

use std::sync::OnceLock;

use tidegate_core::Arrival;

/// Every rate of up to 1000 in a second, minute or hour has at most as many parts.
const SMALL_MAX: u64 = 1000;

const LARGE: usize = 23;

/// At this many parts, the counts last for more than eight years from the first use.
const LARGE_MAX: u64 = 1 << 14;

/// How far before the first arrival counting starts: 203 days. That much the burst of the first check may have been ahead of
/// the clock and the clock may step back later. What is before that, or years later, as after a first use by a clock that
/// stood at 1970, is kept wide: slower, and as right.
const BACK_US: u64 = 1 << 44;

/// The largest count.
pub(super) const COUNT_MAX: u64 = (1 << 62) - 1;

#[derive(Default)]
pub(super) struct Units {
    large: [OnceLock<Unit>; LARGE],
}

/// One part of a microsecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unit {
    /// Not 0, and below 1024.
    pub(super) number: u64,
    per_us: u64,
    /// When counting starts.
    from_us: u64,
}

impl Units {
    /// The unit of so many parts, at least one, if it has a number.
    #[inline]
    pub(super) fn find(&self, per_us: u64) -> Option<Unit> {
        if per_us <= SMALL_MAX {
            return Some(Unit { number: per_us, per_us, from_us: 0 });
        }
        self.large.iter().map_while(OnceLock::get).find(|unit| unit.per_us == per_us).copied()
    }

    /// The unit of so many parts, which gets a number if it has none; its first arrival is at `first_us`. `None` if there
    /// are too many parts, or no number is left.
    pub(super) fn find_or_add(&self, per_us: u64, first_us: u64) -> Option<Unit> {
        match per_us {
            0 => return None,
            1..=SMALL_MAX => return self.find(per_us),
            _ if per_us > LARGE_MAX => return None,
            _ => {}
        }
        let add = |(number, cell): (u64, &OnceLock<Unit>)| {
            let from_us = first_us.saturating_sub(BACK_US);
            *cell.get_or_init(|| Unit { number, per_us, from_us })
        };
        (SMALL_MAX + 1..).zip(&self.large).map(add).find(|unit| unit.per_us == per_us)
    }

    /// The unit with a number that [`Units::find_or_add`] gave. `None` for 0, which is no unit.
    pub(super) fn numbered(&self, number: u64) -> Option<Unit> {
        match number {
            0 => None,
            1..=SMALL_MAX => self.find(number),
            _ => self.large.get(usize::try_from(number - SMALL_MAX - 1).ok()?)?.get().copied(),
        }
    }
}

impl Unit {
    /// An instant as a count; `None` if it is too early or too late.
    #[inline]
    pub(super) fn count(self, us: u64) -> Option<u64> {
        let count = us.checked_sub(self.from_us)?.checked_mul(self.per_us);
        count.filter(|count| *count <= COUNT_MAX)
    }

    pub(super) fn count_arrival(self, arrival: Arrival) -> Option<u64> {
        self.count(arrival.ticks)?.checked_add(arrival.frac)
    }

    pub(super) fn arrival(self, count: u64) -> Arrival {
        let Self { per_us, from_us, .. } = self;
        Arrival { ticks: from_us + count / per_us, frac: count % per_us, scale: per_us, tick_us: 1 }
    }

    /// When a count is over, in µs.
    pub(super) fn end_us(self, count: u64) -> u64 {
        self.from_us + count.div_ceil(self.per_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000_000;

    #[test]
    fn arrivals_survive_every_unit() {
        let units = Units::default();
        for per_us in (1..=SMALL_MAX).chain([1001, 7919, LARGE_MAX]) {
            let unit = units.find_or_add(per_us, NOW).unwrap();
            assert!((1..1024).contains(&unit.number), "{unit:?}");
            assert_eq!((units.numbered(unit.number), units.find(per_us)), (Some(unit), Some(unit)));
            for frac in [0, 1, per_us / 2, per_us - 1].into_iter().filter(|frac| *frac < per_us) {
                let arrival = Arrival { ticks: NOW + 5, frac, scale: per_us, tick_us: 1 };
                let count = unit.count_arrival(arrival).unwrap();
                assert!(count <= COUNT_MAX);
                assert_eq!(unit.arrival(count), arrival);
                assert_eq!(unit.end_us(count), arrival.end_us());
            }
        }
    }

    #[test]
    fn large_units_have_numbers_while_there_are_any() {
        let units = Units::default();
        assert_eq!(units.find(1001), None);
        for per_us in 1001..1001 + LARGE as u64 {
            assert_eq!(units.find_or_add(per_us, NOW).map(|unit| unit.per_us), Some(per_us));
        }
        assert_eq!(units.find_or_add(9999, NOW), None);
        assert!(units.find_or_add(1001, 0).is_some_and(|unit| unit.from_us == NOW - BACK_US));
        assert_eq!(Units::default().find_or_add(LARGE_MAX + 1, NOW), None);
        assert_eq!([0, 1001].map(|number| Units::default().numbered(number)), [None; 2]);
        assert_eq!(Units::default().find_or_add(0, NOW), None);
    }

    #[test]
    fn instants_out_of_range_have_no_count() {
        let units = Units::default();
        let large = units.find_or_add(7919, NOW).unwrap();
        assert_eq!(large.count(NOW - BACK_US - 1), None);
        assert_eq!(large.count(NOW - BACK_US), Some(0));
        for per_us in [1, 1000, 7919] {
            let unit = units.find(per_us).unwrap();
            let last_us = unit.from_us + COUNT_MAX / per_us;
            assert!(unit.count(last_us).is_some_and(|count| count <= COUNT_MAX), "{unit:?}");
            assert_eq!([last_us + 1, u64::MAX].map(|us| unit.count(us)), [None; 2], "{unit:?}");
        }
    }

    /// A whole burst at once is an arrival far ahead of the clock.
    #[test]
    fn the_first_check_of_a_long_limit_leaves_the_present_countable() {
        let days_us = 60 * 86_400 * 1_000_000;
        let unit = Units::default().find_or_add(1001, NOW + days_us).unwrap();
        assert!(unit.count(NOW).is_some());
    }
}
