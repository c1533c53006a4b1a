//! Policies that share the limit of another: whether it can be shared, and who their tenants are.

use std::collections::{BTreeMap, BTreeSet};

use tidegate::{Engine, Policy, PolicyProblem};
use tidegate_request::{Choice, KeyParts, TenantKey};

use super::map_policies;
use super::node::Cursor;
use super::policy;
use super::text::{self, OneOrMany, PolicyOptions, Weights};

/// The policies whose limits are shared.
pub(crate) fn shared(file: &text::File) -> BTreeSet<&str> {
    let shares = map_policies(file).filter_map(|(_, options)| options.share.as_ref());
    shares.map(|share| share.of.as_str()).collect()
}

/// Whether all shares go with the policies that they share.
pub(crate) fn check(file: &text::File, policies: &BTreeMap<String, Policy>, cursor: &Cursor<'_>) {
    for (name, options) in map_policies(file) {
        let (Some(share), Some(policy)) = (&options.share, policies.get(name)) else { continue };
        let cursor = cursor.field(name);
        let of_cursor = cursor.field("share").field("of");
        if !file.policies.contains_key(&share.of) {
            of_cursor.report(policy::unknown(&share.of, file, &of_cursor));
            continue;
        }
        // One that has problems has been reported.
        let Some(of) = policies.get(&share.of) else { continue };
        let mut engine = Engine::builder().policy(name, policy.clone());
        if share.of != *name {
            engine = engine.policy(&share.of, of.clone());
        }
        let problem = engine.build().err().filter(|error| error.policy == *name);
        match problem.map(|error| error.problem) {
            None => {}
            Some(PolicyProblem::LeaseOfShare) if options.lease == Some(true) => {
                cursor.field("lease").report(PolicyProblem::LeaseOfShare);
            }
            Some(
                problem @ (PolicyProblem::ShareWeights(_) | PolicyProblem::ShareWeight { .. }),
            ) => {
                cursor.field("share").field("weights").report(problem);
            }
            Some(problem @ (PolicyProblem::ShareByNothing | PolicyProblem::ShareByGlobal)) => {
                cursor.field("share").field("by").report(problem);
            }
            Some(problem) => of_cursor.report(problem),
        }
    }
}

/// What the tenants of requests are, by the policy's `key` or by the name that it has for them.
pub(crate) fn tenant_key(options: &PolicyOptions) -> Option<TenantKey> {
    let share = options.share.as_ref()?;
    let by_name = || KeyParts::read([share.by.as_str()]).ok();
    let tenant = match &options.key {
        Some(key) => KeyParts::read(key.as_slice().iter().map(String::as_str)).ok(),
        None => by_name(),
    };
    let choice = |Weights { by, named, .. }: &Weights| {
        let named = named.keys().map(|value| (value.clone(), value.clone()));
        Some((by.clone(), Choice::by(by, named, String::new()).ok()?))
    };
    let weight = share.weights.as_ref().and_then(choice);
    Some(TenantKey { by: share.by.clone(), tenant: tenant.unwrap_or_default(), weight })
}

/// What decides the weights of tenants.
pub(crate) fn weights_by(options: &PolicyOptions) -> Option<&str> {
    let share = options.share.as_ref()?;
    share.weights.as_ref().map(|weights| weights.by.as_str())
}

/// Why a route that has this key, or none, cannot ask a share.
pub(crate) fn route_problem(options: &PolicyOptions, key: Option<&OneOrMany>) -> Option<String> {
    let share = options.share.as_ref()?;
    let has_tenant = key.or(options.key.as_ref()).is_some();
    if !has_tenant && KeyParts::read([share.by.as_str()]).is_err() {
        return Some(format!(
            "shares by `{}`, which is no key part of a request: give it a `key` like header:x-tenant",
            share.by
        ));
    }
    let Weights { by, named, .. } = share.weights.as_ref()?;
    let named = named.keys().map(|value| (value.clone(), ()));
    Choice::by(by, named, ()).err().map(|why| format!("has weights by a plan: {why}"))
}
