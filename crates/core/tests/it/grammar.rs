//! The grammar of limits: what is read, and a message of its own for what is not.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::{
    Algorithm, Amount, Concurrency, Every, Field, FixedWindow, Gcra, LeakyBucket, Limit,
    LimitOrShaper, LimitSpec, Period, Quota, Rate, SlidingLog, SlidingWindow, Transition, Written,
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
        ("gcra", "`limit` is missing: expected one like 100/min"),
        ("100", "`100` has no time unit: write 100/min"),
        ("x/min", "unknown algorithm `x/min`: expected one of gcra, token-bucket"),
        ("-5/min", "limit `-5`: expected a whole number from 1 to 2^53"),
        ("+5/min", "limit `+5`: expected a whole number"),
        ("1.5/min", "limit `1.5`: expected a whole number"),
        ("1e3/min", "limit `1e3`: expected a whole number"),
        ("/min", "limit ``: expected a whole number"),
        ("99999999999999999999/s", "limit `99999999999999999999`: expected a whole number"),
        ("0/min", "limit is 0: give at least 1"),
        ("9007199254740993/min", "limit 9007199254740993 is above 2^53"),
        ("5/", "`5/` has no time unit: write 5/min"),
        ("5/month", "unit `month` has no fixed length: use algorithm quota, or 30day"),
        ("5/year", "unit `year` has no fixed length: write 365day"),
        ("5/fortnight", "unit `fortnight` is unknown: expected us, ms, s, min, h, day or week"),
        ("5/1.5h", "`1.5h` has a fraction: use a smaller unit, like 500ms"),
        ("5/0s", "period is 0: give at least 1µs"),
        ("5/300000000h", "period 1080000000000000000µs is above 2^53µs"),
        ("5/min burst 0", "burst is 0: give at least 1"),
        ("5/min burst x", "burst `x`: expected a whole number"),
        ("5/min burst", "`burst` lacks its value: write `burst 20`"),
        ("5/min 7", "unknown option `7`"),
        ("gcra burst 5", "`limit` is missing: expected one like 100/min"),
        ("5/mins", "unit `mins` is unknown: write min"),
        ("5/Hours", "unit `Hours` is unknown: write h"),
        (
            "5/min max-wait 5s",
            "`max-wait` does not belong to gcra, which has limit, burst: only leaky-bucket delays",
        ),
        (
            "token-bucket",
            "the rate of its refill is missing: write `token-bucket 10/s capacity 100`",
        ),
        ("token-bucket capacity 9", "the rate of its refill is missing: write `token-bucket 10/s"),
        ("token-bucket 9 refill 5/s", "begins with the rate: write `token-bucket 5/s capacity 9`"),
        ("token-bucket 7/min refill 5/s", "write `token-bucket 5/s capacity 7`"),
        ("token-bucket refill 5/s capacity 9", "write `token-bucket 5/s capacity 9`"),
        ("token-bucket capacity 9 refill 5/s", "write `token-bucket 5/s capacity 9`"),
        ("token-bucket 9 refill", "write `token-bucket 10/s capacity 9`"),
        ("token-bucket x refill y capacity z", "write `token-bucket 10/s capacity 100`"),
        ("5/min burst 1 burst 2", "`burst` is given twice: give it once"),
        (
            "5/min brust 3",
            "unknown option `brust`: expected burst, capacity, buckets, max-wait, lease, at or rolling",
        ),
        ("5/min capacity 3", "`capacity` does not belong to gcra, which has limit, burst"),
        ("999983/day burst 9007199254740992", "use a smaller burst, or algorithm quota"),
        (
            "token-bucket 5/min burst 3",
            "`burst` does not belong to token-bucket, which has capacity",
        ),
        ("fixed-window 5/min burst 3", "`burst` does not belong to fixed-window, which has limit"),
        ("sliding-window 5/min buckets 0", "buckets is 0: expected 1 to 1000"),
        ("sliding-window 5/min buckets 7", "7 buckets do not divide the period of 60000000µs"),
        ("sliding-window 9007199254740992/min", "limit 9007199254740992 × slot width 6000000µs"),
        ("sliding-log 1000001/h", "sliding-log keeps one instant per unit: limit 1000001"),
        ("quota 5/day at noon", "at `noon`: expected hours and minutes like +02:00"),
        ("quota 5/day at +1:60", "at `+1:60`: expected hours and minutes"),
        ("quota 5/day at +é", "at `+é`: expected hours and minutes"),
        ("quota 5/day at +15:00", "UTC offset of 900 minutes: expected -840 to 840"),
        ("quota 5/h at +02:00", "`at` goes with a calendar day, week or month"),
        ("quota 5/day rolling at +02:00", "`at` goes with a calendar day, week or month"),
        ("quota 5/day buckets 3", "`buckets` goes with `rolling` only"),
        ("concurrency", "`limit` is missing: expected one like 10"),
        ("concurrency many", "limit `many`: expected a whole number"),
        ("concurrency 0", "limit is 0: give at least 1"),
        ("concurrency 1000001", "concurrency keeps every holder: limit 1000001"),
        ("concurrency 5 lease 0s", "lease is 0: a permit must live at least 1µs"),
        ("concurrency 5 lease 10", "`10` has no unit: write 10s or 10ms"),
        ("concurrency 5 lease 2000000h", "lease 7200000000000000µs is above 2^52µs"),
        ("leaky-bucket 5/min", "leaky-bucket delays instead of refusing"),
        ("wibble 5/min", "unknown algorithm `wibble`: expected one of gcra"),
        ("sliding-lo 5/min", "unknown algorithm `sliding-lo`, did you mean `sliding-log`?"),
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
        ("5/min", "`max-wait` is missing: write `5/min max-wait 5s`"),
        ("5/min max-wait", "`max-wait` lacks its value: write `max-wait 5s`"),
        ("5/min max-wait 7", "`7` has no unit: write 7s or 7ms"),
        (
            "5/min max-wait 5s capacity 3",
            "`capacity` and `max-wait` are both given: give one of them",
        ),
        ("5/min max-wait soon", "max-wait `soon`: expected a duration like 5s or 250ms"),
        (
            "5/min max-wait 5s burst 3",
            "`burst` does not belong to leaky-bucket, which has limit, max-wait",
        ),
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
        ("quota 5/day", "7 8", Err("unknown option `8`")),
        ("quota 5/day", "0", Err("0")),
        ("5/h", "7", Err("`7` has no time unit: write 7/min")),
        ("fixed-window 5/h", "7/min burst 2", Err("`burst` does not belong to fixed-window")),
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

/// A zone that no line can name, and that a number of its own must keep.
fn berlin() -> Zone {
    let summer = Transition { at_us: 1_774_746_000_000_000, offset_seconds: 7200 };
    Zone::changing(3600, &[summer]).unwrap()
}

fn zones(name: &str) -> Result<Zone, String> {
    if name == "Europe/Berlin" { Ok(berlin()) } else { Err(format!("`{name}` is no time zone")) }
}

/// A limit as a configuration file has it: fields with their text.
fn spec(fields: &[(&str, &str)]) -> LimitSpec {
    let mut spec = LimitSpec::default();
    for (field, value) in fields {
        let number = || value.parse().ok();
        match *field {
            "algorithm" => spec.algorithm = Some(value.parse().unwrap()),
            "limit" => spec.limit = Some((*value).into()),
            "refill" => spec.refill = Some((*value).into()),
            "burst" => spec.burst = number(),
            "capacity" => spec.capacity = number(),
            "buckets" => spec.buckets = number(),
            "max_wait" => spec.max_wait = Some((*value).into()),
            "every" => spec.every = Some((*value).into()),
            "time_zone" => spec.time_zone = Some((*value).into()),
            "utc_offset" => spec.utc_offset = Some((*value).into()),
            "rolling" => spec.rolling = Some(*value == "true"),
            "ttl" => spec.ttl = Some((*value).into()),
            _ => panic!("{field}"),
        }
    }
    spec
}

#[test]
fn rates_in_code_are_the_limits_of_the_text() {
    let check = |rate: Rate, text: &str| assert_eq!(Limit::try_from(rate), text.parse(), "{text}");
    check(Limit::per_second(5), "5/s");
    check(Limit::per_minute(100).burst(20), "100/min burst 20");
    check(Limit::per_minute(100), "100/m");
    check(Limit::per_hour(5), "5/h");
    check(Limit::per_day(5).burst(1), "5/day burst 1");
    // What makes no sense is the same error.
    check(Limit::per_second(0), "0/s");
    check(Limit::per_second(0).burst(0), "0/s burst 0");
    check(Limit::per_second(1).burst(0), "1/s burst 0");
    check(Limit::per_minute(u64::MAX), "18446744073709551615/min");
    check(Limit::per_day(1).burst(1_000_000_000), "1/day burst 1000000000");
}

#[test]
fn a_limit_is_read_from_any_text() {
    let text = String::from("100/m burst 20");
    let expected = Limit::per_minute(100).burst(20).build().unwrap();
    assert_eq!(Limit::try_from(&text), Ok(expected.clone()));
    assert_eq!(Limit::try_from(&*text), Ok(expected.clone()));
    assert_eq!(Limit::try_from(text), Ok(expected));
}

#[test]
fn fields_make_the_limit_that_a_line_makes() {
    let check = |fields: &[(&str, &str)], line: &str| {
        let expected = match line.parse::<LeakyBucket>() {
            Ok(shaper) => LimitOrShaper::Shaper(shaper),
            Err(_) => LimitOrShaper::Limit(line.parse().unwrap()),
        };
        assert_eq!(spec(fields).build(&zones), Ok(expected), "{fields:?}");
    };
    check(&[("limit", "100/min")], "100/min");
    check(&[("limit", " 7 / 1h30min ")], "7/90min");
    check(&[("limit", "100/m"), ("burst", "20")], "100/min burst 20");
    check(&[("refill", "10/s")], "token-bucket 10/s");
    check(&[("capacity", "50"), ("refill", "10/s")], "token-bucket 10/s capacity 50");
    let leaky = ("algorithm", "leaky-bucket");
    check(&[leaky, ("limit", "2/s"), ("max_wait", " 5s")], "leaky-bucket 2/s max-wait 5s");
    check(&[leaky, ("limit", "2/s"), ("capacity", "5")], "leaky-bucket 2/s capacity 5");
    check(&[("algorithm", "fixed-window"), ("limit", "10/day")], "fixed-window 10/day");
    check(&[("algorithm", "sliding-log"), ("limit", "5/h")], "sliding-log 5/h");
    let window = ("algorithm", "sliding-window");
    check(&[window, ("limit", "5/h"), ("buckets", "60")], "sliding-window 5/h buckets 60");
    let quota = ("algorithm", "quota");
    check(&[quota, ("limit", "7"), ("every", "month")], "quota 7/month");
    check(&[quota, ("limit", "7/month")], "quota 7/month");
    check(&[quota, ("limit", " 7 / week ")], "quota 7/week");
    check(&[quota, ("limit", "7"), ("every", " 90s ")], "quota 7/90s");
    check(&[quota, ("limit", "7"), ("every", "h")], "quota 7/h");
    check(&[quota, ("limit", "7/1day")], "quota 7/24h");
    for offset in ["+02:00", "+2", "+0200", "+2:00"] {
        let fields = [quota, ("limit", "7"), ("every", "day"), ("utc_offset", offset)];
        check(&fields, "quota 7/day at +02:00");
    }
    let rolling = [quota, ("limit", "7"), ("every", "month"), ("rolling", "true")];
    check(&rolling, "quota 7/30day rolling");
    check(&[quota, ("limit", "7"), ("every", "day"), ("rolling", "false")], "quota 7/day");
    let places = ("algorithm", "concurrency");
    check(&[places, ("limit", "10")], "concurrency 10 lease 1min");
    check(&[places, ("limit", "10"), ("ttl", "90s")], "concurrency 10 lease 90s");

    let monthly = [quota, ("limit", "7"), ("every", "month"), ("time_zone", "Europe/Berlin")];
    let expected = Limit::from(Quota::calendar(7, Every::Month, berlin()).unwrap());
    assert_eq!(spec(&monthly).build(&zones), Ok(expected.clone().into()));
    assert_eq!(expected.spec().to_line(), None);
    let other = Limit::from(Quota::calendar(9, Every::Month, berlin()).unwrap());
    assert_eq!(expected.with_numbers("9"), Ok(other));
}

#[test]
fn numbers_make_the_limit_that_text_makes() {
    let minute = Period::Length(MINUTE);
    let numbers = LimitSpec { limit: Some(Amount::Rate(5, minute)), ..LimitSpec::default() };
    assert_eq!(numbers.build(&zones), spec(&[("limit", "5/min")]).build(&zones));
    let quota = LimitSpec {
        algorithm: Some(Algorithm::QUOTA),
        limit: Some(Amount::Count(5)),
        every: Some(Written::Value(Period::Calendar(Every::Day))),
        utc_offset: Some(Written::Value(-210)),
        ..LimitSpec::default()
    };
    let expected: Limit = "quota 5/day at -0330".parse().unwrap();
    assert_eq!(quota.build(&zones), Ok(expected.into()));
}

/// Every wrong field is named, with what to write instead.
fn check_error(fields: &[(&str, &str)], field: &str, expected: &str) {
    let error = spec(fields).build(&zones).expect_err(expected);
    assert_eq!(error.field().map_or("", Field::name), field, "{error}");
    assert_eq!(error.problem(), expected);
}

#[test]
fn bad_rates_and_numbers_say_what_is_wrong() {
    let check = check_error;
    check(&[("limit", "100")], "limit", "`100` has no time unit: write 100/min");
    check(&[("limit", "5/")], "limit", "`5/` has no time unit: write 5/min");
    check(&[("limit", "fast")], "limit", "`fast`: expected a rate like 100/min");
    check(
        &[("limit", "5/s burst 7")],
        "limit",
        "`5/s burst 7` is more than a rate: write `{ limit: 5/s, burst: 7 }`",
    );
    check(
        &[("limit", "5/fortnight")],
        "limit",
        "unit `fortnight` is unknown: expected us, ms, s, min, h, day or week",
    );
    check(
        &[("limit", "5/month")],
        "limit",
        "unit `month` has no fixed length: use algorithm quota, or 30day",
    );
    check(&[("limit", "5/0.5s")], "limit", "`0.5s` has a fraction: use a smaller unit, like 500ms");
    check(&[("limit", "x/s")], "limit", "`x`: expected a whole number from 1 to 2^53");
    check(&[("limit", "5\u{1b}/s")], "limit", "`5\\u{1b}`: expected a whole number from 1 to 2^53");
    check(
        &[("limit", "0/s")],
        "limit",
        "limit is 0: give at least 1 (to refuse everything, block the key)",
    );
    check(
        &[("refill", "0/s"), ("capacity", "3")],
        "refill",
        "limit is 0: give at least 1 (to refuse everything, block the key)",
    );
    check(&[("burst", "5")], "", "`limit` is missing: expected one like 100/min");
    check(
        &[("limit", "5/s"), ("burst", "0")],
        "burst",
        "burst is 0: give at least 1, or leave it out",
    );
    check(
        &[("refill", "5/s"), ("capacity", "0")],
        "capacity",
        "burst is 0: give at least 1, or leave it out",
    );
    check(
        &[("limit", "5/h"), ("capacity", "3")],
        "capacity",
        "does not belong to gcra, which has limit, burst",
    );
    check(
        &[("limit", "5/s"), ("refill", "5/s")],
        "limit",
        "does not belong to token-bucket, which has capacity, refill",
    );
    check(
        &[("algorithm", "sliding-window"), ("limit", "5/s"), ("buckets", "3")],
        "buckets",
        "3 buckets do not divide the period of 1000000µs into whole microseconds",
    );
}

#[test]
fn bad_options_say_what_is_wrong() {
    let check = check_error;
    let quota = ("algorithm", "quota");
    let leaky = ("algorithm", "leaky-bucket");
    let places = ("algorithm", "concurrency");
    check(&[leaky, ("limit", "5/s")], "", "`max_wait` is missing: the longest delay, like 5s");
    check(
        &[leaky, ("limit", "5/s"), ("max_wait", "5")],
        "max_wait",
        "`5` has no unit: write 5s or 5ms",
    );
    check(
        &[leaky, ("limit", "5/s"), ("max_wait", "5s"), ("capacity", "3")],
        "capacity",
        "and `max_wait` are both given: give one of them",
    );
    check(
        &[quota, ("limit", "5")],
        "",
        "`every` is missing: day, week, month or a duration like 90s",
    );
    check(
        &[quota, ("limit", "5/day"), ("every", "day")],
        "limit",
        "`5/day` is a rate: expected a whole number alone",
    );
    check(
        &[quota, ("limit", "5"), ("every", "soon")],
        "every",
        "`soon`: expected day, week, month or a duration like 90s, 12h or 365day",
    );
    check(
        &[quota, ("limit", "5"), ("every", "0s")],
        "every",
        "period is 0: give at least 1µs, as in 100/min",
    );
    check(
        &[quota, ("limit", "5/day"), ("time_zone", "Mars/Olympus")],
        "time_zone",
        "`Mars/Olympus` is no time zone",
    );
    check(
        &[quota, ("limit", "5/90s"), ("time_zone", "Europe/Berlin")],
        "time_zone",
        "goes with a calendar day, week or month that is not rolling",
    );
    check(
        &[quota, ("limit", "5/day"), ("utc_offset", "2")],
        "utc_offset",
        "`2`: expected hours and minutes like +02:00",
    );
    check(
        &[quota, ("limit", "5/day"), ("utc_offset", "+15:00")],
        "utc_offset",
        "UTC offset of 900 minutes: expected -840 to 840",
    );
    check(
        &[quota, ("limit", "5/day"), ("utc_offset", "+02:00"), ("time_zone", "Europe/Berlin")],
        "utc_offset",
        "and `time_zone` are both given: give one of them",
    );
    check(&[quota, ("limit", "5/day"), ("buckets", "3")], "buckets", "goes with `rolling` only");
    check(&[places, ("limit", "5/s")], "limit", "`5/s` is a rate: expected a whole number alone");
    check(
        &[places, ("limit", "5"), ("ttl", "0s")],
        "ttl",
        "lease is 0: a permit must live at least 1µs",
    );
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
            let line = limit.spec().to_line().unwrap();
            prop_assert_eq!(line.parse(), Ok(limit), "{}", line);
        }
        if let Ok(spec) = LimitSpec::from_line(&text)
            && let Some(line) = spec.to_line()
        {
            prop_assert_eq!(LimitSpec::from_line(&line), Ok(spec), "{}", line);
        }
        if let Ok(shaper) = text.parse::<LeakyBucket>() {
            prop_assert!(shaper.limit() > 0);
        }
    }

    /// Whatever the numbers are: the limit that is built can be written, and read again as the same.
    #[test]
    fn a_limit_is_read_as_it_is_written(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        (units, burst, buckets) in (1_u64..1000, 1_u64..1000, 1_u64..=12),
        period_us in 1_u64..200_000_000_000,
        (offset, rolling, every) in (-840_i64..=840, any::<bool>(), 0_usize..4),
    ) {
        let period = Duration::from_micros(period_us * buckets);
        let everies = [Every::Day, Every::Week, Every::Month].map(Period::Calendar);
        let every = *everies.get(every).unwrap_or(&Period::Length(period));
        let has = |field| algorithm.fields().contains(&field);
        let is_calendar = every != Period::Length(period) && !rolling;
        let is_quota = algorithm == Algorithm::QUOTA;
        let counts = is_quota || algorithm == Algorithm::CONCURRENCY;
        let amount =
            if counts { Amount::Count(units) } else { Amount::Rate(units, Period::Length(period)) };
        let spec = LimitSpec {
            algorithm: Some(algorithm),
            limit: has(Field::Limit).then(|| amount.clone()),
            refill: has(Field::Refill).then_some(amount),
            burst: has(Field::Burst).then_some(burst),
            capacity: (algorithm == Algorithm::TOKEN_BUCKET).then_some(burst),
            buckets: (has(Field::Buckets) && (rolling || !is_quota)).then_some(buckets),
            max_wait: has(Field::MaxWait).then_some(Written::Value(period)),
            every: has(Field::Every).then_some(Written::Value(every)),
            time_zone: None,
            utc_offset: (is_quota && is_calendar).then_some(Written::Value(offset)),
            rolling: has(Field::Rolling).then_some(rolling),
            ttl: has(Field::Ttl).then_some(Written::Value(period)),
        };
        let built = spec.build(&zones);
        let line = spec.to_line().unwrap();
        let read = LimitSpec::from_line(&line).unwrap();
        prop_assert_eq!(read.build(&zones), built.clone(), "{}", line);
        prop_assert_eq!(LimitSpec::from_line(&read.to_line().unwrap()), Ok(read));
        if let Ok(LimitOrShaper::Limit(limit)) = built {
            prop_assert_eq!(limit.algorithm(), algorithm.name());
            prop_assert_eq!(limit.spec().build(&zones), Ok(limit.clone().into()));
            let line = limit.spec().to_line().unwrap();
            prop_assert_eq!(line.parse(), Ok(limit), "{}", line);
        }
    }

    /// No field panics, whatever stands in it.
    #[test]
    fn no_fields_panic(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        (limit, every, offset, span) in ("\\PC{0,12}", "\\PC{0,8}", "\\PC{0,8}", "\\PC{0,8}"),
        (number, rolling) in (prop::option::of(any::<u64>()), any::<Option<bool>>()),
    ) {
        let spec = LimitSpec {
            algorithm: Some(algorithm),
            limit: Some(limit.as_str().into()),
            refill: Some(limit.as_str().into()),
            burst: number,
            capacity: number,
            buckets: number,
            max_wait: Some(span.as_str().into()),
            every: Some(every.as_str().into()),
            time_zone: None,
            utc_offset: Some(offset.as_str().into()),
            rolling,
            ttl: Some(span.as_str().into()),
        };
        let errors = spec.check(&zones).expect_err("no algorithm has all fields");
        prop_assert!(errors.iter().all(|error| !error.to_string().is_empty()));
    }
}
