//! A limit: one of the algorithms, already checked.

use std::time::Duration;

use crate::algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, LimitAlgorithm, Quota, SlidingLog, SlidingWindow,
    concurrency, fixed_window, gcra, quota, sliding_log, sliding_window,
};
use crate::decision::Decision;
use crate::spec::{Algorithm, LimitSpec};
use crate::state::{Change, State};
use crate::time::Timestamp;

macro_rules! limits {
    // `$d` is a dollar sign, for the macros that this one defines.
    ($d:tt $(#[$enum:meta])* pub enum Limit {
        $($(#[$doc:meta])* $variant:ident($algorithm:ty) = $grammar:path,)*
    }) => {
        $(#[$enum])*
        pub enum Limit {
            $($(#[$doc])* $variant($algorithm),)*
        }

        impl Limit {
            /// The algorithm's name, as configuration spells it.
            pub const fn algorithm(&self) -> &'static str {
                match self { $(Self::$variant(_) => $grammar.description.name,)* }
            }

            /// The limit as a person would write it, with every field that has a value.
            ///
            /// ```
            /// use tidegate_core::Limit;
            ///
            /// let limit: Limit = "100/60s".parse()?;
            /// assert_eq!(limit.full_spec().to_line().as_deref(), Some("gcra 100/min burst 100"));
            /// assert_eq!(limit.spec().to_line().as_deref(), Some("gcra 100/min"));
            /// # Ok::<(), tidegate_core::LimitError>(())
            /// ```
            pub fn full_spec(&self) -> LimitSpec {
                let (algorithm, spec) = match self {
                    $(Self::$variant(limit) => (&$grammar.description, ($grammar.spec)(limit)),)*
                };
                LimitSpec { algorithm: Some(Algorithm(algorithm)), ..spec }
            }
        }

        /// Evaluates an expression with the algorithm of a limit.
        macro_rules! with_algorithm {
            ($d limit:expr, $d name:ident => $d body:expr) => {
                match $d limit { $(Limit::$variant($d name) => $d body,)* }
            };
        }

        /// The same with another of the same algorithm as its value.
        macro_rules! map_algorithm {
            ($d limit:expr, $d name:ident => $d body:expr) => {
                match $d limit { $(Limit::$variant($d name) => Limit::$variant($d body),)* }
            };
        }

        /// Compares two limits of the same algorithm.
        macro_rules! both_algorithms {
            ($d limits:expr, $d one:ident, $d other:ident => $d body:expr) => {
                match $d limits {
                    $((Limit::$variant($d one), Limit::$variant($d other)) => $d body,)*
                    _ => false,
                }
            };
        }
    };
}

limits! {
    $
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
        Gcra(Gcra) = gcra::GCRA,
        /// The same kernel, spelled capacity and refill.
        TokenBucket(Gcra) = gcra::TOKEN_BUCKET,
        /// A counter per epoch-aligned window.
        FixedWindow(FixedWindow) = fixed_window::GRAMMAR,
        /// Counters in slots that slide.
        SlidingWindow(SlidingWindow) = sliding_window::GRAMMAR,
        /// One instant per unit: exact.
        SlidingLog(SlidingLog) = sliding_log::GRAMMAR,
        /// A budget with a civil edge.
        Quota(Quota) = quota::GRAMMAR,
        /// Requests in flight.
        Concurrency(Concurrency) = concurrency::GRAMMAR,
    }
}

// Behind the macros, which these use.
mod in_force;
mod lease;
mod script;

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
        with_algorithm!(self, limit => limit.plan(state, now, cost))
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
        let change = with_algorithm!(self, limit => limit.refund(state, now, amount));
        if *state != State::Empty {
            state.apply(change);
        }
        self.peek(state, now, 0)
    }

    /// The ceiling: the most that a single check can ever be granted.
    #[inline]
    pub fn ceiling(&self) -> u64 {
        with_algorithm!(self, limit => limit.ceiling())
    }

    /// Units per period; for concurrency, units in flight.
    #[inline]
    pub fn units(&self) -> u64 {
        with_algorithm!(self, limit => limit.units())
    }

    /// The period of the limit; for concurrency, the lease of a permit.
    pub fn period(&self) -> Duration {
        with_algorithm!(self, limit => limit.period())
    }

    /// The longest that a state of this limit can matter after it was written: what was written before that says no more
    /// than [`State::Empty`]. The life of a lease is not in it,
    /// nor the millisecond that a limit which counts in those may round up by.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Limit;
    /// for (text, seconds) in [
    ///     ("100/min burst 50", 30),
    ///     ("fixed-window 100/h", 3600),
    ///     ("sliding-window 60/min buckets 6", 70),
    ///     ("quota 100/day", 86_400), // with a zone whose clocks are changed, a day more
    ///     ("quota 100/month", 31 * 86_400),
    ///     ("concurrency 5 lease 30s", 30),
    /// ] {
    ///     let limit: Limit = text.parse()?;
    ///     assert_eq!(limit.state_life_max(), Duration::from_secs(seconds), "{text}");
    /// }
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn state_life_max(&self) -> Duration {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.burst_time(),
            Self::SlidingWindow(limit) => limit.state_life_max(),
            Self::Quota(limit) => limit.state_life_max(),
            Self::FixedWindow(_) | Self::SlidingLog(_) | Self::Concurrency(_) => self.period(),
        }
    }

    /// Whether a check takes a permit, which [`State::release`] gives back.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (uploads, api): (Limit, Limit) = ("concurrency 5".parse()?, "5/s".parse()?);
    /// assert!(uploads.grants_permits() && !api.grants_permits());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn grants_permits(&self) -> bool {
        fn grants<A: LimitAlgorithm>(_: &A) -> bool {
            A::GRANTS_PERMITS
        }
        with_algorithm!(self, limit => grants(limit))
    }

    /// What it admits beyond `units` in its first period, in words; `None` if its burst is not the whole limit.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let note = |line: &str| line.parse::<Limit>().map(|limit| limit.first_period());
    /// assert!(note("100/min")?.is_some_and(|said| said.contains("200 in a minute")));
    /// assert_eq!((note("100/min burst 20")?, note("sliding-window 100/min")?), (None, None));
    /// assert_eq!(note("1/min")?, None);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn first_period(&self) -> Option<String> {
        // One unit comes back when the period is over, and not before.
        let is_twice = self.units() > 1 && self.as_gcra()?.burst() == self.units();
        is_twice.then(|| crate::text::first_period(self.units(), self.period()))
    }

    /// The kernel of GCRA and the token bucket.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (bucket, log): (Limit, Limit) = ("token-bucket 5/s".parse()?, "sliding-log 5/s".parse()?);
    /// assert!(bucket.as_gcra().is_some_and(|gcra| gcra.burst() == 5));
    /// assert!(log.as_gcra().is_none());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn as_gcra(&self) -> Option<&Gcra> {
        match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => Some(limit),
            _ => None,
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
