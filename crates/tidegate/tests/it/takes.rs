//! Several limits in one step, each with a cost of its own: one list of claims for every store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate::{
    Charge, Decision, DenyCache, KeyedLimit, Limit, LimitCharge, MemoryStore, Mode, MultiCharge,
    Op, Scope, Store, StoreError, StoreErrorKind, StoreRequest, Timestamp,
};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Each gains nothing while a test runs.
const LIMITS: [&str; 7] = [
    "10/3650day",
    "token-bucket 7/30day capacity 10",
    "fixed-window 10/3650day",
    "sliding-window 10/30day",
    "sliding-log 10/3650day",
    "quota 10/month",
    "quota 10/30day rolling",
];

/// A limit of each kind, every one in a policy and for an identifier of its own.
pub(crate) struct Row {
    pub(crate) scopes: Vec<Scope>,
    pub(crate) keys: Vec<String>,
    pub(crate) limits: Vec<Limit>,
}

impl Row {
    /// `case` keeps the claims apart.
    pub(crate) fn new(case: &str, texts: &[&str]) -> Self {
        let names = 0..texts.len();
        Self {
            scopes: names
                .clone()
                .map(|n| Scope::tagged("edge", &format!("{case}-{n}"), ""))
                .collect(),
            keys: names.map(|n| format!("user-{n}")).collect(),
            limits: texts.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    pub(crate) fn keyed(&self, n: usize) -> KeyedLimit<'_> {
        KeyedLimit { scope: &self.scopes[n], key: self.keys[n].as_bytes(), limit: &self.limits[n] }
    }

    pub(crate) async fn ask(
        &self,
        store: &dyn Store,
        charge: Charge,
        costs: &[u64],
    ) -> Result<Vec<Decision>, StoreError> {
        let take = |(n, cost): (usize, &u64)| LimitCharge { keyed: self.keyed(n), cost: *cost };
        let limits: Vec<_> = costs.iter().enumerate().map(take).collect();
        store.take_each(&MultiCharge { limits: &limits, charge }, NOW).await
    }

    pub(crate) async fn take(&self, store: &dyn Store, costs: &[u64]) -> Vec<Decision> {
        self.ask(store, Charge::IfAllAdmit, costs).await.unwrap()
    }

    /// What plain asks say is left of each.
    pub(crate) async fn left(&self, store: &dyn Store) -> Vec<u64> {
        let mut left = Vec::new();
        for n in 0..self.limits.len() {
            let limits = [self.keyed(n)];
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Peek };
            left.push(store.answer(&ask, NOW).await.unwrap().verdict.decision.remaining());
        }
        left
    }
}

fn remaining(decisions: &[Decision]) -> Vec<u64> {
    decisions.iter().map(Decision::remaining).collect()
}

fn allowed(decisions: &[Decision]) -> Vec<bool> {
    decisions.iter().map(Decision::allowed).collect()
}

/// What every store promises.
pub(crate) async fn keeps_every_promise(store: &dyn Store) {
    all_are_charged_what_each_costs(store).await;
    one_refusal_charges_nobody(store).await;
    what_charges_nothing_answers_as_it_says(store).await;
    costs_of_nothing_and_too_much_are_answered(store).await;
    as_many_limits_as_fit_are_one_step(store).await;
    what_makes_no_sense_is_nobodys_failure(store).await;
}

async fn all_are_charged_what_each_costs(store: &dyn Store) {
    let row = Row::new("charged", &LIMITS);
    let each = row.take(store, &[1, 2, 3, 4, 5, 6, 7]).await;
    assert_eq!(remaining(&each), [9, 8, 7, 6, 5, 4, 3]);
    assert!(each.iter().all(|decision| decision.allowed() && decision.limit() == 10));
    assert_eq!(row.left(store).await, [9, 8, 7, 6, 5, 4, 3]);
}

async fn one_refusal_charges_nobody(store: &dyn Store) {
    for refusing in 0..LIMITS.len() {
        let row = Row::new(&format!("refused-{refusing}"), &LIMITS);
        row.take(store, &[4; LIMITS.len()]).await;
        let mut costs = [2; LIMITS.len()];
        costs[refusing] = 7;
        let each = row.take(store, &costs).await;
        let mut expected = [true; LIMITS.len()];
        expected[refusing] = false;
        assert_eq!(allowed(&each), expected);
        assert_eq!(remaining(&each), [6; LIMITS.len()]);
        assert!(each[refusing].retry_after().is_some_and(|wait| !wait.is_zero()));
        assert_eq!(row.left(store).await, [6; LIMITS.len()], "{}", LIMITS[refusing]);
    }
}

async fn what_charges_nothing_answers_as_it_says(store: &dyn Store) {
    let row = Row::new("looked-at", &LIMITS);
    for (charge, expected) in [(Charge::Never, 7), (Charge::Refused, 10)] {
        let each = row.ask(store, charge, &[3; LIMITS.len()]).await.unwrap();
        assert_eq!(remaining(&each), [expected; LIMITS.len()], "{charge:?}");
        assert!(each.iter().all(Decision::allowed));
        // Those that refuse by themselves say so, whatever becomes of the others.
        let each = row.ask(store, charge, &[11, 3]).await.unwrap();
        assert_eq!((allowed(&each), remaining(&each)), (vec![false, true], vec![10, 10]));
    }
    assert_eq!(row.left(store).await, [10; LIMITS.len()]);
}

async fn costs_of_nothing_and_too_much_are_answered(store: &dyn Store) {
    let row = Row::new("odd", &LIMITS[..3]);
    row.take(store, &[10, 0, 0]).await;
    // A cost of 0 looks, at what is spent too.
    let each = row.take(store, &[0, 0, 2]).await;
    assert_eq!((allowed(&each), remaining(&each)), (vec![true; 3], vec![0, 10, 8]));
    for never in [11, 1 << 53, u64::MAX] {
        let each = row.take(store, &[0, never, 1]).await;
        assert_eq!((allowed(&each), remaining(&each)), (vec![true, false, true], vec![0, 10, 8]));
        assert_eq!(each[1].retry_after(), None);
    }
}

async fn as_many_limits_as_fit_are_one_step(store: &dyn Store) {
    let texts: Vec<&str> = LIMITS.into_iter().cycle().take(MultiCharge::MAX_LIMITS).collect();
    let row = Row::new("many", &texts);
    let mut costs = vec![6; texts.len()];
    assert_eq!(remaining(&row.take(store, &costs).await), vec![4; texts.len()]);
    costs.fill(1);
    costs[texts.len() - 1] = 5;
    let each = row.take(store, &costs).await;
    assert_eq!(each.iter().filter(|decision| !decision.allowed()).count(), 1);
    assert_eq!(row.left(store).await, vec![4; texts.len()]);
}

async fn what_makes_no_sense_is_nobodys_failure(store: &dyn Store) {
    let row = Row::new("senseless", &["10/day", "concurrency 5"]);
    let (take, places) = (row.keyed(0), row.keyed(1));
    let keys: Vec<String> = (0..=MultiCharge::MAX_LIMITS).map(|n| format!("user-{n}")).collect();
    let crowd: Vec<_> = keys.iter().map(|key| KeyedLimit { key: key.as_bytes(), ..take }).collect();
    for limits in [&[][..], &[take, take], &[take, places], &[places], &crowd] {
        let limits: Vec<_> =
            limits.iter().map(|keyed| LimitCharge { keyed: *keyed, cost: 1 }).collect();
        let takes = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
        let error = store.take_each(&takes, NOW).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{} limits", limits.len());
    }
    assert_eq!(row.left(store).await, [10, 5]);
}

#[tokio::test]
async fn memory_keeps_every_promise() {
    keeps_every_promise(&MemoryStore::default()).await;
}

#[tokio::test]
async fn stores_around_a_store_keep_every_promise() {
    keeps_every_promise(&DenyCache::new(MemoryStore::default())).await;
    #[cfg(feature = "breaker")]
    {
        let options = tidegate::BreakerOptions::default();
        keeps_every_promise(&tidegate::Breaker::around(MemoryStore::default(), options)).await;
    }
}

#[tokio::test]
async fn a_store_that_cannot_says_so() {
    #[derive(Debug)]
    struct Plain;
    impl Store for Plain {
        fn answer(
            &self,
            _: &StoreRequest<'_>,
            _: Timestamp,
        ) -> tidegate::Reply<'static, tidegate::StoreReply, StoreError> {
            unreachable!("nobody asks one by one instead")
        }
        fn shape(
            &self,
            _: &tidegate::ReserveRequest<'_>,
            _: Timestamp,
        ) -> tidegate::Reply<'static, tidegate::ReserveReply, StoreError> {
            unreachable!("nobody asks for places")
        }
    }
    let row = Row::new("plain", &LIMITS[..2]);
    let error = row.ask(&Plain, Charge::IfAllAdmit, &[1, 1]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::BadRequest);
}

/// A refusal that is remembered stays true while others take in one step, and is not made by one.
#[tokio::test]
async fn the_deny_cache_remembers_no_step_and_forgets_none() {
    let store = DenyCache::new(crate::scripted::Scripted::new(crate::scripted::Way::AtOnce));
    let row = Row::new("cached", &LIMITS[..2]);
    let each = row.take(&store, &[11, 1]).await;
    assert_eq!((allowed(&each), store.remembered()), (vec![false, true], 0));
    row.take(&store, &[10, 0]).await;
    let limits = [row.keyed(0)];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    for _ in 0..2 {
        assert!(!store.answer(&ask, NOW).await.unwrap().verdict.decision.allowed());
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
                    let each = store.take_each(&takes, NOW).now().unwrap();
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
            let decision = store.answer(&ask, NOW).now().unwrap().verdict.decision;
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
    let alone = store.answer(&ask, NOW).await.unwrap().verdict.decision;
    assert_eq!((alone.limit(), alone.remaining()), (35, 34));
}
