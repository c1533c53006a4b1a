//! The adaptive controller: what a reading makes of a limit, tick by tick.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{
    Absence, AdaptiveError, Chain, Controller, Ends, Hysteresis, Mode, Output, Priority, Ramp,
    Reading, Settings, Signal, Smoothing, State, WarmUp,
};

use crate::support::{START_US, at};

const SECOND: Duration = Duration::from_secs(1);

/// What follows a reading at once.
fn plain(chain: Chain) -> Settings {
    let chain = chain.smoothing(Smoothing::NONE).hysteresis(Hysteresis::NONE);
    Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE)
}

/// Steps once a second and returns what came out each time.
fn steps(
    settings: &Settings,
    limit: u64,
    readings: impl IntoIterator<Item = Reading>,
) -> Vec<Output> {
    let mut controller = Controller::new(settings.clone(), limit).unwrap();
    let ticks = (0_u32..).map(|tick| at(START_US) + SECOND * tick);
    readings.into_iter().zip(ticks).map(|(read, now)| controller.step(&[read], now)).collect()
}

fn limits(settings: &Settings, readings: impl IntoIterator<Item = Reading>) -> Vec<u64> {
    steps(settings, 1000, readings).iter().map(|output| output.limit).collect()
}

fn values(value: f64, count: usize) -> impl Iterator<Item = Reading> {
    std::iter::repeat_n(Reading::Value(value), count)
}

#[test]
fn the_known_schemes_give_the_known_values() {
    let pressure = [(0.0, 100), (0.07, 93), (0.3, 70), (0.5, 50), (0.995, 1), (1.0, 1)];
    let cpu = [(0.1, 100), (0.8, 100), (0.9, 75), (0.95, 62), (1.0, 50)];
    let url = [(0.0, 240), (300.0, 240), (5000.0, 177), (9150.0, 122), (18_000.0, 4), (1e9, 4)];
    let wait = [(0.0, 1000), (20.0, 1000), (110.0, 525), (200.0, 50), (5000.0, 50)];
    let errors = [(0.0, 1000), (0.02, 1000), (0.26, 525), (0.5, 50), (1.0, 50)];
    let latency = Chain::new("url", Signal::Millis, Ramp::latency_per_url()).unwrap();
    for (chain, limit, rows) in [
        (Chain::pressure("db"), 100, &pressure[..]),
        (Chain::cpu(), 100, &cpu),
        (latency, 240, &url),
        (Chain::queue_wait(), 1000, &wait),
        (Chain::errors(), 1000, &errors),
    ] {
        for &(reading, expected) in rows {
            let settings = plain(chain.clone());
            let output = steps(&settings, limit, values(reading, 1))[0];
            assert_eq!(output.limit, expected, "{}: {reading}", chain.name());
            // What never changes is followed exactly, however it is smoothed.
            let smooth = Settings::from_chains([chain.clone()]).unwrap();
            assert_eq!(steps(&smooth, limit, values(reading, 50))[49].limit, expected);
        }
    }
}

#[test]
fn it_closes_within_seconds_and_opens_within_a_minute() {
    let settings = Settings::from_chains([Chain::pressure("db")]).unwrap();
    let readings = values(0.0, 5).chain(values(0.8, 10)).chain(values(0.0, 200));
    let limits = limits(&settings, readings);
    assert_eq!(limits[4], 1000);
    assert_eq!(limits[5], 610, "1 − 0.8 × (1 − e^(−1/1.5))");
    assert!(limits[14] <= 201, "{limits:?}");
    assert_eq!(limits[15], limits[16], "held for 3 s after a close");
    let reopened = limits.iter().rposition(|limit| *limit < 500).unwrap() - 14;
    assert!((5..=20).contains(&reopened), "half open after {reopened} s");
    assert_eq!(limits[214], 1000, "whole again, not one less for ever");
}

#[test]
fn a_small_movement_changes_nothing() {
    let settings = plain(Chain::pressure("db").smoothing(Smoothing::NONE));
    let held = Hysteresis::new(0.05, Duration::ZERO).unwrap();
    let chain = Chain::pressure("db").smoothing(Smoothing::NONE).hysteresis(held);
    let played = Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE);
    let readings = || [0.5, 0.48, 0.46, 0.5, 0.44, 0.01, 0.0].map(Reading::Value);
    assert_eq!(limits(&settings, readings()), [500, 520, 540, 500, 560, 990, 1000]);
    assert_eq!(limits(&played, readings()), [500, 500, 500, 500, 510, 980, 1000]);
}

#[test]
fn after_a_close_nothing_opens_for_three_seconds() {
    let chain = Chain::pressure("db").smoothing(Smoothing::NONE);
    let settings = Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE);
    let readings = values(0.0, 1).chain(values(0.7, 1)).chain(values(0.0, 4));
    assert_eq!(limits(&settings, readings), [1000, 300, 300, 300, 1000, 1000]);
}

#[test]
fn of_several_chains_the_smallest_binds_and_is_named() {
    let chains = [Chain::pressure("db"), Chain::cpu(), Chain::queue_wait()];
    let mut controller = Controller::new(Settings::from_chains(chains).unwrap(), 100).unwrap();
    for (readings, limit, binding) in [
        ([0.0, 0.1, 0.0], 100, None),
        ([0.3, 0.9, 20.0], 70, Some(0)),
        ([0.0, 0.9, 20.0], 75, Some(1)),
        ([0.3, 0.9, 200.0], 5, Some(2)),
    ] {
        controller
            .resume(Controller::new(controller.settings().clone(), 1).unwrap().state().clone());
        let output = controller.step(&readings.map(Reading::Value), at(START_US));
        assert_eq!((output.limit, output.binding), (limit, binding), "{readings:?}");
    }
}

/// Held for three ticks, then stale, and after ten seconds on the way to what is unknown.
#[test]
fn silence_is_held_then_stale_then_unknown() {
    let settings = Settings::from_chains([Chain::pressure("db")]).unwrap();
    let silent = |from| values(from, 20).chain(std::iter::repeat_n(Reading::Missing, 120));
    let outputs = steps(&settings, 1000, silent(0.0));
    let stale: Vec<_> = outputs[20..25].iter().map(|output| output.is_stale).collect();
    assert_eq!(stale, [false, false, false, true, true]);
    assert!(outputs[20..29].iter().all(|output| output.limit == 1000), "nothing yet");
    assert!(outputs[30].limit < 1000, "after ten seconds it drifts");
    assert_eq!(outputs[139].limit, 750);
    // What is worse than unknown stays: silence is no good news.
    let outputs = steps(&settings, 1000, silent(0.6));
    assert!(outputs[20..].iter().all(|output| output.limit == 400));
}

#[test]
fn three_failures_in_a_row_are_a_bad_sign_and_two_are_none() {
    let settings = Settings::from_chains([Chain::pressure("db")]).unwrap();
    let failures = || std::iter::repeat_n(Reading::Failed, 2);
    let after = |more: Vec<Reading>| {
        limits(&settings, values(0.0, 3).chain(failures()).chain(more)).last().copied().unwrap()
    };
    assert_eq!(after(vec![Reading::Value(0.0)]), 1000);
    assert_eq!(after(vec![Reading::Missing, Reading::Failed]), 1000, "not in a row");
    assert_eq!(after(vec![Reading::Failed]), 610);
    assert_eq!(after(vec![Reading::Failed; 20]), 200);
}

#[test]
fn what_was_nearly_closed_for_ten_seconds_comes_back_slowly() {
    let chain = Chain::pressure("db").smoothing(Smoothing::NONE).hysteresis(Hysteresis::NONE);
    let settings = Settings::from_chains([chain]).unwrap();
    let closed = |seconds: usize| values(0.9, seconds + 1).chain(values(0.0, 12));
    let long = limits(&settings, closed(10));
    assert_eq!(long[11..13], [333, 400]);
    assert_eq!(long[20..23], [933, 1000, 1000]);
    assert_eq!(limits(&settings, closed(8))[9], 1000, "not for long enough");
    let start = settings.clone().warm_up(WarmUp::default().on_start(true));
    assert_eq!(limits(&start, values(0.0, 3)), [333, 400, 466]);
    assert_eq!(limits(&settings, values(0.0, 1)), [1000], "a fresh start is whole");
}

#[test]
fn a_shadow_computes_and_does_not_enforce() {
    for (mode, expected) in
        [(Mode::Enforce, (400, 400)), (Mode::Shadow, (1000, 400)), (Mode::Off, (1000, 1000))]
    {
        let settings = plain(Chain::pressure("db")).mode(mode).guard(5000).unwrap();
        let output = steps(&settings, 1000, values(0.6, 2))[1];
        assert_eq!((output.limit, output.computed), expected, "{mode:?}");
        let half = steps(&settings, 500, values(0.6, 2))[1];
        assert_eq!(half.limit, expected.0 / 2, "{mode:?}");
        assert_eq!(output.guard, Some(expected.0 * 5), "{mode:?}");
    }
}

#[test]
fn all_keys_together_fall_below_the_sum_of_their_floors() {
    let settings = plain(Chain::pressure("db")).guard(4000).unwrap();
    let output = steps(&settings, 1, values(0.99, 1))[0];
    assert_eq!((output.limit, output.guard), (1, Some(40)));
}

#[test]
fn the_floor_holds_and_is_never_above_the_limit() {
    let settings = plain(Chain::pressure("db")).floor(50).unwrap();
    let closed = |limit| steps(&settings, limit, values(1.0, 1))[0].limit;
    assert_eq!([closed(1000), closed(50), closed(7)], [50, 50, 7]);
}

#[test]
fn priorities_give_way_one_after_the_other() {
    for (pressure, left) in [
        (0.0, [100, 100, 100, 100]),
        (0.1, [100, 100, 100, 66]),
        (0.3, [100, 100, 50, 1]),
        (0.5, [100, 66, 1, 1]),
        (0.8, [100, 16, 1, 1]),
        (0.9, [50, 1, 1, 1]),
        (1.0, [1, 1, 1, 1]),
    ] {
        let output = steps(&plain(Chain::pressure("db")), 100, values(pressure, 1))[0];
        assert_eq!(Priority::ALL.map(|class| output.for_priority(class, 100)), left, "{pressure}");
    }
}

#[test]
fn a_loop_that_will_swing_is_told_before_it_does() {
    let warned = |smoothing: Smoothing, gain, dead_ticks| {
        smoothing.oscillation(SECOND, gain, dead_ticks).map(|swing| swing.to_string())
    };
    assert_eq!(warned(Smoothing::default(), 1.5, 5), None);
    assert!(warned(Smoothing::default(), 1.5, 8).is_some(), "0.0488 × 2.5 × 9 = 1.098");
    assert_eq!(warned(Smoothing::fixed(0.4).unwrap(), 1.5, 0), None, "exactly 1");
    let text = warned(Smoothing::NONE, 1.5, 0).unwrap();
    assert!(text.contains("1 × (1 + 1.5) × (0 + 1) = 2.5 is above 1"), "{text}");
}

#[test]
fn what_makes_no_sense_cannot_be_built_and_says_why() {
    let ends = |x_lo, x_hi, y_lo, y_hi| Ramp::new(Ends { x_lo, x_hi, y_lo, y_hi }).err();
    let absence = |absence| Chain::cpu().absence(absence).err();
    let usual = Absence::default();
    let many = (0..17).map(|number| Chain::pressure(&number.to_string()));
    for (error, part) in [
        (ends(f64::NAN, 1.0, 1.0, 0.0), "two finite numbers"),
        (ends(0.0, f64::INFINITY, 1.0, 0.0), "two finite numbers"),
        (ends(-f64::MAX, f64::MAX, 1.0, 0.0), "two finite numbers"),
        (ends(1.0, 1.0, 1.0, 0.0), "ramp from 1 to 1: the second has to be above"),
        (ends(0.0, 1.0, 1.1, 0.0), "share 1.1 of the limit"),
        (ends(0.0, 1.0, 1.0, f64::NAN), "share NaN of the limit"),
        (ends(0.0, 1.0, 0.2, 0.5), "it would give more as the load gets worse"),
        (ends(0.0, 1.0, 300.0 / 240.0, 1.0 / 240.0), "share 1.25 of the limit"),
        (ends(0.0, 1.0, f64::NAN, 0.0), "share NaN of the limit"),
        (Smoothing::asymmetric(Duration::ZERO, SECOND).err(), "time constant is 0"),
        (Smoothing::asymmetric(SECOND * 2, SECOND).err(), "opening within 1s is faster"),
        (Smoothing::fixed(1.5).err(), "alpha 1.5: expected"),
        (Smoothing::fixed(f64::NAN).err(), "alpha NaN: expected"),
        (Hysteresis::new(-0.1, SECOND).err(), "play -0.1: expected"),
        (Hysteresis::new(0.1, Duration::MAX).err(), "expected at most 1h"),
        (absence(Absence { unknown: 2.0, ..usual }), "pressure 2 of a missing signal"),
        (absence(Absence { failed: f64::NAN, ..usual }), "pressure NaN of a missing signal"),
        (absence(Absence { failures: 0, ..usual }), "failures is 0"),
        (Settings::from_chains([]).err(), "no chain"),
        (Settings::from_chains(many).err(), "17 chains"),
        (Settings::from_chains([Chain::cpu(), Chain::cpu()]).err(), "two chains are called `cpu`"),
        (Chain::new("", Signal::Share, Ramp::cpu()).err(), "chain name ``"),
        (Settings::default().floor(0).err(), "floor is 0"),
        (Settings::default().guard(0).err(), "guard is 0"),
        (Settings::default().guard(u64::MAX).err(), "above 2^53"),
        (Controller::new(Settings::default(), 0).err(), "limit is 0"),
        (Controller::new(Settings::default(), u64::MAX).err(), "above 2^53"),
        (State::from_bytes(&[0; 8], &Settings::default()).err(), "no state of these chains"),
    ] {
        let text = error.map(|error: AdaptiveError| error.to_string()).unwrap_or_default();
        assert!(text.contains(part), "{part} in `{text}`");
    }
}

#[test]
fn a_step_back_of_the_clock_changes_nothing_by_itself() {
    let settings = Settings::from_chains([Chain::pressure("db")]).unwrap();
    let mut controller = Controller::new(settings, 1000).unwrap();
    controller.step(&[Reading::Value(0.5)], at(START_US));
    let before = controller.step(&[Reading::Value(0.0)], at(START_US - 3_600_000_000)).limit;
    assert_eq!(before, 500);
    let later = Timestamp::from_micros(START_US - 3_600_000_000);
    let limits =
        (1..=200).map(|tick| controller.step(&[Reading::Value(0.0)], later + SECOND * tick));
    assert_eq!(limits.last().unwrap().limit, 1000);
}
