//! Replays cases: each with a key of its own, and with the clock of the case.

use std::sync::Arc;

use serde::Serialize;
use tidegate::{
    Decision, KeyedLimit, Op, Reservation, ReserveRequest, Scope, Store, StoreError, StoreReply,
    StoreRequest, Timestamp,
};
use tidegate_core::{LeakyBucket, LimitOrShaper};

use super::case::Case;

/// A line of output.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) case: &'a str,
    pub(super) step: usize,
    #[serde(flatten)]
    pub(super) answer: &'a Answer,
}

/// An answer, with its fields in the order of `expect`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Decision(Decided),
    Binding { allowed: bool, binding: usize, decision: Decided },
    Reservation { accepted: bool, delay_us: u64, retry_after_us: Option<u64> },
}

#[derive(Serialize)]
pub(super) struct Decided {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

/// A replayed case: one answer per step, up to the one that failed.
pub(super) struct Replayed {
    pub(super) file: Arc<str>,
    pub(super) case: Case,
    pub(super) answers: Vec<Answer>,
    pub(super) error: Option<StoreError>,
}

/// Replays a case. No other case may use `key`.
pub(super) async fn replay(
    file: Arc<str>,
    case: Case,
    store: Arc<dyn Store>,
    key: String,
) -> Replayed {
    let scopes = (0..case.limits.len()).map(|index| Scope::named("vectors", &index.to_string()));
    let run = Run { store: &*store, case: &case, scopes: scopes.collect(), key };
    let (mut answers, mut error) = (Vec::with_capacity(case.steps.len()), None);
    for step in &case.steps {
        match run.step(Timestamp::from_micros(step.now_us.0), step.cost.0).await {
            Ok(answer) => answers.push(answer),
            Err(failed) => {
                error = Some(failed);
                break;
            }
        }
    }
    if let Some(last) = case.steps.last() {
        run.clean_up(Timestamp::from_micros(last.now_us.0)).await;
    }
    Replayed { file, case, answers, error }
}

struct Run<'a> {
    store: &'a dyn Store,
    case: &'a Case,
    /// One per limit.
    scopes: Vec<Scope>,
    key: String,
}

impl Run<'_> {
    async fn step(&self, now: Timestamp, cost: u64) -> Result<Answer, StoreError> {
        if let [LimitOrShaper::Shaper(shaper)] = &*self.case.limits {
            return self.reserve(shaper, now, cost).await;
        }
        let reply = self.decide(cost, Op::Take, now).await?;
        let decision = Decided::from(reply.verdict.decision);
        if self.case.mode.is_none() {
            return Ok(Answer::Decision(decision));
        }
        let (allowed, binding) = (decision.allowed, reply.verdict.binding);
        Ok(Answer::Binding { allowed, binding, decision })
    }

    /// Deletes the counters from a shared store. Those that stay expire, as reservations do.
    async fn clean_up(&self, now: Timestamp) {
        if let [LimitOrShaper::Shaper(_)] = &*self.case.limits {
            return;
        }
        let _ = self.decide(0, Op::Reset, now).await;
    }

    async fn decide(&self, cost: u64, op: Op, now: Timestamp) -> Result<StoreReply, StoreError> {
        let key = self.key.as_bytes();
        let mode = self.case.mode.unwrap_or_default();
        let limits: Vec<_> = (self.scopes.iter().zip(&self.case.limits))
            .filter_map(|(scope, limit)| match limit {
                LimitOrShaper::Limit(limit) => Some(KeyedLimit { scope, key, limit }),
                LimitOrShaper::Shaper(_) => None,
            })
            .collect();
        self.store.decide(&StoreRequest { mode, limits: &limits, cost, op }, now).await
    }

    async fn reserve(
        &self,
        shaper: &LeakyBucket,
        now: Timestamp,
        cost: u64,
    ) -> Result<Answer, StoreError> {
        let (scope, key) = (&self.scopes[0], self.key.as_bytes());
        let request = ReserveRequest { scope, key, shaper, cost, cancel: None };
        Ok(self.store.reserve(&request, now).await?.reservation.into())
    }
}

impl From<Decision> for Decided {
    fn from(decision: Decision) -> Self {
        Self {
            allowed: decision.allowed(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_us: decision.retry_after_us(),
            reset_after_us: decision.reset_after_us(),
        }
    }
}

impl From<Reservation> for Answer {
    fn from(reservation: Reservation) -> Self {
        Self::Reservation {
            accepted: reservation.accepted(),
            delay_us: reservation.delay_us(),
            retry_after_us: reservation.retry_after_us(),
        }
    }
}
