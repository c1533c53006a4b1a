//! Permits that nobody got: granted too late, or to a caller who had left. Their places come back before the lease ends.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Check, Engine, Key, OnStoreError, Op, Permit, Policy, Released, Replicas, Source,
    StoreErrorKind, Unconfirmed,
};
use tidegate_redis::RedisStore;
use tidegate_testkit::processes::{FaultProxy, Faults, RedisCluster, RedisServer, Way};
use tokio::time::{sleep, timeout};

use crate::support::{LONG_TIMEOUT, ask, limit_of, store, until_answered};

/// As in production.
const DEADLINE: Duration = Duration::from_millis(20);

/// Longer than a test: a place that is not given back stays taken.
const EXPORT: &str = "concurrency 1 lease 1h";

const KEY: Check<'_> = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };

fn engine(store: &Arc<RedisStore>) -> Engine {
    let export = Policy::all().limit("jobs", EXPORT).on_store_error(OnStoreError::DENY);
    Engine::builder().store(store.clone()).policy("export", export).build().unwrap()
}

async fn left(engine: &Engine) -> u64 {
    let answer = engine.ask(&Check { cost: 0, ..KEY }, Op::Peek).await.unwrap();
    assert_eq!(answer.source, Source::Store);
    answer.decision.remaining()
}

/// Until a place was granted, as `next` of its key says, and given back.
async fn until_given_back(server: &RedisServer, checker: &Engine) {
    let given_back = async {
        while granted(server) == 0 || left(checker).await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG_TIMEOUT, given_back).await.expect("the place stays taken");
    let held = engine_acquires(checker).await;
    assert!(held.is_some(), "the place can be had again");
}

async fn engine_acquires(engine: &Engine) -> Option<Permit> {
    engine.acquire_for(&KEY).await.unwrap().permit
}

/// How many keys of permits there are: one that was never granted has none.
fn granted(server: &RedisServer) -> usize {
    server.cli(&["KEYS", "*export*"]).matches("export").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_after_the_deadline_is_given_back() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let (late, direct) = (
        store(format!("redis://{}", proxy.address()), DEADLINE),
        store(server.url(), LONG_TIMEOUT),
    );
    let (late_engine, checker) = (engine(&late), engine(&direct));
    until_answered(&late).await;
    proxy.set(Faults::to_client(Way::delay(Duration::from_millis(200))));
    let acquired = late_engine.acquire_for(&KEY).await.unwrap();
    assert_eq!((acquired.answer.source, acquired.permit.is_some()), (Source::FailClosed, false));
    until_given_back(&server, &checker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hung_gives_back_what_it_grants_when_it_goes_on() {
    let server = RedisServer::start();
    let (late, direct) = (store(server.url(), DEADLINE), store(server.url(), LONG_TIMEOUT));
    let (late_engine, checker) = (engine(&late), engine(&direct));
    until_answered(&late).await;
    until_answered(&direct).await;
    server.pause();
    let acquired = late_engine.acquire_for(&KEY).await.unwrap();
    assert_eq!(acquired.answer.store_error, Some(StoreErrorKind::Timeout));
    // The silent connection is given up, and the request is still in it.
    let given_up = async {
        while late.stats().disconnects == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG_TIMEOUT, given_up).await.expect("a silent connection is kept");
    server.resume();
    until_answered(&late).await;
    until_given_back(&server, &checker).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_whose_caller_has_left_is_given_back() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let slow = store(format!("redis://{}", proxy.address()), LONG_TIMEOUT);
    let (slow_engine, checker) = (engine(&slow), engine(&store(server.url(), LONG_TIMEOUT)));
    until_answered(&slow).await;
    // Before the reply, and with a reply that was never read.
    for delay in [Duration::from_millis(100), Duration::ZERO] {
        proxy.set(Faults::to_client(Way::delay(delay)));
        let mut acquiring = slow_engine.acquire_for(&KEY);
        if delay.is_zero() {
            // Somebody else's reply comes after it on the same connection.
            ask(&slow, "k", &limit_of(1), Op::Peek).await.unwrap();
        } else {
            let polled = timeout(Duration::from_millis(1), &mut acquiring).await;
            assert!(polled.is_err(), "{polled:?}");
        }
        drop(acquiring);
        until_given_back(&server, &checker).await;
        server.command(&["FLUSHALL"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_gives_late_grants_back_too() {
    let cluster = RedisCluster::start();
    let (late, direct) = (store(cluster.url(), DEADLINE), store(cluster.url(), LONG_TIMEOUT));
    let (late_engine, checker) = (engine(&late), engine(&direct));
    until_answered(&late).await;
    until_answered(&direct).await;
    assert_eq!(left(&checker).await, 1);
    // Its first node with this key hangs until the deadline has passed.
    for node in cluster.nodes() {
        node.pause();
    }
    let acquired = late_engine.acquire_for(&KEY).await.unwrap();
    assert_eq!(acquired.answer.source, Source::FailClosed);
    for node in cluster.nodes() {
        node.resume();
    }
    until_answered(&late).await;
    let given_back = async {
        let id = loop {
            if let Some(permit) = engine_acquires(&checker).await {
                break permit.into_id();
            }
            sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(checker.release(&KEY, &id).await, Ok(Released::Yes));
    };
    timeout(LONG_TIMEOUT, given_back).await.expect("the place stays taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_no_replica_confirms_is_given_back_where_that_denies() {
    let server = RedisServer::start();
    let store = store(server.url(), Duration::from_secs(2));
    let replicas = Replicas {
        timeout: Duration::from_millis(50),
        unconfirmed: Unconfirmed::Deny,
        ..Replicas::default()
    };
    let export = Policy::all().limit("jobs", EXPORT).replicas(replicas);
    let paid = Engine::builder().store(store.clone()).policy("export", export).build().unwrap();
    let checker = engine(&store);
    until_answered(&store).await;
    let acquired = paid.acquire_for(&KEY).await.unwrap();
    assert_eq!(acquired.answer.store_error, Some(StoreErrorKind::Unreplicated));
    until_given_back(&server, &checker).await;
}

#[tokio::test]
async fn a_permit_is_found_by_the_name_of_its_limit_on_every_node_and_after_a_reload() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let built = |policy: Policy| {
        Engine::builder().store(store.clone()).policy("export", policy).build().unwrap()
    };
    let one = || Policy::all().limit("jobs", EXPORT).limit("rate", "100/min");
    let before = built(one());
    let id = before.acquire_for(&KEY).await.unwrap().permit.unwrap().into_id();
    let text = id.to_string();
    assert!(text.starts_with("p2.jobs."), "{text}");
    let id = text.parse().unwrap();
    let reordered = built(Policy::all().limit("rate", "100/min").limit("jobs", EXPORT));
    let without = built(Policy::all().limit("rate", "100/min"));
    let another_kind = built(Policy::all().limit("jobs", "100/min"));
    for gone in [&without, &another_kind] {
        assert_eq!(gone.release(&KEY, &id).await, Ok(Released::UnknownLimit));
    }
    let other_key = Check { key: Key::One(b"user-7"), ..KEY };
    assert_eq!(before.release(&other_key, &id).await, Ok(Released::NotHeld));
    assert_eq!(left(&before).await, 0);
    assert_eq!(reordered.release(&KEY, &id).await, Ok(Released::Yes));
    assert_eq!(left(&before).await, 1);
    assert_eq!(before.release(&KEY, &id).await, Ok(Released::NotHeld));
}

#[tokio::test]
async fn a_permit_whose_lease_has_ended_is_not_released() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let export = Policy::all().limit("jobs", "concurrency 1 lease 1ms");
    let engine = Engine::builder().store(store).policy("export", export).build().unwrap();
    let id = engine.acquire_for(&KEY).await.unwrap().permit.unwrap().into_id();
    let ended = async {
        while left(&engine).await == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG_TIMEOUT, ended).await.expect("the lease does not end");
    assert_eq!(engine.release(&KEY, &id).await, Ok(Released::NotHeld));
    assert_eq!(left(&engine).await, 1);
}

/// As in production, where a lease of a minute is renewed after twenty seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_held_is_renewed_in_redis() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let engine = Engine::builder().store(store).policy("export", "concurrency 1 lease 12s");
    let engine = engine.build().unwrap();
    let held = engine_acquires(&engine).await.expect("a place");
    let key = server.cli(&["KEYS", "*export*"]);
    let ends = || {
        let members = server.cli(&["ZRANGE", key.trim(), "0", "-1", "WITHSCORES"]);
        members.split_whitespace().filter_map(|it| it.parse::<f64>().ok()).fold(0.0, f64::max)
    };
    let first = ends();
    let renewed = async {
        while ends() <= first {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG_TIMEOUT, renewed).await.expect("nobody renews it");
    assert!(engine_acquires(&engine).await.is_none());
    drop(held);
    until_given_back(&server, &engine).await;
}
