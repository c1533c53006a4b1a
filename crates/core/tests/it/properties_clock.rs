//! The clock may step back: nothing is refilled twice, and nobody is locked out long.
//!
//! On such a clock the promise of each algorithm holds over the time that moved *forward*: an hour that
//! passes twice may refill twice, but no step back refills anything. GCRA's share is in
//! `properties_gcra`, where the same checker does both.

use proptest::prelude::*;
use tidegate_core::{
    Concurrency, Every, FixedWindow, Gcra, LeakyBucket, Limit, Quota, SlidingLog, State, Zone,
};

use crate::support::{
    DAY_US, SECOND_US, START_US, any_limit, at, config, jumpy, keeps_span, micros, period_us,
    progress, scene_of, sliding_window,
};

fn counter(build: fn(u64, u64) -> Limit) -> impl Strategy<Value = Limit> {
    (1..=12_u64, period_us()).prop_map(move |(limit, period_us)| build(limit, period_us))
}

fn length_us(limit: &Limit) -> u64 {
    u64::try_from(limit.period().as_micros()).unwrap()
}

/// The longest that a refused cost may have to wait, whatever the clock did: one burst, two windows,
/// two periods (and a slot), one lease.
fn longest_wait_us(limit: &Limit) -> u64 {
    let period_us = length_us(limit);
    match limit {
        Limit::Gcra(_) | Limit::TokenBucket(_) => {
            let burst_us = u128::from(limit.ceiling()) * u128::from(period_us);
            let whole_us = u64::try_from(burst_us.div_ceil(u128::from(limit.units()))).unwrap();
            whole_us.next_multiple_of(1000)
        }
        Limit::SlidingWindow(window) => 2 * period_us + period_us / window.buckets(),
        // Two months may have 62 days, and a month counts as 30.
        Limit::Quota(_) => 2 * period_us + 2 * DAY_US,
        Limit::Concurrency(_) => period_us,
        Limit::FixedWindow(_) | Limit::SlidingLog(_) => 2 * period_us,
    }
}

proptest! {
    #![proptest_config(config())]

    // A count starts afresh only at an edge crossed forward.
    #[test]
    fn fixed_window_refills_nothing_on_a_step_back(scene in scene_of(
        counter(|limit, period_us| FixedWindow::new(limit, micros(period_us)).unwrap().into()), jumpy
    )) {
        let crossings = progress(&scene.grants(), length_us(&scene.limit));
        prop_assert!(keeps_span(&crossings, scene.limit.units(), 1));
    }

    // The week is the fixed window of the calendar, three days off: judged by plain division.
    #[test]
    fn quota_refills_nothing_on_a_step_back(scene in scene_of(counter(|limit, _| {
        Quota::calendar(limit, Every::Week, Zone::UTC).unwrap().into()
    }), jumpy)) {
        let shifted: Vec<_> =
            scene.grants().iter().map(|&(now, cost)| (now + 3 * DAY_US, cost)).collect();
        prop_assert!(keeps_span(&progress(&shifted, 7 * DAY_US), scene.limit.units(), 1));
    }

    #[test]
    fn sliding_log_refills_nothing_on_a_step_back(scene in scene_of(
        counter(|limit, period_us| SlidingLog::new(limit, micros(period_us)).unwrap().into()), jumpy
    )) {
        let forward = progress(&scene.grants(), 1);
        prop_assert!(keeps_span(&forward, scene.limit.units(), length_us(&scene.limit)));
    }

    // Exact over as many slots as there are buckets, counted as slots entered going forward.
    #[test]
    fn sliding_window_refills_nothing_on_a_step_back(scene in scene_of(
        (1..=12_u64, period_us(), 1..=6_u64).prop_map(|(limit, period_us, buckets)| {
            sliding_window(limit, period_us, buckets).into()
        }), jumpy
    )) {
        let Limit::SlidingWindow(window) = &scene.limit else { unreachable!() };
        let slots = window.buckets();
        let entered = progress(&scene.grants(), length_us(&scene.limit) / slots);
        prop_assert!(keeps_span(&entered, scene.limit.units(), slots));
    }

    #[test]
    fn nobody_is_locked_out_long(scene in scene_of(any_limit(), jumpy)) {
        let mut state = State::Empty;
        for &(now_us, cost) in &scene.asks {
            let decision = scene.limit.take(&mut state, at(now_us), cost);
            if let Some(us) = decision.retry_after_us() {
                prop_assert!(us <= longest_wait_us(&scene.limit), "{us} to wait");
            }
        }
    }

    // The state of a clock that ran ahead by years is refused at first, and repaired by that refusal:
    // the wait it names is short, and it is true.
    #[test]
    fn a_refusal_writes_the_repair(limit in any_limit(), days in 365..3650_u64) {
        let mut state = State::Empty;
        let ahead_us = START_US + days * DAY_US;
        prop_assert!(limit.take(&mut state, at(ahead_us), limit.ceiling()).allowed());
        let before = state.clone();
        let decision = limit.take(&mut state, at(START_US), 1);
        prop_assert!(!decision.allowed());
        prop_assert_ne!(&before, &state, "the repair is not written");
        let wait_us = decision.retry_after_us().unwrap();
        prop_assert!(wait_us <= longest_wait_us(&limit));
        prop_assert!(limit.take(&mut state, at(START_US + wait_us), 1).allowed());
    }
}

/// A step back by less than could have been written changes nothing at all.
#[test]
fn a_small_step_back_keeps_the_state_in_force() {
    let second = micros(SECOND_US);
    let limits: [Limit; 5] = [
        Gcra::new(10, second, 10).unwrap().into(),
        FixedWindow::new(10, second).unwrap().into(),
        sliding_window(10, SECOND_US, 10).into(),
        SlidingLog::new(10, second).unwrap().into(),
        Concurrency::new(10, second).unwrap().into(),
    ];
    for limit in limits {
        let mut state = State::Empty;
        assert!(limit.take(&mut state, at(START_US), 4).allowed());
        for back_us in [1, 1000, 50_000] {
            let (decision, change) = limit.decide(&state, at(START_US - back_us), 0);
            let kept = if limit.algorithm() == "gcra" { 5..=6 } else { 6..=6 };
            assert!(kept.contains(&decision.remaining()), "{limit:?} after {back_us} back");
            let repairs = limit.algorithm() == "concurrency";
            assert!(repairs || !change.writes(), "{limit:?} after {back_us} back");
        }
    }
}

#[test]
fn the_shaper_repairs_a_queue_from_the_future() {
    let shaper = LeakyBucket::new(10, micros(SECOND_US), micros(2 * SECOND_US)).unwrap();
    let mut state = State::Empty;
    assert!(shaper.reserve(&mut state, at(START_US + DAY_US), 10).accepted());
    let refused = shaper.reserve(&mut state, at(START_US), 1);
    assert_eq!(refused.retry_after_us(), Some(SECOND_US), "at most one period");
    let taken = shaper.reserve(&mut state, at(START_US + SECOND_US), 1);
    assert_eq!((taken.accepted(), taken.delay_us()), (true, 2 * SECOND_US));
}
