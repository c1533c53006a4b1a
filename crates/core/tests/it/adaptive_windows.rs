//! What passes by a target: windows, URLs, slots, and what is under way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::adaptive::{Cap, CapSample, InFlight, Observed, Priority, Ramp, Reading, Urls};

use crate::support::{START_US, at, config};

const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The wait that is seen in a second of so many requests.
fn wait_ms(
    observed: &mut Observed,
    second: u32,
    count: u32,
    latency: Duration,
    pressure: f64,
) -> f64 {
    (0..count).for_each(|_| observed.note(latency, true));
    match observed.tick(at(START_US) + SECOND * second, pressure).queue_wait {
        Reading::Value(wait_ms) => wait_ms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_takes_longer_than_usual_waits() {
    let mut observed = Observed::default();
    assert!(wait_ms(&mut observed, 0, 100, ms(30), 0.0) < 0.01);
    let waited = wait_ms(&mut observed, 1, 100, ms(130), 0.0);
    assert!((waited - 100.0).abs() < 10.0, "{waited}");
    assert!(wait_ms(&mut observed, 2, 4, ms(900), 0.0) < 0.01, "four requests are chance");
    assert!(wait_ms(&mut observed, 3, 0, ms(0), 0.0) < 0.01, "nobody came, nobody waits");
}

#[test]
fn a_long_overload_does_not_become_the_usual() {
    let mut observed = Observed::default();
    wait_ms(&mut observed, 0, 100, ms(30), 0.0);
    let waited = (1..2000).map(|second| wait_ms(&mut observed, second, 100, ms(130), 0.4));
    assert!(waited.into_iter().all(|waited| waited > 90.0));
}

#[test]
fn a_target_that_hangs_is_seen_by_the_age_of_what_runs() {
    let mut observed = Observed::default();
    (0..32).for_each(|_| observed.begin(at(START_US)));
    let seen = observed.tick(at(START_US) + SECOND * 2, 0.0);
    assert!(matches!(seen.queue_wait, Reading::Value(age) if age > 1999.0), "{seen:?}");
    (0..32).for_each(|_| observed.end(at(START_US), at(START_US) + SECOND * 3, false));
    assert_eq!(observed.running(), 0);
    assert_eq!(observed.tick(at(START_US) + SECOND * 3, 0.0).errors, Reading::Value(1.0));
}

/// Sixteen slots, and a target that has become three times as slow without any queue.
#[test]
fn where_the_places_are_known_slow_is_not_taken_for_a_queue() {
    let wait = |mut observed: Observed| {
        let mut waited = Reading::Missing;
        for second in 0..4_u32 {
            let latency = ms(if second == 0 { 40 } else { 120 });
            let start = at(START_US) + SECOND * second;
            for _ in 0..16 {
                observed.begin(start);
            }
            for _ in 0..16 {
                observed.end(start, start + latency, true);
            }
            waited = observed.tick(start + SECOND, 0.0).queue_wait;
        }
        waited
    };
    assert!(matches!(wait(Observed::default()), Reading::Value(ms) if ms > 70.0));
    assert_eq!(wait(Observed::with_pool(16)), Reading::Value(0.0));
    // Fewer slots: twelve of sixteen wait for 120 ms.
    assert!(
        matches!(wait(Observed::with_pool(4)), Reading::Value(ms) if (70.0..=95.0).contains(&ms))
    );
}

#[test]
fn a_wait_that_is_told_counts_instead_of_one_that_is_concluded() {
    let mut observed = Observed::default();
    wait_ms(&mut observed, 0, 100, ms(30), 0.0);
    (0..100).for_each(|_| observed.note_wait(ms(5)));
    let waited = wait_ms(&mut observed, 1, 100, ms(500), 0.0);
    assert!((waited - 5.0).abs() < 0.5, "{waited}");
}

#[test]
fn errors_count_over_ten_seconds_and_from_twenty_requests_on() {
    let mut observed = Observed::default();
    let mut ratio = |second: u32, good: u32, bad: u32| {
        (0..good).for_each(|_| observed.note(ms(1), true));
        (0..bad).for_each(|_| observed.note(ms(1), false));
        observed.tick(at(START_US) + SECOND * second, 0.0).errors
    };
    assert_eq!(ratio(0, 0, 19), Reading::Value(0.0), "nineteen are too few");
    assert_eq!(ratio(1, 1, 0), Reading::Value(0.95));
    assert_eq!(ratio(9, 18, 2), Reading::Value(21.0 / 40.0));
    assert_eq!(ratio(10, 0, 0), Reading::Value(2.0 / 21.0), "the first second is gone");
    assert_eq!(ratio(30, 0, 0), Reading::Value(0.0));
}

#[test]
fn a_url_is_judged_by_its_own_minute() {
    let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
    for second in 0..60 {
        for (url, latency) in [("/fast", ms(100)), ("/slow", ms(9150))] {
            let begun = at(START_US) + SECOND * second;
            let ticket = urls.begin(url, begun);
            urls.end(ticket, begun + latency);
        }
    }
    let now = at(START_US) + SECOND * 60;
    assert_eq!(urls.limit("/fast", &ramp, 240, now), 240);
    assert_eq!(urls.limit("/slow", &ramp, 240, now), 122);
    assert_eq!(urls.limit("/never seen", &ramp, 240, now), 240);
    assert_eq!(urls.summary("/fast", now).count, 59, "the first second is gone");
    let later = now + SECOND * 120;
    assert_eq!(urls.summary("/slow", later).count, 0);
    assert_eq!(urls.limit("/slow", &ramp, 240, later), 240);
    assert_eq!(urls.busiest(1, now)[0].0, Some("/fast"));
}

#[test]
fn a_url_that_hangs_is_closed_while_it_hangs() {
    let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
    let tickets: Vec<_> = (0..10).map(|_| urls.begin("/hangs", at(START_US))).collect();
    let limit_after =
        |urls: &Urls, seconds| urls.limit("/hangs", &ramp, 240, at(START_US) + SECOND * seconds);
    assert_eq!([0, 5, 18, 300].map(|seconds| limit_after(&urls, seconds)), [240, 177, 4, 4]);
    for ticket in tickets {
        urls.end(ticket, at(START_US) + SECOND * 300);
    }
    assert_eq!(limit_after(&urls, 400), 240);
}

#[test]
fn ten_thousand_urls_have_their_own_entry_and_the_others_share_one() {
    let mut urls = Urls::default();
    let now = at(START_US);
    for number in 0..10_050 {
        let ticket = urls.begin(&format!("/{number}"), now);
        urls.end(ticket, now + ms(10));
    }
    assert_eq!(urls.len(), 10_000);
    assert_eq!(urls.summary("/10001", now).count, 50);
    assert_eq!(urls.summary("/10049", now).count, 50);
    assert_eq!(urls.summary("/3", now).count, 1);
    // A minute later the silent make room, except where something still runs.
    let running = urls.begin("/5", now);
    let later = now + SECOND * 100;
    urls.begin("/new", later);
    assert_eq!((urls.len(), urls.summary("/new", later).count), (2, 1));
    assert!(urls.summary("/5", later).mean_ms > 99_000.0);
    urls.end(running, later);
}

/// Requests ten thousand made-up paths, each as often as it takes to get an entry. They are answered at once.
fn flood(urls: &mut Urls, round: u64) {
    let now = at(START_US) + SECOND * u32::try_from(round).unwrap();
    for number in 0..10_000 {
        let path = format!("/made-up/{round}/{number}");
        for _ in 0..3 {
            urls.note(&path, ms(1), now);
        }
    }
}

#[test]
fn made_up_paths_do_not_hide_a_slow_one() {
    let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
    flood(&mut urls, 0);
    flood(&mut urls, 1);
    assert!(urls.is_full());
    let now = at(START_US) + SECOND * 12;
    for _ in 0..3 {
        urls.note("/slow", ms(9150), now);
    }
    assert_eq!(urls.limit("/slow", &ramp, 240, now), 122);
    assert_eq!(urls.len(), 10_000);
    assert_eq!(urls.limit("/made-up/9/9", &ramp, 240, now), 240, "others are not slow");
}

/// They share the counters of requests without an entry, and would otherwise use up all that is given away in a second.
#[test]
fn a_flood_of_paths_that_come_once_does_not_hide_a_slow_one() {
    let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
    let (per_second, mut number) = (20_000, 0);
    let mut limited_after_s = None;
    for second in 0..30 {
        let now = at(START_US) + SECOND * second;
        for turn in 0..per_second {
            urls.note(&format!("/made-up/{number}"), ms(1), now);
            number += 1;
            // From the middle of the flood on, four times a second.
            if second >= 15 && turn % (per_second / 4) == per_second / 8 {
                urls.note("/slow", ms(9150), now);
            }
        }
        if second >= 15 && urls.limit("/slow", &ramp, 240, now) < 200 {
            limited_after_s.get_or_insert(second - 15);
        }
    }
    assert!(limited_after_s.is_some_and(|seconds| seconds <= 10), "{limited_after_s:?}");
}

#[test]
fn made_up_paths_do_not_push_out_what_is_slow_or_busy() {
    let mut urls = Urls::default();
    for _ in 0..200 {
        urls.note("/busy", ms(1), at(START_US));
    }
    urls.note("/slow", ms(9150), at(START_US));
    for round in 0..40 {
        flood(&mut urls, round);
    }
    let now = at(START_US) + SECOND * 40;
    assert_eq!((urls.len(), urls.summary("/busy", now).count), (10_000, 200));
    assert!((urls.summary("/slow", now).mean_ms - 9150.0).abs() < 1e-6);
}

#[test]
fn long_paths_take_a_bounded_room_and_are_still_seen() {
    let (mut urls, long) = (Urls::default(), "x".repeat(8000));
    for number in 0..2000 {
        urls.note(&format!("/{long}/{number}"), ms(1), at(START_US));
    }
    assert!(urls.is_full() && urls.len() < 600, "{}", urls.len());
    let slow = format!("/{long}/slow");
    for _ in 0..3 {
        urls.note(&slow, ms(9150), at(START_US) + SECOND * 2);
    }
    assert!((urls.summary(&slow, at(START_US) + SECOND * 2).mean_ms - 9150.0).abs() < 1e-6);
}

#[test]
fn an_entry_is_not_given_away_while_a_request_to_it_runs() {
    let mut urls = Urls::default();
    let hangs: Vec<_> =
        (0..10_000).map(|number| urls.begin(&format!("/hangs/{number}"), at(START_US))).collect();
    for second in 0..5 {
        for _ in 0..5 {
            urls.note("/new", ms(1), at(START_US) + SECOND * second);
        }
    }
    let now = at(START_US) + SECOND * 5;
    assert!((urls.summary("/hangs/7", now).mean_ms - 5000.0).abs() < 1e-6);
    assert_eq!(urls.summary("/new", now).count, 25, "counted with the others");
    for request in hangs {
        urls.end(request, now);
    }
    assert_eq!(urls.summary("/hangs/7", now).count, 1);
}

#[test]
fn a_gradient_finds_a_cap_that_keeps_all_busy_and_few_waiting() {
    // Sixteen workers of 28 ms in the median: what is above waits for 2.5 ms each.
    let latency_ms =
        |slots: u64| 28.0 + 2.5 * f64::from(u32::try_from(slots.saturating_sub(16)).unwrap());
    let mut cap = Cap::gradient(16).unwrap();
    for _ in 0..1500 {
        let (latency_ms, in_flight) = (latency_ms(cap.slots()), cap.slots());
        cap.step(CapSample { latency_ms, baseline_ms: 28.0, in_flight, is_stale: false });
        assert!((16..=64).contains(&cap.slots()));
    }
    assert!((20..=32).contains(&cap.slots()), "{}", cap.slots());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_cap_stays_within_its_bounds(
        pool in 1..=1000_u64,
        seen in vec((any::<f64>(), any::<f64>(), any::<u64>(), any::<bool>()), 1..12)
    ) {
        let mut cap = Cap::gradient(pool).unwrap();
        for (latency_ms, baseline_ms, in_flight, is_stale) in seen {
            let before = cap.slots();
            cap.step(CapSample { latency_ms, baseline_ms, in_flight, is_stale });
            prop_assert!((pool..=4 * pool).contains(&cap.slots()));
            prop_assert!(!is_stale || cap.slots() <= before, "stale never opens");
        }
        prop_assert_eq!(Cap::fixed(pool).unwrap().slots(), 2 * pool);
    }

    #[test]
    fn a_fifth_of_the_places_is_for_what_is_critical(cap in 1..1_000_000_u64) {
        for class in [Priority::Default, Priority::Batch, Priority::BestEffort] {
            prop_assert!(class.slots(cap) * 5 <= (cap * 4).max(5));
            prop_assert!(class.slots(cap) >= 1);
        }
        prop_assert_eq!(Priority::Critical.slots(cap), cap);
    }

    // Every request ends in one of four ways, in any order.
    #[test]
    fn what_is_under_way_returns_to_none(ends in vec(0..4_u8, 1..24), slots in 1..16_u64) {
        let in_flight = InFlight::default();
        let mut open = Vec::new();
        for end in ends {
            let Some(slot) = in_flight.enter(slots) else {
                prop_assert_eq!(in_flight.count(), slots);
                open.clear();
                continue;
            };
            match end {
                0 => open.push(slot),
                1 => drop(slot),
                // A cancel: the future that holds it is dropped before it ever ends.
                2 => drop(async move {
                    std::future::pending::<()>().await;
                    drop(slot);
                }),
                _ => {
                    let panics = AssertUnwindSafe(|| {
                        let _held = slot;
                        std::panic::resume_unwind(Box::new("on purpose"));
                    });
                    prop_assert!(catch_unwind(panics).is_err());
                }
            }
            prop_assert!(in_flight.count() <= slots);
            prop_assert_eq!(in_flight.count(), u64::try_from(open.len()).unwrap());
        }
        drop(open);
        prop_assert_eq!(in_flight.count(), 0);
    }
}

#[test]
fn threads_never_hold_more_places_than_there_are() {
    let in_flight = InFlight::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    let slot = in_flight.enter(2);
                    assert!(in_flight.count() <= 2);
                    drop(slot);
                }
            });
        }
    });
    assert_eq!(in_flight.count(), 0);
}
