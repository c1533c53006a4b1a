//! A policy that has been checked: what an engine asks with it, and what it answers when the store does not.

use tidegate_core::{Decision, LeakyBucket, Limit, LimitError, Mode};

use super::{
    Kind, Member, OnStoreError, Override, OverrideInForce, Policy, PolicyKind, PolicyOptions,
    PolicyProblem, on_several_identifiers,
};
use crate::clock::Clock;
use crate::engine::Key;
use crate::overrides::{Overrides, RunTimeTable};
use crate::store::{Scope, StoreError, StoreErrorKind, StoreRequest};

/// A policy that has been checked, with the scopes of its limits.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) name: Box<str>,
    /// Its index among the policies of its engine.
    pub(crate) index: usize,
    pub(crate) purpose: PolicyKind,
    pub(crate) kind: CompiledKind,
    pub(crate) overrides: Overrides<Override>,
    pub(crate) at_run_time: RunTimeTable,
    pub(crate) options: PolicyOptions,
}

#[derive(Debug)]
pub(crate) enum CompiledKind {
    Limits {
        mode: Mode,
        members: Vec<(Scope, Member)>,
        /// Whether one of them is.
        adaptive: bool,
    },
    Shaper(Scope, LeakyBucket),
}

impl Policy {
    /// Checks the policy as a whole, under its name.
    pub(crate) fn compile(self, policy: &str) -> Result<Compiled, PolicyProblem> {
        let in_quorum = self.options.quorum;
        let kind = match self.kind? {
            Kind::Shaper(limit) => {
                if self.overrides.values().any(|instead| matches!(instead, Override::Limit(_))) {
                    return Err(PolicyProblem::OverrideOfMany);
                }
                CompiledKind::Shaper(Scope::named(policy, "").in_quorum(in_quorum), limit)
            }
            Kind::Limits { mode, members } => {
                check_members(&members, &self.overrides)?;
                // Limits on different identifiers have to be kept together.
                let together = on_several_identifiers(&members);
                let scope = |limit: &str| match &self.tag {
                    Some(tag) => Scope::tagged(tag, policy, limit),
                    None if together => Scope::together(policy, limit),
                    None => Scope::named(policy, limit),
                };
                let scoped = |member: Member| (scope(&member.name).in_quorum(in_quorum), member);
                let adaptive = members.iter().any(|member| member.effective.is_some());
                let members = members.into_iter().map(scoped).collect();
                CompiledKind::Limits { mode, members, adaptive }
            }
        };
        if self.options.lease {
            check_lease(&kind)?;
        }
        let has_concurrency = |(_, member): &(_, Member)| member.limit.grants_permits();
        let purpose = match &kind {
            CompiledKind::Shaper(..) => PolicyKind::Shaper,
            CompiledKind::Limits { members, .. } if members.iter().any(has_concurrency) => {
                PolicyKind::Concurrency
            }
            CompiledKind::Limits { .. } => PolicyKind::Limits,
        };
        Ok(Compiled {
            name: policy.into(),
            index: 0,
            purpose,
            kind,
            overrides: self.overrides,
            at_run_time: RunTimeTable::default(),
            options: self.options,
        })
    }
}

impl Compiled {
    /// Its name, for an error.
    pub(crate) fn name(&self) -> String {
        self.name.clone().into()
    }

    /// The override of a key, if it has one; those of run time come first. Of several identifiers those count that the
    /// limits count: one blocked identifier blocks, and all have to be allowed, because a client may choose one of them.
    pub(crate) fn override_for(
        &self,
        key: Key<'_>,
        clock: &impl Clock,
    ) -> Option<OverrideInForce<'_>> {
        let find = |identifier: &[u8]| {
            let at_run_time = self.at_run_time.get(identifier, clock);
            at_run_time.or_else(|| self.overrides.get(identifier).map(OverrideInForce::from))
        };
        if let Key::One(only) = key {
            return find(only);
        }
        let find_member = |(_, member): &(_, Member)| key.get(member.key.as_deref()).and_then(find);
        match self.members() {
            [] => key.get(None).and_then(find), // a shaper
            [only] => find_member(only),
            several => {
                let mut all_allowed = true;
                for member in several {
                    match find_member(member) {
                        Some(OverrideInForce::Block) => return Some(OverrideInForce::Block),
                        Some(OverrideInForce::Allow) => {}
                        Some(OverrideInForce::Limit(_)) | None => all_allowed = false,
                    }
                }
                all_allowed.then_some(OverrideInForce::Allow)
            }
        }
    }

    /// What a text gives a key instead of the policy: `allow`, `block`, or a limit that counts as the policy's own does,
    /// unless it says otherwise.
    pub(crate) fn read_override(&self, text: &str) -> Result<Override, LimitError> {
        match (text, self.members()) {
            ("allow" | "block", _) => text.parse(),
            (numbers, [(_, only)]) => only.limit.with_numbers(numbers).map(Override::Limit),
            (limit, _) => limit.parse().map(Override::Limit),
        }
    }

    /// Whether a key can get this instead of the policy.
    pub(crate) fn fits(&self, own: &Override) -> Result<(), PolicyProblem> {
        match (&self.kind, own) {
            (_, Override::Allow | Override::Block) => Ok(()),
            (CompiledKind::Shaper(..), Override::Limit(_)) => Err(PolicyProblem::OverrideOfMany),
            (CompiledKind::Limits { members, .. }, Override::Limit(own)) => {
                check_own(members.iter().map(|(_, member)| member), own)
            }
        }
    }

    /// A decision as callers get it, and whether it was allowed only because nobody is refused.
    pub(crate) const fn shadowed(&self, decision: Decision) -> (Decision, bool) {
        if self.options.shadow && !decision.allowed() {
            (decision.in_shadow(), true)
        } else {
            (decision, false)
        }
    }

    /// What to answer to a failure. Replicas that confirm nothing are one only where the policy denies then.
    pub(crate) fn on_failure(&self, error: &StoreError) -> OnStoreError {
        match (error.kind(), self.options.on_store_error) {
            (StoreErrorKind::Unreplicated, OnStoreError::Allow | OnStoreError::Local) => {
                OnStoreError::DENY
            }
            (_, on_store_error) => on_store_error,
        }
    }

    /// The limits of the policy; none for a shaper.
    pub(crate) fn members(&self) -> &[(Scope, Member)] {
        match &self.kind {
            CompiledKind::Limits { members, .. } => members,
            CompiledKind::Shaper(..) => &[],
        }
    }
}

fn check_members(members: &[Member], overrides: &Overrides<Override>) -> Result<(), PolicyProblem> {
    if members.is_empty() {
        return Err(PolicyProblem::NoLimit);
    }
    if members.len() > StoreRequest::MAX_LIMITS {
        return Err(PolicyProblem::TooManyLimits(members.len()));
    }
    for (index, member) in members.iter().enumerate() {
        if members[..index].iter().any(|earlier| earlier.name == member.name) {
            return Err(PolicyProblem::SameName(member.name.clone()));
        }
    }
    overrides.values().try_for_each(|own| match own {
        Override::Limit(own) => check_own(members.iter(), own),
        Override::Allow | Override::Block => Ok(()),
    })
}

/// Whether a limit can stand for those of a policy.
fn check_own<'a>(
    mut members: impl ExactSizeIterator<Item = &'a Member>,
    own: &Limit,
) -> Result<(), PolicyProblem> {
    let several = members.len() > 1;
    let differs = |member: &Member| member.limit.grants_permits() != own.grants_permits();
    if members.next().is_some_and(differs) {
        return Err(PolicyProblem::OverrideOfAnotherKind);
    }
    if several { Err(PolicyProblem::OverrideOfMany) } else { Ok(()) }
}

/// What can never be lent. A burst that is too small only runs without leases: see [`PolicyView::lease_problem`].
///
/// [`PolicyView::lease_problem`]: crate::PolicyView::lease_problem
fn check_lease(kind: &CompiledKind) -> Result<(), PolicyProblem> {
    match kind {
        CompiledKind::Shaper(..) => Err(PolicyProblem::LeaseOfShaper),
        CompiledKind::Limits { mode: Mode::Any, .. } => Err(PolicyProblem::LeaseOfAny),
        CompiledKind::Limits { members, .. } => {
            let lent = !members.iter().any(|(_, member)| member.limit.grants_permits());
            lent.then_some(()).ok_or(PolicyProblem::LeaseOfConcurrency)
        }
    }
}
