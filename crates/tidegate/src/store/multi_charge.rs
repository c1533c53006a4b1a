//! Several limits in one step, each with a cost of its own: all are charged, or none is.

use super::{KeyedLimit, StoreError};

/// Several limits, each with a cost of its own, decided and charged in one atomic step. A [`StoreRequest`](crate::StoreRequest) has one
/// cost, and one answer; this has an answer for every limit.
///
/// ```
/// use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp};
///
/// let store = MemoryStore::default();
/// let (minute, day): (Limit, Limit) = ("10/min".parse()?, "2/day".parse()?);
/// let scopes = [Scope::named("api", ""), Scope::named("export", "")];
/// let take = |calls, exports| {
///     let limits = [
///         LimitCharge { keyed: KeyedLimit { scope: &scopes[0], key: b"203.0.113.9", limit: &minute }, cost: calls },
///         LimitCharge { keyed: KeyedLimit { scope: &scopes[1], key: b"user-42", limit: &day }, cost: exports },
///     ];
///     let charges = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
///     store.decide_each(&charges, Timestamp::from_micros(1_700_000_000_000_000)).now()
/// };
/// let remaining = |calls, exports| take(calls, exports).map(|each| [each[0].remaining(), each[1].remaining()]);
/// assert_eq!(remaining(3, 1)?, [7, 1]);
/// assert_eq!(remaining(3, 2)?, [7, 1]); // one refuses, and neither is charged
/// assert!(!take(3, 2)?[1].allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MultiCharge<'a> {
    /// At least one, at most [`MultiCharge::MAX_LIMITS`], no key twice in one scope, and none on concurrency: its
    /// permits could not be released.
    pub limits: &'a [LimitCharge<'a>],
    /// When to charge.
    pub charge: Charge,
}

/// One limit of [`MultiCharge`].
///
/// ```
/// use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp};
///
/// let (scope, limit): (_, Limit) = (Scope::named("api", ""), "10/min".parse()?);
/// let take = LimitCharge { keyed: KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }, cost: 4 };
/// let charges = MultiCharge { limits: &[take], charge: Charge::IfAllAdmit };
/// let each = MemoryStore::default().decide_each(&charges, Timestamp::EPOCH).now()?;
/// assert_eq!(each[0].remaining(), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LimitCharge<'a> {
    /// The limit, and the key it counts for.
    pub keyed: KeyedLimit<'a>,
    /// What to spend of it, whatever the [factor](crate::Scope::costing) of its scope; 0 only looks.
    pub cost: u64,
}

/// When [`MultiCharge`] are charged.
///
/// ```
/// use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "10/min".parse()?);
/// let scope = Scope::named("api", "");
/// let limits = [LimitCharge { keyed: KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }, cost: 4 }];
/// let left = |charge| {
///     let each = store.decide_each(&MultiCharge { limits: &limits, charge }, Timestamp::EPOCH).now();
///     each.map(|each| each[0].remaining())
/// };
/// assert_eq!(left(Charge::Never)?, 6); // as it would be
/// assert_eq!(left(Charge::Refused)?, 10); // as it is
/// assert_eq!(left(Charge::IfAllAdmit)?, 6);
/// assert_eq!(left(Charge::IfAllAdmit)?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Charge {
    /// If every limit admits; otherwise none is charged.
    IfAllAdmit,
    /// Not at all: answers as if it were.
    Never,
    /// Not at all, since the whole is refused for another reason: limits that would admit answer what they have left.
    Refused,
}

impl MultiCharge<'_> {
    /// The most limits of one step.
    ///
    /// ```
    /// # use tidegate::{Charge, KeyedLimit, Limit, MemoryStore, Scope, Store, LimitCharge, MultiCharge, Timestamp, StoreErrorKind};
    /// let (scope, limit): (_, Limit) = (Scope::named("api", ""), "10/min".parse()?);
    /// let keys: Vec<String> = (0..=MultiCharge::MAX_LIMITS).map(|n| format!("user-{n}")).collect();
    /// let keyed = keys.iter().map(|key| KeyedLimit { scope: &scope, key: key.as_bytes(), limit: &limit });
    /// let limits: Vec<LimitCharge> = keyed.map(|keyed| LimitCharge { keyed, cost: 1 }).collect();
    /// let one_too_many = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
    /// let answer = MemoryStore::default().decide_each(&one_too_many, Timestamp::EPOCH).now();
    /// assert!(answer.is_err_and(|error| error.kind() == StoreErrorKind::BadRequest));
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub const MAX_LIMITS: usize = 64;

    /// The limits without their costs, or what is wrong with them.
    ///
    /// ```
    /// # use tidegate::{Charge, MultiCharge};
    /// assert!(MultiCharge { limits: &[], charge: Charge::Never }.checked_limits().is_err());
    /// ```
    pub fn checked_limits(&self) -> Result<Vec<KeyedLimit<'_>>, StoreError> {
        let limits: Vec<_> = self.limits.iter().map(|take| take.keyed).collect();
        let grants_permits = limits.iter().any(|keyed| keyed.limit.grants_permits());
        if grants_permits
            || !(1..=Self::MAX_LIMITS).contains(&limits.len())
            || KeyedLimit::has_duplicate(&limits)
        {
            let why = "expected 1 to 64 limits, no key twice in a scope, and none on concurrency";
            return Err(StoreError::bad_request(why));
        }
        Ok(limits)
    }
}
