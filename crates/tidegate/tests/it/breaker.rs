//! The breaker around a store that is told how to fail, in the runtime's own, paused time.

use std::time::Duration;

use tidegate::{
    Breaker, BreakerOptions, BreakerState, Engine, KeyedLimit, Limit, MemoryStore, Mode,
    OnStoreError, Op, Policy, Scope, Source, Store, StoreError, StoreErrorKind, StoreReply,
    StoreRequest, StoreResult, Timestamp,
};
use tokio::time::{Instant, sleep, timeout};

use tidegate_testkit::scripted::{Scripted, Way};

const MS: Duration = Duration::from_millis(1);

fn take(store: &impl Store) -> StoreResult<StoreReply> {
    let (scope, limit) = (Scope::named("p", ""), Limit::from(fast()));
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    store.decide(&ask, Timestamp::from_micros(1_700_000_000_000_000))
}

fn fast() -> tidegate::Gcra {
    tidegate::Gcra::new(1_000_000, Duration::from_secs(1), 1_000_000).unwrap()
}

fn breaker(way: Way) -> (Scripted, Breaker<Scripted>) {
    let store = Scripted::new(way);
    (store.clone(), Breaker::around(store, BreakerOptions::default()))
}

fn trouble(answer: Result<StoreReply, StoreError>) -> Option<StoreErrorKind> {
    answer.err().map(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_the_store_is_left_alone_and_nobody_waits() {
    let (store, breaker) = breaker(Way::FailsAfter(20 * MS, StoreErrorKind::Timeout));
    for _ in 0..5 {
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(trouble(take(&breaker).await), Some(StoreErrorKind::Timeout));
    }
    assert_eq!((breaker.state(), breaker.opened_total()), (BreakerState::Open, 1));
    for _ in 0..1000 {
        assert_eq!(trouble(take(&breaker).now()), Some(StoreErrorKind::BreakerOpen));
    }
    assert_eq!(store.calls(), 5, "no request asks, and no probe has gone yet");
}

#[tokio::test(start_paused = true)]
async fn the_cause_is_known_for_as_long_as_the_breaker_is_open() {
    let (store, breaker) = breaker(Way::FailsAfter(MS, StoreErrorKind::Unreachable));
    assert_eq!(breaker.cause(), None);
    for _ in 0..5 {
        assert_eq!(trouble(take(&breaker).await), Some(StoreErrorKind::Unreachable));
    }
    let cause = || breaker.cause().map(|error| error.kind());
    for _ in 0..100 {
        assert_eq!(trouble(take(&breaker).await), Some(StoreErrorKind::BreakerOpen));
        sleep(10 * MS).await;
        assert_eq!(cause(), Some(StoreErrorKind::Unreachable));
    }
    // The probes see what is wrong now; one that was not sent says nothing.
    store.behave(Way::FailsAfter(MS, StoreErrorKind::Loading));
    sleep(200 * MS).await;
    assert_eq!(cause(), Some(StoreErrorKind::Loading));
    store.behave(Way::FailsAfter(MS, StoreErrorKind::NotSent));
    sleep(200 * MS).await;
    assert_eq!(cause(), Some(StoreErrorKind::Loading));
    store.behave(Way::AtOnce);
    sleep(200 * MS).await;
    assert_eq!((breaker.state(), cause()), (BreakerState::Closed, None));
}

#[tokio::test(start_paused = true)]
async fn options_without_a_sense_are_taken_as_the_next_that_have_one() {
    let (store, defaults) = (Scripted::new(Way::AtOnce), BreakerOptions::default());
    for options in [
        BreakerOptions { failures: 0, ..defaults.clone() },
        BreakerOptions { failures: 0, window: Duration::MAX, ..defaults.clone() },
        BreakerOptions { failures: 0, window: Duration::ZERO, ..defaults },
    ] {
        let breaker = Breaker::around(store.clone(), options);
        for _ in 0..100 {
            assert_eq!(trouble(take(&breaker).now()), None);
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "what went well opens nothing");
        store.behave(Way::Fails(StoreErrorKind::Unreachable));
        assert_eq!(trouble(take(&breaker).now()), Some(StoreErrorKind::Unreachable));
        assert_eq!(breaker.state(), BreakerState::Open);
        store.behave(Way::AtOnce);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_speaks_of_the_stores_health_counts() {
    for (kind, opens) in [
        (StoreErrorKind::Timeout, true),
        (StoreErrorKind::NotSent, true),
        (StoreErrorKind::Unreachable, true),
        (StoreErrorKind::Disconnected, true),
        (StoreErrorKind::OutOfMemory, true),
        (StoreErrorKind::Loading, true),
        (StoreErrorKind::Denied, true),
        (StoreErrorKind::Overloaded, false),
        (StoreErrorKind::BadRequest, false),
        (StoreErrorKind::WrongType, false),
        (StoreErrorKind::Moving, false),
    ] {
        let (store, breaker) = breaker(Way::Fails(kind));
        for _ in 0..4 {
            assert_eq!(trouble(take(&breaker).now()), Some(kind));
        }
        if !opens {
            (0..20).for_each(|_| drop(take(&breaker)));
            // … nor does it stand between failures.
            store.behave(Way::Fails(StoreErrorKind::Busy));
            (0..4).for_each(|_| drop(take(&breaker)));
            store.behave(Way::Fails(kind));
            drop(take(&breaker));
            assert_eq!(breaker.state(), BreakerState::Closed, "{kind:?}");
            store.behave(Way::Fails(StoreErrorKind::Busy));
        }
        drop(take(&breaker));
        assert_eq!(breaker.state(), BreakerState::Open, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_heals_by_itself_within_100_ms_of_the_store() {
    let (store, breaker) = breaker(Way::Fails(StoreErrorKind::Unreachable));
    (0..5).for_each(|_| drop(take(&breaker)));
    sleep(Duration::from_secs(30)).await;
    assert_eq!(breaker.state(), BreakerState::Open);
    let probes = store.calls() - 5;
    assert!((600..1300).contains(&probes), "{probes} probes in 30 s, 25 to 50 ms apart");
    store.behave(Way::After(MS));
    let started = Instant::now();
    while breaker.state() != BreakerState::Closed {
        assert_eq!(trouble(take(&breaker).now()), Some(StoreErrorKind::BreakerOpen));
        sleep(MS).await;
    }
    assert!(started.elapsed() <= 100 * MS, "{:?}", started.elapsed());
    assert!(take(&breaker).await.is_ok());
    let calls = store.calls();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(store.calls(), calls, "whoever is closed does not probe");
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_is_left_alone_until_its_probes_are_fast() {
    let (store, breaker) = breaker(Way::After(15 * MS));
    let started = Instant::now();
    while breaker.state() == BreakerState::Closed {
        assert!(take(&breaker).await.is_ok());
        assert!(started.elapsed() < Duration::from_millis(1100), "{:?}", started.elapsed());
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(breaker.state(), BreakerState::Open, "probes as slow as that are not good");
    store.behave(Way::Hangs);
    sleep(Duration::from_secs(5)).await;
    store.behave(Way::After(5 * MS));
    sleep(150 * MS).await;
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_abandoned_late_was_a_failure_and_early_was_nothing() {
    let (_, breaker) = breaker(Way::Hangs);
    for _ in 0..100 {
        drop(take(&breaker));
        assert!(timeout(5 * MS, take(&breaker)).await.is_err());
    }
    assert_eq!(breaker.state(), BreakerState::Closed);
    for _ in 0..5 {
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(timeout(20 * MS, take(&breaker)).await.is_err());
    }
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn an_ask_is_under_way_whether_or_not_its_reply_is_looked_at() {
    let (store, breaker) = breaker(Way::After(MS));
    drop(take(&breaker));
    assert_eq!(store.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_prober_ends_with_its_breaker() {
    let (store, breaker) = breaker(Way::Fails(StoreErrorKind::Unreachable));
    (0..5).for_each(|_| drop(take(&breaker)));
    sleep(Duration::from_secs(1)).await;
    drop(breaker);
    let calls = store.calls();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(store.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_of_the_kind_that_was_asked_for() {
    let store = Scripted::new(Way::Fails(StoreErrorKind::Unreachable));
    let elsewhere = Scripted::new(Way::Hangs);
    let probed = elsewhere.clone();
    let options = BreakerOptions::default();
    let breaker = Breaker::probing(store.clone(), options, move |_| take(&probed));
    (0..500).for_each(|_| drop(take(&breaker)));
    sleep(Duration::from_secs(6)).await;
    assert_eq!(store.calls(), 5);
    // Each gives up after 10 ms, and the next comes 25 to 50 ms later.
    assert!((95..180).contains(&elsewhere.calls()), "{}", elsewhere.calls());
    elsewhere.behave(Way::AtOnce);
    sleep(100 * MS).await;
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn without_a_runtime_nobody_could_probe_so_nobody_is_turned_away() {
    let (store, breaker) = breaker(Way::Fails(StoreErrorKind::Unreachable));
    (0..10).for_each(|_| drop(take(&breaker)));
    assert_eq!(store.calls(), 10);
    store.behave(Way::AtOnce);
    assert!(take(&breaker).now().is_ok());
}

#[test]
fn a_prober_that_ended_with_its_runtime_is_replaced() {
    let (store, breaker) = breaker(Way::Fails(StoreErrorKind::Unreachable));
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    runtime().block_on(async { (0..5).for_each(|_| drop(take(&breaker))) });
    assert_eq!(breaker.state(), BreakerState::Open);
    store.behave(Way::AtOnce);
    runtime().block_on(async {
        assert_eq!(trouble(take(&breaker).now()), Some(StoreErrorKind::BreakerOpen));
        sleep(100 * MS).await;
    });
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_engine_decides_by_itself_while_the_breaker_is_open() {
    let (store, breaker) = breaker(Way::FailsAfter(20 * MS, StoreErrorKind::Timeout));
    let engine = Engine::builder().store(breaker.clone()).policy("api", "100/h").build().unwrap();
    for _ in 0..5 {
        assert_eq!(engine.check("api", "k").await.unwrap().source, Source::Local);
    }
    assert_eq!(engine.check("api", "k").now().unwrap().source, Source::Local, "at once");
    store.behave(Way::After(MS));
    sleep(100 * MS).await;
    assert_eq!(engine.check("api", "k").await.unwrap().source, Source::Store);
}

#[test]
fn a_breaker_is_as_local_as_what_is_in_it() {
    let options = BreakerOptions::default;
    assert!(Breaker::around(MemoryStore::default(), options()).extensions().is_local());
    assert!(!breaker(Way::AtOnce).1.extensions().is_local());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_sent_again() {
    for trouble in [StoreErrorKind::BreakerOpen, StoreErrorKind::Timeout] {
        for way in [Way::Fails(trouble), Way::FailsAfter(Duration::from_millis(20), trouble)] {
            let store = Scripted::new(Way::AtOnce);
            let exports = Policy::all().limit("", "concurrency 1 lease 1h");
            let exports = exports.on_store_error(OnStoreError::DENY);
            let builder = Engine::builder().store(store.clone()).policy("exports", exports);
            let engine = builder.build().unwrap();
            let held = engine.acquire("exports", "k").await.unwrap();
            assert!(held.permit.is_some());
            store.behave(way);
            drop(held);
            tokio::time::sleep(Duration::from_millis(500)).await;
            store.behave(Way::AtOnce);
            tokio::time::sleep(Duration::from_secs(2)).await;
            let again = engine.acquire("exports", "k").await.unwrap();
            assert!(again.permit.is_some(), "{way:?}");

            // And not for ever.
            store.behave(way);
            drop(again);
            tokio::time::sleep(Duration::from_mins(1)).await;
            let calls = store.calls();
            tokio::time::sleep(Duration::from_hours(1)).await;
            assert_eq!(store.calls(), calls);
        }
    }
}
