//! What happens to questions when Redis fails: the right kind of failure, in time, and never charged twice.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Op, Ran, StoreErrorKind};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, Load, ask, limit_of, spent, store, take, until_answered};
use tidegate_testkit::processes::{FaultProxy, Faults, RedisCluster, RedisServer, Way};

/// As in production.
const DEADLINE: Duration = Duration::from_millis(20);

/// What the scheduler of a busy machine may add to a promise about time.
const MARGIN: Duration = Duration::from_secs(1);

#[tokio::test]
async fn absent_at_start_it_fails_at_once_and_heals_when_redis_comes() {
    let server = RedisServer::start();
    server.kill();
    let store = store(server.url(), LONG_TIMEOUT);
    let start = Instant::now();
    let error = take(&store, "k", &limit_of(5)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(start.elapsed() < LONG_TIMEOUT / 4, "only after {:?}", start.elapsed());
    server.restart();
    until_answered(&store).await;
    assert_eq!(take(&store, "k", &limit_of(5)).await, Ok(true));
}

#[test]
fn after_its_runtime_has_ended_a_store_says_so_at_once() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start());
    for url in [server.url(), cluster.url()] {
        let runtime = || tokio::runtime::Runtime::new().unwrap();
        let first = runtime();
        let store = first.block_on(async {
            let store = store(url.as_str(), DEADLINE);
            until_answered(&store).await;
            store
        });
        drop(first);
        runtime().block_on(async {
            let answer = tokio::time::timeout(LONG_TIMEOUT, take(&store, "k", &limit_of(5))).await;
            let error = answer.expect("never answered").unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{url}: {error}");
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_script_is_no_error_and_nobody_is_charged_twice() {
    const K: u64 = 3_000;
    let server = Arc::new(RedisServer::start());
    let store = store(server.url(), LONG_TIMEOUT);
    let load = Load::start(&store, "k", &limit_of(K));
    for _ in 0..100 {
        let server = server.clone();
        spawn_blocking(move || server.command(&["SCRIPT", "FLUSH"])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    load.asks(&store, K).await;
    let outcomes = load.end().await;
    assert_eq!((outcomes.unknown, outcomes.not_run), (0, 0), "{outcomes:?}");
    assert_eq!(outcomes.admitted, K, "{outcomes:?}");
    let stats = store.stats();
    assert!(stats.noscript > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again_it_charges_nobody_twice() {
    const K: u64 = 1_000_000;
    let server = Arc::new(RedisServer::start());
    let store = store(server.url(), LONG_TIMEOUT);
    for _ in 0..3 {
        // A server that starts again has forgotten everything: each life is counted by itself.
        until_answered(&store).await;
        let load = Load::start(&store, "k", &limit_of(K));
        load.asks(&store, 500).await;
        let before = spent(&store, "k", &limit_of(K)).await;
        let at_kill = {
            let server = server.clone();
            spawn_blocking(move || server.kill()).await
        };
        at_kill.unwrap();
        let outcomes = load.end().await;
        assert!(outcomes.admitted >= before, "{outcomes:?}, and {before} were spent before");
        assert!(outcomes.unknown <= 2 * 64, "more than was under way: {outcomes:?}");
        let restarted = server.clone();
        spawn_blocking(move || restarted.restart()).await.unwrap();
        until_answered(&store).await;
        assert_eq!(spent(&store, "k", &limit_of(K)).await, 0, "something was repeated");
    }
    assert!(store.stats().connects >= 4, "{:?}", store.stats());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_delays_nobody_past_the_deadline() {
    const K: u64 = 1_000_000;
    let server = RedisServer::start();
    let store = store(server.url(), DEADLINE);
    until_answered(&store).await;
    let load = Load::start(&store, "k", &limit_of(K));
    load.asks(&store, 100).await;
    server.pause();
    // Longer than a silent connection is kept: it is given up, and others are tried.
    tokio::time::sleep(3 * MARGIN).await;
    let outcomes = load.end().await;
    assert!(outcomes.longest <= DEADLINE + MARGIN, "{outcomes:?}");
    assert!(outcomes.unknown > 0 && outcomes.not_run > outcomes.unknown, "{outcomes:?}");
    server.resume();
    until_answered(&store).await;
    // What was abandoned may have run, once; nothing else has.
    let checker = crate::support::store(server.url(), LONG_TIMEOUT);
    let spent = spent(&checker, "k", &limit_of(K)).await;
    assert!(spent >= outcomes.admitted, "{spent} spent, {outcomes:?}");
    assert!(spent <= outcomes.admitted + outcomes.unknown, "{spent} spent, {outcomes:?}");
}

#[tokio::test]
async fn a_server_that_hangs_from_the_start_is_waited_for_no_longer_than_the_deadline() {
    let server = RedisServer::start();
    server.pause();
    let store = store(server.url(), DEADLINE);
    let start = Instant::now();
    let error = take(&store, "k", &limit_of(5)).await.unwrap_err();
    assert!(start.elapsed() <= DEADLINE + MARGIN, "{:?}", start.elapsed());
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::NotSent, Ran::No));
    server.resume();
    until_answered(&store).await;
    assert_eq!(spent(&store, "k", &limit_of(5)).await, 0);
}

/// Connections that end before anybody has used them: mostly there is a wait before the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_two_connections_nobody_waits_past_the_deadline() {
    let server = RedisServer::start();
    let store = store(server.url(), DEADLINE);
    until_answered(&store).await;
    for _ in 0..9 {
        let connects = store.stats().connects;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        tidegate_testkit::processes::wait_until("the next connection", LONG_TIMEOUT, || {
            store.stats().connects > connects
        });
    }
    let mut took = Vec::new();
    for _ in 0..5 {
        let disconnects = store.stats().disconnects;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        tidegate_testkit::processes::wait_until("the end of the connection", LONG_TIMEOUT, || {
            store.stats().disconnects > disconnects
        });
        let start = Instant::now();
        // Refused or not, it is answered in time.
        let _ = ask(&store, "k", &limit_of(5), Op::Peek).await;
        took.push(start.elapsed());
        let connects = store.stats().disconnects;
        tidegate_testkit::processes::wait_until("the next connection", LONG_TIMEOUT, || {
            store.stats().connects > connects
        });
    }
    assert!(mostly(took.clone()) <= DEADLINE + MARGIN / 10, "{took:?}");
}

#[tokio::test]
async fn a_connection_that_ends_unused_after_a_while_is_replaced_at_once() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let mut took = Vec::new();
    for _ in 0..10 {
        let connects = store.stats().connects;
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        let start = Instant::now();
        while store.stats().connects == connects {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        took.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(1_050)).await;
    }
    // After as many failures the wait would be up to a second.
    assert!(mostly(took.clone()) <= MARGIN / 10, "{took:?}");
}

/// What half of them took at most: a busy machine delays one or two, not most.
fn mostly(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_come_too_late_are_nobody_elses() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = store(format!("redis://{}", proxy.address()), DEADLINE);
    until_answered(&store).await;
    proxy.set(Faults::to_client(Way::delay(Duration::from_millis(60))));
    let late = ask(&store, "late", &limit_of(7), Op::Take).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::Timeout);
    proxy.heal();
    until_answered(&store).await;
    // Each key has a ceiling of its own: an answer for another would show.
    for ceiling in 1..=50 {
        let reply = ask(&store, &format!("k{ceiling}"), &limit_of(ceiling), Op::Take).await;
        let Ok(reply) = reply else { continue };
        assert_eq!(reply.verdict.decision.remaining(), ceiling - 1);
    }
    let checker = crate::support::store(server.url(), LONG_TIMEOUT);
    assert_eq!(
        spent(&checker, "late", &limit_of(7)).await,
        1,
        "charged once, though never answered"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_lose_nothing_but_what_was_under_way() {
    const K: u64 = 1_000_000;
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = store(format!("redis://{}", proxy.address()), LONG_TIMEOUT);
    until_answered(&store).await;
    let load = Load::start(&store, "k", &limit_of(K));
    let faults = [
        Faults::to_client(Way::truncate_after_bytes(20)),
        Faults::to_server(Way::truncate_after_bytes(300)),
        Faults::to_client(Way::corrupt_at_byte(0)),
        Faults::to_client(Way::corrupt_at_byte(40)),
        Faults::reset(),
    ];
    for fault in faults {
        load.asks(&store, 200).await;
        // Counted before: it may break at once, and the next connection take no harm.
        let before = store.stats().disconnects;
        proxy.set(fault);
        let broken = async {
            while store.stats().disconnects == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG_TIMEOUT, broken).await.unwrap();
        proxy.heal();
    }
    load.asks(&store, 200).await;
    let outcomes = load.end().await;
    let checker = crate::support::store(server.url(), LONG_TIMEOUT);
    let spent = spent(&checker, "k", &limit_of(K)).await;
    let most = outcomes.admitted + outcomes.unknown;
    assert!((outcomes.admitted..=most).contains(&spent), "{spent} spent, {outcomes:?}");
}

#[tokio::test]
async fn a_full_server_writes_nothing_by_halves() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    assert_eq!(take(&store, "before", &limit_of(5)).await, Ok(true));
    server.command(&["CONFIG", "SET", "maxmemory", "1mb"]).text();
    let keys = server.command(&["DBSIZE"]).text();
    for key in ["before", "new"] {
        let error = take(&store, key, &limit_of(5)).await.unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::OutOfMemory, Ran::No), "{error}");
    }
    let error = take(&store, "new", &"sliding-log 3/day".parse().unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::OutOfMemory, Ran::No), "{error}");
    assert_eq!(server.command(&["DBSIZE"]).text(), keys);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).text();
    assert_eq!(spent(&store, "before", &limit_of(5)).await, 1);
}

#[tokio::test]
async fn a_primary_that_becomes_a_replica_is_left_whatever_is_written() {
    let (primary, other) = (RedisServer::start(), RedisServer::start());
    let limits = ["3/day", "sliding-log 3/day", "concurrency 3 lease 60s"];
    let stores = limits.map(|_| store(primary.url(), LONG_TIMEOUT));
    for (store, limit) in stores.iter().zip(limits) {
        assert_eq!(take(store, limit, &limit.parse().unwrap()).await, Ok(true), "{limit}");
    }
    primary.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    // Until a connection is old enough for its server to have become another.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for (store, limit) in stores.iter().zip(limits) {
        let connects = store.stats().connects;
        let error = take(store, limit, &limit.parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::ReadOnly, "{limit}: {error}");
        assert!(store.stats().connects > connects, "{limit}: {:?}", store.stats());
    }
}

#[tokio::test]
async fn what_a_server_refuses_is_named() {
    let primary = RedisServer::start();
    let replica = RedisServer::builder().replica_of(&primary).start();
    let full = RedisServer::builder().max_clients(1).start();
    // Held for as long as the test runs.
    let _holder = std::os::unix::net::UnixStream::connect(full.socket()).unwrap();
    full_is_full(&full);
    for (url, trouble) in
        [(replica.url(), StoreErrorKind::ReadOnly), (full.url(), StoreErrorKind::MaxClients)]
    {
        let store = store(url, LONG_TIMEOUT);
        let named = async {
            loop {
                let error = take(&store, "k", &limit_of(5)).await.unwrap_err();
                assert_eq!(error.ran(), Ran::No, "{error}");
                // Who hangs up while we write may be gone before its reason has come.
                if error.kind() != StoreErrorKind::Unreachable {
                    return error.kind();
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert_eq!(tokio::time::timeout(LONG_TIMEOUT, named).await, Ok(trouble));
    }
}

/// The connection that fills it has been accepted.
fn full_is_full(server: &RedisServer) {
    tidegate_testkit::processes::wait_until("the last place to be taken", LONG_TIMEOUT, || {
        server.try_command(&["PING"]).is_ok_and(|reply| {
            matches!(reply, tidegate_testkit::processes::Reply::Error(why) if why.contains("max number"))
        })
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_somebody_else_that_does_not_end_is_named() {
    let server = Arc::new(RedisServer::builder().config("busy-reply-threshold", "50").start());
    let store = store(server.url(), Duration::from_millis(500));
    until_answered(&store).await;
    let looping = server.clone();
    let looping = spawn_blocking(move || looping.try_command(&["EVAL", "while true do end", "0"]));
    let busy = async {
        loop {
            match take(&store, "k", &limit_of(1_000)).await {
                Err(error) if error.kind() == StoreErrorKind::Busy => return,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, busy).await.expect("the server is never busy");
    server.command(&["SCRIPT", "KILL"]);
    until_answered(&store).await;
    let _ = looping.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_loading_says_so_and_nothing_is_charged() {
    let builder = RedisServer::builder().config("enable-debug-command", "yes");
    // It looks for questions after each so many bytes that it has loaded.
    let server = Arc::new(builder.config("loading-process-events-interval-bytes", "1024").start());
    let store = store(server.url(), LONG_TIMEOUT);
    server.command(&["DEBUG", "POPULATE", "10000"]).text();
    // 10 s for all of them: far more than is needed, and ended as soon as it was seen.
    server.command(&["CONFIG", "SET", "key-load-delay", "1000"]).text();
    let reloading = server.clone();
    let reloading = spawn_blocking(move || reloading.try_command(&["DEBUG", "RELOAD"]));
    let mut admitted = 0;
    let loading = async {
        loop {
            match take(&store, "k", &limit_of(1_000_000)).await {
                Ok(_) => admitted += 1,
                Err(error) => return error,
            }
        }
    };
    let error = tokio::time::timeout(LONG_TIMEOUT, loading).await.expect("it never loads");
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Loading, Ran::No), "{error}");
    server.command(&["CONFIG", "SET", "key-load-delay", "0"]).text();
    until_answered(&store).await;
    assert_eq!(spent(&store, "k", &limit_of(1_000_000)).await, admitted);
    let _ = reloading.await;
}
