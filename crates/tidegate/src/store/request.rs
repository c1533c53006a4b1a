//! What a store is asked, and what it answers.

use tidegate_core::{
    Arrival, EXACT_MAX, Grant, GrantRequest, LeakyBucket, Limit, Mode, Reservation, Return, Verdict,
};

use super::Scope;

/// One request to a store: some limits, decided and written in one atomic step.
///
/// ```
/// use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "5/h".parse()?);
/// let scope = Scope::named("login", "");
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let reply = store.decide(&request, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
/// assert_eq!(reply.verdict.decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    /// How the limits make one answer.
    pub mode: Mode,
    /// The limits in declared order, each with the key it counts for. At most
    /// [`StoreRequest::MAX_LIMITS`], and no key twice in one scope.
    pub limits: &'a [KeyedLimit<'a>],
    /// What to spend of each limit, or to give back: as often as the limit's [scope](Scope::costing) says. To release or
    /// renew, what the permit holds.
    pub cost: u64,
    /// What to do.
    pub op: Op,
}

/// A limit, and the key it counts for.
///
/// ```
/// use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "1/h".parse()?);
/// let take = |policy, key| {
///     let scope = Scope::named(policy, "");
///     let limits = [KeyedLimit { scope: &scope, key, limit: &limit }];
///     let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
///     let reply = store.decide(&request, Timestamp::from_micros(1_700_000_000_000_000)).now();
///     reply.map(|reply| reply.verdict.decision.allowed())
/// };
/// assert!(take("login", b"user-42")?);
/// assert!(!take("login", b"user-42")?);
/// assert!(take("search", b"user-42")?); // the same key in another scope
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyedLimit<'a> {
    /// Keeps the same key apart under different limits.
    pub scope: &'a Scope,
    /// Who is limited.
    pub key: &'a [u8],
    /// The limit.
    pub limit: &'a Limit,
}

/// What a [`StoreRequest`] wants done.
///
/// ```
/// use tidegate::{Check, Engine, Key, Op};
///
/// let engine = Engine::builder().policy("api", "10/h").build()?;
/// let check = Check { policy: "api", key: Key::One(b"user-42"), cost: 3 };
/// let left = |op| engine.ask(&check, op).now().map(|answer| answer.decision.remaining());
/// assert_eq!(left(Op::Peek)?, 7); // as it would be
/// assert_eq!(left(Op::Take)?, 7);
/// assert_eq!(left(Op::Take)?, 4);
/// assert_eq!(left(Op::Refund)?, 7);
/// assert_eq!(left(Op::Reset)?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Units are taken ahead, and come back:
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
/// use tidegate_core::{Return, GrantRequest};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "fixed-window 100/h".parse()?);
/// let (scope, now) = (Scope::named("api", ""), Timestamp::from_micros(1_700_000_000_000_000));
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let decide = |op| store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op }, now).now();
/// let reply = decide(Op::Lease(GrantRequest { least: 1, most: 30 }))?;
/// assert!(reply.grant.is_some_and(|grant| grant.units == 30));
///
/// let unused = Return { units: 20, granted_at: now, age: Duration::ZERO };
/// assert_eq!(decide(Op::GiveBack(unused))?.verdict.decision.remaining(), 90);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Decide, and spend if admitted.
    Take,
    /// Decide, and spend nothing.
    Peek,
    /// Give back up to the cost, and answer what is left.
    ///
    /// With GCRA and the token bucket a unit is a span of time, and the refunded one is a unit of the limit in the request.
    /// So an [engine](crate::Engine) sends the whole limit while less of it is in force, and a fall and a rise create
    /// nothing; if the limit itself was changed in between, as by an override, the refund may be more or less than was
    /// spent.
    ///
    /// It goes to every limit of the request. Under [`Mode::Any`] that includes those that refused and were not charged,
    /// since which they were is not stored: units that other checks have used come back, too.
    Refund,
    /// Forget what was spent, and answer what is left.
    Reset,
    /// Take units ahead, to be spent in this process: see [`tidegate_core::grant`]. The limits are those that a store
    /// keeps for leases, [`Limit::leased`].
    Lease(GrantRequest),
    /// Give back units of a lease that were not needed: see [`Limit::give_back`].
    GiveBack(Return),
    /// Release the permit with this id and this cost, and answer what is left.
    Release {
        /// The permit's [id](tidegate_core::Permit::id).
        permit_id: u64,
    },
    /// Give the permit with this id and this cost a whole lease from now, if it is held, and answer what is left.
    Renew {
        /// The permit's [id](tidegate_core::Permit::id).
        permit_id: u64,
    },
}

/// A store's answer to a [`StoreRequest`].
///
/// ```
/// use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Source, Store, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "concurrency 2".parse()?);
/// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let take = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let reply = store.decide(&take, now).now()?;
/// assert_eq!((reply.verdict.decision.remaining(), reply.source), (1, Source::Store));
///
/// let (index, permit_id) = reply.permits[0];
/// assert_eq!(index, 0); // of the limit that granted it
/// let renew = StoreRequest { op: Op::Renew { permit_id }, ..take };
/// assert_eq!(store.decide(&renew, now).now()?.permits, [(0, permit_id)]); // it is still held
/// let release = StoreRequest { op: Op::Release { permit_id }, ..take };
/// assert_eq!(store.decide(&release, now).now()?.verdict.decision.remaining(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreReply {
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided.
    pub source: Source,
    /// What concurrency limits granted, or what was released or renewed: the index of the limit, and the permit's id. A
    /// permit that was not held, or whose lease had ended, was neither.
    pub permits: Vec<(usize, u64)>,
    /// The lease, if one was requested. Boxed: most replies have none, and are moved often.
    pub grant: Option<Box<Grant>>,
}

/// One request of a shaper.
///
/// ```
/// use tidegate::{LeakyBucket, MemoryStore, Scope, Store, Timestamp, ReserveRequest};
///
/// let (store, shaper): (_, LeakyBucket) = (MemoryStore::default(), "2/s max-wait 5s".parse()?);
/// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
/// let request = ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel: None };
/// assert!(store.reserve(&request, now).now()?.reservation.delay().is_zero());
/// let second = store.reserve(&request, now).now()?;
/// // It is still the last in the queue, so it can be cancelled.
/// let back = ReserveRequest { cancel: second.until, ..request };
/// assert!(store.reserve(&back, now).now()?.reservation.accepted());
/// assert_eq!(store.reserve(&request, now).now()?, second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReserveRequest<'a> {
    /// Keeps the same key apart under different limits.
    pub scope: &'a Scope,
    /// Who is delayed.
    pub key: &'a [u8],
    /// The limit.
    pub shaper: &'a LeakyBucket,
    /// The cost: how many departures in a row.
    pub cost: u64,
    /// The reservation to cancel, if it is the last in the queue; `None` to make one.
    pub cancel: Option<Arrival>,
}

/// A store's answer to a [`ReserveRequest`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{LeakyBucket, MemoryStore, ReserveReply, Scope, Store, Timestamp, ReserveRequest};
///
/// let (store, shaper): (_, LeakyBucket) = (MemoryStore::default(), "2/s max-wait 5s".parse()?);
/// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
/// let request = ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel: None };
/// let first: ReserveReply = store.reserve(&request, now).now()?;
/// let second: ReserveReply = store.reserve(&request, now).now()?;
/// assert_eq!(second.reservation.delay(), Duration::from_millis(500));
/// // Another one is queued behind it: the first cannot be cancelled any more.
/// let back = ReserveRequest { cancel: first.until, ..request };
/// assert!(!store.reserve(&back, now).now()?.reservation.accepted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveReply {
    /// How long to wait; for a cancellation, accepted if it was cancelled.
    pub reservation: Reservation,
    /// Identifies the reservation, for [`ReserveRequest::cancel`].
    pub until: Option<Arrival>,
}

/// Who made a decision.
///
/// ```
/// use tidegate::{Engine, Source};
///
/// let engine = Engine::builder().policy("api", "5/h").build()?;
/// let source = engine.check("api", "user-42").now()?.source;
/// assert_eq!((source, source.as_str()), (Source::Store, "store"));
///
/// use Source::{DenyCache, FailClosed, FailOpen, Lease, Local};
/// let others = [Lease, DenyCache, Local, FailOpen, FailClosed].map(Source::as_str);
/// assert_eq!(others, ["lease", "deny-cache", "local", "fail-open", "fail-closed"]);
/// assert_eq!(Source::ALL.map(|source| source as usize), [0, 1, 2, 3, 4, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u64)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// Units that this process had taken from the store before.
    Lease,
    /// A refusal of the store that still holds.
    DenyCache,
    /// This process by itself, while the store fails: its share of the limit.
    Local,
    /// Nobody: the store fails, and the policy then allows.
    FailOpen,
    /// Nobody: the store fails, and the policy then denies.
    FailClosed,
}

impl Source {
    /// All sources, in order: for counters.
    pub const ALL: [Self; 6] =
        [Self::Store, Self::Lease, Self::DenyCache, Self::Local, Self::FailOpen, Self::FailClosed];

    /// The source's name, as doors report it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Lease => "lease",
            Self::DenyCache => "deny-cache",
            Self::Local => "local",
            Self::FailOpen => "fail-open",
            Self::FailClosed => "fail-closed",
        }
    }
}

impl StoreRequest<'_> {
    /// The most limits that one check can have.
    ///
    /// ```
    /// # use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp, StoreErrorKind};
    /// let limit: Limit = "5/h".parse()?;
    /// let scope = |n: usize| Scope::named("plan", &n.to_string());
    /// let scopes: Vec<Scope> = (0..=StoreRequest::MAX_LIMITS).map(scope).collect();
    /// let keyed = |scope| KeyedLimit { scope, key: b"user-42", limit: &limit };
    /// let limits: Vec<KeyedLimit> = scopes.iter().map(keyed).collect();
    /// let one_too_many = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    /// let answer = MemoryStore::default().decide(&one_too_many, Timestamp::EPOCH).now();
    /// assert!(answer.is_err_and(|error| error.kind() == StoreErrorKind::BadRequest));
    /// assert!(!one_too_many.is_valid());
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub const MAX_LIMITS: usize = 16;

    /// What a store says to a request that is not [valid](StoreRequest::is_valid).
    ///
    /// ```
    /// # use tidegate::{StoreRequest, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
    /// let (scope, limit): (_, Limit) = (Scope::named("login", ""), "5/h".parse()?);
    /// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
    /// let op = Op::Release { permit_id: 7 }; // of a limit without permits
    /// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op };
    /// let error = MemoryStore::default().decide(&request, Timestamp::EPOCH).now().unwrap_err();
    /// assert!(error.to_string().ends_with(StoreRequest::INVALID));
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub const INVALID: &'static str = "expected 1 to 16 limits, no key twice in a scope; to release or renew, one \
                                       concurrency limit and an id up to 2^53; to lease, no concurrency limit";

    /// Whether the request names at least one limit, at most [`StoreRequest::MAX_LIMITS`], and no state twice: one state cannot be
    /// decided and charged twice at once. A release or a renewal names one concurrency limit, and an id that a store can
    /// have given; leases are of other limits.
    ///
    /// Whatever a store could only answer with an error of its own is refused here, since who asks wrongly must not make
    /// the store look broken.
    pub fn is_valid(&self) -> bool {
        let grants_permits = |keyed: &KeyedLimit<'_>| keyed.limit.grants_permits();
        let fits = match self.op {
            Op::Take | Op::Peek | Op::Refund | Op::Reset => true,
            Op::Lease(_) | Op::GiveBack(_) => !self.limits.iter().any(grants_permits),
            Op::Release { permit_id } | Op::Renew { permit_id } => {
                permit_id <= EXACT_MAX && matches!(self.limits, [one] if grants_permits(one))
            }
        };
        fits && (1..=Self::MAX_LIMITS).contains(&self.limits.len())
            && !KeyedLimit::has_duplicate(self.limits)
    }
}

impl ReserveRequest<'_> {
    /// Whether the reservation to cancel is one that a store can have made.
    ///
    /// ```
    /// # use tidegate::{LeakyBucket, ReserveRequest, Scope};
    /// # use tidegate_core::Arrival;
    /// let (scope, shaper): (_, LeakyBucket) = (Scope::named("export", ""), "2/s max-wait 5s".parse()?);
    /// let cancel = Some(Arrival { ticks: u64::MAX, frac: 0, scale: 1, tick_us: 1 });
    /// assert!(!ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 1, cancel }.is_valid());
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn is_valid(&self) -> bool {
        self.cancel.is_none_or(|Arrival { ticks, frac, scale, tick_us }| {
            // A burst of centuries ends after 2^53.
            ticks <= 2 * EXACT_MAX && [frac, scale, tick_us].iter().all(|it| *it <= EXACT_MAX)
        })
    }
}

impl KeyedLimit<'_> {
    /// Whether these name one state twice.
    #[inline]
    pub(crate) fn has_duplicate(limits: &[Self]) -> bool {
        let same = |a: &KeyedLimit<'_>, b: &KeyedLimit<'_>| a.scope == b.scope && a.key == b.key;
        let twice = |index: usize| limits[..index].iter().any(|a| same(a, &limits[index]));
        (1..limits.len()).any(twice)
    }
}

impl StoreReply {
    /// A store's own answer, with nothing to give back later.
    pub(crate) const fn by_store(verdict: Verdict) -> Self {
        Self { verdict, source: Source::Store, permits: Vec::new(), grant: None }
    }
}
