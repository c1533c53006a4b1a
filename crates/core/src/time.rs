//! Time as an argument: an integer, a type, and never read from a clock in this crate.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// The largest integer that a Lua number (an IEEE double) holds exactly. Every product in a decision
/// stays at or below it, so that the same decision comes out of a Redis script.
///
/// ```
/// use tidegate_core::EXACT_MAX;
///
/// let through_a_double = |number: u64| number as f64 as u64;
/// assert_eq!(through_a_double(EXACT_MAX), EXACT_MAX);
/// assert_ne!(through_a_double(EXACT_MAX + 1), EXACT_MAX + 1);
/// ```
pub const EXACT_MAX: u64 = 1 << 53;

/// An instant: whole microseconds since the Unix epoch, from 1970 to 2255.
///
/// ```
/// use tidegate_core::Timestamp;
/// use std::time::Duration;
///
/// let noon = Timestamp::from_micros(1_700_000_000_000_000);
/// let later = noon + Duration::from_millis(250);
/// assert_eq!(later.as_micros() - noon.as_micros(), 250_000);
/// assert_eq!(later - Duration::from_millis(250), noon);
/// assert!(Timestamp::EPOCH < noon && noon < Timestamp::MAX);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch itself.
    pub const EPOCH: Self = Self(0);
    /// The last instant that is exact everywhere: 2^53 µs, in the year 2255.
    pub const MAX: Self = Self(EXACT_MAX);

    /// Microseconds since the Unix epoch. Values past [`Timestamp::MAX`] become `MAX`.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// assert_eq!(Timestamp::from_micros(0), Timestamp::EPOCH);
    /// assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
    /// ```
    pub const fn from_micros(us: u64) -> Self {
        Self(if us > EXACT_MAX { EXACT_MAX } else { us })
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is in fact later.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use std::time::Duration;
    /// let before = Timestamp::from_micros(1_700_000_000_000_000);
    /// let after = before + Duration::from_secs(1);
    /// assert_eq!(after.since(before), Duration::from_secs(1));
    /// assert_eq!(before.since(after), Duration::ZERO);
    /// ```
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros_up(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros_up(span)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}µs", self.0)
    }
}

/// A duration in whole microseconds, rounded up, so that a wait is never too short.
pub(crate) fn micros_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}
