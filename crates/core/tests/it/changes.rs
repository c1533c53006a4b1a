//! Limits that change under a key in use: what was spent stays spent.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{FixedWindow, Gcra, Limit, SlidingLog, State};

use crate::support::{DAY_US, START_US, at, config, micros, period_us, sliding_window};

/// What all rates below divide: time is summed in units of 1/COMMON µs, exactly.
const COMMON: u128 = 720_720;

/// A GCRA limit of 1 to 16 units per period.
#[derive(Clone, Copy, Debug)]
struct Rated {
    gcra: Gcra,
    /// The emission interval in units of 1/COMMON µs.
    interval: u128,
}

impl Rated {
    fn burst_time(&self) -> u128 {
        self.interval * u128::from(self.gcra.burst())
    }
}

fn rated() -> impl Strategy<Value = Rated> {
    (1..=16_u64, period_us(), 1..=8_u64).prop_map(|(limit, period_us, burst)| Rated {
        gcra: Gcra::new(limit, micros(period_us), burst).unwrap(),
        interval: u128::from(period_us) * COMMON / u128::from(limit),
    })
}

/// Spends through the limits in turn, and answers the time that was granted in each of them, with the
/// time that had passed since the first ask.
fn spend(limits: &[Rated], raw: &[(u8, u8)]) -> Vec<(u128, u128)> {
    let (mut state, mut now) = (State::Empty, START_US);
    let per_limit = raw.len().div_ceil(limits.len()).max(1);
    let ask = |(index, &(gap, cost)): (usize, &(u8, u8))| {
        let rated = &limits[index / per_limit];
        let limit: Limit = rated.gcra.into();
        let interval_us = u64::try_from(rated.interval / COMMON).unwrap();
        now += interval_us * u64::from(gap % 16) / 8;
        let cost = 1 + u64::from(cost) % limit.ceiling();
        let admitted = limit.take(&mut state, at(now), cost).allowed();
        let granted = if admitted { rated.interval * u128::from(cost) } else { 0 };
        (u128::from(now - START_US) * COMMON, granted)
    };
    raw.iter().enumerate().map(ask).collect()
}

/// Whether in every run of asks the time granted is at most `most` plus the time that passed.
fn granted_within(spent: &[(u128, u128)], most: u128) -> bool {
    (0..spent.len()).all(|first| {
        let mut sum = 0;
        spent[first..].iter().all(|&(now, granted)| {
            sum += granted;
            sum <= most + now - spent[first].0
        })
    })
}

proptest! {
    #![proptest_config(config())]

    // As long as the longest burst is not left and come back to: see the next one.
    #[test]
    fn a_changed_gcra_grants_at_most_the_longest_burst_and_the_time_passed(
        mut limits in vec(rated(), 1..5), peak in any::<prop::sample::Index>(),
        raw in vec(any::<(u8, u8)>(), 1..24)
    ) {
        // Up to the peak, then down.
        limits.sort_by_key(Rated::burst_time);
        let peak = peak.index(limits.len());
        limits[peak..].reverse();
        let most = limits.iter().map(Rated::burst_time).max().unwrap();
        prop_assert!(granted_within(&spend(&limits, &raw), most));
    }

    // A shorter burst forgets debt beyond itself, so each time the burst time rises again by d, d more
    // may be granted, and no more than that.
    #[test]
    fn any_change_of_a_gcra_grants_at_most_the_rises_of_its_burst(
        limits in vec(rated(), 1..6), raw in vec(any::<(u8, u8)>(), 1..24)
    ) {
        let rises = limits.windows(2).map(|pair| {
            pair[1].burst_time().saturating_sub(pair[0].burst_time())
        });
        let most = limits[0].burst_time() + rises.sum::<u128>();
        prop_assert!(granted_within(&spend(&limits, &raw), most));
    }

    // The fraction is rounded up, and so by less than a microsecond.
    #[test]
    fn a_changed_gcra_keeps_what_is_ahead_as_time(
        before in rated(), after in rated(), cost in 1..=8_u64
    ) {
        let (before, after): (Limit, Limit) = (before.gcra.into(), after.gcra.into());
        let mut state = State::Empty;
        let spent = before.take(&mut state, at(START_US), cost.min(before.ceiling()));
        let full = after.take(&mut State::Empty, at(START_US), after.ceiling());
        let kept = after.peek(&state, at(START_US), 0);
        let expected = spent.reset_after_us().min(full.reset_after_us());
        prop_assert!(expected.abs_diff(kept.reset_after_us()) <= 1, "{expected} {kept:?}");
    }

    #[test]
    fn counters_keep_their_counts(
        kind in 0..3_u8, period_us in period_us(), limits in vec(1..=12_u64, 1..6), cost in 1..=4_u64
    ) {
        let period_us = period_us.next_multiple_of(4);
        let build = |limit| -> Limit {
            match kind {
                0 => FixedWindow::new(limit, micros(period_us)).unwrap().into(),
                1 => sliding_window(limit, period_us, 4).into(),
                _ => SlidingLog::new(limit, micros(period_us)).unwrap().into(),
            }
        };
        let (mut state, mut spent) = (State::Empty, 0);
        for units in limits {
            let limit = build(units);
            prop_assert_eq!(
                limit.peek(&state, at(START_US), 0).remaining(), units.saturating_sub(spent)
            );
            let decision = limit.take(&mut state, at(START_US), cost);
            prop_assert_eq!(decision.allowed(), spent + cost <= units);
            spent += if decision.allowed() { cost } else { 0 };
        }
    }

    // Another period or another number of buckets: what still counted still counts.
    #[test]
    fn counters_keep_their_counts_over_another_period(
        kind in 0..3_u8, before_us in 1..1_000_u64, after_us in 1..1_000_u64, buckets in 1..=4_u64,
        spent in 1..=12_u64
    ) {
        let build = |period_us: u64, buckets: u64| -> Limit {
            match kind {
                0 => FixedWindow::new(12, micros(period_us)).unwrap().into(),
                1 => sliding_window(12, period_us, buckets).into(),
                _ => SlidingLog::new(12, micros(period_us)).unwrap().into(),
            }
        };
        let (before, after) = (build(before_us, 2), build(after_us, buckets));
        let mut state = State::Empty;
        prop_assert!(before.take(&mut state, at(START_US), spent).allowed());
        prop_assert_eq!(after.peek(&state, at(START_US), 0).remaining(), 12 - spent);
        let refused = after.take(&mut state, at(START_US), 13 - spent);
        let wait_us = refused.retry_after_us().unwrap();
        prop_assert!(!refused.allowed() && wait_us <= 3 * after_us.next_multiple_of(4) + before_us);
        prop_assert!(after.take(&mut state, at(START_US + wait_us), 13 - spent).allowed());
    }
}

#[test]
fn a_change_between_ticks_gives_nothing_back() {
    let fine: Limit = Gcra::new(3, micros(1_000_000), 3).unwrap().into();
    let coarse: Limit = Gcra::new(999_983, micros(DAY_US), 999_983).unwrap().into();
    let mut state = State::Empty;
    assert!(fine.take(&mut state, at(START_US), 1).allowed());
    let ahead_us = fine.peek(&state, at(START_US), 0).reset_after_us();
    let in_ms = coarse.peek(&state, at(START_US), 0).reset_after_us();
    assert!(in_ms >= ahead_us && in_ms < ahead_us + 1000, "{ahead_us} became {in_ms}");
    assert!(coarse.take(&mut state, at(START_US), 10).allowed());
    let ahead_us = coarse.peek(&state, at(START_US), 0).reset_after_us();
    assert_eq!(fine.peek(&state, at(START_US), 0).reset_after_us(), ahead_us.min(1_000_000));
}

/// Another algorithm altogether starts from nothing, and never panics on what it finds.
#[test]
fn another_algorithm_starts_afresh() {
    let texts =
        ["5/s", "fixed-window 5/s", "sliding-window 5/s", "sliding-log 5/s", "concurrency 5"];
    for first in texts {
        for second in texts.iter().filter(|second| **second != first) {
            let (first, second): (Limit, Limit) = (first.parse().unwrap(), second.parse().unwrap());
            let mut state = State::Empty;
            assert!(first.take(&mut state, at(START_US), 5).allowed());
            assert!(second.take(&mut state, at(START_US), 5).allowed(), "{first:?} {second:?}");
            assert!(!second.take(&mut state, at(START_US), 1).allowed(), "{first:?} {second:?}");
        }
    }
}
