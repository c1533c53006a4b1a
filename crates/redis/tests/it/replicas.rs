//! Confirmed by replicas: who waits, for how long, and what is answered when they confirm nothing.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Answer, Check, CheckError, Engine, Key, OnStoreError, Op, Policy, Replicas, Source,
    StoreErrorKind, Unconfirmed,
};
use tidegate_redis::RedisStore;
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, store, until_answered};
use tidegate_testkit::processes::{RedisCluster, RedisSentinel, RedisServer, wait_until};

/// Of the store: enough for a busy machine, and far less than `REPLICA_TIMEOUT`.
const DEADLINE: Duration = Duration::from_millis(200);

/// For replicas that answer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(10);

/// For replicas that do not.
const SHORT: Duration = Duration::from_millis(50);

/// What the scheduler of a busy machine may add to a promise about time.
const MARGIN: Duration = Duration::from_secs(1);

fn replicas(timeout: Duration, unconfirmed: Unconfirmed) -> Replicas {
    Replicas { timeout, unconfirmed, ..Replicas::default() }
}

/// Ten units that do not come back while a test runs.
fn ten() -> Policy {
    Policy::all().limit("", "10/3650day")
}

fn engine(store: &Arc<RedisStore>, policy: Policy) -> Engine {
    Engine::builder()
        .store(store.clone())
        .policy("paid", policy)
        .policy("api", ten())
        .build()
        .unwrap()
}

/// What Redis has left, once it says so: a policy with replicas has connections of its own, which find a new primary by
/// themselves. Until then this node answers, and knows of nothing spent.
async fn left(engine: &Engine, policy: &str, key: &str) -> u64 {
    let check = Check { policy, key: Key::One(key.as_bytes()), cost: 0 };
    let answered = async {
        loop {
            let answer = engine.ask(&check, Op::Peek).await.unwrap();
            if answer.source == Source::Store {
                return answer.decision.remaining();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, answered).await.expect("the store does not heal")
}

/// An answer, and how long it took.
async fn timed<'e>(engine: &'e Engine, policy: &str) -> (Answer<'e>, Duration) {
    let start = Instant::now();
    let answer = engine.check(policy, "k").await.unwrap();
    (answer, start.elapsed())
}

/// A primary and its replica. That has its copy up to a second before it says so, and is sent nothing more until then.
fn pair() -> (RedisServer, RedisServer) {
    let primary = RedisServer::start();
    let replica = RedisServer::builder().replica_of(&primary).start();
    primary.command(&["SET", "something", "to send"]).text();
    wait_until("the primary to hear from its replica", LONG_TIMEOUT, || {
        let seen = primary.info("slave0");
        seen.contains("state=online") && !seen.contains("offset=0,")
    });
    (primary, replica)
}

#[tokio::test]
async fn what_replicas_confirm_is_answered_at_once() {
    let (primary, _replica) = pair();
    let store = store(primary.url(), LONG_TIMEOUT);
    let engine = engine(&store, ten().replicas(replicas(REPLICA_TIMEOUT, Unconfirmed::Deny)));
    for spent in 1..=10 {
        let (answer, took) = timed(&engine, "paid").await;
        assert!(answer.decision.allowed() && answer.source == Source::Store, "{answer:?}");
        assert_eq!(answer.decision.remaining(), 10 - spent);
        assert!(took < REPLICA_TIMEOUT / 2, "{took:?}");
    }
    assert!(!timed(&engine, "paid").await.0.decision.allowed());
    assert_eq!(store.stats().unreplicated, 0);
    assert!(primary.info("cmdstat_wait").starts_with("calls="));
}

#[tokio::test]
async fn a_failover_forgets_nothing_that_was_confirmed() {
    let group = Arc::new(RedisSentinel::start());
    let store = store(group.url(), LONG_TIMEOUT);
    let both =
        Replicas { wait: 2.try_into().unwrap(), ..replicas(REPLICA_TIMEOUT, Unconfirmed::Deny) };
    let engine = engine(&store, ten().replicas(both));
    for _ in 0..7 {
        let (answer, _) = timed(&engine, "paid").await;
        assert!(answer.decision.allowed() && answer.source == Source::Store, "{answer:?}");
    }
    let failing = group.clone();
    tokio::task::spawn_blocking(move || failing.failover().new.port()).await.unwrap();
    until_answered(&store).await;
    assert_eq!(left(&engine, "paid", "k").await, 3);
    assert_eq!(store.stats().unreplicated, 0);
}

#[tokio::test]
async fn every_node_of_a_cluster_waits_for_its_own_replicas() {
    let cluster = RedisCluster::start();
    let store = store(cluster.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let engine = engine(&store, ten().replicas(replicas(REPLICA_TIMEOUT, Unconfirmed::Deny)));
    let keys: Vec<String> = (0..30).map(|n| format!("user-{n}")).collect();
    // All at once: questions of several slots leave for each node together.
    let checks: Vec<_> = keys.iter().map(|key| engine.check("paid", key)).collect();
    for check in checks {
        let answer = check.await.unwrap();
        assert_eq!((answer.source, answer.decision.remaining()), (Source::Store, 9));
    }
    assert_eq!(store.stats().unreplicated, 0);
}

#[tokio::test]
async fn unconfirmed_an_answer_stands_and_is_counted() {
    let (primary, replica) = pair();
    let store = store(primary.url(), DEADLINE);
    let engine = engine(&store, ten().replicas(replicas(SHORT, Unconfirmed::Allow)));
    until_answered(&store).await;
    assert!(timed(&engine, "paid").await.0.decision.allowed());
    replica.pause();
    for spent in 2..=10 {
        let (answer, took) = timed(&engine, "paid").await;
        assert_eq!((answer.source, answer.decision.remaining()), (Source::Store, 10 - spent));
        assert!(took >= SHORT && took <= DEADLINE + SHORT + MARGIN, "{took:?}");
    }
    assert_eq!(store.stats().unreplicated, 9);
    // A refusal has charged nothing: there is nothing to confirm.
    assert!(!timed(&engine, "paid").await.0.decision.allowed());
    assert_eq!((store.stats().unreplicated, store.stats().timeouts), (9, 0));
    replica.resume();
}

#[tokio::test]
async fn many_at_once_are_all_answered_while_replicas_confirm_nothing() {
    let (primary, replica) = pair();
    let store = store(primary.url(), DEADLINE);
    let engine = engine(&store, ten().replicas(replicas(SHORT, Unconfirmed::Allow)));
    until_answered(&store).await;
    replica.pause();
    let keys: Vec<String> = (0..200).map(|n| format!("user-{n}")).collect();
    let checks: Vec<_> = keys.iter().map(|key| engine.check("paid", key)).collect();
    let start = Instant::now();
    for check in checks {
        assert_eq!(check.await.unwrap().source, Source::Store);
    }
    assert!(start.elapsed() <= DEADLINE + SHORT + MARGIN, "{:?}", start.elapsed());
    assert_eq!(store.stats().unreplicated, 200);
    replica.resume();
}

#[tokio::test]
async fn denied_unless_confirmed_callers_are_turned_away_and_what_was_spent_stays_spent() {
    let (primary, replica) = pair();
    let store = store(primary.url(), DEADLINE);
    let policy = ten().on_store_error(OnStoreError::Allow);
    let engine = engine(&store, policy.replicas(replicas(SHORT, Unconfirmed::Deny)));
    until_answered(&store).await;
    assert!(timed(&engine, "paid").await.0.decision.allowed());
    replica.pause();
    for _ in 0..3 {
        let (answer, took) = timed(&engine, "paid").await;
        assert_eq!((answer.source, answer.decision.allowed()), (Source::FailClosed, false));
        assert!(took <= DEADLINE + SHORT + MARGIN, "{took:?}");
    }
    assert_eq!(left(&engine, "paid", "k").await, 6);
    assert_eq!(store.stats().unreplicated, 3);
    replica.resume();
}

#[tokio::test]
async fn nobody_else_is_held_up() {
    let (primary, replica) = pair();
    let store = store(primary.url(), DEADLINE);
    let engine = engine(&store, ten().replicas(replicas(REPLICA_TIMEOUT, Unconfirmed::Allow)));
    until_answered(&store).await;
    replica.pause();
    let held = tokio::spawn({
        let engine = engine.clone();
        async move { engine.check("paid", "k").await.map(|answer| answer.source) }
    });
    tokio::time::timeout(LONG_TIMEOUT, async { while left(&engine, "paid", "k").await == 10 {} })
        .await
        .unwrap();
    for _ in 0..10 {
        let (answer, took) = timed(&engine, "api").await;
        assert!(answer.decision.allowed() && answer.source == Source::Store, "{answer:?}");
        assert!(took < MARGIN, "{took:?}");
    }
    assert!(!held.is_finished(), "what is not confirmed was answered");
    replica.resume();
    assert_eq!(held.await.unwrap(), Ok(Source::Store));
    assert_eq!(store.stats().unreplicated, 0);
}

#[tokio::test]
async fn without_replicas_nothing_is_confirmed() {
    let server = RedisServer::start();
    let store = store(server.url(), DEADLINE);
    until_answered(&store).await;
    let allowed = engine(&store, ten().replicas(replicas(SHORT, Unconfirmed::Allow)));
    assert_eq!(timed(&allowed, "paid").await.0.decision.remaining(), 9);
    let denied = engine(&store, ten().replicas(replicas(SHORT, Unconfirmed::Deny)));
    assert_eq!(timed(&denied, "paid").await.0.source, Source::FailClosed);
    assert_eq!((left(&denied, "paid", "k").await, store.stats().unreplicated), (8, 2));
    let shaper = Policy::shaper("1/s max-wait 1h").replicas(replicas(SHORT, Unconfirmed::Deny));
    let check = Check { policy: "paid", key: Key::One(b"shaped"), cost: 1 };
    let shaped = engine(&store, shaper).reserve(&check).await;
    assert!(
        matches!(&shaped, Err(CheckError::Store(error)) if error.kind() == StoreErrorKind::Unreplicated),
        "{shaped:?}"
    );
}

#[tokio::test]
async fn what_is_leased_is_confirmed_when_it_is_taken() {
    let (primary, replica) = pair();
    let store = store(primary.url(), DEADLINE);
    until_answered(&store).await;
    let hundred = Policy::all().limit("", "token-bucket 100/h capacity 1000").lease(true);
    let engine = engine(&store, hundred.replicas(replicas(SHORT, Unconfirmed::Deny)));
    assert!(timed(&engine, "paid").await.0.decision.allowed());
    assert_eq!(engine.lease_stats().requests, 1);
    replica.pause();
    // Whatever is left of an earlier lease was confirmed.
    let sources = async {
        while timed(&engine, "paid").await.0.source == Source::Lease {}
        timed(&engine, "paid").await.0.source
    };
    assert_eq!(tokio::time::timeout(LONG_TIMEOUT, sources).await.unwrap(), Source::FailClosed);
    assert!(store.stats().unreplicated > 0);
    replica.resume();
}
