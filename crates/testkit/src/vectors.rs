//! The golden vectors through a store: every step of every case, at the time that the case names.

mod case;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate::{
    KeyedLimit, ManualClock, Mode, Op, ReserveRequest, Scope, Source, Store, StoreRequest,
    Timestamp,
};

use self::case::Limits;

/// Replays every case of the golden vectors, all at once, each over the store that `open` gives it. The store has to
/// decide by the time of each request; the clock shows that time too.
pub async fn every_vector_matches(open: impl Fn(ManualClock) -> Arc<dyn Store>) {
    let start = |case| {
        let clock = ManualClock::default();
        tokio::spawn(check(open(clock.clone()), clock, case))
    };
    let cases: Vec<_> = case::all().into_iter().map(start).collect();
    let mut steps = 0;
    for case in cases {
        steps += case.await.unwrap();
    }
    assert!(steps >= 9_000, "only {steps} steps replayed: vectors are missing");
}

async fn check(store: Arc<dyn Store>, clock: ManualClock, case: Value) -> usize {
    let limits = Limits::read(&case);
    let name = case["name"].as_str().unwrap();
    let mut before = Timestamp::MAX;
    for (number, (now, cost, expect)) in case::steps(&case).enumerate() {
        // A steady clock goes on where the time of a case steps back. The store has to see such a step, so what a cache
        // remembers has run out by then.
        let passed = if now < before { Duration::from_hours(1) } else { now.since(before) };
        clock.advance(passed);
        before = now;
        let (source, answer) = step(&limits, &*store, name, now, cost).await;
        if source == Source::DenyCache {
            // It knows that the store would refuse, but not what would be left.
            assert_eq!(answer["allowed"], expect["allowed"], "case {name} step {number}");
        } else {
            assert_eq!(&answer, expect, "case {name} step {number}");
        }
    }
    case::steps(&case).len()
}

async fn step(
    limits: &Limits,
    store: &dyn Store,
    name: &str,
    now: Timestamp,
    cost: u64,
) -> (Source, Value) {
    let key = name.as_bytes();
    let (mode, all) = match limits {
        Limits::Shaper(shaper) => {
            let scope = &Scope::named("vectors", "");
            let request = ReserveRequest { scope, key, shaper, cost, cancel: None };
            let reply = store.reserve(&request, now).await.unwrap();
            return (Source::Store, case::reservation(&reply.reservation));
        }
        Limits::One(limit) => (Mode::All, std::slice::from_ref(limit)),
        Limits::Many(mode, limits) => (*mode, limits.as_slice()),
    };
    let scopes: Vec<_> = (0..all.len()).map(|n| Scope::named("vectors", &n.to_string())).collect();
    let keyed = |(scope, limit)| KeyedLimit { scope, key, limit };
    let keyed: Vec<_> = scopes.iter().zip(all).map(keyed).collect();
    let request = StoreRequest { mode, limits: &keyed, cost, op: Op::Take };
    let reply = store.decide(&request, now).await.unwrap();
    let answer = match limits {
        Limits::Many(..) => case::verdict(&reply.verdict),
        _ => case::decision(&reply.verdict.decision),
    };
    (reply.source, answer)
}
