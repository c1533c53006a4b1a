//! Adaptive limits over Redis: each check brings along what is in force, and the script goes by it.

use std::time::Duration;

use tidegate::{Check, Effective, Engine, Key, Op, Policy, Source};

use crate::support::{LONG_TIMEOUT, store};
use tidegate_testkit::processes::RedisServer;

/// Limits that gain nothing while a test runs.
const LIMITS: [&str; 5] = [
    "100/3650day",
    "token-bucket 100/3650day capacity 100",
    "fixed-window 100/3650day",
    "sliding-window 100/3650day",
    "sliding-log 100/3650day",
];

async fn admitted(engine: &Engine, policy: &str) -> u64 {
    let mut admitted = 0;
    loop {
        let answer = engine.check(policy, "k").await.unwrap();
        assert!(matches!(answer.source, Source::Store | Source::DenyCache | Source::Lease));
        if !answer.decision.allowed() {
            return admitted;
        }
        admitted += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_what_is_in_force_is_admitted_by_all_nodes_together() {
    let server = RedisServer::start();
    let effective = Effective::default();
    let nodes = [0; 3].map(|_| {
        let policy = |builder: tidegate::EngineBuilder, limit: &&str| {
            let limit: tidegate::Limit = limit.parse().unwrap();
            let policy = Policy::all().limit("", limit.clone()).adaptive("", &effective);
            builder.policy(format!("{limit:?}"), policy)
        };
        let builder = Engine::builder().store(store(server.url(), LONG_TIMEOUT));
        LIMITS.iter().fold(builder, policy).build().unwrap()
    });
    let names: Vec<String> = nodes[0].policies().map(|policy| policy.name().to_owned()).collect();
    for name in &names {
        // What a rate has spent is time: ten years of it, by as many units as are in force.
        let is_time = name.starts_with("Gcra") || name.starts_with("TokenBucket");
        let mut spent = 0;
        for units in [30, 7, 45, 44, 90, 1000] {
            effective.set(units);
            let mut sum = 0;
            for node in &nodes {
                sum += admitted(node, name).await;
            }
            let in_force = units.min(100);
            assert_eq!(sum, in_force.saturating_sub(spent), "{name} at {units}");
            spent = if is_time { u64::MAX } else { spent.max(in_force) };
        }
        effective.clear();
    }
}

/// The state is time there, so that a fall must not forget any: the same key, up and down, many times.
#[tokio::test(flavor = "multi_thread")]
async fn going_up_and_down_creates_nothing() {
    let server = RedisServer::start();
    let effective = Effective::default();
    let policy = Policy::all().limit("", "100/3650day burst 20").adaptive("", &effective);
    let engine = Engine::builder().store(store(server.url(), LONG_TIMEOUT)).policy("p", policy);
    let engine = engine.build().unwrap();
    let mut sum = 0;
    for round in 0..40 {
        effective.set([100, 99, 51, 1][round % 4]);
        sum += admitted(&engine, "p").await;
    }
    assert_eq!(sum, 20);
    // What is refused says when, as for any other limit.
    let check = Check { policy: "p", key: Key::One(b"k"), cost: 1 };
    let answer = engine.ask(&check, Op::Peek).await.unwrap();
    let day = Duration::from_hours(24);
    assert!(answer.decision.retry_after().is_some_and(|wait| wait > 30 * day));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_while_less_is_in_force_creates_nothing() {
    let server = RedisServer::start();
    for limit in LIMITS {
        let effective = Effective::default();
        let policy = Policy::all().limit("", limit).adaptive("", &effective);
        let engine =
            Engine::builder().store(store(server.url(), LONG_TIMEOUT)).policy(limit, policy);
        let engine = engine.build().unwrap();
        assert_eq!(admitted(&engine, limit).await, 100, "{limit}");
        effective.set(1);
        let refund = Check { policy: limit, key: Key::One(b"k"), cost: 2 };
        let answer = engine.ask(&refund, Op::Refund).await.unwrap();
        assert_eq!((answer.decision.limit(), answer.decision.remaining()), (1, 0), "{limit}");
        effective.clear();
        assert_eq!(admitted(&engine, limit).await, 2, "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leased_units_are_bounded_by_what_is_in_force() {
    let server = RedisServer::start();
    let effective = Effective::default();
    let nodes = [0; 2].map(|_| {
        let policy = Policy::all().limit("", "fixed-window 5000/3650day").lease(true);
        let builder = Engine::builder().store(store(server.url(), LONG_TIMEOUT));
        builder.policy("p", policy.adaptive("", &effective)).build().unwrap()
    });
    let (mut sum, mut leased) = (0, 0);
    for units in [1000, 400, 2000, 2500, 4000] {
        effective.set(units);
        for node in nodes.iter().chain(&nodes) {
            sum += admitted(node, "p").await;
        }
        assert!(sum <= units.max(1000), "{sum} at {units}");
        leased = nodes.iter().map(|node| node.lease_stats().decided).sum();
    }
    nodes.iter().for_each(Engine::release_leases);
    assert!(sum > 3900 && leased > 1000, "{sum} admitted, {leased} of them by leases");
}
