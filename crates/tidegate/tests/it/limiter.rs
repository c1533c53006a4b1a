//! The limiter, as a program uses it.

use std::time::Duration;

use tidegate::{Clock, LimitError, Limiter, ManualClock, SystemClock, Timestamp};

fn limiter(limit: &str) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    (Limiter::builder(limit).clock(clock.clone()).build().unwrap(), clock)
}

#[test]
fn a_limit_is_spent_and_comes_back() {
    let (limiter, clock) = limiter("100/min burst 2");
    let row = |limiter: &Limiter<ManualClock>| {
        let decision = limiter.check("user-42");
        (decision.allowed(), decision.limit(), decision.remaining(), decision.retry_after())
    };
    assert_eq!(row(&limiter), (true, 2, 1, Some(Duration::ZERO)));
    assert_eq!(row(&limiter), (true, 2, 0, Some(Duration::ZERO)));
    assert_eq!(row(&limiter), (false, 2, 0, Some(Duration::from_millis(600))));
    clock.advance(Duration::from_millis(600));
    assert_eq!(row(&limiter), (true, 2, 0, Some(Duration::ZERO)));
}

#[test]
fn keys_of_every_kind_of_bytes_are_apart() {
    let (limiter, _) = limiter("1/h");
    let long = "x".repeat(10_000);
    let keys: [&[u8]; 7] =
        [b"", b"\0", b"\0\0", b"a", b"b", long.as_bytes(), &long.as_bytes()[1..]];
    assert!(keys.iter().all(|key| limiter.check(key).allowed()));
    assert!(keys.iter().all(|key| !limiter.check(key).allowed()));
}

#[test]
fn peek_spends_nothing_and_reset_forgets() {
    for limit in ["5/h", "7919/h burst 5", "fixed-window 5/h", "sliding-log 5/h", "quota 5/day"] {
        let (limiter, _) = limiter(limit);
        assert_eq!(limiter.peek("k", 5).remaining(), 0, "{limit}");
        assert_eq!(limiter.check_n("k", 4).remaining(), 1, "{limit}");
        assert!(!limiter.peek("k", 2).allowed(), "{limit}");
        assert_eq!(limiter.refund("k", 1).remaining(), 2, "{limit}");
        limiter.reset("k");
        assert_eq!(limiter.peek("k", 0).remaining(), 5, "{limit}");
        limiter.reset("never seen");
    }
}

#[test]
fn a_permit_from_before_a_reset_gives_nothing_back() {
    let (limiter, _) = limiter("concurrency 1");
    let before = limiter.acquire("k").permit;
    limiter.reset("k");
    let after = limiter.acquire("k").permit;
    assert!(before.is_some() && after.is_some());
    drop(before);
    assert!(limiter.acquire("k").permit.is_none(), "the place of another was given back");
}

#[test]
fn an_override_keeps_what_was_spent_and_can_be_taken_back() {
    let (limiter, _) = limiter("fixed-window 5/h");
    let _ = limiter.check_n("partner", 5);
    limiter.set_override("partner", "fixed-window 100/h").unwrap();
    assert_eq!(limiter.check("partner").remaining(), 94);
    assert_eq!(limiter.check("somebody").remaining(), 4);
    assert_eq!(limiter.check_many(&["partner", "somebody"])[0].remaining(), 93);
    assert!(limiter.clear_override("partner"));
    assert!(!limiter.clear_override("partner"));
    assert!(!limiter.check("partner").allowed());
    assert_eq!(limiter.set_override("partner", "0/s"), Err(LimitError::ZeroLimit));
}

#[test]
fn a_changed_rate_keeps_the_time_that_was_spent() {
    // From a rate whose state fits a word to one whose state does not, and back.
    let (limiter, _) = limiter("10/s");
    let _ = limiter.check_n("k", 10);
    limiter.set_override("k", "7919/s").unwrap();
    assert!(!limiter.check("k").allowed());
    assert_eq!(limiter.check("k").reset_after(), Duration::from_secs(1));
    limiter.clear_override("k");
    assert_eq!(limiter.check("k").retry_after(), Some(Duration::from_millis(100)));
}

#[test]
fn many_keys_at_once_answer_as_one_by_one() {
    for limit in ["3/h", "7919/h burst 3", "sliding-log 3/h"] {
        let (one_by_one, _) = limiter(limit);
        let (at_once, _) = limiter(limit);
        let keys: Vec<String> = (0..1_000).map(|n| format!("user-{}", n * n % 300)).collect();
        let expected: Vec<_> = keys.iter().map(|key| one_by_one.check(key)).collect();
        assert_eq!(at_once.check_many(&keys), expected, "{limit}");
    }
    assert!(limiter("1/s").0.check_many::<&str>(&[]).is_empty());
}

#[test]
fn clones_share_everything() {
    let (limiter, _) = limiter("1/h");
    let clone = limiter.clone();
    assert!(limiter.check("k").allowed());
    assert!(!clone.check("k").allowed());
    clone.set_override("k", "2/h").unwrap();
    assert_eq!(limiter.peek("k", 0).limit(), 2);
}

#[test]
fn a_bad_limit_is_an_error_with_its_text() {
    let error = Limiter::new("100/fortnight").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`100/fortnight`: unit `fortnight` is unknown: expected us, ms, s, min, h, day or week"
    );
}

#[test]
fn a_manual_clock_moves_as_instants_do() {
    let noon = Timestamp::from_micros(1_700_000_000_000_000);
    let rows = [
        (noon, Duration::ZERO),
        (noon, Duration::from_secs(1)),
        (noon, Duration::from_nanos(1)),
        (noon, Duration::from_nanos(1001)),
        (noon, Duration::from_micros(u64::MAX)),
        (noon, Duration::MAX),
        (Timestamp::MAX, Duration::from_nanos(1)),
        (Timestamp::EPOCH, Duration::MAX),
    ];
    for (start, span) in rows {
        let clock = ManualClock::at(start);
        clock.advance(span);
        assert_eq!(clock.now(), start + span, "{start:?} + {span:?}");
        clock.advance(Duration::from_micros(u64::MAX));
        clock.advance(Duration::from_micros(u64::MAX));
        assert_eq!(clock.now(), Timestamp::MAX, "{start:?} + {span:?}, and on to the end");
    }
}

#[test]
fn the_system_clock_is_in_this_century() {
    let us = SystemClock.now().as_micros();
    assert!((1_700_000_000_000_000..4_000_000_000_000_000).contains(&us));
}
