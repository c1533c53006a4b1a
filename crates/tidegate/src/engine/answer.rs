//! What an engine answers, and the limit that the answer is about.

use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Decision, Limit};

use crate::store::{Source, StoreErrorKind};

/// An engine's answer.
///
/// ```
/// use tidegate::{Engine, Policy, Source};
///
/// let plan = Policy::all().limit("burst", "10/s").limit("day", "fixed-window 3/day");
/// let engine = Engine::builder().policy("plan", plan).build()?;
/// let answer = engine.check("plan", "user-42").now()?;
/// assert!(answer.decision.allowed());
/// assert_eq!((answer.policy, answer.binding), ("plan", "day"));
/// assert!(answer.limit.is_some_and(|limit| limit.units() == 3));
/// assert_eq!((answer.source, answer.store_error), (Source::Store, None));
/// assert!(!answer.shadow_denied); // the policy means it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer<'a> {
    /// The decision of the limit that binds, which is the whole's. A [shadow](crate::Policy::shadow) policy always allows, with
    /// what is left and the time of the reset as the limit has them.
    pub decision: Decision,
    /// The policy's name.
    pub policy: &'a str,
    /// The name of the limit that binds; the policy's name where its only limit has none.
    pub binding: &'a str,
    /// The limit that binds; `None` where an override allowed or blocked without one.
    pub limit: Option<BindingLimit<'a>>,
    /// Who decided.
    pub source: Source,
    /// What was wrong with the store, where it should have decided and did not.
    pub store_error: Option<StoreErrorKind>,
    /// Whether it was allowed only because the policy is a [shadow](crate::Policy::shadow), for all or for
    /// [this caller](crate::Policy::enforce).
    pub shadow_denied: bool,
}

impl Answer<'_> {
    /// Whether the store failed and the policy denies rather than count wrongly. That is a failure and no refusal: with
    /// HTTP a 503, not a 429.
    ///
    /// ```
    /// use tidegate::{Answer, Decision, Source};
    ///
    /// let decision = Decision::refused(100, 0, Some(1_000_000), 1_000_000);
    /// let answer = |source| Answer {
    ///     decision,
    ///     policy: "api",
    ///     binding: "api",
    ///     limit: None,
    ///     source,
    ///     store_error: None,
    ///     shadow_denied: false,
    /// };
    /// assert!(answer(Source::FailClosed).fails_closed());
    /// assert!(!answer(Source::Store).fails_closed()); // the limit is used up
    /// ```
    pub const fn fails_closed(&self) -> bool {
        matches!(self.source, Source::FailClosed) && !self.decision.allowed()
    }
}

/// The [`Limit`] that binds an answer: one of the policy, or one that the key has instead.
///
/// ```
/// use tidegate::{BindingLimit, Engine};
///
/// let engine = Engine::builder().policy("api", "100/min burst 20").build()?;
/// let answer = engine.check("api", "user-42").now()?;
/// let limit: BindingLimit = answer.limit.expect("no override decided");
/// assert_eq!((limit.units(), limit.ceiling()), (100, 20));
/// assert_eq!(*limit, "100/min burst 20".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BindingLimit<'a>(LimitOwner<'a>);

#[derive(Clone, Debug)]
enum LimitOwner<'a> {
    /// It lives as long as the engine.
    Engine(&'a Limit),
    /// It was set at run time, and may be gone by now.
    Table(Arc<Limit>),
}

impl<'a> BindingLimit<'a> {
    pub(crate) const fn of_policy(limit: &'a Limit) -> Self {
        Self(LimitOwner::Engine(limit))
    }

    pub(crate) const fn shared(limit: Arc<Limit>) -> Self {
        Self(LimitOwner::Table(limit))
    }
}

impl Deref for BindingLimit<'_> {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        match &self.0 {
            LimitOwner::Engine(limit) => limit,
            LimitOwner::Table(limit) => limit,
        }
    }
}

/// Equal where the limits are, wherever they are kept.
impl PartialEq for BindingLimit<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BindingLimit<'_> {}
