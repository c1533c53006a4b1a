//! Several limits in one step, each with a cost of its own, in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate::{
    Charge, Decision, DenyCache, LimitCharge, MemoryStore, Mode, MultiCharge, Op, Scope, Store,
    StoreErrorKind, StoreRequest, Timestamp,
};
use tidegate_testkit::multi_charge::{
    LIMITS, NOW, Row, allowed, decides_each_limit_in_one_step, remaining,
};

#[tokio::test]
async fn memory_decides_each_limit_in_one_step() {
    decides_each_limit_in_one_step(&MemoryStore::default()).await;
}

#[tokio::test]
async fn stores_around_a_store_keep_every_promise() {
    decides_each_limit_in_one_step(&DenyCache::new(MemoryStore::default())).await;
    #[cfg(feature = "breaker")]
    {
        let options = tidegate::BreakerOptions::default();
        decides_each_limit_in_one_step(&tidegate::Breaker::around(MemoryStore::default(), options))
            .await;
    }
}

#[tokio::test]
async fn a_store_that_cannot_says_so() {
    #[derive(Debug)]
    struct Plain;
    impl Store for Plain {
        fn decide(
            &self,
            _: &StoreRequest<'_>,
            _: Timestamp,
        ) -> tidegate::StoreResult<tidegate::StoreReply> {
            unreachable!("nobody asks one by one instead")
        }
        fn reserve(
            &self,
            _: &tidegate::ReserveRequest<'_>,
            _: Timestamp,
        ) -> tidegate::StoreResult<tidegate::ReserveReply> {
            unreachable!("nobody asks for places")
        }
    }
    let row = Row::new("plain", &LIMITS[..2]);
    let error = row.ask(&Plain, Charge::IfAllAdmit, &[1, 1]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}

/// A refusal that is remembered stays true while others take in one step, and is not made by one.
#[tokio::test]
async fn the_deny_cache_remembers_no_step_and_forgets_none() {
    let store = DenyCache::new(tidegate_testkit::scripted::Scripted::new(
        tidegate_testkit::scripted::Way::AtOnce,
    ));
    let row = Row::new("cached", &LIMITS[..2]);
    let each = row.take(&store, &[11, 1]).await;
    assert_eq!((allowed(&each), store.remembered()), (vec![false, true], 0));
    row.take(&store, &[10, 0]).await;
    let limits = [row.keyed(0)];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    for _ in 0..2 {
        assert!(!store.decide(&ask, NOW).await.unwrap().verdict.decision.allowed());
    }
    assert_eq!(store.remembered(), 1);
    assert_eq!(remaining(&row.take(&store, &[0, 1]).await), [0, 9]);
    assert_eq!(store.remembered(), 1);
}

/// Every thread takes from a limit that all share and from one of its own, in one step: what is admitted is exact in
/// both, and no refused step has charged the other.
#[test]
fn threads_that_share_one_limit_and_have_one_each_admit_exactly() {
    const THREADS: usize = 8;
    const SHARED: u64 = 1_000;
    const OWN: u64 = 150;
    for (shared, own) in [
        ("1000/3650day", "150/3650day"),
        ("sliding-log 1000/3650day", "150/3650day"),
        ("fixed-window 1000/3650day", "sliding-window 150/30day"),
    ] {
        let store = MemoryStore::default();
        let mut row = Row::new("exact", &[own; THREADS]);
        row.scopes.push(Scope::named("exact", "shared"));
        row.keys.push("all".to_owned());
        row.limits.push(shared.parse().unwrap());
        let total = AtomicU64::new(0);
        let admitted: Vec<u64> = thread::scope(|scope| {
            let (store, row, total) = (&store, &row, &total);
            let take = move |own: usize| {
                let mut limits = [
                    LimitCharge { keyed: row.keyed(own), cost: 1 },
                    LimitCharge { keyed: row.keyed(THREADS), cost: 2 },
                ];
                let mut admitted = 0;
                for round in 0..2 * OWN {
                    limits.swap(0, 1); // in either order
                    let takes = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
                    let each = store.decide_each(&takes, NOW).now().unwrap();
                    admitted += u64::from(each.iter().all(Decision::allowed));
                    // Those with even numbers stop where others can go on.
                    if own.is_multiple_of(2) && round > OWN / 2 {
                        break;
                    }
                }
                total.fetch_add(admitted, Ordering::Relaxed);
                admitted
            };
            let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || take(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let spent = |n: usize| {
            let keyed = row.keyed(n);
            let ask = StoreRequest { mode: Mode::All, limits: &[keyed], cost: 0, op: Op::Peek };
            let decision = store.decide(&ask, NOW).now().unwrap().verdict.decision;
            keyed.limit.ceiling() - decision.remaining()
        };
        for (own, admitted) in admitted.iter().enumerate() {
            assert_eq!(spent(own), *admitted, "own limit {own} under {shared}");
        }
        assert_eq!(total.load(Ordering::Relaxed), SHARED / 2, "{shared}");
        assert_eq!(spent(THREADS), SHARED, "{shared}");
    }
}

/// A limit is leased together with the others of its policy, for as long as the shortest of them allows; a key's own
/// limit by itself.
#[cfg(feature = "leases")]
#[tokio::test]
async fn leases_take_from_what_the_store_keeps_for_them() {
    use tidegate_core::Terms;

    let store = tidegate::Leases::around(MemoryStore::default());
    let texts = ["100/s burst 40", "100/s burst 80", "100/s burst 40", "fixed-window 100/s"];
    let mut row = Row::new("leased", &texts);
    row.scopes = vec![
        Scope::named("own", ""),
        Scope::named("own", ""),
        Scope::named("plan", "rate"),
        Scope::named("plan", "window"),
    ];
    row.keys = ["a", "b", "c", "c"].map(str::to_owned).to_vec();
    let kept = |n: usize, together: std::ops::Range<usize>| {
        let terms = Terms::from_limits(&row.limits[together]).unwrap();
        row.limits[n].leased(terms.ttl()).unwrap().ceiling()
    };
    let expected = [kept(0, 0..1), kept(1, 1..2), kept(2, 2..4), kept(3, 2..4)];
    assert_eq!(expected, [30, 60, 35, 100]);
    let each = row.take(&store, &[1; 4]).await;
    assert_eq!(each.iter().map(Decision::limit).collect::<Vec<_>>(), expected);
    let plan = [row.keyed(2), row.keyed(3)];
    let ask = StoreRequest { mode: Mode::All, limits: &plan, cost: 0, op: Op::Peek };
    let alone = store.decide(&ask, NOW).await.unwrap().verdict.decision;
    assert_eq!((alone.limit(), alone.remaining()), (35, 34));
}
