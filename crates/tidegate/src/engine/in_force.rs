//! The limits of a question as they hold now: declared, the key's own, or what is in force of either.

use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::Limit;

use super::decide::Limits;
use super::{BindingLimit, Key};
use crate::policy::Member;
use crate::store::Scope;

/// The limits that a key has instead of those of the policy.
#[derive(Clone)]
pub(crate) enum OwnLimits<'e> {
    /// None.
    None,
    /// Instead of the policy's only limit.
    Only(BindingLimit<'e>),
    /// Instead of some of several.
    Each(Box<[Option<BindingLimit<'e>>]>),
}

impl<'e> OwnLimits<'e> {
    pub(super) fn get(&self, index: usize) -> Option<&BindingLimit<'e>> {
        match self {
            Self::None => None,
            Self::Only(limit) => Some(limit),
            Self::Each(limits) => limits.get(index)?.as_ref(),
        }
    }
}

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

#[derive(Clone, Debug)]
pub(crate) struct ReducedLimit {
    /// Of those that the policy declares.
    units: u64,
    limit: Arc<Limit>,
}

impl ReducedLimit {
    /// So many units of a member's limit; `None` for all of them.
    pub(super) fn of(member: &Member, units: u64) -> Option<Self> {
        Self::in_place_of(&member.limit, member, units)
    }

    /// As much of a limit that stands in for the member's.
    fn in_place_of(whole: &Limit, member: &Member, units: u64) -> Option<Self> {
        (units < member.limit.units())
            .then(|| Self { units, limit: Arc::new(reduce(whole, units, member)) })
    }

    /// All of a member's limit.
    pub(super) fn whole(member: &Member) -> Self {
        Self { units: member.limit.units(), limit: Arc::new(member.limit.clone()) }
    }

    pub(super) fn limit(&self) -> &Arc<Limit> {
        &self.limit
    }

    /// The same with at most so much at once.
    pub(super) fn with_burst(self, burst: u64) -> Self {
        Self { limit: Arc::new(self.limit.with_burst(burst)), ..self }
    }

    /// The same with room for so much at once, where the whole limit has it.
    pub(super) fn with_room(self, member: &Member, cost: u64) -> Self {
        if cost <= self.limit.ceiling() {
            return self;
        }
        let limit = member.limit.effective_part(self.units, member.limit.units(), cost);
        Self { limit: Arc::new(limit.with_burst(cost)), ..self }
    }
}

/// As much of a limit as `units` are of the member's. However few these are, a check fits in: otherwise all would be refused
/// for as long as little is in force.
pub(super) fn reduce(whole: &Limit, units: u64, member: &Member) -> Limit {
    whole.effective_part(units, member.limit.units(), member.cost.get())
}

impl InForce {
    /// `own` replaces limits of the policy. Costs nothing where no limit is adaptive.
    #[inline]
    pub(super) fn find(
        adaptive: bool,
        members: &[(Scope, Member)],
        key: Key<'_>,
        own: &OwnLimits<'_>,
    ) -> Self {
        if adaptive { Self::find_adaptive(members, key, own) } else { Self::Whole }
    }

    fn find_adaptive(members: &[(Scope, Member)], key: Key<'_>, own: &OwnLimits<'_>) -> Self {
        let part = |(index, (_, member)): (usize, &(Scope, Member))| {
            let units = member.effective.as_ref()?.in_force(key.get(member.key.as_deref()))?;
            let whole = own.get(index).map_or(&member.limit, |own| own);
            ReducedLimit::in_place_of(whole, member, units)
        };
        if let [only] = members {
            return part((0, only)).map_or(Self::Whole, Self::Only);
        }
        let parts: Box<[_]> = members.iter().enumerate().map(part).collect();
        if parts.iter().all(Option::is_none) { Self::Whole } else { Self::Some(parts) }
    }

    /// Part of one limit, where it is adaptive and not all of it is in force.
    pub(super) fn part_of(member: &Member, key: Key<'_>) -> Option<ReducedLimit> {
        let units = member.effective.as_ref()?.in_force(key.get(member.key.as_deref()))?;
        ReducedLimit::of(member, units)
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
    #[inline]
    pub(super) fn limit_of(&self, index: usize) -> &Limit {
        self.in_force.part(index).map_or_else(|| self.whole(index), |part| &part.limit)
    }

    /// The same, for as long as an answer may live.
    #[inline]
    pub(super) fn binding(&self, index: usize) -> BindingLimit<'e> {
        match (self.in_force.part(index), self.own.get(index)) {
            (Some(part), _) => BindingLimit::shared(part.limit.clone()),
            (None, Some(own)) => own.clone(),
            (None, None) => BindingLimit::of_policy(&self.members[index].1.limit),
        }
    }

    /// The part of a shared limit, if a tenant has only that.
    #[inline]
    pub(super) fn part(&self) -> Option<&Arc<Limit>> {
        self.tenant.as_ref()?.shown.as_ref()
    }

    /// What is in force of a member's limit, with room for so much at once.
    pub(super) fn in_force_with_room(&self, index: usize, cost: u64) -> Option<BindingLimit<'e>> {
        let part = self.in_force.part(index)?.clone();
        Some(BindingLimit::shared(part.with_room(&self.members[index].1, cost).limit))
    }

    /// What this node may grant of it by itself.
    pub(super) fn share_of(&self, index: usize, nodes: NonZeroU32) -> Limit {
        let share = self.whole(index).share_for(nodes, self.members[index].1.cost.get());
        match self.in_force.part(index) {
            // Shared first, so that it is the share's own debt that a fall of what is in force keeps.
            Some(part) => reduce(&share, part.units, &self.members[index].1),
            None => share,
        }
    }

    /// The key's own limit instead of this one, or what was declared.
    fn whole(&self, index: usize) -> &Limit {
        self.own.get(index).map_or(&self.members[index].1.limit, |own| own)
    }
}
