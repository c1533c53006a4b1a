//! Negative controls: limiters that are wrong on purpose. A checker that lets one of them pass checks
//! nothing.

use tidegate_core::{FixedWindow, Gcra, Limit, SlidingWindow, State};

use crate::support::{
    Grant, SECOND_US, START_US, at, grants, keeps_pace, keeps_span, keeps_window, micros, progress,
};

const MINUTE_US: u64 = 60 * SECOND_US;

/// One unit every `gap_us`, `count` times.
fn steady(start_us: u64, gap_us: u64, count: u64) -> Vec<Grant> {
    (0..count).map(|n| (start_us + n * gap_us, 1)).collect()
}

fn gcra(limit: u64, period_us: u64, burst: u64) -> Limit {
    Gcra::new(limit, micros(period_us), burst).unwrap().into()
}

#[test]
fn one_unit_above_the_burst_is_noticed() {
    let asks = steady(START_US, 0, 20);
    assert!(keeps_pace(&grants(&gcra(10, SECOND_US, 5), &asks), 10, SECOND_US, 5));
    assert!(!keeps_pace(&grants(&gcra(10, SECOND_US, 6), &asks), 10, SECOND_US, 5));
}

/// 3/s at 333,333 µs instead of 1,000,000/3: a third of a microsecond per unit, and the drift shows.
#[test]
fn a_rounded_interval_is_noticed() {
    let asks = steady(START_US, 333_333, 10);
    assert!(keeps_pace(&grants(&gcra(3, SECOND_US, 1), &asks), 3, SECOND_US, 1));
    assert!(!keeps_pace(&grants(&gcra(1, 333_333, 1), &asks), 3, SECOND_US, 1));
    // Rounded the other way, 333,334 µs, it loses a token that was due.
    let mut state = State::Empty;
    let late = gcra(1, 333_334, 1);
    let due = (0..10_u64).map(|k| at(START_US + (k * SECOND_US).div_ceil(3)));
    let admitted = due.filter(|now| late.take(&mut state, *now, 1).allowed()).count();
    assert!(admitted < 10);
}

#[test]
fn a_fixed_window_is_no_sliding_log() {
    let boundary_us = 28_333_334 * MINUTE_US;
    let asks = steady(boundary_us - 10, 1, 20);
    let spent = grants(&FixedWindow::new(5, micros(MINUTE_US)).unwrap().into(), &asks);
    assert!(keeps_window(&spent, 5, |now| now / MINUTE_US));
    assert!(!keeps_span(&spent, 5, MINUTE_US));
}

#[test]
fn a_sliding_window_is_an_estimate() {
    let boundary_us = 28_333_334 * MINUTE_US;
    let window: Limit = SlidingWindow::new(10, micros(MINUTE_US), 1).unwrap().into();
    let mut asks = vec![(boundary_us - 1, 10)];
    asks.extend(steady(boundary_us, SECOND_US, 60));
    let spent = grants(&window, &asks);
    assert!(!keeps_span(&spent, 10, MINUTE_US), "exact over a whole period: not with one bucket");
    assert!(keeps_span(&spent, 20, MINUTE_US));
}

/// A window whose count is forgotten on any change of window, also a step back.
#[test]
fn a_refill_on_a_step_back_is_noticed() {
    let asks: Vec<_> = (0..6_u64).map(|n| (START_US + (n % 2) * MINUTE_US, 5)).collect();
    let crossings = |spent: &[Grant]| keeps_span(&progress(spent, MINUTE_US), 5, 1);
    let (mut window, mut count) = (0, 0);
    let forgetful = |&(now_us, cost): &Grant| {
        if now_us / MINUTE_US != window {
            (window, count) = (now_us / MINUTE_US, 0);
        }
        let admitted = if count + cost <= 5 { cost } else { 0 };
        count += admitted;
        (now_us, admitted)
    };
    let wrong: Vec<Grant> = asks.iter().map(forgetful).collect();
    assert!(!crossings(&wrong));
    assert!(crossings(&grants(&FixedWindow::new(5, micros(MINUTE_US)).unwrap().into(), &asks)));
}

/// The other half of being right: a limiter that refuses everything keeps every bound, so the bounds
/// are not enough, and the exact answers (see `properties_answers`) are asked for too.
#[test]
fn bounds_alone_would_accept_a_limiter_that_refuses_everything() {
    let refused: Vec<Grant> = (0..20).map(|n| (START_US + n, 0)).collect();
    assert!(keeps_pace(&refused, 1, 1, 1) && keeps_span(&refused, 0, MINUTE_US));
    let limit = gcra(1, SECOND_US, 1);
    assert_eq!(limit.peek(&State::Empty, at(START_US), 0).remaining(), 1);
}
