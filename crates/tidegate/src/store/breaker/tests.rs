//! The machine by rows and by property. Nothing here waits.

use std::time::Duration;

use proptest::prelude::*;

use super::machine::{Call, Machine};
use super::{BreakerOptions, BreakerState};

const SECOND_US: u64 = 1_000_000;

fn machine() -> Machine {
    Machine::new(BreakerOptions::default())
}

/// Whether one call opens the breaker.
fn call(machine: &mut Machine, now_us: u64, failed: bool, slow: bool) -> bool {
    let call = Call { opened: machine.opened, failed, slow };
    machine.record(now_us, call)
}

fn opened_at(now_us: u64) -> Machine {
    let mut machine = machine();
    assert_eq!((0..5).filter(|_| call(&mut machine, now_us, true, false)).count(), 1);
    machine
}

#[test]
fn opens_at_the_fifth_failure_in_a_row() {
    let rows = [
        ("....", None),
        ("xxxx", None),
        ("xxxxx", Some(4)),
        ("xxxx.xxxx", None),
        ("xxxx.xxxxx", Some(9)),
        (".x.x.x.x.x.x.x.x", None),
        ("..xxxxxxx", Some(6)), // what comes after it has opened counts no more
    ];
    for (calls, expected) in rows {
        let mut machine = machine();
        let opening = |mark| call(&mut machine, 0, mark == 'x', false);
        let opened: Vec<bool> = calls.chars().map(opening).collect();
        assert_eq!(opened.iter().position(|opened| *opened), expected, "{calls}");
        assert!(opened.iter().filter(|opened| **opened).count() <= 1, "{calls}");
    }
}

#[test]
fn opens_when_the_99th_percentile_of_a_whole_second_is_slow() {
    // Calls over a bit more than a second, how many of them slow, and whether that is too many.
    let rows = [
        (49, 49, false),
        (50, 0, false),
        (50, 1, true),
        (99, 1, true),
        (100, 1, false),
        (100, 2, true),
        (1000, 10, false),
        (1000, 11, true),
    ];
    for (calls, slow, expected) in rows {
        let mut machine = machine();
        let at_us = |number: u64| number * (SECOND_US + 1) / (calls - 1);
        let opened = (0..calls).filter(|n| call(&mut machine, at_us(*n), false, *n < slow)).count();
        assert_eq!(opened > 0, expected, "{slow} of {calls}");
    }
}

#[test]
fn the_first_moments_are_no_second() {
    let mut machine = machine();
    assert!((0..500).all(|n| !call(&mut machine, n * 1000, false, true)));
    assert!((500..=1000).any(|n| call(&mut machine, n * 1000, false, true)));
}

#[test]
fn what_was_slow_a_while_ago_counts_no_more() {
    let mut machine = machine();
    assert!((0..40).all(|n| !call(&mut machine, n, false, true)));
    let later_us = |n: u64| 3 * SECOND_US + n * 10_000;
    assert!((0..300).all(|n| !call(&mut machine, later_us(n), false, false)));
}

#[test]
fn calls_from_before_an_opening_say_nothing_after_it() {
    let mut machine = opened_at(0);
    let late = Call { opened: 0, failed: true, slow: true };
    assert!((0..3).any(|_| machine.probed(SECOND_US, true)));
    assert!((0..100).all(|_| !machine.record(SECOND_US, late)));
    assert_eq!(machine.state(), BreakerState::Closed);
}

#[test]
fn closes_after_three_good_probes_in_a_row() {
    let rows = [("...", Some(2)), ("..x..", None), ("x..x...", Some(6)), (".x.x.x.x", None)];
    for (probes, expected) in rows {
        let mut machine = opened_at(0);
        let closes = |mark| machine.probed(0, mark == '.');
        assert_eq!(probes.chars().map(closes).position(|closed| closed), expected, "{probes}");
    }
    let mut machine = opened_at(0);
    let mut states = vec![machine.state()];
    for good in [true, false, true, true, true] {
        machine.probed(0, good);
        states.push(machine.state());
    }
    let [closed, open, probing] = [BreakerState::Closed, BreakerState::Open, BreakerState::Probing];
    assert_eq!(states, [open, probing, open, probing, probing, closed]);
}

#[test]
fn bad_probes_come_more_rarely_but_a_recovery_is_found_within_100_ms() {
    let mut machine = opened_at(0);
    let longest_ms = |machine: &Machine| machine.wait_us(0).unwrap() / 1000;
    let mut waits = vec![longest_ms(&machine)];
    for good in [false, false, false, false, true, true] {
        machine.probed(0, good);
        waits.push(longest_ms(&machine));
    }
    assert_eq!(waits, [10, 20, 40, 50, 50, 10, 10]);
    let until_closed_ms: u64 = waits[4..].iter().sum();
    assert!(until_closed_ms < 100, "{until_closed_ms}");
}

#[test]
fn a_breaker_that_opens_again_soon_waits_twice_as_long() {
    let mut machine = machine();
    let mut now_us = 0;
    let mut wait_after = |closed_for_us| {
        now_us += closed_for_us;
        for _ in 0..5 {
            call(&mut machine, now_us, true, false);
        }
        let wait_ms = machine.wait_us(0).unwrap() / 1000;
        for _ in 0..3 {
            machine.probed(now_us, true);
        }
        wait_ms
    };
    let waits: Vec<u64> = (0..10).map(|_| wait_after(SECOND_US)).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
    assert_eq!(wait_after(10 * SECOND_US), 10, "all is forgiven");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn waits_are_jittered_between_half_and_whole(random in any::<u64>(), bad in 0..12_u32) {
        let mut machine = opened_at(0);
        for _ in 0..bad {
            machine.probed(0, false);
        }
        let (longest, wait) = (machine.wait_us(0).unwrap(), machine.wait_us(random).unwrap());
        prop_assert!(wait <= longest && wait >= longest / 2, "{wait} of {longest}");
    }

    /// However the store behaves: 1 ms between calls, for 60 s.
    #[test]
    fn never_flaps(good_ms in 1..3000_u64, bad_ms in 1..3000_u64, randoms in any::<u64>()) {
        let mut machine = machine();
        let mut probe_at_us = None;
        for now_us in (0..60 * SECOND_US).step_by(1000) {
            let good = (now_us / 1000) % (good_ms + bad_ms) < good_ms;
            match probe_at_us {
                Some(at_us) if now_us >= at_us => {
                    machine.probed(now_us, good);
                    probe_at_us = machine.wait_us(randoms.wrapping_mul(now_us)).map(|us| now_us + us);
                }
                None if call(&mut machine, now_us, !good, !good) => {
                    probe_at_us = machine.wait_us(randoms).map(|us| now_us + us);
                }
                Some(_) | None => {}
            }
        }
        // Eight doublings to two seconds; from then on three probes at a second each, at the least. A breaker that stays
        // closed for ten seconds starts over, which nobody does here who is closed for three at a time.
        prop_assert!(machine.opened <= 9 + 60 / 3, "opened {} times", machine.opened);
    }

    /// Open and closed follow each other, whatever happens; it only opens for a call and only closes for a probe.
    #[test]
    fn opens_for_calls_and_closes_for_probes(
        events in prop::collection::vec((0..200_000_u64, 0..2_u8, any::<(bool, bool)>()), 1..300),
    ) {
        let (mut machine, mut now_us) = (machine(), 0);
        for (passed_us, kind, (a, b)) in events {
            now_us += passed_us;
            let (was, opened) = (machine.state(), machine.opened);
            let changed = if kind == 0 { call(&mut machine, now_us, a, b) } else { machine.probed(now_us, a) };
            let is = machine.state();
            let [was_closed, is_closed] = [was, is].map(|state| state == BreakerState::Closed);
            prop_assert_eq!(changed, was_closed != is_closed);
            prop_assert_eq!(machine.opened - opened, u64::from(was_closed && !is_closed));
            prop_assert_eq!(machine.wait_us(0).is_none(), is_closed);
            let by = u8::from(is_closed);
            prop_assert!(!changed || kind == by, "{was:?} to {is:?}");
        }
    }
}

#[test]
fn odd_options_do_no_harm() {
    let zero = BreakerOptions {
        failures: 0,
        slow: Duration::ZERO,
        window: Duration::ZERO,
        min_calls: 0,
        good_probes: 0,
        probe_min: Duration::ZERO,
        probe_max: Duration::ZERO,
        steady: Duration::MAX,
        reopen_max: Duration::ZERO,
    };
    let mut machine = Machine::new(zero);
    for now_us in 0..100 {
        call(&mut machine, now_us, false, false);
        assert_ne!(machine.wait_us(u64::MAX), Some(1));
        machine.probed(now_us, now_us % 2 == 0);
    }
    assert!(machine.opened > 10);
}
