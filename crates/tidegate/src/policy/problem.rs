//! Why a policy cannot be.

use tidegate_core::LimitError;

use super::PercentError;
use crate::store::StoreRequest;

/// What is wrong with a policy as a whole.
///
/// ```
/// use tidegate::{
///     Effective, Engine, LimitError, Override, PercentError, Policy, PolicyProblem::*, Share,
/// };
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
///
/// let shared = |total: Policy, share: Share| {
///     let engine = Engine::builder().policy("total", total).policy("api", Policy::share(share));
///     engine.build().err().map(|error| error.problem)
/// };
/// let total = || Policy::all().limit_by("", "global", "100/s");
/// let share = || Share::of("total", "tenant");
/// assert_eq!(shared(total(), share()), None);
/// assert_eq!(shared(total(), Share::of("totl", "tenant")), Some(ShareOfUnknown("totl".into())));
/// assert_eq!(shared(total(), Share::of("api", "tenant")), Some(ShareOfShare("api".into())));
/// assert_eq!(shared(Policy::all().limit("", "100/s"), share()), Some(ShareOfMany("total".into())));
/// let month = Policy::all().limit_by("", "global", "quota 100/month");
/// assert_eq!(shared(month, share()), Some(ShareOfWhole("total".into())));
/// assert_eq!(shared(total(), Share::of("total", "")), Some(ShareByNothing));
/// assert_eq!(shared(total(), Share::of("total", "global")), Some(ShareByGlobal));
/// assert_eq!(shared(total(), share().weights::<&str>("plan", [], 1)), Some(ShareWeights(0)));
/// let weightless = ShareWeight { of: "else".into(), weight: 0 };
/// assert_eq!(shared(total(), share().weights("plan", [("gold", 4)], 0)), Some(weightless));
/// assert_eq!(shared(total().lease(true), share()), Some(LeaseOfShare));
/// assert_eq!(shared(total().quorum(true).tagged("t"), share()), None);
/// let own = |policy: Policy| {
///     let engine = Engine::builder().policy("total", total()).policy("api", policy);
///     engine.build().err().map(|error| error.problem)
/// };
/// assert_eq!(own(Policy::share(share()).quorum(true)), Some(QuorumOfShare));
/// assert_eq!(own(Policy::share(share()).tagged("t")), Some(TagOfShare));
/// assert_eq!(problem(Policy::share(share()).limit("", "5/h")), Some(ShareAmongLimits));
/// let tenants_own = Policy::share(share()).with_override("acme", "5/s".parse().map(Override::Limit)?);
/// assert_eq!(own(tenants_own), Some(OverrideOfTenant));
/// let everybodys_own = total().with_override("global", "5/s".parse().map(Override::Limit)?);
/// assert_eq!(shared(everybodys_own, share()), Some(OverrideOfShared));
/// let moved = Policy::share(share()).adaptive("", &load);
/// assert_eq!(problem(moved), Some(AdaptiveShare("total".into())));
///
/// let hour = || Policy::all().limit("hour", "5/h");
/// assert_eq!(problem(hour().enforce("110%")), Some(Enforce(PercentError::OutOfBounds)));
/// let everybody = Policy::all().limit_by("all", "global", "5/h").enforce("10%");
/// assert_eq!(problem(everybody), Some(EnforceOfGlobal));
///
/// let costing = |factor| Policy::all().limit("hour", "5/h").cost("hour", factor);
/// assert_eq!(problem(costing(0)), Some(ZeroCost("hour".into())));
/// let never = CostAboveLimit { limit: "hour".into(), cost: 6, ceiling: 5 };
/// assert_eq!(problem(costing(6)), Some(never));
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
    /// A key's own limit stands for a policy's only limit; of several, it has to name one.
    OverrideOfMany,
    /// Tenants have parts of the limit that they share, and none of their own.
    OverrideOfTenant,
    /// The limit that tenants share is the same for all of them.
    OverrideOfShared,
    /// A leaky bucket cannot be leased from: its places are in a row.
    LeaseOfShaper,
    /// What `any` charges depends on the check: nothing can be taken ahead.
    LeaseOfAny,
    /// What is in flight cannot be taken ahead.
    LeaseOfConcurrency,
    /// It has no limit of this name.
    NoSuchLimit(String),
    /// A check costs nothing of the limit of this name.
    ZeroCost(String),
    /// A check takes more of a limit than it ever has, and so is never admitted.
    CostAboveLimit {
        /// The limit's name.
        limit: String,
        /// What a check of cost 1 takes.
        cost: u64,
        /// The most that the limit, or a key's own limit in its place, admits at once.
        ceiling: u64,
    },
    /// The part of the callers that it is to be enforced for makes no sense.
    Enforce(PercentError),
    /// It is to be enforced for a part of the callers, and has one budget for all of them.
    EnforceOfGlobal,
    /// A leaky bucket keeps its pace: callers that wait know for how long.
    AdaptiveShaper,
    /// The limit that tenants share is adaptive, or none.
    AdaptiveShare(String),
    /// A share has the limit that it shares, and no other.
    ShareAmongLimits,
    /// It shares a policy that the engine does not have.
    ShareOfUnknown(String),
    /// It shares a policy that is a share itself.
    ShareOfShare(String),
    /// It shares a policy with several limits, or with one that is not on `global`.
    ShareOfMany(String),
    /// It shares a limit that has no parts for the moment: a quota, a limit on concurrency or a leaky bucket.
    ShareOfWhole(String),
    /// Tenants have no name.
    ShareByNothing,
    /// All callers are one tenant.
    ShareByGlobal,
    /// It names no weight, or too many.
    ShareWeights(usize),
    /// A weight is 0, or too high.
    ShareWeight {
        /// The value that has it.
        of: String,
        /// The weight.
        weight: u32,
    },
    /// What tenants share cannot be taken ahead.
    LeaseOfShare,
    /// A share is confirmed by a majority where the policy it shares is, and not otherwise.
    QuorumOfShare,
    /// A share is kept with the policy it shares.
    TagOfShare,
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
                "a key's own limit replaces one limit: name it where there are several, or use allow or block",
            ),
            Self::OverrideOfTenant => f.write_str(
                "tenants of a share have no limit of their own: use allow or block, or give it another weight",
            ),
            Self::OverrideOfShared => f.write_str(
                "other policies share this limit, so that no key has another: change it in the policy and reload, or use \
                 allow or block",
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
            Self::ZeroCost(name) => {
                write!(f, "a cost of 0 for the limit `{name}`: expected 1 or more")
            }
            Self::CostAboveLimit { limit, cost, ceiling } => write!(
                f,
                "a check costs {cost} of the limit `{limit}`, which admits {ceiling} at once: lower the cost or raise \
                 the limit"
            ),
            Self::Enforce(error) => write!(f, "enforce {error}"),
            Self::EnforceOfGlobal => f.write_str(
                "enforce divides callers, and this policy has one budget for all of them: leave enforce out",
            ),
            Self::AdaptiveShaper => {
                f.write_str("a leaky bucket cannot be adaptive: leave adaptive out")
            }
            Self::AdaptiveShare(of) => {
                write!(f, "a share moves by itself: make the limit of `{of}` adaptive")
            }
            Self::ShareAmongLimits => f.write_str(
                "a share has no limit of its own: put the limit into the policy it shares",
            ),
            Self::ShareOfUnknown(of) => write!(f, "shares `{of}`, which is no policy"),
            Self::ShareOfShare(of) => {
                write!(
                    f,
                    "shares `{of}`, which is a share itself: share the policy that has the limit"
                )
            }
            Self::ShareOfMany(of) => {
                write!(f, "shares `{of}`, which needs exactly one limit, with `key: global`")
            }
            Self::ShareOfWhole(of) => write!(
                f,
                "shares `{of}`, whose limit has no parts: use gcra, token-bucket, fixed-window, sliding-window or \
                 sliding-log"
            ),
            Self::ShareByNothing => f.write_str("has no name for tenants: name their identifier"),
            Self::ShareByGlobal => f.write_str(
                "is the same for all callers, so that all are one tenant: name what tells them apart",
            ),
            Self::ShareWeights(count) => write!(f, "names {count} weights: expected 1 to 64"),
            Self::ShareWeight { of, weight } => write!(
                f,
                "gives `{of}` the weight {weight}: expected 1 to {}",
                super::Share::WEIGHT_MAX
            ),
            Self::QuorumOfShare => f.write_str(
                "a share is kept where the policy it shares is: write `quorum: true` there",
            ),
            Self::TagOfShare => {
                f.write_str("a share is kept with the policy it shares: give the tag to that")
            }
            Self::LeaseOfShare => {
                f.write_str("a share, and the policy it shares, cannot be leased: leave lease out")
            }
        }
    }
}
