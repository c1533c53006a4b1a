//! Which limit a key is counted under, what it is kept together with, and what a unit of cost takes of it.

use std::num::NonZeroU64;
use std::sync::Arc;

/// The name space of a limit's keys: the same key under another scope is another counter. Made from names, so
/// that it is the same after a reload or a restart, and on every node.
///
/// ```
/// use tidegate::Scope;
///
/// let scope = Scope::named("login", "hour");
/// assert_eq!(scope, Scope::named("login", "hour"));
/// assert_ne!(scope, Scope::named("hour", "login"));
/// assert_eq!((scope.policy(), scope.limit()), ("login", "hour"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub(crate) hash: u64,
    policy: Arc<str>,
    limit: Arc<str>,
    tag: Tag,
    in_quorum: bool,
    /// `None` for 1, which most have.
    factor: Option<NonZeroU64>,
}

/// What decides where a store that spreads keys over nodes keeps those of a scope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Tag {
    /// Each identifier by itself.
    #[default]
    Identifier,
    /// All of a policy on one node.
    Policy,
    /// All that share this name on one node.
    Named(Arc<str>),
}

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
        let hash = hash(policy).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash(limit);
        let (policy, limit) = (policy.into(), limit.into());
        Self { hash, policy, limit, tag: Tag::Identifier, in_quorum: false, factor: None }
    }

    /// The same for a policy that is to be counted by a quorum, where [another store](crate::RoutedStore) counts the
    /// others.
    ///
    /// ```
    /// # use tidegate::Scope;
    /// assert!(Scope::named("payout", "").in_quorum(true).is_in_quorum());
    /// assert!(!Scope::named("api", "").is_in_quorum());
    /// ```
    #[must_use]
    pub fn in_quorum(self, in_quorum: bool) -> Self {
        Self { in_quorum, ..self }
    }

    /// Whether a quorum is to count it.
    pub const fn is_in_quorum(&self) -> bool {
        self.in_quorum
    }

    /// The same where each unit of a request's cost takes `factor` units of the limit. It is no part of the name space:
    /// with another factor the same counter goes on.
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use tidegate::Scope;
    /// let units = Scope::named("plan", "units");
    /// let dear = units.clone().costing(NonZeroU64::new(10).ok_or("not 0")?);
    /// assert_eq!((units.cost(3), dear.cost(3), dear.factor()), (3, 30, 10));
    /// assert_eq!(units, dear);
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn costing(self, factor: NonZeroU64) -> Self {
        Self { factor: Some(factor).filter(|factor| factor.get() > 1), ..self }
    }

    /// How many units of the limit one unit of a request's cost takes.
    pub fn factor(&self) -> u64 {
        self.factor.map_or(1, NonZeroU64::get)
    }

    /// What a request of this cost takes of the limit: at most `u64::MAX`, which no limit has.
    #[inline]
    pub fn cost(&self, cost: u64) -> u64 {
        self.factor.map_or(cost, |factor| cost.saturating_mul(factor.get()))
    }

    /// The same for a limit that shares a request with limits on other identifiers: a store that spreads keys over nodes
    /// then keeps all keys of the policy on one. The policy decides that, not the identifiers of one request: a caller that
    /// may choose them must not choose where they are counted.
    ///
    /// ```
    /// # use tidegate::Scope;
    /// let scope = Scope::together("signup", "ip");
    /// assert!(scope.is_together());
    /// assert_ne!(scope, Scope::named("signup", "ip"));
    /// ```
    pub fn together(policy: &str, limit: &str) -> Self {
        Self { tag: Tag::Policy, ..Self::named(policy, limit) }
    }

    /// The same for a limit that stands in one step with limits of other policies: a store that spreads keys over nodes
    /// keeps all keys of all scopes with this tag on one.
    ///
    /// ```
    /// # use tidegate::Scope;
    /// let (route, client) = (Scope::tagged("edge", "route", ""), Scope::tagged("edge", "client", ""));
    /// assert_eq!(route.tag(), client.tag());
    /// assert_ne!(route, Scope::named("route", ""));
    /// ```
    pub fn tagged(tag: &str, policy: &str, limit: &str) -> Self {
        Self { tag: Tag::Named(tag.into()), ..Self::named(policy, limit) }
    }

    /// Whether limits on other identifiers can stand in the same request.
    pub const fn is_together(&self) -> bool {
        !matches!(self.tag, Tag::Identifier)
    }

    /// The tag that it shares with other policies, if it does.
    ///
    /// ```
    /// # use tidegate::Scope;
    /// assert_eq!(Scope::tagged("edge", "route", "").tag(), Some("edge"));
    /// assert_eq!(Scope::together("signup", "ip").tag(), None);
    /// ```
    pub fn tag(&self) -> Option<&str> {
        match &self.tag {
            Tag::Named(tag) => Some(tag),
            Tag::Identifier | Tag::Policy => None,
        }
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

/// Equal where they name the same counters.
impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        let Self { hash, policy, limit, tag, in_quorum, factor: _ } = self;
        *hash == other.hash
            && *policy == other.policy
            && *limit == other.limit
            && *tag == other.tag
            && *in_quorum == other.in_quorum
    }
}

impl Eq for Scope {}
