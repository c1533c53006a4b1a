//! What a policy answers when its store does not.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::{
    Answer, Check, CheckError, Engine, Key, Limit, ManualClock, OnStoreError, Op, Policy, Source,
    StoreErrorKind,
};

use tidegate_testkit::scripted::{Scripted, Way};

/// A store can fail at once, or later.
const WAYS: [Way; 2] = [
    Way::Fails(StoreErrorKind::Unreachable),
    Way::FailsAfter(Duration::from_millis(20), StoreErrorKind::Timeout),
];

const LIMITS: [&str; 9] = [
    "7/h",
    "token-bucket 7/h capacity 7",
    "fixed-window 7/h",
    "sliding-window 7/h",
    "sliding-log 7/h",
    "quota 7/month",
    "quota 7/h rolling",
    "1/h",
    "7919/s burst 7",
];

fn engine(way: Way, nodes: u32, policy: Policy) -> (Scripted, Engine<ManualClock>) {
    let store = Scripted::new(way);
    let builder = Engine::builder().store(store.clone()).nodes(NonZeroU32::new(nodes).unwrap());
    (store, builder.clock(ManualClock::default()).policy("p", policy).build().unwrap())
}

async fn ask(engine: &Engine<ManualClock>, cost: u64, op: Op) -> Result<Answer<'_>, CheckError> {
    engine.ask(&Check { policy: "p", key: Key::One(b"k"), cost }, op).await
}

fn policy(limit: &str, on_store_error: OnStoreError) -> Policy {
    Policy::try_from(limit).unwrap().on_store_error(on_store_error)
}

#[tokio::test(start_paused = true)]
async fn allow_admits_as_if_nothing_had_been_spent() {
    for way in WAYS {
        for limit in LIMITS {
            let (_, engine) = engine(way, 3, policy(limit, OnStoreError::Allow));
            let ceiling = limit.parse::<Limit>().unwrap().ceiling();
            for op in [Op::Take, Op::Take, Op::Peek] {
                let answer = ask(&engine, ceiling, op).await.unwrap();
                let decision = answer.decision;
                assert_eq!((decision.allowed(), answer.source), (true, Source::FailOpen));
                assert_eq!((decision.limit(), decision.remaining()), (ceiling, ceiling), "{limit}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deny_admits_nothing_and_says_when_to_come_back() {
    let soon = OnStoreError::Deny { retry_after: Duration::from_secs(5) };
    for way in WAYS {
        for (on_store_error, seconds) in [(OnStoreError::DENY, 60), (soon, 5)] {
            let (_, engine) = engine(way, 3, policy("7/h", on_store_error));
            for op in [Op::Take, Op::Peek] {
                let answer = ask(&engine, 1, op).await.unwrap();
                let decision = answer.decision;
                assert_eq!((decision.allowed(), answer.source), (false, Source::FailClosed));
                assert_eq!((decision.limit(), decision.remaining()), (7, 0));
                assert_eq!(decision.retry_after(), Some(Duration::from_secs(seconds)));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn local_admits_this_nodes_share_and_at_least_one() {
    for way in WAYS {
        for limit in LIMITS {
            for nodes in [1, 3, 1000] {
                let (_, engine) = engine(way, nodes, policy(limit, OnStoreError::Local));
                let ceiling = limit.parse::<Limit>().unwrap().ceiling();
                let share = (ceiling / u64::from(nodes)).max(1);
                let mut admitted = 0;
                for _ in 0..20 {
                    let answer = ask(&engine, 1, Op::Take).await.unwrap();
                    assert_eq!((answer.source, answer.decision.limit()), (Source::Local, share));
                    admitted += u64::from(answer.decision.allowed());
                }
                assert_eq!(admitted, share, "{limit} over {nodes}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn local_decides_several_limits_in_one_step() {
    let plan = Policy::all().limit("second", "9/s").limit("log", "sliding-log 6/h");
    let (_, engine) = engine(WAYS[0], 3, plan);
    for expected in [true, true, false, false] {
        let answer = ask(&engine, 1, Op::Take).await.unwrap();
        assert_eq!((answer.decision.allowed(), answer.binding), (expected, "log"));
    }
}

#[tokio::test(start_paused = true)]
async fn places_of_this_process_come_back_to_this_process() {
    let (store, engine) = engine(WAYS[1], 3, policy("concurrency 6", OnStoreError::Local));
    for _ in 0..3 {
        let mut held = Vec::new();
        for _ in 0..5 {
            let acquired = engine.acquire("p", "k").await.unwrap();
            assert_eq!(acquired.answer.source, Source::Local);
            held.extend(acquired.permit);
        }
        assert_eq!(held.len(), 2, "a third of the places");
        let calls = store.calls();
        drop(held);
        assert_eq!(store.calls(), calls, "the store knows nothing of them");
    }
    store.behave(Way::AtOnce);
    let acquired = engine.acquire("p", "k").await.unwrap();
    assert_eq!((acquired.answer.source, acquired.answer.decision.limit()), (Source::Store, 6));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_given_back_is_an_error() {
    for on_store_error in [OnStoreError::Allow, OnStoreError::DENY, OnStoreError::Local] {
        for op in [Op::Refund, Op::Reset] {
            let (store, engine) = engine(WAYS[1], 3, policy("7/h", on_store_error));
            let Err(CheckError::Store(error)) = ask(&engine, 1, op).await else {
                panic!("{op:?} by {on_store_error:?} was answered")
            };
            assert_eq!(error.kind(), StoreErrorKind::Timeout);
            // A question that makes no sense is nobody's failure.
            store.behave(Way::Fails(StoreErrorKind::BadRequest));
            assert!(matches!(ask(&engine, 1, Op::Take).await, Err(CheckError::Store(_))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn queues_stand_in_too_but_no_failure_looks_like_a_full_one() {
    let check = Check { policy: "p", key: Key::One(b"k"), cost: 1 };
    for way in WAYS {
        let shaper = |on_store_error| {
            let policy = Policy::shaper("10/s max-wait 1s").on_store_error(on_store_error);
            engine(way, 2, policy).1
        };
        let open = shaper(OnStoreError::Allow);
        assert!(open.reserve(&check).await.unwrap().delay().is_zero());
        let closed = shaper(OnStoreError::DENY);
        assert!(matches!(closed.reserve(&check).await, Err(CheckError::Store(_))));
        let local = shaper(OnStoreError::Local);
        assert!(local.reserve(&check).await.unwrap().delay().is_zero());
        let second = local.reserve(&check).await.unwrap().delay();
        assert_eq!(second, Duration::from_millis(200), "half the rate");
    }
}
