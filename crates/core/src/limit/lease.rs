//! What leases ask of a limit.

use std::time::Duration;

use super::Limit;
use crate::algorithm::{LimitAlgorithm, MAX_TTL_US, Return, Term};
use crate::decision::Decision;
use crate::error::LeaseError;
use crate::state::State;
use crate::time::{Timestamp, micros_up};

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
        let ttl_us = with_algorithm!(self, limit => limit.lease_ttl_us())?.min(MAX_TTL_US);
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
        Ok(map_algorithm!(self, limit => limit.leased(ttl_us)?))
    }

    /// Takes back units of a lease that were not needed, and answers what is left now. In an `all`, every limit
    /// takes them back by its own rule:
    ///
    /// - GCRA and the token bucket credit the time of the units less the age of the lease;
    /// - the log forgets as many of the units that were stamped when the lease was granted;
    /// - the sliding window takes them off the slot that paid for them, if it still counts;
    /// - fixed windows and quotas take them off the window that paid for them, if it is still there.
    ///
    /// Afterwards the state is nowhere less spent than if these units had never been granted. It must be the
    /// limit that they were granted by: the leases of a limit that has changed are not given back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_core::{Limit, Return, State, Timestamp};
    ///
    /// let limit: Limit = "100/s burst 40".parse()?;
    /// let (mut state, granted_at) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
    /// assert_eq!(limit.take(&mut state, granted_at, 40).remaining(), 0);
    /// // 30 of 40 units, 100 ms later: time has refilled 10, which may be spent already.
    /// let age = Duration::from_millis(100);
    /// let back = Return { units: 30, granted_at, age };
    /// assert_eq!(limit.give_back(&mut state, granted_at + age, back).remaining(), 10 + 20);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn give_back(&self, state: &mut State, now: Timestamp, back: Return) -> Decision {
        let change = with_algorithm!(self, limit => limit.give_back(state, now, back));
        if *state != State::Empty {
            state.apply(change);
        }
        self.peek(state, now, 0)
    }

    /// The age at which a unit that comes back is worth nothing any more.
    pub(crate) fn unit_us(&self) -> u64 {
        with_algorithm!(self, limit => limit.unit_us())
    }

    /// When a lease that is granted now ends at the latest.
    pub(crate) fn term(&self, state: &State, now: Timestamp) -> Term {
        with_algorithm!(self, limit => limit.term(state, now))
    }
}
