//! Policies that reloads have removed: a caller who still asks for one learns that, and when.

use std::collections::BTreeMap;

use tidegate::{Engine, Timestamp};

use super::{InForce, Names};

/// The most that are remembered; more are as unknown as any other name.
const REMOVED_MAX: usize = 1000;

/// By name, and when the reload that removed it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct RemovedPolicies(BTreeMap<Box<str>, Timestamp>);

impl RemovedPolicies {
    /// What is removed once `next` is in force instead of `before`.
    pub(super) fn after(before: Option<&InForce>, next: &Engine, now: Timestamp) -> Self {
        let Some(before) = before else { return Self::default() };
        let is_gone = |name: &str| next.policy_ref(name).is_err();
        let long_gone = before.removed.0.iter().map(|(name, at)| (name.clone(), *at));
        let just_gone = before.policies().map(|policy| (Box::from(policy.name()), now));
        let gone = just_gone.chain(long_gone).filter(|(name, _)| is_gone(name));
        Self(gone.take(REMOVED_MAX).collect())
    }

    /// Those that were there `before`.
    pub(super) fn names_since(&self, before: Option<&InForce>) -> Names {
        let mut names = Names::default();
        for policy in before.iter().flat_map(|before| before.policies()) {
            if self.0.contains_key(policy.name()) {
                names.add(policy.name());
            }
        }
        names
    }

    pub(super) fn removed_at(&self, name: &str) -> Option<Timestamp> {
        self.0.get(name).copied()
    }
}
