//! Why a limit cannot be leased.

use std::fmt;

/// A limit whose units cannot be taken ahead. It runs strict: one question to the store per check.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{LeaseError, Limit, LimitError, SlidingLog, Terms};
///
/// let error = |limit: Limit| Terms::of([&limit]).err();
/// assert_eq!(error("concurrency 5".parse()?), Some(LeaseError::Concurrency));
/// assert_eq!(error("10/s burst 1".parse()?), Some(LeaseError::BurstTooSmall { burst: 1 }));
/// let log = |period_us| SlidingLog::new(5, Duration::from_micros(period_us)).map(Limit::from);
/// assert_eq!(error(log(10)?), Some(LeaseError::TooShort));
/// assert_eq!(error(log(1 << 53)?), Some(LeaseError::TooLong));
/// assert_eq!(Terms::of([]), Err(LeaseError::NoLimit));
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
