//! The shaper: departures at the rate, waits within bounds, places given back only from the end.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{LeakyBucket, State};

use crate::support::{SECOND_US, START_US, at, config, micros, progress, rate, start_us};

#[derive(Clone, Copy, Debug)]
struct Shape {
    shaper: LeakyBucket,
    limit: u64,
    period_us: u64,
}

fn shape() -> impl Strategy<Value = Shape> {
    (rate(), 0..3_000_000_u64, any::<bool>()).prop_map(|((limit, period_us), wait, capacity)| {
        let period = micros(period_us);
        let shaper = if capacity {
            LeakyBucket::with_capacity(limit, period, wait % 20)
        } else {
            LeakyBucket::new(limit, period, micros(wait % (2 * period_us)))
        };
        Shape { shaper: shaper.unwrap(), limit, period_us }
    })
}

/// Raw gaps and costs; gaps are in shares of a unit's interval, costs a few units.
fn raw() -> impl Strategy<Value = Vec<(u8, u8)>> {
    vec(any::<(u8, u8)>(), 1..18)
}

fn asks(shape: &Shape, start: u64, raw: &[(u8, u8)], jumps: bool) -> Vec<(u64, u64)> {
    let mut now = start;
    let mut step = |&(time, cost): &(u8, u8)| {
        let interval_us = (shape.period_us / shape.limit).max(1);
        let gap = (interval_us * u64::from(time / 4) / 16).cast_signed();
        now = now.saturating_add_signed(match time % 4 {
            0 => 0,
            1 if jumps => -gap * 10,
            2 if jumps => gap * 100,
            _ => gap,
        });
        let cost = match cost % 8 {
            0 => 0,
            1 => shape.limit + u64::from(cost),
            _ => 1 + u64::from(cost / 32) % shape.limit,
        };
        (now, cost)
    };
    raw.iter().map(&mut step).collect()
}

proptest! {
    #![proptest_config(config())]

    // Between two departures lies the time of all that left before the second. A departure is told in
    // whole microseconds, rounded up, so one may be up to 1 µs later than due.
    #[test]
    fn departures_are_spaced_at_the_rate(shape in shape(), start in start_us(), raw in raw()) {
        let mut state = State::Empty;
        let mut departures: Vec<(u64, u64)> = vec![];
        for (now_us, cost) in asks(&shape, start, &raw, false) {
            let answer = shape.shaper.reserve(&mut state, at(now_us), cost);
            if answer.accepted() && cost > 0 {
                departures.push((now_us + answer.delay_us(), cost));
            }
        }
        for (index, &(first_us, _)) in departures.iter().enumerate() {
            let mut before = 0;
            for &(departs_us, cost) in &departures[index..] {
                prop_assert!(departs_us >= first_us);
                let due = u128::from(before) * u128::from(shape.period_us);
                prop_assert!(due < u128::from(shape.limit) * u128::from(departs_us - first_us + 1));
                before += cost;
            }
        }
    }

    // From one instant, the k-th unit leaves exactly ⌈k × period / limit⌉ later: nothing drifts.
    #[test]
    fn a_queue_is_exact(shape in shape(), start in start_us(), count in 1..60_u64) {
        let mut state = State::Empty;
        for k in 0..count {
            let due_us = (u128::from(k) * u128::from(shape.period_us))
                .div_ceil(u128::from(shape.limit));
            let answer = shape.shaper.reserve(&mut state, at(start), 1);
            if due_us > shape.shaper.max_wait().as_micros() {
                prop_assert!(!answer.accepted());
                break;
            }
            if answer.accepted() {
                prop_assert_eq!(u128::from(answer.delay_us()), due_us);
            }
        }
    }

    // On any clock: no wait above the longest, an honest and minimal retry, and refusals that write
    // nothing but a repair.
    #[test]
    fn waits_are_bounded_and_retries_honest(
        shape in shape(), start in start_us(), raw in raw(), jumps in any::<bool>()
    ) {
        let mut state = State::Empty;
        for (now_us, cost) in asks(&shape, start, &raw, jumps) {
            let before = state.clone();
            let answer = shape.shaper.reserve(&mut state, at(now_us), cost);
            let accepted_in = |us| {
                shape.shaper.decide(state.arrival(), at(now_us + us), cost).0.accepted()
            };
            match answer.retry_after_us() {
                Some(0) => prop_assert!(answer.accepted()),
                Some(us) => {
                    prop_assert!(!answer.accepted() && accepted_in(us), "not honest: {us}");
                    prop_assert!(us == 1 || !accepted_in(us - 1), "not minimal: {us}");
                    prop_assert!(us <= shape.period_us, "locked out for {us}");
                }
                None => prop_assert!(cost > shape.limit),
            }
            prop_assert!(cost == 0 || answer.delay() <= shape.shaper.max_wait());
            prop_assert!(cost > 0 || answer.accepted());
            if !jumps && (!answer.accepted() || cost == 0) {
                prop_assert_eq!(before, state.clone());
            }
        }
    }

    // Only time that moves forward drains the queue: accepted time ≤ longest wait + the one cost that
    // was accepted at its end + the way forward.
    #[test]
    fn a_step_back_drains_nothing(shape in shape(), start in start_us(), raw in raw()) {
        let mut state = State::Empty;
        let accept = |(now_us, cost): (u64, u64)| {
            let accepted = shape.shaper.reserve(&mut state, at(now_us), cost).accepted();
            (now_us, if accepted { cost } else { 0 })
        };
        let grants: Vec<_> = asks(&shape, start, &raw, true).into_iter().map(accept).collect();
        let (limit, period) = (u128::from(shape.limit), u128::from(shape.period_us));
        let mut spent = 0;
        for (moved_us, cost) in progress(&grants, 1) {
            spent += u128::from(cost);
            let longest = shape.shaper.max_wait().as_micros() * limit + u128::from(cost) * period;
            if cost > 0 {
                prop_assert!(spent * period <= longest + u128::from(moved_us) * limit);
            }
        }
    }

    #[test]
    fn cancel_gives_the_place_back_only_from_the_end(
        shape in shape(), start in start_us(), raw in raw(), behind in any::<bool>()
    ) {
        let mut state = State::Empty;
        for (now_us, cost) in asks(&shape, start, &raw, false) {
            let waits = |state: &State| shape.shaper.decide(state.arrival(), at(now_us), 0).0;
            let before = waits(&state);
            if !shape.shaper.reserve(&mut state, at(now_us), cost).accepted() || cost == 0 {
                continue;
            }
            let own = state.arrival().unwrap();
            if behind && shape.shaper.reserve(&mut state, at(now_us), 1).accepted() {
                let kept = state.clone();
                prop_assert!(!shape.shaper.cancel(&mut state, own, at(now_us), cost));
                prop_assert_eq!(kept, state.clone());
            } else {
                let mut cancelled = state.clone();
                prop_assert!(shape.shaper.cancel(&mut cancelled, own, at(now_us), cost));
                prop_assert_eq!(waits(&cancelled), before);
                let again = shape.shaper.cancel(&mut cancelled, own, at(now_us), cost);
                prop_assert!(!again, "a place given back twice");
            }
        }
    }
}

#[test]
fn capacity_is_the_number_that_waits() {
    for (limit, period_us, capacity) in [(3, SECOND_US, 7), (7, 60 * SECOND_US, 1), (5, 11, 0)] {
        let shaper = LeakyBucket::with_capacity(limit, micros(period_us), capacity).unwrap();
        let mut state = State::Empty;
        let accepted = || shaper.reserve(&mut state, at(START_US), 1).accepted();
        let count = std::iter::repeat_with(accepted).take(50).filter(|is| *is).count() as u64;
        assert_eq!(count, capacity + 1, "one leaves at once, {capacity} wait");
    }
}

/// A late cancel gives back only what of the place still lies ahead.
#[test]
fn a_late_cancel_gives_back_what_is_left() {
    let shaper = LeakyBucket::new(10, micros(SECOND_US), micros(SECOND_US)).unwrap();
    let mut state = State::Empty;
    assert!(shaper.reserve(&mut state, at(START_US), 4).accepted());
    let own = state.arrival().unwrap();
    let later = at(START_US + 300_000);
    assert!(shaper.cancel(&mut state, own, later, 4));
    assert_eq!(shaper.reserve(&mut state, later, 1).delay_us(), 0);
    assert_eq!(shaper.reserve(&mut state, later, 1).delay_us(), 100_000);
}
