//! The store's side of a lease: its terms, and units that are granted in one atomic step.

use crate::algorithm::Term;
use crate::combine::{Mode, Verdict, Weighted, decide_many};
use crate::error::LeaseError;
use crate::limit::Limit;
use crate::state::{Change, State};
use crate::time::Timestamp;
use crate::time::micros_up;
use std::time::Duration;

/// The terms on which a node leases from some limits.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, Terms};
///
/// let limits: [Limit; 2] = ["1000/s burst 1000".parse()?, "fixed-window 100000/h".parse()?];
/// let terms = Terms::from_limits(&limits)?;
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
    pub fn from_limits<'a>(
        limits: impl IntoIterator<Item = &'a Limit, IntoIter: Clone>,
    ) -> Result<Self, LeaseError> {
        Self::weighted(limits.into_iter().map(|limit| (limit, 1)))
    }

    /// The same for limits of which a leased unit takes so many each: the [factors](Weighted::factor).
    ///
    /// ```
    /// # use tidegate_core::{LeaseError, Limit, Terms};
    /// let (calls, bytes): (Limit, Limit) = ("fixed-window 900/h".parse()?, "fixed-window 5000/h".parse()?);
    /// assert_eq!(Terms::weighted([(&calls, 1), (&bytes, 10)].into_iter())?.ceiling(), 500);
    /// let too_dear = Terms::weighted([(&calls, 1), (&bytes, 5001)].into_iter());
    /// assert_eq!(too_dear, Err(LeaseError::CostTooHigh { factor: 5001, ceiling: 5000 }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn weighted<'a>(
        limits: impl Iterator<Item = (&'a Limit, u64)> + Clone,
    ) -> Result<Self, LeaseError> {
        let ttls = limits.clone().map(|(limit, _)| limit.lease_ttl());
        let ttl = ttls.reduce(|a, b| Ok(a?.min(b?))).unwrap_or(Err(LeaseError::NoLimit))?;
        let mut terms = Self { ttl_us: micros_up(ttl), ceiling: u64::MAX, unit_us: 0 };
        for (limit, factor) in limits {
            let ceiling = limit.leased(ttl)?.ceiling();
            if ceiling < factor {
                return Err(LeaseError::CostTooHigh { factor, ceiling });
            }
            terms.ceiling = terms.ceiling.min(ceiling / factor.max(1));
            terms.unit_us = terms.unit_us.max(limit.unit_us().saturating_mul(factor));
        }
        Ok(terms)
    }

    /// The time in which each limit gets another unit, if all of them get units one by one.
    pub(super) const fn refill_us(&self) -> Option<u64> {
        if self.unit_us == u64::MAX { None } else { Some(self.unit_us) }
    }

    /// How long a lease lives, counted from before its request was sent.
    pub const fn ttl(&self) -> Duration {
        Duration::from_micros(self.ttl_us)
    }

    /// The most that one lease can hold, and the highest cost that is ever admitted.
    pub const fn ceiling(&self) -> u64 {
        self.ceiling
    }
}

/// How much a node asks for.
///
/// ```
/// use tidegate_core::{Change, Limit, State, Timestamp, GrantRequest, grant};
///
/// let (limit, state): (Limit, _) = ("100/s burst 40".parse()?, State::Empty);
/// let units = |least, most| {
///     let (now, mut changes) = (Timestamp::from_micros(1_700_000_000_000_000), [Change::KEEP]);
///     let granted = grant([(&limit, &state)].into_iter(), &mut changes, now, GrantRequest { least, most });
///     granted.map(|granted| granted.units)
/// };
/// assert_eq!(units(1, 25), Some(25));
/// assert_eq!(units(1, 100), Some(40)); // as much as there is
/// assert_eq!(units(50, 100), Some(0)); // or nothing
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GrantRequest {
    /// Below this the grant is of no use: nothing is charged, and the answer is that of a check of this cost.
    pub least: u64,
    /// As much as this is taken, if it is there.
    pub most: u64,
}

/// What a node is granted.
///
/// ```
/// use tidegate_core::{Change, Grant, Limit, State, Timestamp, GrantRequest, grant};
///
/// let (limit, state): (Limit, _) = ("fixed-window 100/min".parse()?, State::Empty);
/// let now = Timestamp::from_micros(1_700_000_000_000_000); // 20 s into its minute
/// let wanted = GrantRequest { least: 1, most: 30 };
/// let granted: Option<Grant> =
///     grant([(&limit, &state)].into_iter(), &mut [Change::KEEP], now, wanted);
/// let granted = granted.ok_or("no limit")?;
/// assert_eq!((granted.units, granted.granted_at), (30, Some(now)));
/// assert_eq!(granted.verdict.decision.remaining(), 70);
/// assert_eq!(granted.ends_after_us, 40_000_000); // with the window that pays for it
/// assert_eq!(granted.more_after_us, 0); // 70 more
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grant {
    /// The units that were charged, to every limit as often as its [factor](Weighted::factor) says; 0 if refused.
    pub units: u64,
    /// The answer to a check of that many units, or of [`GrantRequest::least`] if refused.
    pub verdict: Verdict,
    /// The store's now, to be given back with the units. `None` if they cannot be given back, because the
    /// store's clock had stepped back and they were charged to another instant.
    pub granted_at: Option<Timestamp>,
    /// The lease ends at the latest this long after the store's now, because the window or slot that pays for
    /// it does: in µs, `u64::MAX` where there is none.
    pub ends_after_us: u64,
    /// How long after the store's now [`GrantRequest::least`] more units are there, if nobody else comes: in µs, 0 if
    /// they are there now, `u64::MAX` for never.
    pub more_after_us: u64,
}

/// Takes as much as is wanted and there, from every limit or from none. The limits are those that the store
/// keeps, [`Limit::leased`]; `changes` is left as [`decide_many`] leaves it.
///
/// ```
/// use tidegate_core::{Change, Limit, State, Terms, Timestamp, GrantRequest, grant};
///
/// let plain: Limit = "100/s burst 40".parse()?;
/// let terms = Terms::from_limits([&plain])?;
/// let limits = [plain.leased(terms.ttl())?];
/// let mut states = [State::Empty];
/// let mut changes = [Change::KEEP];
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
///
/// let wanted = GrantRequest { least: 1, most: 100 };
/// let granted = grant(limits.iter().zip(&states), &mut changes, now, wanted).ok_or("no limit")?;
/// states[0].apply(changes[0]);
/// assert_eq!(granted.units, 30); // 40 less the 10 that could be used a lease's life later
/// assert_eq!(granted.granted_at, Some(now));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `None` if there is no limit at all.
pub fn grant<'a>(
    limits: impl Iterator<Item: Into<Weighted<'a>>> + Clone,
    changes: &mut [Change],
    now: Timestamp,
    wanted: GrantRequest,
) -> Option<Grant> {
    let limits = limits.map(Into::into);
    let left = limits.clone().map(|part| units_left(&part, now)).min()?;
    let least = wanted.least.max(1);
    let units = if left < least { 0 } else { left.min(wanted.most.max(least)) };
    let cost = if units == 0 { least } else { units };
    let verdict = decide_many(Mode::All, limits.clone(), changes, now, cost)?;
    let terms = limits.clone().map(|part| part.limit.term(part.state, now));
    let Term { ends_after_us, returnable } = terms.reduce(Term::and)?;
    let granted_at = returnable.then_some(now);
    let more_after_us = if units > 0 && left - units >= least {
        0
    } else {
        wait_after(limits, changes, now, least)?
    };
    Some(Grant { units, verdict, granted_at, ends_after_us, more_after_us })
}

/// How many units a limit can still grant. A check of cost 0 is always admitted.
fn units_left(part: &Weighted<'_>, now: Timestamp) -> u64 {
    part.limit.peek(part.state, now, 0).remaining() / part.factor.max(1)
}

/// How long a check of `cost` has to wait once `changes` are written.
fn wait_after<'a>(
    limits: impl Iterator<Item = Weighted<'a>> + Clone,
    changes: &[Change],
    now: Timestamp,
    cost: u64,
) -> Option<u64> {
    let after = limits.clone().zip(changes).map(|(part, change)| {
        let mut after = part.state.clone();
        after.apply(*change);
        after
    });
    let after: Vec<State> = after.collect();
    let limits = limits.zip(&after).map(|(part, state)| part.on(state));
    let verdict = decide_many(Mode::All, limits, &mut vec![Change::KEEP; after.len()], now, cost)?;
    Some(verdict.decision.retry_after_us().unwrap_or(u64::MAX))
}
