//! The next engine after a reload: other policies, the same counters.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::{
    Check, Engine, Key, Limit, ManualClock, MemoryStore, Op, Policy, RemoteStore, Replicas,
    ReserveReply, ReserveRequest, Source, Store, StoreErrorKind, StoreExtensions, StoreReply,
    StoreRequest, StoreResult, Timestamp,
};

use tidegate_testkit::scripted::{Scripted, Way};

fn take(engine: &Engine<ManualClock>, policy: &str, cost: u64) -> (bool, u64, Source) {
    let check = Check { policy, key: Key::One(b"k"), cost };
    let answer = engine.ask(&check, Op::Take).now().unwrap();
    (answer.decision.allowed(), answer.decision.remaining(), answer.source)
}

#[test]
fn counters_survive_under_the_same_and_under_another_limit() {
    for (before, after, left) in [
        ("10/h", "10/h", 3),
        ("10/h", "20/2h", 13), // the same rate: seven units of time are spent, of twenty
        ("fixed-window 10/h", "fixed-window 8/h", 1),
        ("sliding-log 10/h", "sliding-log 12/h", 5),
        ("sliding-window 10/h", "sliding-window 10/h", 3),
        ("quota 10/day", "quota 8/day", 1),
    ] {
        let clock = ManualClock::default();
        let engine = Engine::builder().clock(clock.clone()).policy("p", before).policy("q", "1/s");
        let engine = engine.build().unwrap();
        assert!(take(&engine, "p", 7).0);
        let next = engine.successor().policy("p", after).policy("r", "1/s").build().unwrap();
        assert!(next.policies().map(|policy| policy.name()).eq(["p", "r"]));
        let check = Check { policy: "p", key: Key::One(b"k"), cost: 0 };
        let answer = next.ask(&check, Op::Peek).now().unwrap();
        assert_eq!(answer.decision.remaining(), left, "{before}, then {after}");
        assert_eq!(answer.limit.as_deref(), Some(&after.parse::<Limit>().unwrap()));
        // The clock is the same one, too.
        clock.advance(Duration::from_hours(48));
        assert_eq!(next.ask(&check, Op::Peek).now().unwrap().decision, {
            let fresh = Engine::builder().clock(clock).policy("p", after).build().unwrap();
            fresh.ask(&check, Op::Peek).now().unwrap().decision
        });
    }
}

#[test]
fn what_was_counted_while_the_store_failed_stays_counted() {
    let store = Scripted::new(Way::Fails(StoreErrorKind::Unreachable));
    let builder = Engine::builder().store(store.clone()).clock(ManualClock::default());
    let engine = builder.nodes(NonZeroU32::new(2).unwrap()).policy("p", "10/h").build().unwrap();
    assert_eq!(take(&engine, "p", 4), (true, 1, Source::Local));
    let next = engine.successor().policy("p", "10/h").build().unwrap();
    drop(engine);
    assert_eq!(take(&next, "p", 1), (true, 0, Source::Local), "a half of it, as before");
    assert_eq!(take(&next, "p", 1), (false, 0, Source::Local));
    store.behave(Way::AtOnce);
    assert_eq!(take(&next, "p", 1), (true, 9, Source::Store));
}

#[test]
fn a_refusal_of_the_old_limit_is_not_believed_under_the_new_one() {
    let store = Scripted::new(Way::AtOnce);
    let builder = Engine::builder().store(store.clone()).clock(ManualClock::default());
    let engine = builder.policy("p", "fixed-window 5/h").build().unwrap();
    assert!(take(&engine, "p", 5).0);
    assert_eq!(take(&engine, "p", 1), (false, 0, Source::Store));
    assert_eq!(take(&engine, "p", 1), (false, 0, Source::DenyCache));
    let next = engine.successor().policy("p", "fixed-window 8/h").build().unwrap();
    assert_eq!(take(&next, "p", 1), (true, 2, Source::Store));
    assert_eq!(take(&engine, "p", 1), (false, 0, Source::DenyCache), "still of the old one");
}

#[test]
fn another_store_is_another_start() {
    let engine = Engine::builder().clock(ManualClock::default()).policy("p", "5/h");
    let engine = engine.build().unwrap();
    assert!(take(&engine, "p", 5).0);
    let fresh = engine.successor().store(MemoryStore::default()).policy("p", "5/h").build();
    assert_eq!(take(&fresh.unwrap(), "p", 5), (true, 0, Source::Store));
}

#[test]
fn places_taken_before_come_back_to_the_next() {
    let engine = Engine::builder().policy("p", "concurrency 1").build().unwrap();
    let held = engine.acquire("p", "k").now().unwrap().permit;
    let next = engine.successor().policy("p", "concurrency 1").build().unwrap();
    drop(engine);
    assert!(next.acquire("p", "k").now().unwrap().permit.is_none());
    drop(held);
    assert!(next.acquire("p", "k").now().unwrap().permit.is_some());
}

/// Counts how often it is asked for connections whose replicas confirm.
#[derive(Debug, Default)]
struct WithReplicas {
    memory: Arc<MemoryStore>,
    made: AtomicU32,
}

impl Store for WithReplicas {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.memory.decide(ask, now)
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.memory.reserve(turn, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { remote: Some(self), ..StoreExtensions::default() }
    }
}

impl RemoteStore for WithReplicas {
    fn replicated(&self, _: Replicas) -> Option<Arc<dyn Store>> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(self.memory.clone())
    }
}

#[test]
fn connections_to_replicas_outlive_a_reload() {
    let store = Arc::new(WithReplicas::default());
    let confirmed = || Policy::all().limit("", "5/h").replicas(Replicas::default());
    let engine = Engine::builder().store(store.clone()).policy("p", confirmed()).build().unwrap();
    let next = engine.successor().policy("p", confirmed()).policy("q", confirmed()).build();
    assert!(next.unwrap().check("p", "k").now().unwrap().decision.allowed());
    assert_eq!(store.made.load(Ordering::Relaxed), 1);
}
