//! A limit: one of the algorithms, already checked.

use std::time::Duration;

use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, Quota, SlidingLog, SlidingWindow,
};
use crate::decision::Decision;
use crate::spec::{Algorithm, LimitSpec};
use crate::state::{Change, State};
use crate::time::Timestamp;

/// A limit that can be decided: what is invalid cannot be built.
///
/// Limits are read from text or built from their parts:
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Gcra, Limit, SlidingLog};
///
/// let api: Limit = "100/min burst 20".parse()?;
/// assert_eq!(api, Gcra::new(100, Duration::from_secs(60), 20)?.into());
///
/// let login: Limit = "sliding-log 5/h".parse()?;
/// assert_eq!(login, SlidingLog::new(5, Duration::from_secs(3600))?.into());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
///
/// Whatever the algorithm, a limit says what it is:
///
/// ```
/// # use std::time::Duration;
/// use tidegate_core::Limit;
///
/// let api: Limit = "100/min burst 20".parse()?;
/// assert_eq!((api.units(), api.period()), (100, Duration::from_secs(60)));
/// assert_eq!((api.ceiling(), api.algorithm()), (20, "gcra"));
///
/// assert!(matches!(api, Limit::Gcra(_)));
/// assert!(matches!("token-bucket 5/s".parse()?, Limit::TokenBucket(_)));
/// assert!(matches!("fixed-window 5/s".parse()?, Limit::FixedWindow(_)));
/// assert!(matches!("sliding-window 5/s".parse()?, Limit::SlidingWindow(_)));
/// assert!(matches!("sliding-log 5/s".parse()?, Limit::SlidingLog(_)));
/// assert!(matches!("quota 5/month".parse()?, Limit::Quota(_)));
/// assert!(matches!("concurrency 5".parse()?, Limit::Concurrency(_)));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Limit {
    /// GCRA, the default.
    Gcra(Gcra),
    /// The same kernel, spelled capacity and refill.
    TokenBucket(Gcra),
    /// A counter per epoch-aligned window.
    FixedWindow(FixedWindow),
    /// Counters in slots that slide.
    SlidingWindow(SlidingWindow),
    /// One instant per unit: exact.
    SlidingLog(SlidingLog),
    /// A budget with a civil edge.
    Quota(Quota),
    /// Requests in flight.
    Concurrency(Concurrency),
}

impl Limit {
    /// Decides without writing: what the answer is, and what an admitted check would change.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "5/h".parse()?;
    /// let mut state = State::Empty;
    /// let (decision, change) = limit.decide(&state, now, 2);
    /// assert_eq!((decision.remaining(), &state), (3, &State::Empty)); // nothing is spent yet
    /// state.apply(change);
    /// assert_eq!(limit.peek(&state, now, 0).remaining(), 3);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn decide(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.plan(state, now, cost),
            Self::FixedWindow(limit) => limit.plan(state, now, cost),
            Self::SlidingWindow(limit) => limit.plan(state, now, cost),
            Self::SlidingLog(limit) => limit.plan(state, now, cost),
            Self::Quota(limit) => limit.plan(state, now, cost),
            Self::Concurrency(limit) => limit.plan(state, now, cost),
        }
    }

    /// Decides and, if admitted, spends `cost`. A refusal consumes nothing.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "5/h".parse()?;
    /// let mut state = State::Empty;
    /// assert!(limit.take(&mut state, now, 3).allowed());
    /// assert!(!limit.take(&mut state, now, 3).allowed());
    /// assert!(limit.take(&mut state, now, 2).allowed()); // the refusal has cost nothing
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn take(&self, state: &mut State, now: Timestamp, cost: u64) -> Decision {
        let (decision, change) = self.decide(state, now, cost);
        state.apply(change);
        decision
    }

    /// What [`Limit::take`] would answer, without spending.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "5/h".parse()?;
    /// let mut state = State::Empty;
    /// let foreseen = limit.peek(&state, now, 3);
    /// assert_eq!(state, State::Empty);
    /// assert_eq!(limit.take(&mut state, now, 3), foreseen);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use = "a peek changes nothing"]
    pub fn peek(&self, state: &State, now: Timestamp, cost: u64) -> Decision {
        self.decide(state, now, cost).0
    }

    /// Gives back up to `amount` of what the key has used, the newest units first, never above the
    /// ceiling, and answers what is left now. The places of a concurrency limit come back by
    /// [`State::release`] instead.
    ///
    /// By GCRA and the token bucket a unit is a span of time, and the one that comes back is a unit of this limit. While
    /// less is [in force](Limit::effective), refund by the whole limit: a unit of the lower rate is longer, and would be
    /// several of them afterwards.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "5/h".parse()?;
    /// let mut state = State::Empty;
    /// let _ = limit.take(&mut state, now, 4);
    /// assert_eq!(limit.refund(&mut state, now, 1).remaining(), 2);
    /// assert_eq!(limit.refund(&mut state, now, 1_000).remaining(), 5); // never above the ceiling
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn refund(&self, state: &mut State, now: Timestamp, amount: u64) -> Decision {
        let change = match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.refund(state, now, amount),
            Self::FixedWindow(limit) => limit.refund(state, now, amount),
            Self::SlidingWindow(limit) => limit.refund(state, now, amount),
            Self::SlidingLog(limit) => limit.refund(state, now, amount),
            Self::Quota(limit) => limit.refund(state, now, amount),
            Self::Concurrency(_) => Change::KEEP,
        };
        if *state != State::Empty {
            state.apply(change);
        }
        self.peek(state, now, 0)
    }

    /// The ceiling: the most that a single check can ever be granted.
    pub const fn ceiling(&self) -> u64 {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.burst(),
            _ => self.units(),
        }
    }

    /// Units per period; for concurrency, units in flight.
    pub const fn units(&self) -> u64 {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.limit(),
            Self::FixedWindow(limit) => limit.limit(),
            Self::SlidingWindow(limit) => limit.limit(),
            Self::SlidingLog(limit) => limit.limit(),
            Self::Quota(limit) => limit.limit(),
            Self::Concurrency(limit) => limit.limit(),
        }
    }

    /// The period of the limit; for concurrency, the lease of a permit.
    pub const fn period(&self) -> Duration {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.period(),
            Self::FixedWindow(limit) => limit.period(),
            Self::SlidingWindow(limit) => limit.period(),
            Self::SlidingLog(limit) => limit.period(),
            Self::Quota(limit) => limit.period(),
            Self::Concurrency(limit) => limit.lease(),
        }
    }

    /// The limit as a person would write it. What has its default is left out.
    ///
    /// ```
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "100/60s burst 20".parse()?;
    /// assert_eq!(limit.spec().to_line().as_deref(), Some("gcra 100/min burst 20"));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn spec(&self) -> LimitSpec {
        let (algorithm, spec) = match self {
            Self::Gcra(limit) => (Algorithm::GCRA, limit.spec()),
            Self::TokenBucket(limit) => (Algorithm::TOKEN_BUCKET, limit.token_bucket_spec()),
            Self::FixedWindow(limit) => (Algorithm::FIXED_WINDOW, limit.spec()),
            Self::SlidingWindow(limit) => (Algorithm::SLIDING_WINDOW, limit.spec()),
            Self::SlidingLog(limit) => (Algorithm::SLIDING_LOG, limit.spec()),
            Self::Quota(limit) => (Algorithm::QUOTA, limit.spec()),
            Self::Concurrency(limit) => (Algorithm::CONCURRENCY, limit.spec()),
        };
        LimitSpec { algorithm: Some(algorithm), ..spec }
    }

    /// The algorithm's name, as configuration spells it.
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::Gcra(_) => "gcra",
            Self::TokenBucket(_) => "token-bucket",
            Self::FixedWindow(_) => "fixed-window",
            Self::SlidingWindow(_) => "sliding-window",
            Self::SlidingLog(_) => "sliding-log",
            Self::Quota(_) => "quota",
            Self::Concurrency(_) => "concurrency",
        }
    }
}

/// What a [`LimitSpec`](crate::LimitSpec) can become: most limits refuse, the leaky bucket delays.
///
/// ```
/// use tidegate_core::{LimitOrShaper, LimitSpec};
///
/// let no_zones = |_: &str| Err("no zones".to_owned());
/// let built = LimitSpec::from_line("5/s")?.build(&no_zones)?;
/// assert!(matches!(built, LimitOrShaper::Limit(_)));
/// let built = LimitSpec::from_line("leaky-bucket 5/s max-wait 1s")?.build(&no_zones)?;
/// assert!(matches!(built, LimitOrShaper::Shaper(_)));
/// # Ok::<(), tidegate_core::FieldError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LimitOrShaper {
    /// A limit that refuses.
    Limit(Limit),
    /// A shaper that delays.
    Shaper(LeakyBucket),
}

impl From<Limit> for LimitOrShaper {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

macro_rules! from_algorithms {
    ($($algorithm:ident),*) => {$(
        impl From<$algorithm> for Limit {
            fn from(limit: $algorithm) -> Self {
                Self::$algorithm(limit)
            }
        }
    )*};
}
from_algorithms!(Gcra, FixedWindow, SlidingWindow, SlidingLog, Quota, Concurrency);
