//! Questions without an answer, and policies that cannot be built.

use std::fmt;

use super::fallback::is_failure;
use crate::policy::PolicyProblem;
use crate::reply::UnderWay;
use crate::store::{MultiCharge, StoreError};

/// A question that has no answer.
///
/// ```
/// use tidegate::{Check, CheckError, Engine, Key, Policy, StoreError, StoreErrorKind};
///
/// let engine = Engine::builder()
///     .policy("signup", Policy::all().limit_by("ip", "ip", "3/h"))
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("report", "concurrency 2")
///     .build()?;
/// let error = |policy| engine.check(policy, "user-42").now().err();
/// assert_eq!(error("sign-up"), Some(CheckError::UnknownPolicy("sign-up".into())));
/// let missing = CheckError::MissingKey { policy: "signup".into(), key: "ip".into() };
/// assert_eq!(error("signup"), Some(missing));
/// assert_eq!(error("export"), Some(CheckError::Shapes("export".into())));
/// assert_eq!(error("report"), Some(CheckError::NeedsAcquire("report".into())));
///
/// let check = Check { policy: "report", key: Key::One(b"user-42"), cost: 1 };
/// assert_eq!(engine.reserve(&check).now(), Err(CheckError::DoesNotShape("report".into())));
///
/// let high = CheckError::CostTooHigh { policy: "plan".into(), cost: 1 << 60, cost_max: 1 << 50 };
/// assert!(high.to_string().ends_with("expected at most 1125899906842624"));
///
/// // Of several checks in one step:
/// let any = CheckError::Chooses("either".into());
/// assert_eq!(any.to_string(), "policy `either` is an `any`: it has to be asked by itself");
/// assert_eq!(CheckError::TooManyTogether.to_string(), "more than 64 limits in one step: ask for fewer");
/// assert!(CheckError::Apart.to_string().ends_with("give their policies one tag"));
///
/// let store = CheckError::Store(StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms"));
/// assert_eq!(store.to_string(), "timeout: no answer within 20ms");
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// There is no policy of this name.
    UnknownPolicy(String),
    /// A limit of the policy counts an identifier that was not given.
    MissingKey {
        /// The policy's name.
        policy: String,
        /// The identifier's name, or `key` for the only one.
        key: String,
    },
    /// The policy delays: ask [`Engine::reserve`](crate::Engine::reserve).
    Shapes(String),
    /// The policy decides: ask [`Engine::check`](crate::Engine::check).
    DoesNotShape(String),
    /// The policy limits concurrency: ask [`Engine::acquire`](crate::Engine::acquire).
    NeedsAcquire(String),
    /// The policy is an `any`, and cannot be asked together with others: what it charges depends on the check.
    Chooses(String),
    /// The cost, as often as a limit of the policy [multiplies](crate::Policy::cost) it, is above 2^53.
    CostTooHigh {
        /// The policy's name.
        policy: String,
        /// The cost.
        cost: u64,
        /// The highest that the policy can be asked for.
        cost_max: u64,
    },
    /// More limits than one step can have: [`MultiCharge::MAX_LIMITS`](crate::MultiCharge::MAX_LIMITS).
    TooManyTogether,
    /// The store keeps what was asked together on several nodes: see [`Policy::tagged`](crate::Policy::tagged).
    Apart,
    /// The store could not answer, and gave no decision that the policy could stand in for.
    Store(StoreError),
}

impl CheckError {
    /// The failure, where the store is to blame. `None` where the question makes no sense: asked again it fails again.
    ///
    /// ```
    /// # use tidegate::{CheckError, StoreError, StoreErrorKind};
    /// let error = |kind| CheckError::Store(StoreError::new(kind, "why"));
    /// assert!(error(StoreErrorKind::Timeout).store_failure().is_some());
    /// assert!(error(StoreErrorKind::BadRequest).store_failure().is_none());
    /// assert!(CheckError::UnknownPolicy("apj".into()).store_failure().is_none());
    /// ```
    pub fn store_failure(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) if is_failure(error) => Some(error),
            _ => None,
        }
    }
}

/// A policy that could not be built.
///
/// ```
/// use tidegate::{BuildError, Engine, LimitError, PolicyProblem};
///
/// let built = Engine::builder().policy("api", "100/min").policy("login", "0/h").build();
/// let problem = PolicyProblem::Limit(LimitError::ZeroLimit);
/// assert_eq!(built.err(), Some(BuildError { policy: "login".to_owned(), problem }));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// The policy's name.
    pub policy: String,
    /// What is wrong with it.
    pub problem: PolicyProblem,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "no policy is called `{}`", name.escape_debug()),
            Self::MissingKey { policy, key } => {
                write!(f, "policy `{policy}` counts by `{key}`, which was not given")
            }
            Self::Shapes(policy) => {
                write!(
                    f,
                    "policy `{policy}` is a leaky bucket: it delays, so reserve instead of check"
                )
            }
            Self::DoesNotShape(policy) => {
                write!(f, "policy `{policy}` is no leaky bucket: check instead of reserve")
            }
            Self::NeedsAcquire(policy) => {
                write!(f, "policy `{policy}` limits concurrency: acquire instead of check")
            }
            Self::Chooses(policy) => {
                write!(f, "policy `{policy}` is an `any`: it has to be asked by itself")
            }
            Self::CostTooHigh { policy, cost, cost_max } => write!(
                f,
                "policy `{policy}` multiplies costs: {cost} is too high, expected at most {cost_max}"
            ),
            Self::TooManyTogether => {
                write!(f, "more than {} limits in one step: ask for fewer", MultiCharge::MAX_LIMITS)
            }
            Self::Apart => f.write_str(
                "the checks are counted on several nodes of a cluster: give their policies one tag",
            ),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}`: {}", self.policy.escape_debug(), self.problem)
    }
}

impl From<StoreError> for CheckError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<UnderWay> for CheckError {
    fn from(under_way: UnderWay) -> Self {
        Self::Store(under_way.into())
    }
}

impl std::error::Error for CheckError {}
impl std::error::Error for BuildError {}
