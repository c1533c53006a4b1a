//! Where state lives. A store promises one thing: *these limits, this cost, one atomic step*.

#[cfg(feature = "breaker")]
pub(crate) mod breaker;
pub(crate) mod deny_cache;
mod error;
mod fingerprint;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Arrival, LeakyBucket, Limit, Mode, Reservation, Timestamp, Verdict};

pub use error::{Ran, StoreError, Trouble};

use crate::reply::Reply;

/// Answers asks, each in one atomic step. What stands around a store (a breaker, a cache) is a store too.
///
/// An ask is under way when the method returns, also if the reply is dropped: permits and places are given back
/// without anybody waiting for it.
pub trait Store: Send + Sync + fmt::Debug {
    /// Answers one ask. `now` is the asker's time; a store with a clock of its own goes by that.
    fn answer(&self, ask: &Ask<'_>, now: Timestamp) -> Reply<'static, Settled, StoreError>;

    /// Takes a place in a shaper's queue, or gives one back.
    fn shape(&self, turn: &Turn<'_>, now: Timestamp) -> Reply<'static, Place, StoreError>;

    /// Whether every answer is known at once, in this process: then there is nothing that a shortcut could save.
    fn is_local(&self) -> bool {
        false
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn answer(&self, ask: &Ask<'_>, now: Timestamp) -> Reply<'static, Settled, StoreError> {
        (**self).answer(ask, now)
    }

    fn shape(&self, turn: &Turn<'_>, now: Timestamp) -> Reply<'static, Place, StoreError> {
        (**self).shape(turn, now)
    }

    fn is_local(&self) -> bool {
        (**self).is_local()
    }
}

/// One request to a store: some limits, decided and written in one atomic step.
///
/// ```
/// use tidegate::{Ask, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
///
/// let (store, limit): (_, Limit) = (MemoryStore::default(), "5/h".parse()?);
/// let scope = Scope::named("login", "");
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let ask = Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let settled = store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000)).now()?;
/// assert_eq!(settled.verdict.decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// How the limits make one answer.
    pub mode: Mode,
    /// The limits in declared order, each with the key it counts for. At most
    /// [`Ask::MAX_LIMITS`], and no key twice in one scope.
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
    pub scope: &'a Scope,
    /// Who is limited.
    pub key: &'a [u8],
    /// The limit.
    pub limit: &'a Limit,
}

/// What an [`Ask`] wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Op {
    /// Decide, and spend if admitted.
    Take,
    /// Decide, and spend nothing.
    Peek,
    /// Give back up to the cost, and answer what is left.
    Refund,
    /// Forget what was spent, and answer what is left.
    Reset,
    /// Give back the permit of this id, which holds as many places as the cost says, and answer what is left.
    Release {
        /// The permit's [id](tidegate_core::Permit::id).
        permit_id: u64,
    },
}

/// A store's answer to an [`Ask`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided.
    pub source: Source,
    /// What concurrency limits granted: the index of the limit, and the permit's id.
    pub permits: Vec<(usize, u64)>,
}

/// One request of a shaper.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Keeps the same key apart under different limits.
    pub scope: &'a Scope,
    /// Who is delayed.
    pub key: &'a [u8],
    /// The limit.
    pub shaper: &'a LeakyBucket,
    /// How many places in a row.
    pub cost: u64,
    /// The place to give back, if nobody has queued behind it; `None` to take one.
    pub cancel: Option<Arrival>,
}

/// A store's answer to a [`Turn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// How long to wait; for a cancelled place, accepted if it was given back.
    pub reservation: Reservation,
    /// Which place it was, for [`Turn::cancel`].
    pub until: Option<Arrival>,
}

/// Who made a decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

impl Ask<'_> {
    /// The most limits that one check can have.
    pub const MAX_LIMITS: usize = 16;

    /// Whether the ask names at least one limit, at most [`Ask::MAX_LIMITS`], and no state twice: one state cannot be
    /// decided and charged twice at once.
    #[cfg(feature = "redis")]
    pub(crate) fn is_sound(&self) -> bool {
        let same = |a: &KeyedLimit<'_>, b: &KeyedLimit<'_>| a.scope == b.scope && a.key == b.key;
        let twice =
            |index: usize| self.limits[..index].iter().any(|a| same(a, &self.limits[index]));
        (1..=Self::MAX_LIMITS).contains(&self.limits.len()) && !(1..self.limits.len()).any(twice)
    }
}

impl Settled {
    /// A store's own answer, with nothing to give back later.
    pub(crate) const fn by_store(verdict: Verdict) -> Self {
        Self { verdict, source: Source::Store, permits: Vec::new() }
    }
}

/// The name space of a limit's keys: the same key under another scope is another counter. Made from names, so
/// that it is the same after a reload or a restart, and on every node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    pub(crate) hash: u64,
    policy: Arc<str>,
    limit: Arc<str>,
}

impl Scope {
    /// The scope of a limit within a policy.
    pub fn named(policy: &str, limit: &str) -> Self {
        let hash = |text: &str| rapidhash::v3::rapidhash_v3(text.as_bytes());
        // Multiplied, so that ("a", "b") and ("b", "a") are different scopes.
        let hash = hash(policy).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash(limit);
        Self { hash, policy: policy.into(), limit: limit.into() }
    }

    /// The policy's name.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The limit's name within the policy; empty for its only one.
    pub fn limit(&self) -> &str {
        &self.limit
    }
}
