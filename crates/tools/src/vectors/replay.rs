//! The replay of one case: a key of its own, unknown at first, and time as the case tells it.

use serde::Serialize;
use tidegate::{
    Decision, KeyedLimit, LeakyBucket, Limit, Mode, Op, Reservation, ReserveRequest, Scope, Store,
    StoreError, StoreReply, StoreRequest, Timestamp,
};

use super::limit::RawLimit;

/// What a case is about.
pub(super) enum Limits {
    One(Limit),
    Many(Mode, Vec<Limit>),
    Shaper(LeakyBucket),
}

impl Limits {
    /// Exactly one of `limit`, `all` and `any`.
    pub(super) fn read(
        limit: Option<&RawLimit>,
        all: Option<&[RawLimit]>,
        any: Option<&[RawLimit]>,
    ) -> Result<Self, String> {
        match (limit, all, any) {
            (Some(raw), None, None) if raw.is_shaper() => {
                raw.build_shaper().map(Self::Shaper).map_err(|why| format!("limit: {why}"))
            }
            (Some(raw), None, None) => {
                raw.build().map(Self::One).map_err(|why| format!("limit: {why}"))
            }
            (None, Some(all), None) => many("all", all).map(|limits| Self::Many(Mode::All, limits)),
            (None, None, Some(any)) => many("any", any).map(|limits| Self::Many(Mode::Any, limits)),
            _ => Err("give exactly one of `limit`, `all` and `any`".to_owned()),
        }
    }
}

fn many(field: &str, raw: &[RawLimit]) -> Result<Vec<Limit>, String> {
    if !(1..=StoreRequest::MAX_LIMITS).contains(&raw.len()) {
        return Err(format!("`{field}`: expected 1 to {} limits", StoreRequest::MAX_LIMITS));
    }
    let built = |(index, raw): (usize, &RawLimit)| {
        raw.build().map_err(|why| format!("{field}[{index}]: {why}"))
    };
    raw.iter().enumerate().map(built).collect()
}

/// A line of output. The fields of the answer follow its place.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) case: &'a str,
    pub(super) step: usize,
    #[serde(flatten)]
    pub(super) answer: &'a Answer,
}

/// An answer, with the fields of `expect` in their order.
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

/// A case under way.
pub(super) struct Replay<'a> {
    store: &'a dyn Store,
    limits: &'a Limits,
    /// One per limit.
    scopes: Vec<Scope>,
    key: String,
}

impl<'a> Replay<'a> {
    /// Starts from nothing if nobody else has used `key`.
    pub(super) fn new(store: &'a dyn Store, limits: &'a Limits, key: String) -> Self {
        let count = if let Limits::Many(_, limits) = limits { limits.len() } else { 1 };
        let scopes = (0..count).map(|index| Scope::named("vectors", &index.to_string())).collect();
        Self { store, limits, scopes, key }
    }

    /// The answer to one step.
    pub(super) async fn step(&self, now: Timestamp, cost: u64) -> Result<Answer, StoreError> {
        let (mode, limits) = match self.limits {
            Limits::Shaper(shaper) => return self.reserve(shaper, now, cost).await,
            Limits::One(limit) => (None, std::slice::from_ref(limit)),
            Limits::Many(mode, limits) => (Some(*mode), limits.as_slice()),
        };
        let settled = self.ask(mode, limits, cost, Op::Take, now).await?;
        let decision = Decided::from(settled.verdict.decision);
        if mode.is_none() {
            return Ok(Answer::Decision(decision));
        }
        let (allowed, binding) = (decision.allowed, settled.verdict.binding);
        Ok(Answer::Binding { allowed, binding, decision })
    }

    /// Leaves nothing behind in a store that others use too. A place in a queue ends by itself.
    pub(super) async fn forget(&self, now: Timestamp) {
        let limits = match self.limits {
            Limits::Shaper(_) => return,
            Limits::One(limit) => std::slice::from_ref(limit),
            Limits::Many(_, limits) => limits.as_slice(),
        };
        // What is not forgotten now expires.
        let _ = self.ask(None, limits, 0, Op::Reset, now).await;
    }

    async fn ask(
        &self,
        mode: Option<Mode>,
        limits: &[Limit],
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> Result<StoreReply, StoreError> {
        let key = self.key.as_bytes();
        let keyed = |(scope, limit)| KeyedLimit { scope, key, limit };
        let limits: Vec<_> = self.scopes.iter().zip(limits).map(keyed).collect();
        let ask = StoreRequest { mode: mode.unwrap_or_default(), limits: &limits, cost, op };
        self.store.decide(&ask, now).await
    }

    async fn reserve(
        &self,
        shaper: &LeakyBucket,
        now: Timestamp,
        cost: u64,
    ) -> Result<Answer, StoreError> {
        let (scope, key) = (&self.scopes[0], self.key.as_bytes());
        let turn = ReserveRequest { scope, key, shaper, cost, cancel: None };
        Ok(self.store.reserve(&turn, now).await?.reservation.into())
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
