//! The replay of one case: a store of its own, empty at first, and time as the case tells it.

use serde::Serialize;
use tidegate::{
    Ask, Decision, KeyedLimit, LeakyBucket, Limit, ManualClock, MemoryStore, Mode, Op, Reservation,
    Scope, Shaper, Timestamp,
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
    if !(1..=Ask::MAX_LIMITS).contains(&raw.len()) {
        return Err(format!("`{field}`: expected 1 to {} limits", Ask::MAX_LIMITS));
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
pub(super) enum Replay<'a> {
    Limits { store: Box<MemoryStore>, mode: Option<Mode>, limits: Vec<KeyedLimit<'a>> },
    Shaper { shaper: Shaper<ManualClock>, clock: ManualClock },
}

impl<'a> Replay<'a> {
    /// Starts from nothing: a store per case, so that none can see what another left.
    pub(super) fn new(limits: &'a Limits) -> Result<Self, String> {
        let keyed = |(index, limit): (usize, &'a Limit)| KeyedLimit {
            scope: Scope::named("vectors", &index.to_string()),
            key: b"key",
            limit,
        };
        let over = |mode: Option<Mode>, limits: &'a [Limit]| Self::Limits {
            store: Box::default(),
            mode,
            limits: limits.iter().enumerate().map(keyed).collect(),
        };
        match limits {
            Limits::One(limit) => Ok(over(None, std::slice::from_ref(limit))),
            Limits::Many(mode, limits) => Ok(over(Some(*mode), limits)),
            Limits::Shaper(limit) => {
                let clock = ManualClock::default();
                let shaper = Shaper::builder(*limit).clock(clock.clone()).build();
                let shaper = shaper.map_err(|error| error.to_string())?;
                Ok(Self::Shaper { shaper, clock })
            }
        }
    }

    /// The answer to one step.
    pub(super) fn step(&mut self, now: Timestamp, cost: u64) -> Result<Answer, String> {
        match self {
            Self::Shaper { shaper, clock } => {
                clock.set(now);
                Ok(shaper.reserve_n("key", cost).into())
            }
            Self::Limits { store, mode, limits } => {
                let ask = Ask { mode: mode.unwrap_or_default(), limits, cost, op: Op::Take };
                let verdict = store.answer(&ask, now).ok_or("no limit")?;
                let decision = Decided::from(verdict.decision);
                Ok(match mode {
                    None => Answer::Decision(decision),
                    Some(_) => Answer::Binding {
                        allowed: decision.allowed,
                        binding: verdict.binding,
                        decision,
                    },
                })
            }
        }
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
