//! How the limit of one policy is shared by tenants: who they are, and what each counts.

use super::{Compiled, Member, PolicyKind, PolicyProblem};
use crate::engine::GLOBAL;
use crate::store::Scope;

/// Far more plans than anybody sells.
const NAMED_MAX: usize = 64;

/// Shares the limit of another policy fairly: see [`Policy::share`](crate::Policy::share).
///
/// ```
/// use tidegate::{Check, Engine, Key, Op, Policy, Share};
///
/// let share = Share::of("total", "tenant").weights("plan", [("gold", 4)], 1);
/// let engine = Engine::builder()
///     .policy("total", Policy::all().limit_by("", "global", "100/s"))
///     .policy("api", Policy::share(share))
///     .build()?;
/// let keys: [(&str, &[u8]); 2] = [("tenant", b"acme"), ("plan", b"gold")];
/// let check = Check { policy: "api", key: Key::Named(&keys), cost: 1 };
/// assert_eq!(engine.ask(&check, Op::Take).now()?.decision.remaining(), 99);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a share divides nothing until a policy is made of it"]
pub struct Share {
    pub(crate) of: String,
    pub(crate) by: String,
    weights: Option<Weights>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Weights {
    by: String,
    named: Vec<(String, u32)>,
    otherwise: u32,
}

impl Share {
    /// The heaviest a tenant can be.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy, PolicyProblem, Share};
    /// let share = Share::of("total", "tenant").weights("plan", [("gold", Share::WEIGHT_MAX + 1)], 1);
    /// let built = Engine::builder()
    ///     .policy("total", Policy::all().limit_by("", "global", "100/s"))
    ///     .policy("api", Policy::share(share))
    ///     .build();
    /// let heavy = PolicyProblem::ShareWeight { of: "gold".into(), weight: 1001 };
    /// assert_eq!(built.err().map(|error| error.problem), Some(heavy));
    /// ```
    pub const WEIGHT_MAX: u32 = 1_000;

    /// Shares the limit of the policy `of` among tenants, which the identifier called `by` tells apart. All count the same.
    /// A caller that gives one identifier without a name gives that one.
    pub fn of(of: impl Into<String>, by: impl Into<String>) -> Self {
        Self { of: of.into(), by: by.into(), weights: None }
    }

    /// Lets tenants count differently: by the value of the identifier called `by`, which the caller gives beside the tenant,
    /// such as its plan. For other values, and without one, `otherwise`. The weight of its latest request is a tenant's.
    pub fn weights<N: Into<String>>(
        mut self,
        by: impl Into<String>,
        named: impl IntoIterator<Item = (N, u32)>,
        otherwise: u32,
    ) -> Self {
        let named = named.into_iter().map(|(value, weight)| (value.into(), weight)).collect();
        self.weights = Some(Weights { by: by.into(), named, otherwise });
        self
    }

    /// The policy whose limit is shared.
    ///
    /// ```
    /// # use tidegate::Share;
    /// let share = Share::of("total", "tenant");
    /// assert_eq!((share.shared(), share.by()), ("total", "tenant"));
    /// ```
    pub fn shared(&self) -> &str {
        &self.of
    }

    /// The identifier that tells tenants apart.
    ///
    /// ```
    /// # use tidegate::Share;
    /// assert_eq!(Share::of("total", "tenant").by(), "tenant");
    /// ```
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The identifier that a weight is chosen by, if one is.
    ///
    /// ```
    /// # use tidegate::Share;
    /// assert_eq!(Share::of("total", "tenant").weighed_by(), None);
    /// let share = Share::of("total", "tenant").weights("plan", [("gold", 4)], 1);
    /// assert_eq!(share.weighed_by(), Some("plan"));
    /// ```
    pub fn weighed_by(&self) -> Option<&str> {
        self.weights.as_ref().map(|weights| weights.by.as_str())
    }

    /// The weight for a value of that identifier.
    pub(crate) fn weight(&self, value: Option<&[u8]>) -> u32 {
        let Some(Weights { named, otherwise, .. }) = &self.weights else { return 1 };
        let found = named.iter().find(|(name, _)| Some(name.as_bytes()) == value);
        found.map_or(*otherwise, |(_, weight)| *weight)
    }

    /// The weight of all who have no entry of their own.
    pub(crate) fn rest_weight(&self) -> u32 {
        self.weight(None)
    }

    /// The shared limit, and that of each tenant: as much, in finer units, of which it gets a part while tenants contend. A
    /// tenant is the same in all policies that share the limit.
    pub(super) fn members(
        &self,
        shared: Option<&Compiled>,
    ) -> Result<Vec<(Scope, Member)>, PolicyProblem> {
        let of = || self.of.clone();
        let shared = shared.ok_or_else(|| PolicyProblem::ShareOfUnknown(of()))?;
        if shared.purpose != PolicyKind::Limits {
            return Err(PolicyProblem::ShareOfWhole(of()));
        }
        let [(scope, member)] = shared.members() else {
            return Err(PolicyProblem::ShareOfMany(of()));
        };
        if member.key.as_deref() != Some(GLOBAL) {
            return Err(PolicyProblem::ShareOfMany(of()));
        }
        if !member.limit.follows_load() {
            return Err(PolicyProblem::ShareOfWhole(of()));
        }
        if shared.options.lease {
            return Err(PolicyProblem::LeaseOfShare);
        }
        let shared_name = if member.name.is_empty() { of() } else { member.name.clone() };
        let shared = Member { name: shared_name, ..member.clone() };
        // By the name of the only limit there is: no other scope is called so.
        let own_scope = format!("{}/tenants", member.name);
        let own_scope = Scope::tagged(scope.tag().unwrap_or(&self.of), &self.of, &own_scope);
        let own = Member {
            name: String::new(),
            key: Some(self.by.clone()),
            limit: member.limit.finer(),
            cost: member.cost,
            effective: None,
        };
        let own_scope = own_scope.in_quorum(scope.is_in_quorum()).costing(member.cost);
        Ok(vec![(scope.clone(), shared), (own_scope, own)])
    }

    pub(crate) fn check(&self) -> Result<(), PolicyProblem> {
        if self.by.is_empty() {
            return Err(PolicyProblem::ShareByNothing);
        }
        if self.by == GLOBAL {
            return Err(PolicyProblem::ShareByGlobal);
        }
        let Some(Weights { named, otherwise, .. }) = &self.weights else { return Ok(()) };
        if named.is_empty() || named.len() > NAMED_MAX {
            return Err(PolicyProblem::ShareWeights(named.len()));
        }
        let all = named.iter().map(|(name, weight)| (name.as_str(), *weight));
        let is_bad = |(_, weight): &(&str, u32)| !(1..=Self::WEIGHT_MAX).contains(weight);
        match all.chain([("else", *otherwise)]).find(is_bad) {
            Some((of, weight)) => Err(PolicyProblem::ShareWeight { of: of.to_owned(), weight }),
            None => Ok(()),
        }
    }
}
