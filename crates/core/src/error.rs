//! Why a limit could not be built or leased. Each rejected value has a text of its own.

use std::fmt;

/// A limit that makes no sense, or whose arithmetic could not be exact.
///
/// ```
/// use tidegate_core::{Limit, LimitError, Zone};
///
/// let rejected = |text: &str| text.parse::<Limit>().err();
/// assert_eq!(rejected("0/s"), Some(LimitError::ZeroLimit));
/// assert_eq!(rejected("1/0s"), Some(LimitError::ZeroPeriod));
/// assert_eq!(rejected("1/s burst 0"), Some(LimitError::ZeroBurst));
/// assert_eq!(rejected("sliding-window 1/s buckets 1001"), Some(LimitError::Buckets(1001)));
/// assert_eq!(rejected("sliding-log 1000001/h"), Some(LimitError::LogTooLong(1_000_001)));
/// assert_eq!(rejected("concurrency 1000001"), Some(LimitError::TooManyPermits(1_000_001)));
/// assert_eq!(rejected("concurrency 1 lease 0s"), Some(LimitError::ZeroLease));
/// assert_eq!(rejected("quota 1/day at -14:01"), Some(LimitError::OffsetOutOfRange(-841)));
/// assert_eq!(Zone::changing(i32::MAX, &[]), Err(LimitError::ZoneInvalid));
/// ```
///
/// What could not be exact is refused with the numbers that were asked for:
///
/// ```
/// use tidegate_core::{LeakyBucket, Limit, LimitError::*};
///
/// # let rejected = |text: &str| text.parse::<Limit>().err();
/// assert!(matches!(rejected("9007199254740993/s"), Some(LimitTooLarge(_))));
/// assert!(matches!(rejected("1/200000d"), Some(PeriodTooLong(_))));
/// assert!(matches!(rejected("1/day burst 1000000000"), Some(BurstInexact { .. })));
/// assert!(matches!(rejected("sliding-window 1000000000/d"), Some(SlidingWindowInexact { .. })));
/// assert!(matches!(rejected("sliding-window 1/s buckets 3"), Some(BucketsDoNotDivide { .. })));
/// assert!(matches!(rejected("concurrency 1 lease 60000d"), Some(LeaseTooLong(_))));
/// let too_long = "7919/s max-wait 100000d".parse::<LeakyBucket>();
/// assert!(matches!(too_long, Err(MaxWaitTooLong(_))));
/// ```
///
/// What could not be read says what was expected:
///
/// ```
/// # use tidegate_core::{Limit, LimitError};
/// let unread = "5/fortnight".parse::<Limit>();
/// let problem = "unit `fortnight` is unknown: expected us, ms, s, min, h, day or week".to_owned();
/// assert_eq!(unread, Err(LimitError::Syntax { text: "5/fortnight".to_owned(), problem }));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// The limit is 0.
    ZeroLimit,
    /// The limit is above 2^53.
    LimitTooLarge(u64),
    /// The period is 0.
    ZeroPeriod,
    /// The period is above 2^53 µs.
    PeriodTooLong(u64),
    /// The burst or capacity is 0.
    ZeroBurst,
    /// `burst × interval` would pass 2^53, even in milliseconds.
    BurstInexact {
        /// The burst asked for.
        burst: u64,
        /// The limit asked for.
        limit: u64,
        /// The period in µs.
        period_us: u64,
    },
    /// `limit × slot width` would pass 2^53.
    SlidingWindowInexact {
        /// The limit asked for.
        limit: u64,
        /// The width of one slot in µs.
        width_us: u64,
    },
    /// A sliding window needs 1 to 1000 buckets.
    Buckets(u64),
    /// The buckets of a sliding window do not divide its period.
    BucketsDoNotDivide {
        /// The buckets asked for.
        buckets: u64,
        /// The period in µs.
        period_us: u64,
    },
    /// A sliding log above a million units would hold as many instants per key.
    LogTooLong(u64),
    /// A fixed UTC offset lies outside −14:00 to +14:00.
    OffsetOutOfRange(i64),
    /// A time zone's transitions are out of order or beyond a day.
    ZoneInvalid,
    /// The longest wait of a shaper would pass 2^53 units.
    MaxWaitTooLong(u64),
    /// A concurrency limit above a million would hold as many permits per key.
    TooManyPermits(u64),
    /// A permit's lease is 0.
    ZeroLease,
    /// A permit's lease is above 2^52 µs.
    LeaseTooLong(u64),
    /// A limit's text could not be read.
    Syntax {
        /// What was read.
        text: String,
        /// What is wrong with it and what was expected.
        problem: String,
    },
}

impl LimitError {
    pub(crate) fn syntax(text: &str, problem: impl Into<String>) -> Self {
        // A limit is short; what is long is not worth repeating whole in a message.
        Self::Syntax { text: text.chars().take(80).collect(), problem: problem.into() }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroLimit => {
                f.write_str("limit is 0: give at least 1 (to refuse everything, block the key)")
            }
            Self::LimitTooLarge(n) => write!(f, "limit {n} is above 2^53 and could not be exact"),
            Self::ZeroPeriod => f.write_str("period is 0: give at least 1µs, as in 100/min"),
            Self::PeriodTooLong(us) => write!(f, "period {us}µs is above 2^53µs (285 years)"),
            Self::ZeroBurst => f.write_str("burst is 0: give at least 1, or leave it out"),
            Self::BurstInexact { burst, limit, period_us } => write!(
                f,
                "burst {burst} at {limit} per {period_us}µs spans more than 2^53 units and could \
                 not be exact: use a smaller burst, or algorithm quota for long budgets"
            ),
            Self::SlidingWindowInexact { limit, width_us } => write!(
                f,
                "limit {limit} × slot width {width_us}µs is above 2^53 and could not be exact: use \
                 more buckets, a shorter period, or algorithm fixed-window"
            ),
            Self::Buckets(n) => write!(f, "buckets is {n}: expected 1 to 1000"),
            Self::BucketsDoNotDivide { buckets, period_us } => write!(
                f,
                "{buckets} buckets do not divide the period of {period_us}µs into whole microseconds"
            ),
            Self::LogTooLong(n) => write!(
                f,
                "sliding-log keeps one instant per unit: limit {n} is above 1000000; use \
                 sliding-window"
            ),
            Self::OffsetOutOfRange(minutes) => {
                write!(f, "UTC offset of {minutes} minutes: expected -840 to 840")
            }
            Self::ZoneInvalid => f.write_str(
                "time zone: transitions must be in ascending order with offsets within a day",
            ),
            Self::MaxWaitTooLong(us) => write!(
                f,
                "max_wait {us}µs at this rate spans more than 2^53 units and could not be exact: \
                 use a shorter one"
            ),
            Self::TooManyPermits(n) => {
                write!(f, "concurrency keeps every holder: limit {n} is above 1000000")
            }
            Self::ZeroLease => f.write_str("lease is 0: a permit must live at least 1µs"),
            Self::LeaseTooLong(us) => write!(f, "lease {us}µs is above 2^52µs (142 years)"),
            Self::Syntax { text, problem } => write!(f, "`{}`: {problem}", text.escape_debug()),
        }
    }
}

impl std::error::Error for LimitError {}

/// So that what is a limit already and what has to become one can be taken alike.
impl From<std::convert::Infallible> for LimitError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// A limit whose units cannot be taken ahead. It runs strict: one question to the store per check.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{LeaseError, Limit, LimitError, SlidingLog, Terms};
///
/// let error = |limit: Limit| Terms::from_limits([&limit]).err();
/// assert_eq!(error("concurrency 5".parse()?), Some(LeaseError::Concurrency));
/// assert_eq!(error("10/s burst 1".parse()?), Some(LeaseError::BurstTooSmall { burst: 1 }));
/// let log = |period_us| SlidingLog::new(5, Duration::from_micros(period_us)).map(Limit::from);
/// assert_eq!(error(log(10)?), Some(LeaseError::TooShort));
/// assert_eq!(error(log(1 << 53)?), Some(LeaseError::TooLong));
/// assert_eq!(Terms::from_limits([]), Err(LeaseError::NoLimit));
/// let ten: Limit = "fixed-window 10/h".parse()?;
/// let too_dear = LeaseError::CostTooHigh { factor: 11, ceiling: 10 };
/// assert_eq!(Terms::weighted([(&ten, 11)].into_iter()), Err(too_dear));
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LeaseError {
    /// Concurrency counts what is in flight: a unit taken ahead would be in flight already.
    Concurrency,
    /// Less the life of a lease, the burst is below one unit.
    BurstTooSmall {
        /// The burst there is.
        burst: u64,
    },
    /// One check takes more than a lease can ever hold.
    CostTooHigh {
        /// What a check of cost 1 takes.
        factor: u64,
        /// The most that a lease can hold.
        ceiling: u64,
    },
    /// The period is so short that a lease would live less than a microsecond.
    TooShort,
    /// The period and the life of a lease together pass 2^53 µs.
    TooLong,
    /// There is no limit at all.
    NoLimit,
}

impl fmt::Display for LeaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concurrency => f.write_str(
                "concurrency cannot be leased: it counts what is in flight, and nothing can be taken ahead",
            ),
            Self::BurstTooSmall { burst } => write!(
                f,
                "burst {burst} cannot be leased: less the life of a lease not one unit is left; use a burst of \
                 2 or more"
            ),
            Self::CostTooHigh { factor, ceiling } => write!(
                f,
                "a cost of {factor} cannot be leased: less the life of a lease {ceiling} units are left; use a \
                 larger burst"
            ),
            Self::TooShort => {
                f.write_str("the period is too short to be leased: a lease would live less than 1µs")
            }
            Self::TooLong => {
                f.write_str("the period is too long to be leased: with a lease's life it passes 2^53µs")
            }
            Self::NoLimit => f.write_str("nothing to lease: there is no limit"),
        }
    }
}

impl std::error::Error for LeaseError {}
