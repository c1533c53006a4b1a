//! GCRA and the token bucket: never above `burst + rate × Δ`, and never a token less.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Gcra, Limit, State};

use crate::support::{
    DAY_US, SECOND_US, START_US, Scene, at, config, forward, jumpy, keeps_pace, micros, milli_tick,
    progress, rate, scene_of, start_us,
};

fn paced() -> impl Strategy<Value = Limit> {
    (rate(), 1..=40_u64, any::<bool>()).prop_map(|((limit, period_us), burst, bucket)| {
        if bucket {
            Limit::TokenBucket(Gcra::token_bucket(burst, limit, micros(period_us)).unwrap())
        } else {
            Gcra::new(limit, micros(period_us), burst).unwrap().into()
        }
    })
}

fn coarse() -> impl Strategy<Value = Limit> {
    (1..=12_u64, 1..=12_u64).prop_map(|(limit, burst)| milli_tick(limit, burst))
}

/// The tick is read off what is written: 1 µs, or 1 ms where the arithmetic needs it.
fn tick_us(limit: &Limit) -> u64 {
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(START_US), 1).allowed());
    state.arrival().unwrap().tick_us
}

/// Judged in the limit's own ticks: within one tick no time passes for it.
fn never_above(scene: &Scene) -> bool {
    let limit = &scene.limit;
    let tick_us = tick_us(limit);
    let period_ticks = u64::try_from(limit.period().as_micros()).unwrap() / tick_us;
    let grants = progress(&scene.grants(), tick_us);
    keeps_pace(&grants, limit.units(), period_ticks, limit.ceiling())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn gcra_never_admits_more_than_burst_plus_rate(scene in scene_of(paced(), forward)) {
        prop_assert_eq!(tick_us(&scene.limit), 1);
        prop_assert!(never_above(&scene));
    }

    #[test]
    fn gcra_in_milliseconds_never_admits_more_than_burst_plus_rate(
        scene in scene_of(coarse(), forward)
    ) {
        prop_assert_eq!(tick_us(&scene.limit), 1000);
        prop_assert!(never_above(&scene));
    }

    // One number instead of ticks and a fraction, from whatever instant it is counted.
    #[test]
    fn a_scaled_arrival_is_decided_like_any_other(
        scene in scene_of(paced(), jumpy), back_us in 0..START_US / 2
    ) {
        let (Limit::Gcra(gcra) | Limit::TokenBucket(gcra)) = &scene.limit else { unreachable!() };
        let scale = gcra.scale().unwrap();
        let (mut arrival, mut scaled) = (None, 0);
        for &(now_us, cost) in &scene.asks {
            let Some(now) = now_us.checked_sub(back_us).and_then(|us| us.checked_mul(scale)) else {
                continue;
            };
            let (decision, next) = gcra.decide(arrival, at(now_us), cost);
            let (same, scaled_next) = gcra.decide_scaled(scaled, now, cost);
            prop_assert_eq!(decision, same);
            prop_assert_eq!(scaled_next.spent, decision.remaining() == 0);
            arrival = next.or(arrival);
            scaled = scaled_next.units;
        }
    }

    // What is refilled is forward movement alone: time that passes twice may refill twice, but a step
    // back refills nothing.
    #[test]
    fn gcra_refills_nothing_on_a_step_back(
        scene in prop_oneof![4 => scene_of(paced(), jumpy), 1 => scene_of(coarse(), jumpy)]
    ) {
        prop_assert!(never_above(&scene));
    }

    #[test]
    fn no_instant_admits_more_than_burst(
        limit in paced(), start in start_us(), costs in vec(0..=60_u64, 1..12)
    ) {
        let mut state = State::Empty;
        let ask = |cost| if limit.take(&mut state, at(start), cost).allowed() { cost } else { 0 };
        prop_assert!(costs.into_iter().map(ask).sum::<u64>() <= limit.ceiling());
    }

    // An exact oracle: after the burst is spent, a wait of Δ gives ⌊Δ × limit / period⌋ units, up to
    // the burst, for any Δ.
    #[test]
    fn a_wait_gives_exactly_its_share(
        limit in paced(), start in start_us(), waits in vec(0..5_000_000_u64, 1..6)
    ) {
        let period_us = limit.period().as_micros();
        for wait in waits {
            let mut state = State::Empty;
            prop_assert!(limit.take(&mut state, at(start), limit.ceiling()).allowed());
            let share = u128::from(wait) * u128::from(limit.units()) / period_us;
            let left = limit.peek(&state, at(start + wait), 0).remaining();
            prop_assert_eq!(u128::from(left), share.min(u128::from(limit.ceiling())));
        }
    }

    // Unit k is due at the first microsecond at or after k × period / limit. A rounded interval would
    // come late or early somewhere; this one admits every unit, and nothing on top.
    #[test]
    fn no_token_is_lost_at_the_exact_pace(limit in paced(), start in start_us()) {
        // With more than one unit per microsecond several are due at once; with a burst of 1, an ask
        // that is a fraction late has nowhere to save the fraction.
        if u128::from(limit.units()) > limit.period().as_micros() || limit.ceiling() == 1 {
            return Ok(());
        }
        let due_us = |k: u64| {
            let wait = (u128::from(k) * limit.period().as_micros())
                .div_ceil(u128::from(limit.units()));
            at(start + u64::try_from(wait).unwrap())
        };
        let mut state = State::Empty;
        prop_assert!(limit.take(&mut state, at(start), limit.ceiling()).allowed());
        for k in 1..=30 {
            prop_assert!(limit.take(&mut state, due_us(k), 1).allowed());
            prop_assert_eq!(limit.peek(&state, due_us(k), 0).remaining(), 0);
        }
    }
}

/// A whole day at the odd rates that a rounded interval gets wrong.
#[test]
fn no_token_is_lost_over_many_periods() {
    for (units, period_us, periods) in
        [(3, SECOND_US, 20_000), (7, 60 * SECOND_US, 10_000), (999_983, 3600 * SECOND_US, 1)]
    {
        let limit: Limit = Gcra::new(units, micros(period_us), 2).unwrap().into();
        let mut state = State::Empty;
        assert!(limit.take(&mut state, at(START_US), 2).allowed());
        let count = (units * periods).min(100_000);
        for k in 1..=count {
            let due_us = START_US + (k * period_us).div_ceil(units);
            assert!(limit.take(&mut state, at(due_us), 1).allowed(), "{units}: unit {k} is lost");
            assert!(!limit.peek(&state, at(due_us), 1).allowed(), "{units}: one more than {k}");
        }
    }
}

#[test]
fn no_token_is_lost_in_milliseconds() {
    let limit = milli_tick(1, 1);
    let start_us = START_US - START_US % 1000;
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(start_us), limit.ceiling()).allowed());
    for k in 1..20_000 {
        let due_us = start_us + (k * DAY_US / 1000).div_ceil(limit.units()) * 1000;
        assert!(!limit.peek(&state, at(due_us - 1), 1).allowed(), "unit {k} comes early");
        assert!(limit.take(&mut state, at(due_us), 1).allowed(), "unit {k} is lost");
    }
}

/// The first product past 2^53 microseconds changes the tick; what milliseconds cannot hold either, or
/// cannot divide, is an error.
#[test]
fn the_tick_changes_exactly_where_microseconds_stop_being_exact() {
    let most = (1_u64 << 53) / DAY_US;
    for (burst, tick) in [(most, 1), (most + 1, 1000)] {
        let limit: Limit = Gcra::new(999_983, micros(DAY_US), burst).unwrap().into();
        assert_eq!(tick_us(&limit), tick, "burst {burst}");
    }
    assert!(Gcra::new(999_983, micros(DAY_US + 1), most + 1).is_err());
    assert!(Gcra::new(999_983, micros(DAY_US), most * 1000 + 1000).is_err());
}
