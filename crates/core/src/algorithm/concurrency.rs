//! Concurrency: requests in flight, not per time.

use std::time::Duration;

use super::{LimitAlgorithm, Return, write_numbers};

use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{Amount, Description, Field, Grammar, LimitSpec, Written};
use crate::state::{Change, Permit, State};
use crate::time::{EXACT_MAX, Timestamp, micros_up};

/// At most `limit` units in flight. A permit ends when it is released, or when its `lease` runs out without being
/// [renewed](crate::Limit::renew), so that a dead holder's places come back by themselves.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Concurrency, Limit, State, Timestamp};
///
/// let exports = Concurrency::new(1, Duration::from_secs(30))?;
/// assert_eq!((exports.limit(), exports.lease()), (1, Duration::from_secs(30)));
///
/// let limit: Limit = exports.into();
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let (_, change) = limit.decide(&state, now, 1);
/// state.apply(change);
/// assert!(!limit.peek(&state, now, 1).allowed());
/// assert!(change.permit().is_some_and(|permit| state.release(permit.id)));
/// assert!(limit.peek(&state, now, 1).allowed());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Concurrency {
    limit: u64,
    lease_us: u64,
}

pub(crate) const GRAMMAR: Grammar<Concurrency> = Grammar {
    description: Description {
        name: "concurrency",
        summary: "How many may be in flight at once.",
        fields: &[Field::Limit, Field::Ttl],
    },
    build: |spec, _| {
        let limit = spec.count(Field::Limit)?;
        let lease = LimitSpec::duration(Field::Ttl, spec.ttl.as_ref())?;
        let lease = lease.unwrap_or(Concurrency::DEFAULT_LEASE);
        Concurrency::new(limit, lease).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        limit: Some(Amount::Count(limit.limit)),
        ttl: Some(Written::Value(limit.lease())),
        ..LimitSpec::default()
    },
};

impl Concurrency {
    /// How long a permit lives that is never given back, unless the limit says otherwise.
    const DEFAULT_LEASE: Duration = Duration::from_mins(1);

    /// The largest limit that can be built: each holder is remembered.
    pub const MAX_LIMIT: u64 = 1_000_000;

    /// At most `limit` in flight, each for at most `lease`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Concurrency, LimitError};
    /// let lease = Duration::from_secs(30);
    /// assert!(Concurrency::new(Concurrency::MAX_LIMIT, lease).is_ok());
    /// let too_many = Concurrency::new(Concurrency::MAX_LIMIT + 1, lease);
    /// assert_eq!(too_many, Err(LimitError::TooManyPermits(1_000_001)));
    /// assert_eq!(Concurrency::new(1, Duration::ZERO), Err(LimitError::ZeroLease));
    /// ```
    pub fn new(limit: u64, lease: Duration) -> Result<Self, LimitError> {
        let lease_us = micros_up(lease);
        match (limit, lease_us) {
            (0, _) => Err(LimitError::ZeroLimit),
            (n, _) if n > Self::MAX_LIMIT => Err(LimitError::TooManyPermits(n)),
            (_, 0) => Err(LimitError::ZeroLease),
            (_, us) if us > EXACT_MAX / 2 => Err(LimitError::LeaseTooLong(us)),
            _ => Ok(Self { limit, lease_us }),
        }
    }

    /// The most that may be in flight.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a permit lives unless it is released.
    pub const fn lease(&self) -> Duration {
        Duration::from_micros(self.lease_us)
    }

    pub(crate) const fn lease_us(&self) -> u64 {
        self.lease_us
    }

    /// The lease, under the name that the other algorithms use.
    pub(crate) const fn period(&self) -> Duration {
        self.lease()
    }
}

impl LimitAlgorithm for Concurrency {
    const FOLLOWS_LOAD: bool = false;
    const GRANTS_PERMITS: bool = true;

    fn units(&self) -> u64 {
        self.limit
    }

    /// Permits come back by their own number instead.
    fn refund(&self, _: &State, _: Timestamp, _: u64) -> Change {
        Change::KEEP
    }

    fn state_letter(&self) -> char {
        'p'
    }

    /// A set takes several commands.
    fn script_work(&self) -> u64 {
        3
    }

    fn write_script(&self, _: Timestamp, out: &mut String) {
        write_numbers(out, "permits", &[self.limit, self.lease_us]);
    }

    fn with_units(&self, units: u64) -> Self {
        Self { limit: units, ..*self }
    }

    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        Err(LeaseError::Concurrency)
    }

    fn leased(&self, _: u64) -> Result<Self, LeaseError> {
        Err(LeaseError::Concurrency)
    }

    fn give_back(&self, _: &State, _: Timestamp, _: Return) -> Change {
        Change::KEEP
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        let now_us = now.as_micros();
        let longest_us = now_us + self.lease_us;
        let (held, next_id) = match state {
            State::Permits(permits) => (permits.held(), permits.next_id),
            _ => (&[][..], 0),
        };
        // Oldest or longest not renewed first, and so the first to end first: every lease has the same length.
        let live = || held.iter().filter(|permit| permit.expires_us > now_us);
        let ends_after = |permit: &Permit| permit.expires_us.min(longest_us) - now_us;
        let in_use: u64 = live().map(|permit| permit.cost).sum();
        let left = self.limit.saturating_sub(in_use);
        let reset_after_us = live().next_back().map_or(0, ends_after);
        let admits = cost <= left;
        let decision = if admits {
            let reset_after_us = if cost > 0 { self.lease_us } else { reset_after_us };
            Decision::admitted(self.limit, left - cost, reset_after_us)
        } else if cost > self.limit {
            Decision::refused(self.limit, left, None, reset_after_us)
        } else {
            // More than the limit may be in use, if it was lowered.
            let mut in_the_way = in_use + cost - self.limit;
            let enough = live().find(|permit| {
                in_the_way = in_the_way.saturating_sub(permit.cost);
                in_the_way == 0
            });
            let retry = Some(enough.map_or(reset_after_us, ends_after));
            Decision::refused(self.limit, left, retry, reset_after_us)
        };
        let granted = if admits { cost } else { 0 };
        let repairs = live().any(|permit| permit.expires_us > longest_us);
        if granted == 0 && !repairs {
            return (decision, Change::KEEP);
        }
        // A permit of no places grants nothing; applied, it repairs.
        let id = next_id.max(now_us);
        let permit = Permit { id, cost: granted, expires_us: longest_us, granted_us: now_us };
        (decision, Change::grant(permit))
    }
}
