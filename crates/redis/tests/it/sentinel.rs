//! Redis Sentinel: the primary is found, followed, and never confused with its predecessor.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Op, Ran, StoreErrorKind};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, Load, ask, limit_of, spent, store, take, until_answered};
use tidegate_testkit::processes::{RedisSentinel, RedisServer};

/// It takes 100 ms. A machine may be busy, and a replaced primary goes on for ten seconds before it knows.
const SERVES_AGAIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed_and_nobody_is_charged_twice() {
    const K: u64 = 1_000_000;
    let group = Arc::new(RedisSentinel::start());
    let store = store(group.url(), Duration::from_millis(200));
    until_answered(&store).await;
    let load = Load::start(&store, "k", &limit_of(K));
    load.asks(&store, 500).await;
    let failing = group.clone();
    spawn_blocking(move || failing.failover().new.port()).await.unwrap();
    let start = Instant::now();
    until_answered(&store).await;
    assert!(start.elapsed() < SERVES_AGAIN, "{:?} after the sentinels", start.elapsed());
    load.asks(&store, 500).await;
    let outcomes = load.end().await;
    let spent = spent(&store, "k", &limit_of(K)).await;
    // A replica may have missed the last writes: less may be spent than was admitted, never more than was asked.
    assert!(spent <= outcomes.admitted + outcomes.unknown, "{spent} spent, {outcomes:?}");
    assert!(outcomes.admitted > 500, "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_is_never_asked_again() {
    const K: u64 = 1_000_000;
    let group = Arc::new(RedisSentinel::start());
    let store = store(group.url(), Duration::from_millis(200));
    until_answered(&store).await;
    let load = Load::start(&store, "k", &limit_of(K));
    load.asks(&store, 200).await;
    let failing = group.clone();
    let old = spawn_blocking(move || failing.zombie().old.port()).await.unwrap();
    until_answered(&store).await;
    let old = group.servers().iter().find(|server| server.port() == old).unwrap();
    let calls = || old.info("cmdstat_evalsha");
    let before = calls();
    load.asks(&store, 2_000).await;
    assert_eq!(calls(), before, "the old primary was asked");
    load.end().await;
}

#[tokio::test]
async fn one_sentinel_is_enough_and_none_is_told() {
    let group = RedisSentinel::start();
    for sentinel in &group.sentinels()[1..] {
        sentinel.kill();
    }
    let one = store(group.url(), LONG_TIMEOUT);
    assert_eq!(take(&one, "k", &limit_of(5)).await, Ok(true));
    let unknown = store(group.url().replace("mymaster", "another"), LONG_TIMEOUT);
    let error = take(&unknown, "k", &limit_of(5)).await.unwrap_err();
    assert!(error.to_string().contains("No such master"), "{error}");
    group.sentinels()[0].kill();
    let none = store(group.url(), LONG_TIMEOUT);
    let error = take(&none, "k", &limit_of(5)).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Unreachable, Ran::No), "{error}");
    // Whoever has found the primary needs no sentinel to go on.
    assert_eq!(take(&one, "k", &limit_of(5)).await, Ok(true));
    group.sentinels()[0].restart();
    until_answered(&none).await;
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_and_a_primary_again_is_used_again() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let store = store(server.url(), LONG_TIMEOUT);
    assert_eq!(take(&store, "k", &limit_of(5)).await, Ok(true));
    server.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).text();
    let error = ask(&store, "k", &limit_of(5), Op::Take).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::ReadOnly, Ran::No), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]).text();
    assert_eq!(take(&store, "k", &limit_of(5)).await, Ok(true));
}
