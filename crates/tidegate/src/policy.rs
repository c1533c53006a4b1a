//! Policies: named limits, one or several, as an [`Engine`](crate::Engine) holds them.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::{LeakyBucket, Limit, LimitError, Mode};

use crate::engine::Key;
use crate::store::{Ask, Scope};

/// What a name stands for: one limit, several in one atomic step, or a shaper.
///
/// ```
/// use tidegate::Policy;
///
/// let api: Policy = "100/min burst 20".try_into()?;
/// let plan = Policy::all().limit("second", "10/s").limit("day", "fixed-window 10000/day");
/// let signup = Policy::all()
///     .limit_by("ip", "ip", "3/h")
///     .limit_by("domain", "email_domain", "50/h");
/// let export = Policy::shaper("2/s max-wait 5s");
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    kind: Result<Kind, PolicyProblem>,
    overrides: HashMap<Box<[u8]>, Override>,
    on_store_error: OnStoreError,
    deny_cache: bool,
}

#[derive(Clone, Debug)]
enum Kind {
    Limits { mode: Mode, members: Vec<Member> },
    Shaper(LeakyBucket),
}

/// One limit of a policy.
#[derive(Clone, Debug)]
pub struct Member {
    /// The limit's name, as answers call it when it binds.
    pub name: String,
    /// Which of the caller's identifiers it counts; `None` for the only one.
    pub key: Option<String>,
    /// The limit.
    pub limit: Limit,
}

/// What one key gets instead of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Override {
    /// A limit of its own.
    Limit(Limit),
    /// Everything.
    Allow,
    /// Nothing.
    Block,
}

/// What to answer when the store cannot.
///
/// ```
/// use tidegate::{OnStoreError, Policy};
///
/// // Nobody may guess passwords faster because a store is down.
/// let login = Policy::all().limit("hour", "5/h").on_store_error(OnStoreError::DENY);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnStoreError {
    /// Admit, as if nothing had been spent.
    Allow,
    /// Admit nothing, and say when to come back.
    Deny {
        /// What is told to those who are turned away.
        retry_after: Duration,
    },
    /// Enforce this node's share of the limit in this process.
    #[default]
    Local,
}

impl OnStoreError {
    /// Admit nothing, and ask to come back in a minute.
    pub const DENY: Self = Self::Deny { retry_after: Duration::from_mins(1) };
}

/// A policy that has been checked, with the scopes of its limits.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) kind: CompiledKind,
    pub(crate) overrides: HashMap<Box<[u8]>, Override>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) deny_cache: bool,
}

#[derive(Debug)]
pub(crate) enum CompiledKind {
    Limits { mode: Mode, members: Vec<(Scope, Member)> },
    Shaper(Scope, LeakyBucket),
}

impl Policy {
    /// Admits if every limit does; all are charged, or none.
    pub fn all() -> Self {
        Self::of(Mode::All)
    }

    /// Admits if one limit does; those that admit are charged.
    pub fn any() -> Self {
        Self::of(Mode::Any)
    }

    /// Delays instead of refusing: for [`Engine::reserve`](crate::Engine::reserve).
    pub fn shaper(limit: impl TryInto<LeakyBucket, Error: Into<LimitError>>) -> Self {
        let kind = limit.try_into().map(Kind::Shaper);
        Self::new(kind.map_err(|error| PolicyProblem::Limit(error.into())))
    }

    fn of(mode: Mode) -> Self {
        Self::new(Ok(Kind::Limits { mode, members: Vec::new() }))
    }

    fn new(kind: Result<Kind, PolicyProblem>) -> Self {
        let (overrides, on_store_error) = (HashMap::new(), OnStoreError::default());
        Self { kind, overrides, on_store_error, deny_cache: true }
    }

    /// Adds a limit on the caller's only identifier.
    #[must_use]
    pub fn limit(
        self,
        name: impl Into<String>,
        limit: impl TryInto<Limit, Error: Into<LimitError>>,
    ) -> Self {
        self.member(name.into(), None, limit.try_into().map_err(Into::into))
    }

    /// Adds a limit on the identifier called `key`.
    #[must_use]
    pub fn limit_by(
        self,
        name: impl Into<String>,
        key: impl Into<String>,
        limit: impl TryInto<Limit, Error: Into<LimitError>>,
    ) -> Self {
        self.member(name.into(), Some(key.into()), limit.try_into().map_err(Into::into))
    }

    fn member(
        mut self,
        name: String,
        key: Option<String>,
        limit: Result<Limit, LimitError>,
    ) -> Self {
        match (&mut self.kind, limit) {
            (Ok(Kind::Limits { members, .. }), Ok(limit)) => {
                members.push(Member { name, key, limit });
            }
            (Ok(_), Err(error)) => self.kind = Err(PolicyProblem::Limit(error)),
            (Ok(Kind::Shaper(_)), Ok(_)) => self.kind = Err(PolicyProblem::ShaperAmongLimits),
            (Err(_), _) => {} // the first problem is the one to tell
        }
        self
    }

    /// Gives one key something else than the policy. For checks with one identifier: among several, one that the
    /// client may choose could pass for another.
    #[must_use]
    pub fn with_override(mut self, key: impl AsRef<[u8]>, instead: Override) -> Self {
        self.overrides.insert(key.as_ref().into(), instead);
        self
    }

    /// Says what to answer when the store cannot; by default this node's share is enforced in process.
    #[must_use]
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// Whether refusals of the store are [remembered](crate::DenyCache) for up to a second; by default they are, unless
    /// the store answers at once anyway.
    ///
    /// ```
    /// use tidegate::Policy;
    ///
    /// // Support gives units back on other nodes, and callers must notice at once.
    /// let exports = Policy::all().limit("day", "quota 20/day").deny_cache(false);
    /// ```
    #[must_use]
    pub fn deny_cache(mut self, deny_cache: bool) -> Self {
        self.deny_cache = deny_cache;
        self
    }

    /// Checks the policy as a whole, under its name.
    pub(crate) fn compile(self, policy: &str) -> Result<Compiled, PolicyProblem> {
        let kind = match self.kind? {
            Kind::Shaper(limit) => {
                if self.overrides.values().any(|instead| matches!(instead, Override::Limit(_))) {
                    return Err(PolicyProblem::OverrideOfMany);
                }
                CompiledKind::Shaper(Scope::named(policy, ""), limit)
            }
            Kind::Limits { mode, members } => {
                check_members(&members, &self.overrides)?;
                let scoped = |member: Member| (Scope::named(policy, &member.name), member);
                CompiledKind::Limits { mode, members: members.into_iter().map(scoped).collect() }
            }
        };
        let Self { overrides, on_store_error, deny_cache, .. } = self;
        Ok(Compiled { kind, overrides, on_store_error, deny_cache })
    }
}

impl Compiled {
    /// What the caller gets instead of the policy, if anything. Callers with several identifiers get none: one that
    /// the client may choose must not pass for another.
    pub(crate) fn instead_for(&self, key: Key<'_>) -> Option<&Override> {
        match key {
            Key::One(only) | Key::Named(&[(_, only)]) => self.overrides.get(only),
            Key::Named(_) => None,
        }
    }

    /// The limits of the policy; none for a shaper.
    pub(crate) fn members(&self) -> &[(Scope, Member)] {
        match &self.kind {
            CompiledKind::Limits { members, .. } => members,
            CompiledKind::Shaper(..) => &[],
        }
    }
}

fn check_members(
    members: &[Member],
    overrides: &HashMap<Box<[u8]>, Override>,
) -> Result<(), PolicyProblem> {
    if members.is_empty() {
        return Err(PolicyProblem::NoLimit);
    }
    if members.len() > Ask::MAX_LIMITS {
        return Err(PolicyProblem::TooManyLimits(members.len()));
    }
    for (index, member) in members.iter().enumerate() {
        if members[..index].iter().any(|earlier| earlier.name == member.name) {
            return Err(PolicyProblem::SameName(member.name.clone()));
        }
    }
    let concurrency = |limit: &Limit| matches!(limit, Limit::Concurrency(_));
    let own_limits = || {
        overrides.values().filter_map(|instead| match instead {
            Override::Limit(limit) => Some(limit),
            Override::Allow | Override::Block => None,
        })
    };
    if own_limits().any(|own| concurrency(own) != concurrency(&members[0].limit)) {
        return Err(PolicyProblem::OverrideOfAnotherKind);
    }
    if own_limits().next().is_some() && members.len() > 1 {
        return Err(PolicyProblem::OverrideOfMany);
    }
    Ok(())
}

/// What is wrong with a policy as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyProblem {
    /// One of its limits makes no sense.
    Limit(LimitError),
    /// It has no limit.
    NoLimit,
    /// It has more limits than one check can have.
    TooManyLimits(usize),
    /// Two of its limits share a name, and would share their counters.
    SameName(String),
    /// A leaky bucket delays, and cannot stand beside limits that refuse.
    ShaperAmongLimits,
    /// Rates and concurrency are asked for in different ways, and cannot stand for each other.
    OverrideOfAnotherKind,
    /// A key's own limit can only stand for a policy's only limit.
    OverrideOfMany,
}

impl std::fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limit(error) => error.fmt(f),
            Self::NoLimit => f.write_str("no limit: add at least one"),
            Self::TooManyLimits(count) => {
                write!(f, "{count} limits: one check can have at most {}", Ask::MAX_LIMITS)
            }
            Self::SameName(name) => {
                write!(f, "two limits are called `{name}`: give each its own name")
            }
            Self::ShaperAmongLimits => f.write_str(
                "a leaky bucket delays where other limits refuse: give it a policy of its own",
            ),
            Self::OverrideOfAnotherKind => f.write_str(
                "a key's own limit must limit concurrency where the policy does, and only there",
            ),
            Self::OverrideOfMany => f.write_str(
                "a key's own limit needs a policy with exactly one limit: use allow or block",
            ),
        }
    }
}

impl From<Limit> for Policy {
    fn from(limit: Limit) -> Self {
        Self::all().limit("", limit)
    }
}

impl TryFrom<&str> for Policy {
    type Error = LimitError;

    fn try_from(text: &str) -> Result<Self, LimitError> {
        text.parse().map(|limit: Limit| limit.into())
    }
}
