//! The limits of a question as they hold now: declared, the key's own, or what is in force of either.

use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::Limit;

use super::decide::Limits;
use super::{BindingLimit, Key};
use crate::policy::Member;
use crate::store::Scope;

/// What is in force of the limits of one question.
#[derive(Clone)]
pub(super) enum InForce {
    /// All of them, whole.
    Whole,
    /// Part of the policy's only limit.
    Only(ReducedLimit),
    /// Part of some of its limits.
    Some(Box<[Option<ReducedLimit>]>),
}

#[derive(Clone)]
pub(super) struct ReducedLimit {
    /// Of those that the policy declares.
    units: u64,
    limit: Arc<Limit>,
}

impl InForce {
    /// `own` replaces the only limit of the policy. Costs nothing where no limit is adaptive.
    #[inline]
    pub(super) fn find(
        adaptive: bool,
        members: &[(Scope, Member)],
        key: Key<'_>,
        own: Option<&Limit>,
    ) -> Self {
        if adaptive { Self::find_adaptive(members, key, own) } else { Self::Whole }
    }

    fn find_adaptive(members: &[(Scope, Member)], key: Key<'_>, own: Option<&Limit>) -> Self {
        let part = |(_, member): &(Scope, Member)| {
            let units = member.effective.as_ref()?.in_force(key.get(member.key.as_deref()))?;
            let declared = member.limit.units();
            let reduced = || own.unwrap_or(&member.limit).effective_part(units, declared);
            (units < declared).then(|| ReducedLimit { units, limit: Arc::new(reduced()) })
        };
        if let [only] = members {
            return part(only).map_or(Self::Whole, Self::Only);
        }
        let parts: Box<[_]> = members.iter().map(part).collect();
        if parts.iter().all(Option::is_none) { Self::Whole } else { Self::Some(parts) }
    }

    pub(super) const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    fn part(&self, index: usize) -> Option<&ReducedLimit> {
        match self {
            Self::Whole => None,
            Self::Only(part) => Some(part),
            Self::Some(parts) => parts.get(index)?.as_ref(),
        }
    }
}

impl<'e> Limits<'e> {
    /// The limit of a member as it holds for this question.
    pub(super) fn limit_of(&self, index: usize) -> &Limit {
        self.in_force.part(index).map_or_else(|| self.whole(index), |part| &part.limit)
    }

    /// The same, for as long as an answer may live.
    pub(super) fn binding(&self, index: usize) -> BindingLimit<'e> {
        match (self.in_force.part(index), &self.own) {
            (Some(part), _) => BindingLimit::shared(part.limit.clone()),
            (None, Some(own)) => own.clone(),
            (None, None) => BindingLimit::of_policy(&self.members[index].1.limit),
        }
    }

    /// What this node may grant of it by itself.
    pub(super) fn share_of(&self, index: usize, nodes: NonZeroU32) -> Limit {
        let share = self.whole(index).share(nodes);
        match self.in_force.part(index) {
            // Shared first, so that it is the share's own debt that a fall of what is in force keeps.
            Some(part) => share.effective_part(part.units, self.members[index].1.limit.units()),
            None => share,
        }
    }

    /// The key's own limit instead of the only one, or what was declared.
    fn whole(&self, index: usize) -> &Limit {
        self.own.as_deref().unwrap_or(&self.members[index].1.limit)
    }
}
