//! Stores that lie are caught: the behaviour list can fail, and says by name what is broken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate::{
    KeyedLimit, MemoryStore, Mode, Op, ReserveReply, ReserveRequest, Scope, Store, StoreReply,
    StoreRequest, StoreResult, Timestamp,
};
use tidegate_testkit::behaviours::broken_promises;

/// A store in memory that does one thing wrong.
#[derive(Debug, Default)]
struct Liar {
    memory: MemoryStore,
    lie: Lie,
    requests: AtomicU64,
    last: Mutex<Option<StoreReply>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
enum Lie {
    #[default]
    None,
    /// Every third charge is answered and not kept.
    LosesWrites,
    /// A refused check of several limits charges the first of them.
    CommitsHalf,
    /// A charge gets the answer of the one before.
    AnswersStale,
    /// A release frees a place each time it is sent.
    ReleasesTwice,
    /// A renewal is answered and not kept.
    ForgetsRenewals,
    /// A lease is granted and not charged.
    LendsForNothing,
    /// All policies share their counters.
    MixesScopes,
    /// Time stands still.
    IgnoresTime,
    /// A refund gives back nothing.
    KeepsRefunds,
    /// All limits are charged the same.
    IgnoresFactors,
}

impl Liar {
    fn ask(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.memory.decide(request, now)
    }

    fn release_another(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        let reset = StoreRequest { op: Op::Reset, ..*request };
        self.ask(&reset, now)
    }
}

impl Store for Liar {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let as_peek = StoreRequest { op: Op::Peek, ..*request };
        match (self.lie, request.op) {
            (Lie::LosesWrites, Op::Take) if number % 3 == 2 => self.ask(&as_peek, now),
            (Lie::AnswersStale, Op::Take) => {
                let reply = self.ask(request, now).now();
                let mut last = self.last.lock().unwrap();
                let before = std::mem::replace(&mut *last, reply.clone().ok());
                tidegate::Reply::ready(before.map_or(reply, Ok))
            }
            (Lie::CommitsHalf, Op::Take)
                if request.limits.len() > 1 && request.mode == Mode::All =>
            {
                let whole = self.ask(request, now).now();
                if whole.as_ref().is_ok_and(|reply| !reply.verdict.decision.allowed()) {
                    drop(self.ask(
                        &StoreRequest { limits: &request.limits[..1], cost: 1, ..*request },
                        now,
                    ));
                }
                tidegate::Reply::ready(whole)
            }
            (Lie::ReleasesTwice, Op::Release { .. }) => self.release_another(request, now),
            (Lie::ForgetsRenewals, Op::Renew { permit_id }) => {
                let peek = StoreRequest { cost: 0, ..as_peek };
                let permits = vec![(0, permit_id)];
                let reply = self.ask(&peek, now).now();
                tidegate::Reply::ready(reply.map(|reply| StoreReply { permits, ..reply }))
            }
            (Lie::LendsForNothing, Op::Lease(_)) => {
                let granted = self.ask(request, now);
                drop(self.ask(&StoreRequest { op: Op::Reset, ..*request }, now));
                granted
            }
            (Lie::MixesScopes, _) => {
                let scope = Scope::named("one", "");
                let first = request.limits.iter().take(1);
                let limits: Vec<_> =
                    first.map(|keyed| KeyedLimit { scope: &scope, ..*keyed }).collect();
                self.memory.decide(&StoreRequest { limits: &limits, ..*request }, now)
            }
            (Lie::IgnoresFactors, _) => {
                let plain = |keyed: &KeyedLimit<'_>| keyed.scope.clone().costing(NonZeroU64::MIN);
                let scopes: Vec<_> = request.limits.iter().map(plain).collect();
                let limits = request.limits.iter().zip(&scopes);
                let limits: Vec<_> =
                    limits.map(|(keyed, scope)| KeyedLimit { scope, ..*keyed }).collect();
                self.ask(&StoreRequest { limits: &limits, ..*request }, now)
            }
            (Lie::IgnoresTime, _) => {
                self.ask(request, Timestamp::from_micros(1_700_000_000_000_000))
            }
            (Lie::KeepsRefunds, Op::Refund) => self.ask(&StoreRequest { cost: 0, ..as_peek }, now),
            _ => self.ask(request, now),
        }
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.memory.reserve(request, now)
    }

    fn decide_each(
        &self,
        charges: &tidegate::MultiCharge<'_>,
        now: Timestamp,
    ) -> StoreResult<Vec<tidegate::Decision>> {
        self.memory.decide_each(charges, now)
    }
}

#[tokio::test]
async fn every_lie_breaks_the_promise_that_it_is_about() {
    for (lie, promise) in [
        (Lie::LosesWrites, "admits_exactly_the_limit"),
        (Lie::CommitsHalf, "charges_all_limits_or_none"),
        (Lie::CommitsHalf, "charges_several_identifiers_or_none"),
        (Lie::AnswersStale, "admits_exactly_the_limit"),
        (Lie::ReleasesTwice, "grants_permits_and_takes_them_back"),
        (Lie::ForgetsRenewals, "renews_permits_that_are_held"),
        (Lie::LendsForNothing, "grants_leases_and_takes_units_back"),
        (Lie::MixesScopes, "keeps_scopes_apart"),
        (Lie::IgnoresTime, "agrees_with_the_store_in_memory"),
        (Lie::KeepsRefunds, "gives_back_what_was_spent"),
        (Lie::IgnoresFactors, "multiplies_costs_by_limit"),
        (Lie::IgnoresFactors, "agrees_with_the_store_in_memory"),
    ] {
        let broken = broken_promises(|| Arc::new(Liar { lie, ..Liar::default() })).await;
        assert!(broken.contains(&promise), "{lie:?}: expected {promise} among {broken:?}");
    }
}

#[tokio::test]
async fn an_honest_store_breaks_none() {
    let broken = broken_promises(|| Arc::new(Liar::default())).await;
    assert_eq!(broken, [""; 0]);
}
