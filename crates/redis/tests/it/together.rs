//! Several checks in one step on a real Redis and a cluster.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Breaker, BreakerOptions, BreakerState, Charge, Check, CheckError, Decision, Engine, Key, Op,
    Policy, Ran, Replicas, Scope, Source, StoreErrorKind, Unconfirmed,
};
use tidegate_redis::RedisStore;

use crate::support::{LONG_TIMEOUT, limit_of, store, until_answered};
use tidegate_testkit::multi_charge::{Row, decides_each_limit_in_one_step};
use tidegate_testkit::processes::{ClusterShape, RedisCluster, RedisServer};

fn cluster() -> RedisCluster {
    RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 })
}

#[tokio::test]
async fn redis_decides_each_limit_in_one_step() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    decides_each_limit_in_one_step(&store).await;
}

#[tokio::test]
async fn a_breaker_around_redis_decides_each_limit_in_one_step() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let breaker =
        Breaker::around(store, BreakerOptions { slow: LONG_TIMEOUT, ..Default::default() });
    decides_each_limit_in_one_step(&breaker).await;
    assert_eq!(breaker.opened_total(), 0);
}

#[tokio::test]
async fn a_cluster_decides_each_limit_in_one_step() {
    let cluster = cluster();
    let store = store(cluster.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    decides_each_limit_in_one_step(&store).await;
}

/// Limits of two policies on two identifiers, each where it would be counted by itself.
fn apart() -> Row {
    let mut row = Row::new("apart", &["5/3650day", "5/3650day"]);
    row.scopes = vec![Scope::named("a", ""), Scope::named("b", "")];
    row
}

#[tokio::test]
async fn one_redis_takes_from_limits_that_are_counted_apart() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let row = apart();
    assert!(row.take(&store, &[1, 2]).await.iter().all(Decision::allowed));
    assert_eq!(row.left(&store).await, [4, 3]);
}

#[tokio::test]
async fn across_the_slots_of_a_cluster_nothing_is_sent_and_no_breaker_opens() {
    let cluster = cluster();
    let store = store(cluster.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let breaker = Breaker::around(store.clone(), BreakerOptions::default());
    let (row, before) = (apart(), store.stats().requests);
    for _ in 0..20 {
        let error = row.ask(&breaker, Charge::IfAllAdmit, &[1, 1]).await.unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Apart, Ran::No));
    }
    assert_eq!((store.stats().requests, breaker.state()), (before, BreakerState::Closed));
    assert_eq!(row.left(&store).await, [5, 5]);
    let policy = || Policy::all().limit("", "5/3650day");
    let engine = Engine::builder()
        .store(breaker)
        .policy("a", policy())
        .policy("b", policy())
        .policy("c", policy().tagged("edge"))
        .policy("d", policy().tagged("edge"))
        .build()
        .unwrap();
    let ask = async |first, second| {
        let check = |policy, key| Check { policy, key: Key::One(key), cost: 2 };
        let checks = [check(first, b"user-1"), check(second, b"user-2")];
        let together = engine.ask_together(&checks, Op::Take).await?;
        Ok(together.answers.iter().map(|answer| answer.decision.remaining()).collect::<Vec<_>>())
    };
    assert_eq!(ask("a", "b").await, Err(CheckError::Apart));
    assert_eq!(ask("a", "c").await, Err(CheckError::Apart));
    assert_eq!(ask("c", "d").await, Ok(vec![3, 3]));
    // By themselves they are counted in the same place.
    let alone = engine.check("c", "user-1").await.unwrap();
    assert_eq!((alone.source, alone.decision.remaining()), (Source::Store, 2));
}

#[tokio::test]
async fn a_key_of_somebody_else_charges_nobody() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let row = Row::new("foreign", &["5/3650day", "sliding-log 5/3650day", "5/3650day"]);
    server.cli(&["SET", "tg:{6:user-2}:foreign-2:a", "hello"]);
    let error = row.ask(&store, Charge::IfAllAdmit, &[1, 1, 1]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::WrongType, "{error}");
    server.cli(&["DEL", "tg:{6:user-2}:foreign-2:a"]);
    assert_eq!(row.left(&store).await, [5, 5, 5]);
}

#[tokio::test]
async fn every_key_of_a_step_has_a_time_to_live_and_flushed_scripts_come_back() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let row =
        Row::new("kept", &["5/h", "sliding-log 5/h", "fixed-window 5/h", "sliding-window 5/h"]);
    row.take(&store, &[1; 4]).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    row.take(&store, &[1; 4]).await;
    assert_eq!(store.stats().noscript, 1);
    let keys = server.cli(&["--scan", "--pattern", "tg:{*}:kept-*"]);
    assert_eq!(keys.lines().count(), 4, "{keys}");
    for key in keys.lines() {
        let ttl_ms: i64 = server.cli(&["PTTL", key]).parse().unwrap();
        assert!(ttl_ms > 0, "{key} lives for {ttl_ms} ms");
    }
}

/// Many callers, each with a limit of its own and one that all share, beside others who take from the shared one alone:
/// what is admitted is exact in all of them.
async fn callers_admit_exactly(store: &Arc<RedisStore>) {
    const CALLERS: usize = 12;
    const STEPS: usize = 60;
    const SHARED: u64 = 400;
    const OWN: u64 = 25;
    let policy = |count| Policy::all().limit("", limit_of(count)).tagged("edge").deny_cache(false);
    let engine = Engine::builder()
        .store(store.clone())
        .policy("own", policy(OWN))
        .policy("shared", policy(SHARED))
        .build()
        .unwrap();
    let shared = Check { policy: "shared", key: Key::One(b"all"), cost: 1 };
    let callers = (0..CALLERS).map(|caller| {
        let (engine, key) = (engine.clone(), format!("caller-{caller}"));
        tokio::spawn(async move {
            let own = Check { policy: "own", key: Key::One(key.as_bytes()), cost: 1 };
            let checks = [own, Check { cost: 2, ..shared }];
            // All are under way before the first is waited for, so that they share calls.
            let replies: Vec<_> =
                (0..STEPS).map(|_| engine.ask_together(&checks, Op::Take)).collect();
            let alone = if caller < 2 { 40 } else { 0 };
            let alone: Vec<_> = (0..alone).map(|_| engine.ask(&shared, Op::Take)).collect();
            let (mut steps, mut singles) = (0, 0);
            for reply in replies {
                let together = reply.await.unwrap();
                assert!(together.answers.iter().all(|answer| answer.source == Source::Store));
                steps += u64::from(together.admitted());
            }
            for reply in alone {
                singles += u64::from(reply.await.unwrap().decision.allowed());
            }
            let left = engine.ask(&Check { cost: 0, ..own }, Op::Peek).await.unwrap();
            assert_eq!(OWN - left.decision.remaining(), steps, "caller {caller}");
            steps * 2 + singles
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut spent = 0;
    for caller in callers {
        spent += caller.await.unwrap();
    }
    assert_eq!(spent, SHARED);
    let left = engine.ask(&Check { cost: 0, ..shared }, Op::Peek).await.unwrap();
    assert_eq!(left.decision.remaining(), 0);
    let stats = store.stats();
    assert!(stats.calls < stats.requests, "nothing was batched: {stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_one_redis_admit_exactly() {
    let server = RedisServer::start();
    callers_admit_exactly(&store(server.url(), LONG_TIMEOUT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_a_cluster_admit_exactly() {
    let cluster = cluster();
    let store = store(cluster.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    callers_admit_exactly(&store).await;
}

#[tokio::test]
async fn large_steps_share_no_call_that_would_hold_others_up() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let row = Arc::new(Row::new("large", &["100/3650day"; 64]));
    let before = store.stats().calls;
    let mut steps = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let (row, store) = (row.clone(), store.clone());
        steps.spawn(async move { row.take(&store, &[1; 64]).await });
    }
    for each in steps.join_all().await {
        assert!(each.iter().all(Decision::allowed));
    }
    assert!(store.stats().calls - before >= 4, "64 × 64 keys in {:?}", store.stats());
    assert_eq!(row.left(&store).await, [36; 64]);
}

#[tokio::test]
async fn the_strictest_policy_says_what_replicas_have_to_confirm() {
    let server = RedisServer::start(); // without any
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let policy = || Policy::all().limit("", "5/3650day").deny_cache(false);
    let short = Replicas { timeout: Duration::from_millis(5), ..Replicas::default() };
    let strict = Replicas { unconfirmed: Unconfirmed::Deny, ..short };
    let many = Replicas { wait: 3.try_into().unwrap(), ..short };
    let engine = Engine::builder()
        .store(store.clone())
        .policy("plain", policy())
        .policy("lax", policy().replicas(many))
        .policy("strict", policy().replicas(strict))
        .build()
        .unwrap();
    let ask = async |policies: [&str; 2]| {
        let checks = policies.map(|policy| Check { policy, key: Key::One(b"k"), cost: 1 });
        let together = engine.ask_together(&checks, Op::Take).await.unwrap();
        (together.admitted(), together.answers.iter().map(|it| it.source).collect::<Vec<_>>())
    };
    assert_eq!(ask(["plain", "lax"]).await, (true, vec![Source::Store; 2]));
    assert_eq!(store.stats().unreplicated, 1);
    assert_eq!(ask(["plain", "strict"]).await, (false, vec![Source::FailClosed; 2]));
    assert_eq!(ask(["lax", "strict"]).await, (false, vec![Source::FailClosed; 2]));
    assert_eq!(store.stats().unreplicated, 3);
    // What was spent stays spent.
    for (policy, left) in [("plain", 3), ("lax", 3)] {
        let check = Check { policy, key: Key::One(b"k"), cost: 0 };
        let answer = engine.ask(&check, Op::Peek).await.unwrap();
        assert_eq!(answer.decision.remaining(), left, "{policy}");
    }
}

#[tokio::test]
async fn the_shortest_deadline_that_a_policy_names_is_kept() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let policy = || Policy::all().limit("", "5/3650day");
    let engine = Engine::builder()
        .store(store)
        .policy("plain", policy())
        .policy("quick", policy().deadline(Duration::from_millis(20)))
        .policy("slow", policy().deadline(LONG_TIMEOUT))
        .build()
        .unwrap();
    server.pause();
    for policies in [["plain", "quick"], ["quick", "plain"], ["slow", "quick"], ["quick", "slow"]] {
        let checks = policies.map(|policy| Check { policy, key: Key::One(b"k"), cost: 0 });
        let start = tokio::time::Instant::now();
        let together = engine.ask_together(&checks, Op::Take).await.unwrap();
        assert!(together.answers.iter().all(|answer| answer.source == Source::Local));
        assert!(start.elapsed() < LONG_TIMEOUT / 4, "{policies:?} took {:?}", start.elapsed());
    }
    server.resume();
}
