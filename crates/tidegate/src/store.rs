//! Where state lives. A store promises one thing: *these limits, this cost, one atomic step*.

pub(crate) mod memory;

use tidegate_core::{Limit, Mode};

/// One request to a store: some limits, decided and written in one atomic step.
///
/// ```
/// use tidegate::{Ask, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "5/h".parse()?);
/// let limits = [KeyedLimit { scope: Scope::named("login", ""), key: b"user-42", limit: &limit }];
/// let ask = Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let verdict = store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000));
/// assert!(verdict.is_some_and(|verdict| verdict.decision.remaining() == 4));
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// How the limits make one answer.
    pub mode: Mode,
    /// The limits in declared order, each with the key it counts for. At most [`Ask::MAX_LIMITS`]: more are
    /// not answered.
    pub limits: &'a [KeyedLimit<'a>],
    /// What to spend, or to give back.
    pub cost: u64,
    /// What to do.
    pub op: Op,
}

/// A limit, and the key it counts for.
///
/// ```
/// use tidegate::{Ask, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "1/h".parse()?);
/// let take = |policy, key| {
///     let limits = [KeyedLimit { scope: Scope::named(policy, ""), key, limit: &limit }];
///     let ask = Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
///     let verdict = store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000));
///     verdict.is_some_and(|verdict| verdict.decision.allowed())
/// };
/// assert!(take("login", b"user-42"));
/// assert!(!take("login", b"user-42"));
/// assert!(take("search", b"user-42")); // the same key in another scope
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KeyedLimit<'a> {
    /// Keeps the same key apart under different limits.
    pub scope: Scope,
    /// Who is limited.
    pub key: &'a [u8],
    /// The limit.
    pub limit: &'a Limit,
}

/// What an [`Ask`] wants done.
///
/// ```
/// use tidegate::{Check, Engine, Key, Op};
///
/// let engine = Engine::builder().policy("api", "10/h").build()?;
/// let check = Check { policy: "api", key: Key::One(b"user-42"), cost: 3 };
/// let left = |op| engine.ask(&check, op).map(|answer| answer.decision.remaining());
/// assert_eq!(left(Op::Peek)?, 7); // as it would be
/// assert_eq!(left(Op::Take)?, 7);
/// assert_eq!(left(Op::Take)?, 4);
/// assert_eq!(left(Op::Refund)?, 7);
/// assert_eq!(left(Op::Reset)?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Decide, and spend if admitted.
    Take,
    /// Decide, and spend nothing.
    Peek,
    /// Give back up to the cost, and answer what is left.
    Refund,
    /// Forget what was spent, and answer what is left.
    Reset,
}

impl Ask<'_> {
    /// The most limits that one check can have.
    ///
    /// ```
    /// # use tidegate::{Ask, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Timestamp};
    /// let limit: Limit = "5/h".parse()?;
    /// let names: Vec<String> = (0..=Ask::MAX_LIMITS).map(|n| n.to_string()).collect();
    /// let limits: Vec<KeyedLimit> = names
    ///     .iter()
    ///     .map(|name| KeyedLimit { scope: Scope::named("plan", name), key: b"user-42", limit: &limit })
    ///     .collect();
    /// let one_too_many = Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    /// assert_eq!(MemoryStore::default().answer(&one_too_many, Timestamp::EPOCH), None);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub const MAX_LIMITS: usize = 16;
}

/// The name space of a limit's keys: the same key under another scope is another counter. Made from names, so
/// that it is the same after a reload or a restart.
///
/// ```
/// use tidegate::Scope;
///
/// assert_eq!(Scope::named("login", "hour"), Scope::named("login", "hour"));
/// assert_ne!(Scope::named("login", "hour"), Scope::named("hour", "login"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scope(pub(crate) u64);

impl Scope {
    /// The scope of a limit within a policy.
    ///
    /// ```
    /// # use tidegate::Scope;
    /// // A policy's only limit needs no name.
    /// assert_ne!(Scope::named("login", ""), Scope::named("search", ""));
    /// ```
    pub fn named(policy: &str, limit: &str) -> Self {
        let hash = |text: &str| rapidhash::v3::rapidhash_v3(text.as_bytes());
        // Multiplied, so that ("a", "b") and ("b", "a") are different scopes.
        Self(hash(policy).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash(limit))
    }
}
