//! A server that restarts empty, hangs, or is full.

use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{
    KeyedLimit, Limit, Mode, Op, Ran, Scope, Store, StoreErrorKind, StoreRequest, Timestamp,
};
use tidegate_testkit::processes::{DEADLINE, MemcachedServer};

use crate::support::{open, options, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_forgets_and_the_store_goes_on() {
    let server = MemcachedServer::start();
    let store = open(&server.url(), &options());
    assert_eq!(take(&*store, "10/day", "k").await.unwrap().remaining(), 9);
    server.restart();
    // Connections from before fail once each.
    let again = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Ok(decision) = take(&*store, "10/day", "k").await {
                return decision.remaining();
            }
        }
    });
    assert_eq!(again.await.unwrap(), 9, "memcached keeps nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_fails_within_the_deadline_and_heals() {
    let server = MemcachedServer::start();
    let deadline = Duration::from_millis(200);
    let store = open(&server.url(), &StoreOptions { deadline, ..options() });
    tokio::time::timeout(DEADLINE, async { while take(&*store, "10/day", "k").await.is_err() {} })
        .await
        .unwrap();
    server.pause();
    // The signal reaches its threads a moment after it was sent.
    let hung = async {
        loop {
            if let Err(error) = take(&*store, "10/day", "k").await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, hung).await.unwrap();
    assert!(matches!(error.kind(), StoreErrorKind::Timeout | StoreErrorKind::NotSent), "{error}");
    server.resume();
    let healed = async { while take(&*store, "10/day", "k").await.is_err() {} };
    tokio::time::timeout(DEADLINE, healed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_has_not_run() {
    let server = MemcachedServer::start();
    let store = open(&server.url(), &options());
    server.kill();
    let error = take(&*store, "10/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Unreachable, Ran::No), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_too_large_for_an_item_is_refused() {
    let server = MemcachedServer::start();
    let store = open(&server.url(), &StoreOptions { replays: true, ..options() });
    let (limit, scope): (Limit, _) =
        ("sliding-log 100000/day".parse().unwrap(), Scope::named("log", ""));
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    let at = |n: u64| Timestamp::from_micros(1_700_000_000_000_000 + n);
    // Each stamp takes 16 bytes: 70,000 are more than an item holds.
    let mut replies = (0..70_000).map(|n| store.decide(&request, at(n)));
    let mut refused = None;
    while refused.is_none() {
        // Not all at once: a lane holds 10,000.
        let some: Vec<_> = replies.by_ref().take(5_000).collect();
        assert!(!some.is_empty(), "all fitted");
        for reply in some {
            refused = refused.or(reply.await.err());
        }
    }
    assert_eq!(refused.unwrap().kind(), StoreErrorKind::Unsupported);
}
