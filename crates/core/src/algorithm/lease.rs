//! What a lease needs to know of the limit that pays for it.

use std::time::Duration;

use crate::time::{Timestamp, micros_up};

/// No lease lives longer: what a killed node held is lost for no longer than this.
pub(crate) const MAX_TTL_US: u64 = 1_000_000;

/// A twentieth of a window.
pub(crate) fn window_ttl_us(window: Duration) -> u64 {
    (micros_up(window) / 20).min(MAX_TTL_US)
}

/// Units of a lease that were not needed.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, Return, State, Timestamp};
///
/// let limit: Limit = "fixed-window 100/min".parse()?;
/// let (mut state, granted_at) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, granted_at, 30); // as a lease
/// let age = Duration::from_secs(1);
/// let back = Return { units: 20, granted_at, age };
/// assert_eq!(limit.give_back(&mut state, granted_at + age, back).remaining(), 90);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Return {
    /// How many: at most what is left of the lease, and each unit once.
    pub units: u64,
    /// When they were granted, as [`Grant::granted_at`](crate::Grant::granted_at) says.
    pub granted_at: Timestamp,
    /// How old the lease is by the node's own clock, counted from before its request left.
    pub age: Duration,
}

impl Return {
    /// How long ago the units were charged, at least: the store's clock may have stepped back since.
    pub(crate) fn aged_us(&self, now: Timestamp) -> u64 {
        micros_up(self.age.max(now.since(self.granted_at)))
    }
}

/// When the lease of one limit ends at the latest, and whether its units were charged as of now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) ends_after_us: u64,
    pub(crate) returnable: bool,
}

impl Term {
    /// No end of its own.
    pub(crate) const OPEN: Self = Self { ends_after_us: u64::MAX, returnable: true };

    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            ends_after_us: self.ends_after_us.min(other.ends_after_us),
            returnable: self.returnable && other.returnable,
        }
    }
}
