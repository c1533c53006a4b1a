//! What every store promises, one function per promise. [`store_behaviours`](crate::store_behaviours) makes a test of
//! each.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Changed, KeyedLimit, LeakyBucket, Limit, Mode, Op, OverrideChange, ReserveRequest, Scope,
    Source, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest, Timestamp,
};
use tidegate_core::{GrantRequest, Return};

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
        $crate::store_behaviours! { @common $open }
        $crate::store_behaviours! { @each $open;
            decides_each_limit_in_one_step,
            charges_several_identifiers_or_none,
        }
    };
    // For a store that changes one identifier in one step: the list then checks that it says so.
    ($open:expr, one_identifier_per_step) => {
        $crate::store_behaviours! { @common $open }
        $crate::store_behaviours! { @each $open;
            refuses_several_identifiers_in_one_step,
        }
    };
    (@common $open:expr) => {
        $crate::store_behaviours! { @each $open;
            admits_exactly_the_limit,
            charges_all_limits_or_none,
            multiplies_costs_by_limit,
            gives_back_what_was_spent,
            grants_permits_and_takes_them_back,
            renews_permits_that_are_held,
            grants_leases_and_takes_units_back,
            rejects_requests_that_make_no_sense,
            keeps_scopes_apart,
            queues_and_cancels_places,
            keeps_overrides,
        }

        #[tokio::test]
        async fn agrees_with_the_store_in_memory() {
            let (_guard, open) = $open;
            $crate::behaviours::agrees_with_the_store_in_memory(|clock| open(clock)).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn matches_every_golden_vector() {
            let (_guard, open) = $open;
            $crate::vectors::every_vector_matches(|clock| open(clock)).await;
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

/// The names of the promises that a store breaks: for stores that lie on purpose, as controls. Each promise gets a store
/// of its own.
pub async fn broken_promises(open: impl Fn() -> Arc<dyn Store>) -> Vec<&'static str> {
    let mut broken = Vec::new();
    macro_rules! try_each {
        ($($name:ident,)*) => {$(
            // A promise that is broken panics, in a task of its own.
            if tokio::spawn($name(open())).await.is_err() {
                broken.push(stringify!($name));
            }
        )*};
    }
    try_each! {
        admits_exactly_the_limit,
        charges_all_limits_or_none,
        multiplies_costs_by_limit,
        gives_back_what_was_spent,
        grants_permits_and_takes_them_back,
        renews_permits_that_are_held,
        grants_leases_and_takes_units_back,
        rejects_requests_that_make_no_sense,
        keeps_scopes_apart,
        queues_and_cancels_places,
        keeps_overrides,
        decides_each_limit_in_one_step,
        charges_several_identifiers_or_none,
    }
    let open = open();
    if tokio::spawn(agrees_with_the_store_in_memory(move |_| open)).await.is_err() {
        broken.push("agrees_with_the_store_in_memory");
    }
    broken
}

/// One request on one limit.
async fn decide(store: &dyn Store, scope: &Scope, limit: &Limit, op: Op, cost: u64) -> StoreReply {
    decide_at(store, scope, limit, op, cost, NOW).await.unwrap()
}

async fn decide_at(
    store: &dyn Store,
    scope: &Scope,
    limit: &Limit,
    op: Op,
    cost: u64,
    now: Timestamp,
) -> Result<StoreReply, StoreError> {
    let limits = [KeyedLimit { scope, key: b"user-42", limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&request, now).await
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

/// Eight tasks on each of several nodes that share one store admit one limit of 100 together. Each node is a store of its
/// own over the same server, by the server's own clock.
pub async fn nodes_that_compete_admit_exactly_the_limit(nodes: &[Arc<dyn Store>]) {
    let tasks = nodes.iter().flat_map(|node| (0..8).map(move |_| node.clone())).map(|node| {
        tokio::spawn(async move {
            let limit: Limit = "fixed-window 100/3650day".parse().unwrap();
            let (scope, mut admitted) = (Scope::named("compete", ""), 0);
            for _ in 0..20 {
                let reply = decide(&*node, &scope, &limit, Op::Take, 1).await;
                admitted += u32::from(reply.verdict.decision.allowed());
            }
            admitted
        })
    });
    let mut admitted = 0;
    for task in tasks.collect::<Vec<_>>() {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 100);
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

/// A refused `all` charges none of its limits, and an `any` only those that admit.
pub async fn charges_all_limits_or_none(store: Arc<dyn Store>) {
    let (small, large): (Limit, Limit) = ("2/day".parse().unwrap(), "5/day".parse().unwrap());
    for (mode, left) in [(Mode::All, [2, 5]), (Mode::Any, [2, 2])] {
        let policy = format!("whole-{mode:?}");
        let scopes = [Scope::named(&policy, "small"), Scope::named(&policy, "large")];
        let keyed = |scope, limit| KeyedLimit { scope, key: b"user-42", limit };
        let limits = [keyed(&scopes[0], &small), keyed(&scopes[1], &large)];
        let request = StoreRequest { mode, limits: &limits, cost: 3, op: Op::Take };
        let reply = store.decide(&request, NOW).await.unwrap();
        assert_eq!(reply.verdict.decision.allowed(), mode == Mode::Any);
        for (keyed, left) in limits.iter().zip(left) {
            let limits = [*keyed];
            let peek = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Peek };
            let decision = store.decide(&peek, NOW).await.unwrap().verdict.decision;
            assert_eq!(decision.remaining(), left, "{mode:?}: {}", keyed.scope.limit());
        }
    }
}

/// A cost is multiplied for the limits whose scopes say so, whatever is asked: takes, peeks, refunds, leases and permits.
pub async fn multiplies_costs_by_limit(store: Arc<dyn Store>) {
    for (number, text) in LIMITS.into_iter().chain(["concurrency 10 lease 1h"]).enumerate() {
        let (plain, dear): (Limit, Limit) = ("90/3650day".parse().unwrap(), text.parse().unwrap());
        let policy = format!("weighed-{number}");
        let scopes = [Scope::named(&policy, "plain"), costing(Scope::named(&policy, "dear"), 3)];
        let keyed = |scope, limit| KeyedLimit { scope, key: b"user-42", limit };
        let limits = [keyed(&scopes[0], &plain), keyed(&scopes[1], &dear)];
        let mut permits = Vec::new();
        for (mode, op, cost, allowed, left) in [
            (Mode::All, Op::Peek, 2, true, [90, 10]),
            (Mode::All, Op::Take, 2, true, [88, 4]),
            (Mode::All, Op::Take, 2, false, [88, 4]),
            (Mode::All, Op::Take, u64::MAX, false, [88, 4]),
            (Mode::Any, Op::Take, 2, true, [86, 4]),
            (Mode::All, Op::Take, 1, true, [85, 1]),
        ] {
            let request = StoreRequest { mode, limits: &limits, cost, op };
            let reply = store.decide(&request, NOW).await.unwrap();
            assert_eq!(reply.verdict.decision.allowed(), allowed, "{text}: {op:?} {cost}");
            permits.extend(reply.permits.iter().map(|(_, id)| (*id, cost)));
            for (keyed, left) in limits.iter().zip(left) {
                let what = format!("{text}: {} after {op:?} {cost}", keyed.scope.limit());
                let reply = decide(&*store, keyed.scope, keyed.limit, Op::Peek, 0).await;
                assert_eq!(reply.verdict.decision.remaining(), left, "{what}");
            }
        }
        if dear.grants_permits() {
            // A permit is named by the places that it holds.
            for ((permit_id, cost), left) in permits.into_iter().zip([7, 10]) {
                let op = Op::Release { permit_id };
                let reply = decide(&*store, &scopes[1], &dear, op, 3 * cost).await;
                assert_eq!(reply.verdict.decision.remaining(), left, "{text}");
            }
            continue;
        }
        let refund = StoreRequest { mode: Mode::All, limits: &limits, cost: 2, op: Op::Refund };
        let reply = store.decide(&refund, NOW).await.unwrap();
        assert_eq!((reply.verdict.binding, reply.verdict.decision.remaining()), (1, 7), "{text}");
        let lease = Op::Lease(GrantRequest { least: 1, most: 5 });
        let reply = store.decide(&StoreRequest { op: lease, ..refund }, NOW).await.unwrap();
        let grant = reply.grant.unwrap();
        assert_eq!((grant.units, grant.verdict.decision.remaining()), (2, 1), "{text}");
        let granted_at = grant.granted_at.expect("no clock stepped back");
        let back = Op::GiveBack(Return { units: 1, granted_at, age: Duration::ZERO });
        let reply = store.decide(&StoreRequest { op: back, ..refund }, NOW).await.unwrap();
        assert_eq!(reply.verdict.decision.remaining(), 4, "{text}");
    }
}

fn costing(scope: Scope, factor: u64) -> Scope {
    scope.costing(NonZeroU64::new(factor).unwrap())
}

/// The same for limits on different identifiers.
pub async fn charges_several_identifiers_or_none(store: Arc<dyn Store>) {
    let (scopes, limits) = two_identifiers();
    let keyed = |n: usize| KeyedLimit { scope: &scopes[n], key: IDENTIFIERS[n], limit: &limits[n] };
    let both = [keyed(0), keyed(1)];
    let take = |cost| StoreRequest { mode: Mode::All, limits: &both, cost, op: Op::Take };
    assert!(store.decide(&take(2), NOW).await.unwrap().verdict.decision.allowed());
    assert!(!store.decide(&take(1), NOW).await.unwrap().verdict.decision.allowed());
    let peek = StoreRequest { cost: 0, op: Op::Peek, ..take(0) };
    for (n, left) in [(0, 3), (1, 0)] {
        let limits = [keyed(n)];
        let decision = store.decide(&StoreRequest { limits: &limits, ..peek }, NOW).await.unwrap();
        assert_eq!(decision.verdict.decision.remaining(), left, "{:?}", both[n].key);
    }
}

/// A store that changes one identifier in one step says so, and charges nothing.
pub async fn refuses_several_identifiers_in_one_step(store: Arc<dyn Store>) {
    let (scopes, limits) = two_identifiers();
    let keyed = |n: usize| KeyedLimit { scope: &scopes[n], key: IDENTIFIERS[n], limit: &limits[n] };
    let both = [keyed(0), keyed(1)];
    let take = StoreRequest { mode: Mode::All, limits: &both, cost: 1, op: Op::Take };
    let error = store.decide(&take, NOW).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Apart, "{error}");
    for (n, left) in [(0, 5), (1, 2)] {
        let limits = [keyed(n)];
        let peek = StoreRequest { limits: &limits, cost: 0, op: Op::Peek, ..take };
        let decision = store.decide(&peek, NOW).await.unwrap().verdict.decision;
        assert_eq!(decision.remaining(), left, "nothing was spent");
    }
}

const IDENTIFIERS: [&[u8]; 2] = [b"127.0.0.1", b"example.org"];

/// A policy with limits of 5 and 2 on different identifiers.
fn two_identifiers() -> ([Scope; 2], [Limit; 2]) {
    let scopes = [Scope::together("signup", "ip"), Scope::together("signup", "domain")];
    (scopes, ["5/day".parse().unwrap(), "2/day".parse().unwrap()])
}

/// See [`crate::multi_charge`].
pub async fn decides_each_limit_in_one_step(store: Arc<dyn Store>) {
    crate::multi_charge::decides_each_limit_in_one_step(&*store).await;
}

/// As many permits as the limit, each with an id of its own; a release frees one place, once.
pub async fn grants_permits_and_takes_them_back(store: Arc<dyn Store>) {
    let limit: Limit = "concurrency 2 lease 1h".parse().unwrap();
    let scope = Scope::named("permits", "");
    let take = || decide(&*store, &scope, &limit, Op::Take, 1);
    let (first, second, third) = (take().await, take().await, take().await);
    assert!(!third.verdict.decision.allowed() && third.permits.is_empty());
    let ids = [first.permits[0].1, second.permits[0].1];
    assert_ne!(ids[0], ids[1]);
    for (release, left) in [(ids[0], 1), (ids[0], 1), (ids[1], 2), (ids[1], 2)] {
        let op = Op::Release { permit_id: release };
        let reply = decide(&*store, &scope, &limit, op, 1).await;
        assert_eq!(reply.verdict.decision.remaining(), left, "released {release}");
    }
    let again = take().await;
    assert!(!ids.contains(&again.permits[0].1), "an id is used once");
}

/// A permit that is renewed lives a whole lease from then; one that has ended, was released or was never granted is not
/// renewed, and no other permit in its place.
pub async fn renews_permits_that_are_held(store: Arc<dyn Store>) {
    let limit: Limit = "concurrency 5 lease 60s".parse().unwrap();
    let scope = Scope::named("renewed", "");
    let after = |seconds| NOW + Duration::from_secs(seconds);
    let ask = |op, cost, now| decide_at(&*store, &scope, &limit, op, cost, now);
    let renew = |permit_id| Op::Renew { permit_id };
    let two = ask(Op::Take, 2, NOW).await.unwrap().permits[0].1;
    let one = ask(Op::Take, 1, NOW).await.unwrap().permits[0].1;
    let unknown = two.max(one) + 1000;
    for (seconds, permit_id, cost, is_renewed, left) in [
        (40, two, 2, true, 2),
        (59, unknown, 1, false, 2),
        (59, two, 1, false, 2), // of another cost
        (60, one, 1, false, 3), // at the very end of its lease
        (61, one, 1, false, 3),
        (99, two, 2, true, 3),
        (100, two, 2, true, 3),
        (160, two, 2, false, 5),
    ] {
        let reply = ask(renew(permit_id), cost, after(seconds)).await.unwrap();
        let expected = is_renewed.then_some((0, permit_id));
        assert_eq!(reply.permits, Vec::from_iter(expected), "after {seconds} s");
        assert_eq!(reply.verdict.decision.remaining(), left, "after {seconds} s");
    }
    let last = ask(Op::Take, 1, after(200)).await.unwrap().permits[0].1;
    ask(Op::Release { permit_id: last }, 1, after(200)).await.unwrap();
    assert_eq!(ask(renew(last), 1, after(200)).await.unwrap().permits, [], "it was released");
    let other: Limit = "10/day".parse().unwrap();
    for (limit, permit_id) in [(&other, last), (&limit, u64::MAX)] {
        let error = decide_at(&*store, &scope, limit, renew(permit_id), 1, NOW).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{limit:?}: {error}");
    }
}

/// A lease takes what is wanted and there; what comes back can be taken again.
pub async fn grants_leases_and_takes_units_back(store: Arc<dyn Store>) {
    for (number, text) in ["fixed-window 100/day", "sliding-log 100/day"].into_iter().enumerate() {
        let limit: Limit = text.parse().unwrap();
        let scope = Scope::named("leased", &number.to_string());
        let lease = |least, most| Op::Lease(GrantRequest { least, most });
        let first = decide(&*store, &scope, &limit, lease(1, 70), 0).await.grant.unwrap();
        assert_eq!(first.units, 70, "{text}");
        let second = decide(&*store, &scope, &limit, lease(1, 70), 0).await.grant.unwrap();
        assert_eq!(second.units, 30, "{text}: what is left");
        let granted_at = first.granted_at.expect("no clock stepped back");
        let back = Op::GiveBack(Return { units: 50, granted_at, age: Duration::ZERO });
        let reply = decide(&*store, &scope, &limit, back, 0).await;
        assert_eq!(reply.verdict.decision.remaining(), 50, "{text}");
    }
}

/// Thousands of random requests are answered as by the store in memory: every algorithm, takes, refunds, peeks and resets,
/// at times that also step back.
pub async fn agrees_with_the_store_in_memory(open: impl FnOnce(ManualClock) -> Arc<dyn Store>) {
    let clock = ManualClock::default();
    let store = open(clock.clone());
    let memory = tidegate::MemoryStore::default();
    let limits: Vec<Limit> = [
        "7/s burst 20",
        "60/min",
        "token-bucket 9/s capacity 30",
        "fixed-window 40/min",
        "sliding-window 50/min",
        "sliding-log 30/min",
        "quota 60/day",
    ]
    .map(|text| text.parse().unwrap())
    .into();
    let scopes: Vec<Scope> =
        (0..limits.len()).map(|n| Scope::named("differential", &n.to_string())).collect();
    // The same counters, of which a check takes more.
    let dear: Vec<Scope> = scopes.iter().cloned().map(|scope| costing(scope, 3)).collect();
    let (mut random, mut now) = (Random(42), NOW);
    for step in 0..DIFFERENTIAL_STEPS {
        let passed = Duration::from_micros(random.below(400_000));
        if random.below(50) == 0 {
            // A steady clock goes on: what a cache remembers has run out by then.
            now = now - 5 * passed;
            clock.advance(Duration::from_hours(1));
        } else {
            now = now + passed;
            clock.advance(passed);
        }
        let count = 1 + random.below(3) as usize;
        let first = random.below(limits.len() as u64) as usize;
        let key = [b'a' + random.below(3) as u8];
        let keyed = |n: usize| {
            let scopes = if (step + n).is_multiple_of(5) { &dear } else { &scopes };
            let n = (first + n) % limits.len();
            KeyedLimit { scope: &scopes[n], key: &key, limit: &limits[n] }
        };
        let keyed: Vec<_> = (0..count).map(keyed).collect();
        let op = match random.below(20) {
            0 => Op::Reset,
            1 | 2 => Op::Refund,
            3..=5 => Op::Peek,
            _ => Op::Take,
        };
        let mode = if random.below(4) == 0 { Mode::Any } else { Mode::All };
        let request = StoreRequest { mode, limits: &keyed, cost: random.below(6), op };
        let expected = memory.decide(&request, now).now().unwrap();
        let reply = store.decide(&request, now).await.unwrap();
        if reply.source == Source::DenyCache {
            // It knows that the store would refuse, but not what would be left.
            assert!(!expected.verdict.decision.allowed(), "step {step}: {request:?}");
            continue;
        }
        assert_eq!(reply.verdict, expected.verdict, "step {step}: {request:?}");
    }
}

const DIFFERENTIAL_STEPS: usize = 2_000;

/// A small generator, the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }
}
