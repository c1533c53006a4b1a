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
    /// The limits in declared order, each with the key it counts for. At most
    /// [`Ask::MAX_LIMITS`]; the rest is not looked at.
    pub limits: &'a [KeyedLimit<'a>],
    /// What to spend, or to give back.
    pub cost: u64,
    /// What to do.
    pub op: Op,
}

/// A limit, and the key it counts for.
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
    pub const MAX_LIMITS: usize = 16;
}

/// The name space of a limit's keys: the same key under another scope is another counter. Made from names, so
/// that it is the same after a reload or a restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scope(pub(crate) u64);

impl Scope {
    /// The scope of a limit within a policy.
    pub fn named(policy: &str, limit: &str) -> Self {
        let hash = |text: &str| rapidhash::v3::rapidhash_v3(text.as_bytes());
        // Multiplied, so that ("a", "b") and ("b", "a") are different scopes.
        Self(hash(policy).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash(limit))
    }
}
