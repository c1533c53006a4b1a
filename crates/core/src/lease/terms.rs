//! The terms of a lease: how long it lives, and what the store keeps so that nothing is admitted on top.

use std::time::Duration;

use crate::error::LeaseError;
use crate::limit::Limit;
use crate::time::micros_up;

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
            terms.unit_us = terms.unit_us.max(limit.unit_us());
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
