//! Limits as text: what is read, and a message of its own for what is not.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::{
    Concurrency, Every, FixedWindow, Gcra, LeakyBucket, Limit, Quota, SlidingLog, SlidingWindow,
    Zone, parse_duration,
};

use crate::support::config;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

#[test]
fn good_texts_are_read() {
    let bucket = |capacity, refill| {
        Limit::TokenBucket(Gcra::token_bucket(capacity, refill, MINUTE).unwrap())
    };
    let day = |limit, minutes| {
        Quota::calendar(limit, Every::Day, Zone::fixed(minutes).unwrap()).unwrap().into()
    };
    let month = Quota::calendar(7, Every::Month, Zone::fixed(120).unwrap()).unwrap();
    let week = Quota::calendar(7, Every::Week, Zone::UTC).unwrap();
    let day_long = Duration::from_hours(24);
    let rows: Vec<(&str, Limit)> = vec![
        ("100/min", Gcra::new(100, MINUTE, 100).unwrap().into()),
        ("100/min burst 20", Gcra::new(100, MINUTE, 20).unwrap().into()),
        ("  gcra\t100/m  burst   20 ", Gcra::new(100, MINUTE, 20).unwrap().into()),
        ("30/90s", Gcra::new(30, Duration::from_secs(90), 30).unwrap().into()),
        ("1/1h30min", Gcra::new(1, Duration::from_mins(90), 1).unwrap().into()),
        ("5/250ms", Gcra::new(5, Duration::from_millis(250), 5).unwrap().into()),
        ("5/7µs", Gcra::new(5, Duration::from_micros(7), 5).unwrap().into()),
        ("token-bucket 100/min", bucket(100, 100)),
        ("token-bucket 100/min capacity 20", bucket(20, 100)),
        ("fixed-window 5/h", FixedWindow::new(5, HOUR).unwrap().into()),
        ("sliding-window 5/h", SlidingWindow::new(5, HOUR, 10).unwrap().into()),
        ("sliding-window 5/h buckets 60", SlidingWindow::new(5, HOUR, 60).unwrap().into()),
        ("sliding-log 5/h", SlidingLog::new(5, HOUR).unwrap().into()),
        ("quota 7/day", day(7, 0)),
        ("quota 7/day at +02:00", day(7, 120)),
        ("quota 7/day at -0330", day(7, -210)),
        ("quota 7/day at +2", day(7, 120)),
        ("quota 7/day at Z", day(7, 0)),
        ("quota 7/day at UTC", day(7, 0)),
        ("quota 7/week", week.into()),
        ("quota 7/month at +02:00", month.into()),
        ("quota 7/h", Quota::fixed(7, HOUR).unwrap().into()),
        ("quota 7/day rolling", Quota::rolling(7, day_long, 10).unwrap().into()),
        ("quota 7/90s rolling buckets 9", {
            Quota::rolling(7, Duration::from_secs(90), 9).unwrap().into()
        }),
        ("concurrency 10", Concurrency::new(10, MINUTE).unwrap().into()),
        ("concurrency 10 lease 1h", Concurrency::new(10, HOUR).unwrap().into()),
    ];
    for (text, expected) in rows {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

#[test]
fn good_shapers_are_read() {
    let waits = LeakyBucket::new(10, MINUTE, Duration::from_secs(5)).unwrap();
    let queue = LeakyBucket::with_capacity(10, MINUTE, 4).unwrap();
    for (text, expected) in [
        ("10/min max-wait 5s", waits),
        ("leaky-bucket 10/min max-wait 5s", waits),
        ("leaky-bucket 10/min capacity 4", queue),
    ] {
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
}

/// Every value that is rejected is named, with what was expected in its place.
#[test]
fn bad_texts_say_what_is_wrong() {
    let rows = [
        ("", "empty: expected a limit like `100/min burst 20`"),
        (" \t", "empty: expected a limit like"),
        ("gcra", "expected a rate like `100/min` or `30/90s`"),
        ("100", "`100` is no rate: expected a rate like"),
        ("x/min", "unknown algorithm `x/min`: expected one of gcra, token-bucket"),
        ("-5/min", "limit `-5`: expected a whole number from 1 to 2^53"),
        ("+5/min", "limit `+5`: expected a whole number"),
        ("1.5/min", "limit `1.5`: expected a whole number"),
        ("1e3/min", "limit `1e3`: expected a whole number"),
        ("/min", "limit ``: expected a whole number"),
        ("99999999999999999999/s", "limit `99999999999999999999`: expected a whole number"),
        ("0/min", "limit is 0: give at least 1"),
        ("9007199254740993/min", "limit 9007199254740993 is above 2^53"),
        ("5/", "period ``: expected s, min, h, day or a duration like 90s"),
        ("5/month", "period `month`: expected s, min, h"),
        ("5/fortnight", "period `fortnight`: expected"),
        ("5/1.5h", "period `1.5h`: expected"),
        ("5/0s", "period is 0: give at least 1µs"),
        ("5/300000000h", "period 1080000000000000000µs is above 2^53µs"),
        ("5/min burst 0", "burst is 0: give at least 1"),
        ("5/min burst x", "burst `x`: expected a whole number"),
        ("5/min burst", "`burst` does not belong here or lacks its value"),
        ("5/min burst 1 burst 2", "`burst` does not belong here"),
        ("5/min capacity 3", "`capacity` does not belong here"),
        ("999983/day burst 9007199254740992", "use a smaller burst, or algorithm quota"),
        ("token-bucket 5/min burst 3", "`burst` does not belong here"),
        ("fixed-window 5/min burst 3", "`burst` does not belong here"),
        ("sliding-window 5/min buckets 0", "buckets is 0: expected 1 to 1000"),
        ("sliding-window 5/min buckets 7", "7 buckets do not divide the period of 60000000µs"),
        ("sliding-window 9007199254740992/min", "limit 9007199254740992 × slot width 6000000µs"),
        ("sliding-log 1000001/h", "sliding-log keeps one instant per unit: limit 1000001"),
        ("quota 5/day at noon", "offset `noon`: expected hours and minutes like +02:00"),
        ("quota 5/day at +1:60", "offset `+1:60`: expected hours and minutes"),
        ("quota 5/day at +é", "offset `+é`: expected hours and minutes"),
        ("quota 5/day at +15:00", "UTC offset of 900 minutes: expected -840 to 840"),
        ("quota 5/h at +02:00", "`at` goes with a calendar day, week or month"),
        ("quota 5/day rolling at +02:00", "`at` goes with a calendar day, week or month"),
        ("quota 5/day buckets 3", "`buckets` does not belong here"),
        ("concurrency", "expected a number of places, as in `concurrency 10`"),
        ("concurrency many", "limit `many`: expected a whole number"),
        ("concurrency 0", "limit is 0: give at least 1"),
        ("concurrency 1000001", "concurrency keeps every holder: limit 1000001"),
        ("concurrency 5 lease 0s", "lease is 0: a permit must live at least 1µs"),
        ("concurrency 5 lease 10", "lease `10`: expected a duration like 5s or 250ms"),
        ("concurrency 5 lease 2000000h", "lease 7200000000000000µs is above 2^52µs"),
        ("leaky-bucket 5/min", "leaky-bucket delays instead of refusing"),
        ("wibble 5/min", "unknown algorithm `wibble`: expected one of gcra"),
    ];
    for (text, expected) in rows {
        let message = text.parse::<Limit>().expect_err(text).to_string();
        assert!(message.contains(expected), "{text:?} says: {message}");
    }
    let long = "5/min ".repeat(50);
    let message = long.parse::<Limit>().expect_err("too long").to_string();
    assert!(message.contains("longer than 200 bytes") && message.len() < 200, "{message}");
}

#[test]
fn bad_shapers_say_what_is_wrong() {
    for (text, expected) in [
        ("gcra 5/min max-wait 5s", "`gcra` is not leaky-bucket"),
        ("5/min", "give either `max-wait DURATION` or `capacity N`"),
        ("5/min max-wait 5s capacity 3", "give either `max-wait DURATION` or `capacity N`"),
        ("5/min max-wait soon", "max-wait `soon`: expected a duration like 5s or 250ms"),
        ("5/min max-wait 5s burst 3", "`burst` does not belong here"),
        ("7/min max-wait 999999999h", "max_wait 3599999996400000000µs at this rate spans"),
    ] {
        let message = text.parse::<LeakyBucket>().expect_err(text).to_string();
        assert!(message.contains(expected), "{text:?} says: {message}");
    }
}

#[test]
fn durations_are_whole_numbers_with_a_unit() {
    for (text, micros) in [
        ("7us", Some(7)),
        ("7µs", Some(7)),
        ("250ms", Some(250_000)),
        ("2min", Some(120_000_000)),
        ("1h30min", Some(5_400_000_000)),
        ("1d", Some(86_400_000_000)),
        ("1week", Some(604_800_000_000)),
        ("", None),
        ("90", None),
        ("s", None),
        ("1.5h", None),
        ("-5s", None),
        ("5 s", None),
        ("99999999999999h", None),
    ] {
        assert_eq!(parse_duration(text), micros.map(Duration::from_micros), "{text}");
    }
}

#[test]
fn a_limit_with_other_numbers_counts_as_it_did() {
    for (limit, numbers, expected) in [
        ("5/h burst 9", "7/min", Ok("7/min")),
        ("5/h burst 9", "7/min burst 2", Ok("7/min burst 2")),
        ("fixed-window 5/h", " 7/min", Ok("fixed-window 7/min")),
        ("sliding-log 5/h", "7/min", Ok("sliding-log 7/min")),
        ("token-bucket 5/h", "7/min", Ok("token-bucket 7/min")),
        ("token-bucket 5/h capacity 9", "7/min", Ok("token-bucket 7/min capacity 9")),
        ("token-bucket 5/h capacity 9", "7/min capacity 3", Ok("token-bucket 7/min capacity 3")),
        ("sliding-window 5/h buckets 60", "7/min", Ok("sliding-window 7/min buckets 60")),
        ("sliding-window 5/h buckets 60", "7/h buckets 3", Ok("sliding-window 7/h buckets 3")),
        ("sliding-window 5/h buckets 60", "sliding-window 7/h", Ok("sliding-window 7/h")),
        ("concurrency 5 lease 90s", "7", Ok("concurrency 7 lease 90s")),
        ("concurrency 5 lease 90s", "7 lease 1s", Ok("concurrency 7 lease 1s")),
        ("quota 5/month at -0330", "7", Ok("quota 7/month at -0330")),
        ("quota 5/90s", "7", Ok("quota 7/90s")),
        ("quota 5/day rolling buckets 4", "7", Ok("quota 7/day rolling buckets 4")),
        ("quota 5/day", "quota 7/week", Ok("quota 7/week")),
        ("quota 5/day", "7/day", Err("expected a whole number")),
        ("quota 5/day", "7 8", Err("`8` does not belong here")),
        ("quota 5/day", "0", Err("0")),
        ("5/h", "7", Err("expected a rate")),
        ("fixed-window 5/h", "7/min burst 2", Err("`burst` does not belong here")),
        ("concurrency 5", "7/min", Err("expected a whole number")),
        ("5/h", "", Err("empty")),
        ("5/h", "often 7/h", Err("unknown algorithm `often`")),
    ] {
        let read = limit.parse::<Limit>().unwrap().with_numbers(numbers);
        match (read, expected) {
            (read, Ok(expected)) => assert_eq!(read, expected.parse(), "{limit} {numbers}"),
            (Ok(read), Err(_)) => panic!("{limit} {numbers} became {read:?}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{limit} {numbers}: {error}");
            }
        }
    }
}

/// Words that limits are made of, and some that they are not.
fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "gcra",
        "token-bucket",
        "sliding-window",
        "sliding-log",
        "quota",
        "concurrency",
        "burst",
        "capacity",
        "buckets",
        "lease",
        "at",
        "rolling",
        "max-wait",
        "5/s",
        "7/month",
        "0/0s",
        "18446744073709551615/us",
        "9007199254740992/1week",
        "1/9007199254740992us",
        "5",
        "0",
        "18446744073709551615",
        "+14:00",
        "-0",
        "+",
        "5s",
        "1µs",
        "/",
        "é/é",
        "5/é5",
    ])
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let limit = text.parse::<Limit>();
        let shaper = text.parse::<LeakyBucket>();
        prop_assert!(limit.is_ok() || !limit.unwrap_err().to_string().is_empty());
        prop_assert!(shaper.is_ok() || !shaper.unwrap_err().to_string().is_empty());
        let starts_with_a_number = text.starts_with(|first: char| first.is_ascii_digit());
        prop_assert!(starts_with_a_number || parse_duration(&text).is_none());
    }

    #[test]
    fn no_sequence_of_words_panics(words in prop::collection::vec(word(), 0..7)) {
        let text = words.join(" ");
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert!(limit.ceiling() > 0 && limit.units() > 0);
        }
        if let Ok(shaper) = text.parse::<LeakyBucket>() {
            prop_assert!(shaper.limit() > 0);
        }
    }
}
