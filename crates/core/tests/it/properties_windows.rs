//! What the counting algorithms promise: per window, per span, per calendar period.

use proptest::prelude::*;
use tidegate_core::{
    Every, FixedWindow, Limit, Quota, SlidingLog, SlidingWindow, State, Transition, Zone,
};

use crate::support::{
    SECOND_US, at, config, forward, grants, keeps_span, keeps_window, micros, period_us, scene_of,
    sliding_window,
};

fn fixed() -> impl Strategy<Value = Limit> {
    (1..=12_u64, period_us(), any::<bool>()).prop_map(|(limit, period_us, quota)| {
        if quota {
            Quota::fixed(limit, micros(period_us)).unwrap().into()
        } else {
            FixedWindow::new(limit, micros(period_us)).unwrap().into()
        }
    })
}

fn log() -> impl Strategy<Value = Limit> {
    (1..=12_u64, period_us())
        .prop_map(|(limit, period_us)| SlidingLog::new(limit, micros(period_us)).unwrap().into())
}

/// A sliding window, or the same as a rolling quota.
fn sliding() -> impl Strategy<Value = Limit> {
    (1..=12_u64, period_us(), 1..=8_u64, any::<bool>()).prop_map(
        |(limit, period_us, buckets, quota)| {
            let window = sliding_window(limit, period_us, buckets);
            if quota {
                Quota::rolling(limit, window.period(), buckets).unwrap().into()
            } else {
                window.into()
            }
        },
    )
}

fn every() -> impl Strategy<Value = Every> {
    prop_oneof![Just(Every::Day), Just(Every::Week), Just(Every::Month)]
}

fn length_us(limit: &Limit) -> u64 {
    u64::try_from(limit.period().as_micros()).unwrap()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fixed_window_never_admits_more_than_limit_per_window(scene in scene_of(fixed(), forward)) {
        let period_us = length_us(&scene.limit);
        prop_assert!(keeps_window(&scene.grants(), scene.limit.units(), |now| now / period_us));
    }

    #[test]
    fn sliding_log_never_admits_more_than_limit_in_any_period(scene in scene_of(log(), forward)) {
        prop_assert!(keeps_span(&scene.grants(), scene.limit.units(), length_us(&scene.limit)));
    }

    // Exact over (buckets − 1) slots, both ends included; a bound of 2 × limit over a whole period.
    #[test]
    fn sliding_window_never_admits_more_than_limit_in_all_but_one_slot(
        scene in scene_of(sliding(), forward)
    ) {
        let period_us = length_us(&scene.limit);
        let grants = scene.grants();
        if let Limit::SlidingWindow(window) = &scene.limit {
            let exact_us = period_us - period_us / window.buckets();
            prop_assert!(keeps_span(&grants, scene.limit.units(), exact_us + 1));
        }
        prop_assert!(keeps_span(&grants, 2 * scene.limit.units(), period_us));
    }

    // Written down from the formula: the sum of the last S slots, plus the leaving one by its share.
    #[test]
    fn sliding_window_estimate_is_the_formula(scene in scene_of(sliding(), forward)) {
        let Limit::SlidingWindow(window) = &scene.limit else { return Ok(()) };
        let slots = window.buckets();
        let width_us = length_us(&scene.limit) / slots;
        let mut spent = vec![];
        let mut state = State::Empty;
        for &(now_us, cost) in &scene.asks {
            let slot = now_us / width_us;
            let sum = |wanted: &dyn Fn(u64) -> bool| -> u64 {
                spent.iter().filter(|(of, _)| wanted(slot - of)).map(|(_, cost)| cost).sum()
            };
            let left_us = width_us - now_us % width_us;
            let used = sum(&|age| age < slots) * width_us + sum(&|age| age == slots) * left_us;
            prop_assert_eq!(window.estimate_times_width(&state, at(now_us)), (used, width_us));
            let fits = cost == 0 || used + cost * width_us <= window.limit() * width_us;
            prop_assert_eq!(scene.limit.take(&mut state, at(now_us), cost).allowed(), fits);
            spent.push((slot, if fits { cost } else { 0 }));
        }
    }

    #[test]
    fn quota_never_admits_more_than_limit_per_calendar_period(
        every in every(), offset in -840..=840_i64, changing in any::<bool>(),
        scene in scene_of(log(), forward)
    ) {
        // Summer time at a random offset: half of the cases have a day of 23 and one of 25 hours.
        let zone = if changing {
            let summer = |at_us: u64, hours: i64| Transition {
                at_us: at_us.cast_signed(),
                offset_seconds: i32::try_from(offset * 60 + hours * 3600).unwrap(),
            };
            let (on, off) = (1_700_100_000 * SECOND_US, 1_703_300_000 * SECOND_US);
            Zone::changing(summer(0, 0).offset_seconds, &[summer(on, 1), summer(off, 0)]).unwrap()
        } else {
            Zone::fixed(offset).unwrap()
        };
        let units = scene.limit.units();
        let quota: Limit = Quota::calendar(units, every, zone.clone()).unwrap().into();
        // The gaps of the scene, stretched so that some days lie between its ends.
        let first = scene.asks[0].0;
        let stretch = 86_400 * SECOND_US / length_us(&scene.limit).max(1) + 1;
        let asks: Vec<_> =
            scene.asks.iter().map(|&(now, cost)| (first + (now - first) * stretch, cost)).collect();
        let start_of = |now: u64| every.edge_before(&zone, now.cast_signed()).cast_unsigned();
        // Named by its start; moved up, because the first one may start before 1970.
        let named = |now: u64| start_of(now).wrapping_add(1 << 60);
        prop_assert!(keeps_window(&grants(&quota, &asks), units, named));
    }
}

/// Known and documented: the last of one window and the first of the next.
#[test]
fn fixed_window_admits_exactly_twice_the_limit_across_a_boundary() {
    let limit: Limit = FixedWindow::new(100, micros(60 * SECOND_US)).unwrap().into();
    let boundary_us = 28_333_334 * 60 * SECOND_US;
    let asks: Vec<_> = (0..400).map(|n| (boundary_us - 200 + n, 1)).collect();
    let admitted: u64 = grants(&limit, &asks).iter().map(|(_, cost)| cost).sum();
    assert_eq!(admitted, 200);
}

#[test]
fn two_counters_estimate_forty_nine_and_a_half() {
    let window = SlidingWindow::new(100, micros(60 * SECOND_US), 1).unwrap();
    let limit: Limit = window.into();
    let minute_us = 28_333_334 * 60 * SECOND_US;
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(minute_us - 1), 42).allowed());
    let now = at(minute_us + 15 * SECOND_US);
    assert!(limit.take(&mut state, now, 18).allowed());
    let (used, width_us) = window.estimate_times_width(&state, now);
    assert_eq!((2 * used, width_us), (99 * width_us, 60 * SECOND_US), "49.5, not rounded");
    assert_eq!(limit.peek(&state, now, 0).remaining(), 50);
}

#[test]
fn a_logged_unit_expires_at_the_very_instant() {
    let limit: Limit = SlidingLog::new(1, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(5), 1).allowed());
    assert!(!limit.take(&mut state, at(4 + SECOND_US), 1).allowed());
    assert!(limit.take(&mut state, at(5 + SECOND_US), 1).allowed());
}
