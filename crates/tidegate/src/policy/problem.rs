//! Why a policy cannot be.

use tidegate_core::LimitError;

use crate::store::StoreRequest;

/// What is wrong with a policy as a whole.
///
/// ```
/// use tidegate::{Effective, Engine, LimitError, Override, Policy, PolicyProblem::*};
///
/// let problem = |policy: Policy| {
///     Engine::builder().policy("api", policy).build().err().map(|error| error.problem)
/// };
/// let hour = Policy::all().limit("hour", "5/h");
/// assert_eq!(problem(Policy::all().limit("hour", "0/h")), Some(Limit(LimitError::ZeroLimit)));
/// assert_eq!(problem(Policy::all()), Some(NoLimit));
/// assert_eq!(problem(hour.clone().limit("hour", "9/day")), Some(SameName("hour".into())));
/// assert_eq!(problem(Policy::shaper("2/s max-wait 5s").limit("hour", "5/h")), Some(ShaperAmongLimits));
/// let many = (0..17).fold(Policy::all(), |all, n| all.limit(format!("limit {n}"), "5/h"));
/// assert_eq!(problem(many), Some(TooManyLimits(17)));
///
/// let twice = Engine::builder().policy("api", "5/h").policy("api", "9/h").build();
/// assert_eq!(twice.err().map(|error| error.problem), Some(DefinedTwice));
///
/// let own = |limit: &str| limit.parse().map(Override::Limit);
/// let places = hour.clone().with_override("user-42", own("concurrency 2")?);
/// assert_eq!(problem(places), Some(OverrideOfAnotherKind));
/// let of_two = hour.limit("day", "9/day").with_override("user-42", own("50/h")?);
/// assert_eq!(problem(of_two), Some(OverrideOfMany));
///
/// let places = Policy::all().limit("", "concurrency 5").lease(true);
/// assert_eq!(problem(places), Some(LeaseOfConcurrency));
/// let either = Policy::any().limit("hour", "5/h").limit("day", "9/day").lease(true);
/// assert_eq!(problem(either), Some(LeaseOfAny));
/// assert_eq!(problem(Policy::shaper("2/s max-wait 5s").lease(true)), Some(LeaseOfShaper));
///
/// let load = Effective::default();
/// assert_eq!(problem(Policy::shaper("2/s max-wait 5s").adaptive("", &load)), Some(AdaptiveShaper));
/// let other = Policy::all().limit("hour", "5/h").adaptive("day", &load);
/// assert_eq!(problem(other), Some(NoSuchLimit("day".into())));
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyProblem {
    /// One of its limits makes no sense.
    Limit(LimitError),
    /// It has no limit.
    NoLimit,
    /// It has more limits than one check can have.
    TooManyLimits(usize),
    /// Another policy of the engine has its name.
    DefinedTwice,
    /// Two of its limits share a name, and would share their counters.
    SameName(String),
    /// A leaky bucket delays, and cannot stand beside limits that refuse.
    ShaperAmongLimits,
    /// Rates and concurrency are asked for in different ways, and cannot stand for each other.
    OverrideOfAnotherKind,
    /// A key's own limit can only stand for a policy's only limit.
    OverrideOfMany,
    /// A leaky bucket cannot be leased from: its places are in a row.
    LeaseOfShaper,
    /// What `any` charges depends on the check: nothing can be taken ahead.
    LeaseOfAny,
    /// What is in flight cannot be taken ahead.
    LeaseOfConcurrency,
    /// It has no limit of this name that could be adaptive.
    NoSuchLimit(String),
    /// A leaky bucket keeps its pace: callers that wait know for how long.
    AdaptiveShaper,
}

impl std::fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limit(error) => error.fmt(f),
            Self::NoLimit => f.write_str("no limit: add at least one"),
            Self::TooManyLimits(count) => {
                write!(f, "{count} limits: one check can have at most {}", StoreRequest::MAX_LIMITS)
            }
            Self::DefinedTwice => {
                f.write_str("is defined twice: give each policy a name of its own")
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
            Self::LeaseOfShaper => f.write_str("a leaky bucket cannot be leased: leave lease out"),
            Self::LeaseOfAny => {
                f.write_str("any cannot be leased, only all or one limit: leave lease out")
            }
            Self::LeaseOfConcurrency => {
                f.write_str("concurrency cannot be leased: leave lease out")
            }
            Self::NoSuchLimit(name) => {
                write!(f, "no limit is called `{name}`: name one that is there")
            }
            Self::AdaptiveShaper => {
                f.write_str("a leaky bucket cannot be adaptive: leave adaptive out")
            }
        }
    }
}
