//! What every store promises, one function per promise. [`store_behaviours`](crate::store_behaviours) makes a test of
//! each.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Changed, KeyedLimit, LeakyBucket, Limit, Mode, Op, OverrideChange, ReserveRequest, Scope,
    Store, StoreErrorKind, StoreReply, StoreRequest,
};

#[doc(no_inline)]
pub use tidegate::ManualClock;

use crate::multi_charge::{LIMITS, NOW};

/// Tests of all promises for one store.
///
/// The expression is evaluated in each test, in an async context. It gives a guard that the test keeps, such as a
/// server process, and a function from a [`ManualClock`](crate::behaviours::ManualClock) to the store in an `Arc`. The store has to decide by the time
/// of each request; a store that has a clock beside it takes the given one.
///
/// The golden vectors open the store once per case. The cases lie years apart, so a store that forgets idle keys by
/// the time of the latest request has to be a new one for each; any other may be the same one.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::MemoryStore;
///
/// mod memory {
///     # use super::*;
///     tidegate_testkit::store_behaviours!(((), |_| Arc::new(MemoryStore::default())));
/// }
/// ```
#[macro_export]
macro_rules! store_behaviours {
    ($open:expr) => {
        $crate::store_behaviours! { @each $open;
            admits_exactly_the_limit,
            gives_back_what_was_spent,
            rejects_requests_that_make_no_sense,
            keeps_scopes_apart,
            queues_and_cancels_places,
            keeps_overrides,
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn matches_every_golden_vector() {
            let (_guard, open) = $open;
            $crate::vectors::every_vector_matches(|clock| open(clock)).await;
        }

        #[tokio::test]
        async fn decides_each_limit_in_one_step() {
            let (_guard, open) = $open;
            $crate::multi_charge::decides_each_limit_in_one_step(&*open($crate::behaviours::ManualClock::default())).await;
        }
    };
    (@each $open:expr; $($name:ident,)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (_guard, open) = $open;
            $crate::behaviours::$name(open($crate::behaviours::ManualClock::default())).await;
        }
    )*};
}

/// One request on one limit.
async fn decide(store: &dyn Store, scope: &Scope, limit: &Limit, op: Op, cost: u64) -> StoreReply {
    let limits = [KeyedLimit { scope, key: b"user-42", limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&request, NOW).await.unwrap()
}

/// Eight tasks on one key of a limit of 10 admit 10, for every algorithm.
pub async fn admits_exactly_the_limit(store: Arc<dyn Store>) {
    let texts = LIMITS.into_iter().chain(["concurrency 10 lease 1h"]);
    for (number, text) in texts.enumerate() {
        let tasks = (0..8).map(|_| {
            let (store, limit): (_, Limit) = (store.clone(), text.parse().unwrap());
            let scope = Scope::named("exactly", &number.to_string());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..5 {
                    let reply = decide(&*store, &scope, &limit, Op::Take, 1).await;
                    admitted += u64::from(reply.verdict.decision.allowed());
                }
                admitted
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        assert_eq!(admitted, 10, "{text}");
    }
}

/// A peek spends nothing, a refund gives back, and a reset forgets.
pub async fn gives_back_what_was_spent(store: Arc<dyn Store>) {
    for (number, text) in LIMITS.into_iter().enumerate() {
        let limit: Limit = text.parse().unwrap();
        let scope = Scope::named("given-back", &number.to_string());
        for (op, cost, left) in [
            (Op::Take, 4, 6),
            (Op::Peek, 4, 2),
            (Op::Peek, 0, 6),
            (Op::Refund, 1, 7),
            (Op::Refund, 100, 10),
            (Op::Take, 10, 0),
            (Op::Reset, 0, 10),
        ] {
            let reply = decide(&*store, &scope, &limit, op, cost).await;
            assert_eq!(reply.verdict.decision.remaining(), left, "{text}: {op:?} {cost}");
        }
    }
}

/// No limits, too many, and one state twice are errors of the caller.
pub async fn rejects_requests_that_make_no_sense(store: Arc<dyn Store>) {
    let limit: Limit = "10/day".parse().unwrap();
    let scopes: Vec<_> =
        (0..=StoreRequest::MAX_LIMITS).map(|n| Scope::named("bad", &n.to_string())).collect();
    let keyed = |scope| KeyedLimit { scope, key: b"user-42", limit: &limit };
    let all: Vec<_> = scopes.iter().map(keyed).collect();
    for limits in [&[][..], &all, &[all[0], all[0]]] {
        let request = StoreRequest { mode: Mode::All, limits, cost: 1, op: Op::Take };
        let error = store.decide(&request, NOW).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{} limits", limits.len());
    }
    let request = StoreRequest { mode: Mode::All, limits: &all[..1], cost: 0, op: Op::Peek };
    let reply = store.decide(&request, NOW).await.unwrap();
    assert_eq!(reply.verdict.decision.remaining(), 10, "nothing was spent");
}

/// The same key under another scope is another counter.
pub async fn keeps_scopes_apart(store: Arc<dyn Store>) {
    let limit: Limit = "1/day".parse().unwrap();
    for scope in [Scope::named("a", "b"), Scope::named("b", "a"), Scope::named("ab", "")] {
        for allowed in [true, false] {
            let reply = decide(&*store, &scope, &limit, Op::Take, 1).await;
            assert_eq!(reply.verdict.decision.allowed(), allowed, "{scope:?}");
        }
    }
}

/// Places of a shaper are one behind the other, and the last one can be given back.
pub async fn queues_and_cancels_places(store: Arc<dyn Store>) {
    let shaper: LeakyBucket = "2/s max-wait 1s".parse().unwrap();
    let scope = Scope::named("places", "");
    let take =
        ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel: None };
    let mut last = None;
    for delay in [Some(0), Some(500), Some(1000), None] {
        let reply = store.reserve(&take, NOW).await.unwrap();
        let expected = delay.map(Duration::from_millis);
        assert_eq!(reply.reservation.accepted().then(|| reply.reservation.delay()), expected);
        last = reply.until.or(last);
    }
    let back = ReserveRequest { cancel: last, ..take };
    assert!(store.reserve(&back, NOW).await.unwrap().reservation.accepted());
    let again = store.reserve(&take, NOW).await.unwrap().reservation;
    assert_eq!(again.delay(), Duration::from_secs(1));
}

/// A store that keeps overrides counts versions, and forgets what is removed. Others pass.
pub async fn keeps_overrides(store: Arc<dyn Store>) {
    let Some(overrides) = store.extensions().overrides else { return };
    let set = OverrideChange::Set { policy: "api", key: b"k", text: "5/min", life: None };
    let remove = OverrideChange::Remove { policy: "api", key: b"k" };
    let change = |change| overrides.change_override(change, NOW);
    assert_eq!(change(&remove).await, Ok(Changed::NotThere));
    assert_eq!(change(&set).await, Ok(Changed::Done));
    let table = overrides.overrides(0, NOW).await.unwrap().unwrap();
    assert_eq!((table.entries.len(), table.entries[0].text.as_str()), (1, "5/min"));
    assert_eq!(overrides.overrides(table.version, NOW).await, Ok(None));
    assert_eq!(change(&remove).await, Ok(Changed::Done));
    let table = overrides.overrides(table.version, NOW).await.unwrap().unwrap();
    assert!(table.entries.is_empty());
}
