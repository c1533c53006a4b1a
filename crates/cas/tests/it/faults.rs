//! A backend that hangs, fails, or says what is not true.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate::{
    Clock, KeyedLimit, Limit, Mode, Op, Ran, Scope, Store, StoreErrorKind, StoreReply,
    StoreRequest, StoreResult, SystemClock, Timestamp,
};
use tidegate_cas::{CasOptions, CasStore};

use crate::map::{Faults, Map};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// For tests in real time: the machine may be busy.
fn options() -> CasOptions {
    CasOptions { deadline: Duration::from_secs(20), ..with_default_deadline() }
}

/// For tests in virtual time.
fn with_default_deadline() -> CasOptions {
    CasOptions { announces: false, ..CasOptions::default() }
}

fn take(store: &CasStore<Map>, keys: &[&[u8]]) -> StoreResult<StoreReply> {
    let limit: Limit = "10/day".parse().unwrap();
    let scopes: Vec<_> = (0..keys.len()).map(|n| Scope::together("pay", &n.to_string())).collect();
    let limits: Vec<_> = scopes
        .iter()
        .zip(keys)
        .map(|(scope, key)| KeyedLimit { scope, key, limit: &limit })
        .collect();
    store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }, NOW)
}

async fn left(store: &CasStore<Map>, keys: &[&[u8]]) -> u64 {
    take(store, keys).await.unwrap().verdict.decision.remaining()
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_has_certainly_not_run() {
    let map = Map::at(NOW);
    let store = map.store(with_default_deadline());
    Faults::set(&map.faults.reads_hang, true);
    let before = tokio::time::Instant::now();
    let error = take(&store, &[b"k"]).await.unwrap_err();
    assert!(before.elapsed() <= Duration::from_millis(25), "{:?}", before.elapsed());
    assert!(matches!(error.kind(), StoreErrorKind::NotSent | StoreErrorKind::Timeout), "{error}");
    Faults::set(&map.faults.reads_hang, false);
    assert_eq!(left(&store, &[b"k"]).await, 9, "nothing was charged");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_is_unknown_and_never_sent_again() {
    let map = Map::at(NOW);
    let store = map.store(with_default_deadline());
    Faults::set(&map.faults.writes_hang, true);
    let error = take(&store, &[b"k"]).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Timeout, Ran::Unknown));
    assert_eq!(map.faults.writes.load(Ordering::SeqCst), 1);
    Faults::set(&map.faults.writes_hang, false);
    assert_eq!(left(&store, &[b"k"]).await, 9);
    assert_eq!(map.faults.writes.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_write_that_fails_says_so() {
    let map = Map::at(NOW);
    let store = map.store(options());
    Faults::set(&map.faults.writes_fail, true);
    let error = take(&store, &[b"k"]).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::OutOfMemory, Ran::No));
}

#[tokio::test]
async fn several_items_are_written_together_or_not_at_all() {
    let map = Map::at(NOW);
    let store = map.store(options());
    for _ in 0..10 {
        take(&store, &[b"ann"]).await.unwrap();
    }
    let reply = take(&store, &[b"ann", b"ben"]).await.unwrap();
    assert!(!reply.verdict.decision.allowed());
    assert_eq!(map.items(), 1, "ben was not charged");
}

#[tokio::test]
async fn a_request_runs_even_if_its_reply_is_dropped() {
    let map = Map::at(NOW);
    let store = map.store(options());
    drop(take(&store, &[b"k"]));
    assert_eq!(left(&store, &[b"k"]).await, 8);
}

#[tokio::test]
async fn time_does_not_step_back_for_a_key_where_the_backend_has_no_clock() {
    // The item was written by a node whose clock is half a second ahead.
    let map = Map::default();
    let half_a_second_ahead = SystemClock.now() + Duration::from_millis(500);
    let ahead = map.with_clock(half_a_second_ahead);
    let (ahead, store) = (ahead.store(options()), map.store(options()));
    let limit: Limit = "sliding-log 1/s".parse().unwrap();
    let scope = Scope::named("log", "");
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    assert!(ahead.decide(&request, NOW).await.unwrap().verdict.decision.allowed());
    let decision = store.decide(&request, NOW).await.unwrap().verdict.decision;
    let wait = decision.retry_after().unwrap();
    assert!(!decision.allowed() && wait <= Duration::from_secs(1), "{wait:?}: by the later clock");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_was_granted_too_late_is_given_back() {
    let map = Map::at(NOW);
    let store = map.store(with_default_deadline());
    let limit: Limit = "concurrency 1 lease 1h".parse().unwrap();
    let scope = Scope::named("jobs", "");
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    // The write happens, and its answer comes after the deadline.
    Faults::set(&map.faults.answers_late, true);
    let error = store.decide(&request, NOW).await.unwrap_err();
    assert_eq!(error.ran(), Ran::Unknown, "{error}");
    assert_eq!(map.items(), 1, "it was granted");
    Faults::set(&map.faults.answers_late, false);
    let freed = async {
        while !store.decide(&request, NOW).await.unwrap().verdict.decision.allowed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), freed).await.expect("the place to be free again");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_backend_is_left_alone_for_longer_and_longer() {
    let map = Map::at(NOW);
    let store = map.store(CasOptions { lanes: 1, ..options() });
    Faults::set(&map.faults.is_overloaded, true);
    let (start, mut written_at) = (tokio::time::Instant::now(), Vec::new());
    for n in 1..=12 {
        let error = take(&store, &[b"k"]).await.unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Overloaded, Ran::No), "{error}");
        assert_eq!(map.faults.writes.load(Ordering::SeqCst), n, "each failed by itself");
        written_at.push(start.elapsed().as_millis());
    }
    assert_eq!(store.stats().overloaded, 12);
    let pauses: Vec<_> = written_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] <= 6 && pauses[10] >= 150, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 325), "bounded: {pauses:?}");
    Faults::set(&map.faults.is_overloaded, false);
    assert_eq!(left(&store, &[b"k"]).await, 9, "nothing was charged");
    let (before, writes) = (start.elapsed(), map.faults.writes.load(Ordering::SeqCst));
    assert_eq!(left(&store, &[b"k"]).await, 8);
    assert_eq!(start.elapsed(), before, "no pause after a success");
    assert_eq!(map.faults.writes.load(Ordering::SeqCst), writes + 1);
}

#[tokio::test]
async fn a_commit_has_no_more_items_than_the_backend_writes_at_once() {
    // All checks share the item `all`, so that without the bound they would be one commit.
    let names: Vec<_> = (0..40).map(|n| format!("user-{n}")).collect();
    // 10 are admitted, so 11 items change.
    for (most, largest) in [(0, 11), (7, 7)] {
        let map = Map::at(NOW);
        map.faults.commit_items_max.store(most, Ordering::SeqCst);
        let store = map.store(options());
        let replies: Vec<_> = names.iter().map(|n| take(&store, &[b"all", n.as_bytes()])).collect();
        let mut admitted = 0;
        for reply in replies {
            admitted += u32::from(reply.await.unwrap().verdict.decision.allowed());
        }
        assert_eq!(admitted, 10, "of a limit of 10 on `all`");
        let seen = map.faults.largest_commit.load(Ordering::SeqCst);
        assert_eq!(seen, largest, "the largest commit of at most {most} items");
    }
}
