//! The terms of a lease: how long it lives, and what the store keeps so that nothing is admitted on top.

use std::time::Duration;

use super::LeaseError;
use crate::limit::Limit;
use crate::time::micros_up;

/// No lease lives longer: what a killed node held is lost for no longer than this.
pub(crate) const MAX_TTL_US: u64 = 1_000_000;

/// A twentieth of a window.
pub(crate) fn window_ttl_us(window: Duration) -> u64 {
    (micros_up(window) / 20).min(MAX_TTL_US)
}

/// What a node has to know of the limits it leases from.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, Terms};
///
/// let limits: [Limit; 2] = ["1000/s burst 1000".parse()?, "fixed-window 100000/h".parse()?];
/// let terms = Terms::of(&limits)?;
/// assert_eq!(terms.ttl(), Duration::from_millis(250)); // a quarter of the burst's second
/// assert_eq!(terms.ceiling(), 750);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Terms {
    pub(super) ttl_us: u64,
    pub(super) ceiling: u64,
    /// The age at which a unit that comes back is worth nothing any more.
    pub(super) unit_us: u64,
}

impl Terms {
    /// The terms of a lease over all of these limits, as they were declared: the shortest life among theirs.
    pub fn of<'a>(limits: impl IntoIterator<Item = &'a Limit> + Clone) -> Result<Self, LeaseError> {
        let ttls = limits.clone().into_iter().map(Limit::lease_ttl);
        let ttl = ttls.reduce(|a, b| Ok(a?.min(b?))).unwrap_or(Err(LeaseError::NoLimit))?;
        let mut terms = Self { ttl_us: micros_up(ttl), ceiling: u64::MAX, unit_us: 0 };
        for limit in limits {
            terms.ceiling = terms.ceiling.min(limit.leased(ttl)?.ceiling());
            terms.unit_us = terms.unit_us.max(match limit {
                Limit::Gcra(gcra) | Limit::TokenBucket(gcra) => gcra.unit_us(),
                _ => u64::MAX,
            });
        }
        Ok(terms)
    }

    /// How long a lease lives, counted from before its request left.
    pub const fn ttl(&self) -> Duration {
        Duration::from_micros(self.ttl_us)
    }

    /// The most that one lease can hold, and the highest cost that is ever admitted.
    pub const fn ceiling(&self) -> u64 {
        self.ceiling
    }
}

impl Limit {
    /// How long a lease on this limit lives: a quarter of the burst's time for GCRA and the token bucket, a
    /// twentieth of the window for the others (a fiftieth for the log, at most one slot for a sliding window),
    /// and a second at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{LeaseError, Limit};
    ///
    /// for (text, ttl_ms) in [
    ///     ("100/s burst 40", 100),
    ///     ("1000/min", 1000),
    ///     ("fixed-window 100/s", 50),
    ///     ("sliding-window 100/s buckets 100", 10),
    ///     ("sliding-log 100/s", 20),
    ///     ("quota 100000/day", 1000),
    /// ] {
    ///     let limit: Limit = text.parse()?;
    ///     assert_eq!(limit.lease_ttl()?, Duration::from_millis(ttl_ms), "{text}");
    /// }
    /// let places: Limit = "concurrency 10".parse()?;
    /// assert_eq!(places.lease_ttl(), Err(LeaseError::Concurrency));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lease_ttl(&self) -> Result<Duration, LeaseError> {
        let ttl_us = match self {
            Self::Gcra(limit) | Self::TokenBucket(limit) => limit.lease_ttl_us().min(MAX_TTL_US),
            Self::FixedWindow(limit) => window_ttl_us(limit.period()),
            Self::SlidingWindow(limit) => limit.lease_ttl_us(),
            Self::SlidingLog(limit) => limit.lease_ttl_us(),
            Self::Quota(limit) => limit.lease_ttl_us(),
            Self::Concurrency(_) => return Err(LeaseError::Concurrency),
        };
        if ttl_us == 0 { Err(LeaseError::TooShort) } else { Ok(Duration::from_micros(ttl_us)) }
    }

    /// The limit that the store keeps, so that leases which live for `ttl` never admit more than this limit
    /// does: the tolerance of GCRA and the token bucket reduced by `ttl`, the period of the log longer by it.
    /// The others stay as they are, because their leases end with the window or the slot.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{Gcra, LeaseError, Limit};
    ///
    /// let ttl = Duration::from_millis(250);
    /// let limit: Limit = "10/s burst 5".parse()?;
    /// assert_eq!(limit.leased(ttl)?.ceiling(), 2); // 250 of 500 ms are left
    /// let log: Limit = "sliding-log 5/s".parse()?;
    /// assert_eq!(log.leased(ttl)?.period(), Duration::from_millis(1250));
    /// let window: Limit = "fixed-window 5/s".parse()?;
    /// assert_eq!(window.leased(ttl)?, window);
    /// let alone: Limit = "10/s burst 1".parse()?;
    /// assert_eq!(alone.leased(ttl), Err(LeaseError::BurstTooSmall { burst: 1 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leased(&self, ttl: Duration) -> Result<Self, LeaseError> {
        let ttl_us = micros_up(ttl);
        let too_small = LeaseError::BurstTooSmall { burst: self.ceiling() };
        match self {
            Self::Gcra(limit) => limit.leased(ttl_us).map(Self::Gcra).ok_or(too_small),
            Self::TokenBucket(limit) => {
                limit.leased(ttl_us).map(Self::TokenBucket).ok_or(too_small)
            }
            Self::SlidingLog(limit) => {
                limit.leased(ttl_us).map(Self::SlidingLog).ok_or(LeaseError::TooLong)
            }
            Self::FixedWindow(_) | Self::SlidingWindow(_) | Self::Quota(_) => Ok(self.clone()),
            Self::Concurrency(_) => Err(LeaseError::Concurrency),
        }
    }
}
