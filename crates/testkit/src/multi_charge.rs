//! Several limits in one step, each with a cost of its own: one list of claims for every store.

use tidegate::{
    Charge, Decision, KeyedLimit, Limit, LimitCharge, Mode, MultiCharge, Op, Scope, Store,
    StoreError, StoreErrorKind, StoreRequest, Timestamp,
};

/// The time of every request.
pub const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// One limit of each kind, each of 10; none gains anything while a test runs.
pub const LIMITS: [&str; 7] = [
    "10/3650day",
    "token-bucket 7/30day capacity 10",
    "fixed-window 10/3650day",
    "sliding-window 10/30day",
    "sliding-log 10/3650day",
    "quota 10/month",
    "quota 10/30day rolling",
];

/// A limit of each kind, every one in a policy and for an identifier of its own.
pub struct Row {
    /// One scope per limit.
    pub scopes: Vec<Scope>,
    /// One key per limit.
    pub keys: Vec<String>,
    /// The limits.
    pub limits: Vec<Limit>,
}

impl Row {
    /// `case` keeps the claims apart.
    pub fn new(case: &str, texts: &[&str]) -> Self {
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

    /// The n-th limit with its scope and key.
    pub fn keyed(&self, n: usize) -> KeyedLimit<'_> {
        KeyedLimit { scope: &self.scopes[n], key: self.keys[n].as_bytes(), limit: &self.limits[n] }
    }

    /// Decides the first limits, as many as there are costs, in one step.
    pub async fn ask(
        &self,
        store: &dyn Store,
        charge: Charge,
        costs: &[u64],
    ) -> Result<Vec<Decision>, StoreError> {
        let take = |(n, cost): (usize, &u64)| LimitCharge { keyed: self.keyed(n), cost: *cost };
        let limits: Vec<_> = costs.iter().enumerate().map(take).collect();
        store.decide_each(&MultiCharge { limits: &limits, charge }, NOW).await
    }

    /// Charges the first limits in one step.
    pub async fn take(&self, store: &dyn Store, costs: &[u64]) -> Vec<Decision> {
        self.ask(store, Charge::IfAllAdmit, costs).await.unwrap()
    }

    /// What is left of each, asked one by one.
    pub async fn left(&self, store: &dyn Store) -> Vec<u64> {
        let mut left = Vec::new();
        for n in 0..self.limits.len() {
            let limits = [self.keyed(n)];
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Peek };
            left.push(store.decide(&ask, NOW).await.unwrap().verdict.decision.remaining());
        }
        left
    }
}

/// What each has left.
pub fn remaining(decisions: &[Decision]) -> Vec<u64> {
    decisions.iter().map(Decision::remaining).collect()
}

/// Which of them admit.
pub fn allowed(decisions: &[Decision]) -> Vec<bool> {
    decisions.iter().map(Decision::allowed).collect()
}

/// What every store promises.
pub async fn decides_each_limit_in_one_step(store: &dyn Store) {
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
        let error = store.decide_each(&takes, NOW).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{} limits", limits.len());
    }
    assert_eq!(row.left(store).await, [10, 5]);
}
