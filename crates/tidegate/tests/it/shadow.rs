//! Shadow policies: they count, they tell whom they would refuse, and they refuse nobody.

use std::time::Duration;

use tidegate::{
    Check, Engine, Key, Limit, ManualClock, OnStoreError, Op, Override, Policy, Source,
    StoreErrorKind,
};

use tidegate_testkit::scripted::{Scripted, Way};

const KEY: Key<'static> = Key::One(b"k");

fn engine(policy: Policy) -> Engine<ManualClock> {
    Engine::builder().clock(ManualClock::default()).policy("p", policy).build().unwrap()
}

#[test]
fn a_shadow_counts_as_ever_and_only_reports() {
    for limit in ["3/h", "fixed-window 3/h", "sliding-window 3/h", "sliding-log 3/h", "quota 3/day"]
    {
        let policy = || Policy::all().limit("", limit.parse::<Limit>().unwrap());
        let (real, shadow) = (engine(policy()), engine(policy().shadow(true)));
        for (cost, op) in [
            (2, Op::Take),
            (2, Op::Take),
            (2, Op::Peek),
            (1, Op::Take),
            (1, Op::Take),
            (9, Op::Take),
            (1, Op::Refund),
            (1, Op::Take),
            (0, Op::Reset),
        ] {
            let check = Check { policy: "p", key: KEY, cost };
            let expected = real.ask(&check, op).now().unwrap();
            let got = shadow.ask(&check, op).now().unwrap();
            assert!(got.decision.allowed(), "{limit} {op:?} {cost}");
            assert_eq!(got.shadow_denied, !expected.decision.allowed(), "{limit} {op:?} {cost}");
            assert!(!expected.shadow_denied);
            assert_eq!(got.decision, expected.decision.in_shadow());
            assert_eq!(got.decision.retry_after(), Some(Duration::ZERO));
        }
    }
}

#[test]
fn the_blocked_pass_a_shadow_and_are_reported() {
    let blocked = Policy::all().limit("", "9/h").with_override("k", Override::Block).shadow(true);
    let answer = engine(blocked);
    let answer = answer.check("p", "k").now().unwrap();
    assert_eq!((answer.decision.allowed(), answer.shadow_denied), (true, true));
    assert_eq!((answer.decision.retry_after(), answer.limit), (Some(Duration::ZERO), None));

    let allowed = Policy::all().limit("", "1/h").with_override("k", Override::Allow).shadow(true);
    let engine = engine(allowed);
    assert!(!engine.check("p", "k").now().unwrap().shadow_denied);
    assert!(!engine.check("p", "k").now().unwrap().shadow_denied);
}

#[tokio::test(start_paused = true)]
async fn a_shadow_never_fails_closed() {
    for way in [
        Way::Fails(StoreErrorKind::Unreachable),
        Way::FailsAfter(Duration::from_millis(20), StoreErrorKind::Timeout),
    ] {
        let store = Scripted::new(way);
        let closed = Policy::all().limit("", "9/h").on_store_error(OnStoreError::DENY);
        let queue = Policy::shaper("1/s max-wait 1s").on_store_error(OnStoreError::DENY);
        let engine = Engine::builder().store(store).policy("p", closed.shadow(true));
        let engine = engine.policy("queue", queue.shadow(true)).build().unwrap();
        let answer = engine.check("p", "k").await.unwrap();
        assert_eq!((answer.source, answer.shadow_denied), (Source::FailClosed, true));
        assert!(answer.decision.allowed());
        let check = Check { policy: "queue", key: KEY, cost: 1 };
        let place = engine.reserve(&check).await.unwrap();
        assert!(place.accepted() && place.delay().is_zero() && place.shadow_denied());
    }
}

#[test]
fn a_queue_in_shadow_delays_nobody_and_fills_as_ever() {
    let policy = Policy::shaper("1/s max-wait 1s").with_override("blocked", Override::Block);
    let engine = engine(policy.shadow(true));
    let reserve = |key: &str| {
        let check = Check { policy: "p", key: Key::One(key.as_bytes()), cost: 1 };
        let place = engine.reserve(&check).now().unwrap();
        assert!(place.accepted() && place.delay().is_zero(), "{place:?}");
        place.shadow_denied()
    };
    assert_eq!([reserve("k"), reserve("k"), reserve("k")], [false, false, true]);
    assert!(reserve("blocked"));
}

#[test]
fn a_permit_of_a_shadow_holds_no_place_that_there_was_not() {
    let engine = engine(Policy::all().limit("", "concurrency 1").shadow(true));
    let first = engine.acquire("p", "k").now().unwrap();
    assert!(!first.answer.shadow_denied);
    let second = engine.acquire("p", "k").now().unwrap();
    assert!(second.answer.decision.allowed() && second.answer.shadow_denied);
    drop(second); // gives nothing back
    assert!(engine.acquire("p", "k").now().unwrap().answer.shadow_denied);
    drop(first);
    assert!(!engine.acquire("p", "k").now().unwrap().answer.shadow_denied);
}
