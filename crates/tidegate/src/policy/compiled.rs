//! A policy that has been checked: what an engine asks with it, and what it answers when the store does not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_core::{EXACT_MAX, LeakyBucket, Limit, LimitError, Mode};

use super::{
    Kind, Member, OnStoreError, Override, OverrideInForce, Percent, Policy, PolicyKind,
    PolicyOptions, PolicyProblem, on_several_identifiers,
};
use crate::clock::Clock;
use crate::engine::{BindingLimit, CheckError, GLOBAL, Key, OverrideError, OwnLimits, Shares};
use crate::overrides::{Overrides, RunTimeTable, TimedOverride};
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
    /// Keys' own limits in place of one of several, in the order of the limits; none for a policy of one limit.
    pub(crate) by_limit: Box<[LimitOverrides]>,
    /// Whether there is any of these: most checks look no further.
    pub(crate) any_by_limit: AtomicBool,
    pub(crate) options: PolicyOptions,
    /// Its tenants, if it is a share.
    pub(crate) share: Option<Shares>,
    /// Whether tenants share its limit through other policies.
    pub(crate) is_shared: bool,
    /// Whether every check is decided by the limits as declared, for every caller: most checks look no further.
    pub(crate) is_plain: AtomicBool,
}

/// What a policy has got at run time.
#[derive(Debug, Default)]
pub(crate) struct PolicyOverrides {
    pub(crate) whole: Overrides<TimedOverride>,
    pub(crate) by_limit: BTreeMap<String, Overrides<TimedOverride>>,
}

/// What single keys have in place of one limit.
#[derive(Debug, Default)]
pub(crate) struct LimitOverrides {
    declared: Overrides<Override>,
    pub(crate) at_run_time: RunTimeTable,
}

#[derive(Debug)]
pub(crate) enum CompiledKind {
    Limits {
        mode: Mode,
        members: Vec<(Scope, Member)>,
        /// Whether one of them is.
        adaptive: bool,
        /// The highest cost that each of them can be multiplied by; `None` where none is multiplied.
        cost_max: Option<u64>,
        /// What a reset clears, where that is not all: limits of a key beside those of everybody. Empty otherwise.
        own: Vec<(Scope, Member)>,
    },
    Shaper(Scope, LeakyBucket),
}

impl Policy {
    /// Checks the policy as a whole, under its name. A share needs the policy that it shares, if that is there.
    pub(crate) fn compile(
        self,
        policy: &str,
        shared: Option<&Compiled>,
    ) -> Result<Compiled, PolicyProblem> {
        let mut options = self.options;
        let in_quorum = options.quorum;
        let (mut share, mut by_limit) = (None, Box::default());
        let is_limit = |instead: &Override| matches!(instead, Override::Limit(_));
        let kind = match self.kind? {
            Kind::Shaper(limit) => {
                if self.overrides.values().any(is_limit) || !self.by_limit.is_empty() {
                    return Err(PolicyProblem::OverrideOfMany);
                }
                CompiledKind::Shaper(Scope::named(policy, "").in_quorum(in_quorum), limit)
            }
            Kind::Limits { mode, members } => {
                if self.is_shared
                    && (self.overrides.values().any(is_limit) || !self.by_limit.is_empty())
                {
                    return Err(PolicyProblem::OverrideOfShared);
                }
                check_members(&members, &self.overrides)?;
                by_limit = by_name(self.by_limit, &members)?;
                // Limits on different identifiers have to be kept together.
                let together = on_several_identifiers(&members);
                let scope = |limit: &str| match &self.tag {
                    Some(tag) => Scope::tagged(tag, policy, limit),
                    None if together => Scope::together(policy, limit),
                    None => Scope::named(policy, limit),
                };
                let scoped = |member: Member| {
                    let scope = scope(&member.name).in_quorum(in_quorum).costing(member.cost);
                    (scope, member)
                };
                let adaptive = members.iter().any(|member| member.effective.is_some());
                let cost_max = cost_max(&members);
                let members: Vec<_> = members.into_iter().map(scoped).collect();
                let own = own_members(&members);
                CompiledKind::Limits { mode, members, adaptive, cost_max, own }
            }
            Kind::Share(of) => {
                if self.overrides.values().any(is_limit) || !self.by_limit.is_empty() {
                    return Err(PolicyProblem::OverrideOfTenant);
                }
                if self.tag.is_some() {
                    return Err(PolicyProblem::TagOfShare);
                }
                let members = of.members(shared)?;
                let is_in_quorum = members[0].0.is_in_quorum();
                if options.quorum && !is_in_quorum {
                    return Err(PolicyProblem::QuorumOfShare);
                }
                options.quorum = is_in_quorum;
                let of_shared = shared.and_then(|shared| shared.options.on_store_error);
                options.on_store_error = options.on_store_error.or(of_shared);
                let cost_max = cost_max(members.iter().map(|(_, member)| member));
                share = Some(Shares::new(of, &members[0].1.limit));
                let mut own = own_members(&members);
                // Nothing is left of its part: what is told is the whole.
                for (_, own) in &mut own {
                    own.limit = members[0].1.limit.clone();
                }
                CompiledKind::Limits { mode: Mode::All, members, adaptive: false, cost_max, own }
            }
        };
        if options.lease && share.is_some() {
            return Err(PolicyProblem::LeaseOfShare);
        }
        if options.lease {
            check_lease(&kind)?;
        }
        if options.enforce.is_some()
            && let CompiledKind::Limits { members, .. } = &kind
            && members.iter().all(|(_, member)| member.key.as_deref() == Some(GLOBAL))
        {
            return Err(PolicyProblem::EnforceOfGlobal);
        }
        let has_concurrency = |(_, member): &(_, Member)| member.limit.grants_permits();
        let purpose = match &kind {
            CompiledKind::Shaper(..) => PolicyKind::Shaper,
            CompiledKind::Limits { members, .. } if members.iter().any(has_concurrency) => {
                PolicyKind::Concurrency
            }
            CompiledKind::Limits { .. } => PolicyKind::Limits,
        };
        let compiled = Compiled {
            name: policy.into(),
            index: 0,
            purpose,
            kind,
            overrides: self.overrides,
            at_run_time: RunTimeTable::default(),
            any_by_limit: AtomicBool::new(by_limit.iter().any(|it| !it.is_empty())),
            by_limit,
            options,
            share,
            is_shared: self.is_shared,
            is_plain: AtomicBool::new(false),
        };
        compiled.find_whether_plain();
        Ok(compiled)
    }
}

/// The limits of a key, where there are limits of everybody beside them.
fn own_members(members: &[(Scope, Member)]) -> Vec<(Scope, Member)> {
    let is_own = |(_, member): &&(Scope, Member)| member.key.as_deref() != Some(GLOBAL);
    let own: Vec<_> = members.iter().filter(is_own).cloned().collect();
    if own.len() < members.len() { own } else { Vec::new() }
}

/// The highest cost whose products with the limits' own costs are exact; `None` if all of these are 1.
fn cost_max<'m>(members: impl IntoIterator<Item = &'m Member>) -> Option<u64> {
    let factor = members.into_iter().map(|member| member.cost.get()).max();
    factor.filter(|factor| *factor > 1).map(|factor| EXACT_MAX / factor)
}

impl Compiled {
    /// The error of a reply about a limit that it does not have.
    #[cold]
    pub(crate) fn unknown(&self) -> CheckError {
        CheckError::UnknownPolicy(self.name())
    }

    /// Its name, for an error.
    pub(crate) fn name(&self) -> String {
        self.name.clone().into()
    }

    /// The override of a key, if it has one; those of run time come first. Of several identifiers those count that the
    /// limits count: one blocked identifier blocks, and all have to be allowed, because a client may choose one of them.
    /// The one that all callers share nobody can choose: it counts only where there is no other.
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
                let is_of_all = |member: &Member| member.key.as_deref() == Some(GLOBAL);
                let none_is_chosen = several.iter().all(|(_, member)| is_of_all(member));
                let mut all_allowed = true;
                for member in several {
                    match find_member(member) {
                        Some(OverrideInForce::Block) => return Some(OverrideInForce::Block),
                        Some(OverrideInForce::Allow) => {}
                        Some(OverrideInForce::Limit(_)) | None => {
                            all_allowed &= is_of_all(&member.1) && !none_is_chosen;
                        }
                    }
                }
                all_allowed.then_some(OverrideInForce::Allow)
            }
        }
    }

    /// The keys' own limits of a question: in place of the only limit, which an override of the policy may be, or of each.
    pub(crate) fn own_limits<'a>(
        &'a self,
        key: Key<'_>,
        only: Option<BindingLimit<'a>>,
        clock: &impl Clock,
    ) -> OwnLimits<'a> {
        if let Some(only) = only {
            return OwnLimits::Only(only);
        }
        if !self.any_by_limit.load(Relaxed) {
            return OwnLimits::None;
        }
        let own = |(by_key, (_, member)): (&'a LimitOverrides, &(_, Member))| {
            by_key.get(key.get(member.key.as_deref())?, clock)
        };
        OwnLimits::Each(self.by_limit.iter().zip(self.members()).map(own).collect())
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

    /// The same in place of the limit of this name.
    pub(crate) fn read_limit_override(
        &self,
        name: &str,
        text: &str,
    ) -> Result<Override, OverrideError> {
        if self.share.is_some() {
            return Err(OverrideError::DoesNotFit(PolicyProblem::OverrideOfTenant));
        }
        let found = self.members().iter().find(|(_, member)| member.name == name);
        let unknown = || OverrideError::DoesNotFit(PolicyProblem::NoSuchLimit(name.to_owned()));
        let limit = found.ok_or_else(unknown)?.1.limit.with_numbers(text);
        let limit = limit.map_err(OverrideError::BadLimit)?;
        let own = Override::OneLimit { name: name.to_owned(), limit };
        self.fits(&own).map_err(OverrideError::DoesNotFit)?;
        Ok(own)
    }

    /// Replaces the overrides of run time: of the whole policy, and of its limits by name.
    pub(crate) fn replace_overrides(&self, mut all: PolicyOverrides) {
        self.at_run_time.replace(all.whole);
        for (by_key, (_, member)) in self.by_limit.iter().zip(self.members()) {
            by_key.at_run_time.replace(all.by_limit.remove(&member.name).unwrap_or_default());
        }
        self.any_by_limit.store(self.by_limit.iter().any(|it| !it.is_empty()), Relaxed);
        self.find_whether_plain();
    }

    fn find_whether_plain(&self) {
        let Self { kind, overrides, at_run_time, any_by_limit, options, share, .. } = self;
        let has_overrides =
            !overrides.is_empty() || !at_run_time.is_empty() || any_by_limit.load(Relaxed);
        let is_for_all = !options.shadow && options.enforce.is_none();
        let is_fixed = matches!(kind, CompiledKind::Limits { adaptive: false, cost_max: None, .. });
        let is_plain = is_fixed && is_for_all && share.is_none() && !has_overrides;
        self.is_plain.store(is_plain, Relaxed);
    }

    /// The limits as declared, where nothing else decides a check.
    #[inline]
    pub(crate) fn plain_limits(&self) -> Option<(Mode, &[(Scope, Member)])> {
        match &self.kind {
            CompiledKind::Limits { mode, members, .. } if self.is_plain.load(Relaxed) => {
                Some((*mode, members))
            }
            _ => None,
        }
    }

    /// Whether a key can get this instead of the policy.
    pub(crate) fn fits(&self, own: &Override) -> Result<(), PolicyProblem> {
        match (&self.kind, own) {
            (_, Override::Allow | Override::Block) => Ok(()),
            _ if self.share.is_some() => Err(PolicyProblem::OverrideOfTenant),
            _ if self.is_shared => Err(PolicyProblem::OverrideOfShared),
            (CompiledKind::Shaper(..), Override::Limit(_) | Override::OneLimit { .. }) => {
                Err(PolicyProblem::OverrideOfMany)
            }
            (CompiledKind::Limits { members, .. }, Override::OneLimit { name, limit }) => {
                let mut members = members.iter().map(|(_, member)| member);
                let found = members.find(|member| member.name == *name);
                let found = found.ok_or_else(|| PolicyProblem::NoSuchLimit(name.clone()))?;
                check_own(std::iter::once(found), limit)
            }
            (CompiledKind::Limits { members, .. }, Override::Limit(own)) => {
                check_own(members.iter().map(|(_, member)| member), own)
            }
        }
    }

    /// Whether each limit can be charged its multiple of this cost, exactly on every store.
    pub(crate) fn check_cost(&self, cost: u64) -> Result<(), CheckError> {
        match &self.kind {
            CompiledKind::Limits { cost_max: Some(cost_max), .. } if cost > *cost_max => {
                Err(CheckError::CostTooHigh { policy: self.name(), cost, cost_max: *cost_max })
            }
            _ => Ok(()),
        }
    }

    /// Whether this caller is never refused. Of several identifiers the one counts that the first limit counts, other than
    /// the one that all callers share.
    #[inline]
    pub(crate) fn is_shadow_for(&self, key: Key<'_>) -> bool {
        let is_left_out = |part: Percent| {
            let mut names = self.members().iter().map(|(_, member)| member.key.as_deref());
            let identifier = key.find(self, names.find(|name| *name != Some(GLOBAL)).flatten());
            identifier.is_ok_and(|identifier| !part.includes(&self.name, identifier))
        };
        self.options.shadow || self.options.enforce.is_some_and(is_left_out)
    }

    /// What it answers while the store fails. A share does as the policy that it shares, unless it has an own answer: else
    /// it would let pass what that one refuses.
    pub(crate) fn on_store_error(&self) -> OnStoreError {
        self.options.on_store_error.unwrap_or_default()
    }

    /// What to answer to a failure. Replicas that confirm nothing are one only where the policy denies then.
    pub(crate) fn on_failure(&self, error: &StoreError) -> OnStoreError {
        match (error.kind(), self.on_store_error()) {
            (StoreErrorKind::Unreplicated, OnStoreError::Allow | OnStoreError::Local) => {
                OnStoreError::DENY
            }
            (_, on_store_error) => on_store_error,
        }
    }

    /// What a reset clears, where that is not all.
    pub(crate) fn own_members(&self) -> Option<&[(Scope, Member)]> {
        match &self.kind {
            CompiledKind::Limits { own, .. } if !own.is_empty() => Some(own),
            _ => None,
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
        check_cost(member, &member.limit)?;
    }
    overrides.values().try_for_each(|own| match own {
        Override::Limit(own) => check_own(members.iter(), own),
        Override::Allow | Override::Block | Override::OneLimit { .. } => Ok(()),
    })
}

impl LimitOverrides {
    fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.at_run_time.is_empty()
    }

    fn get(&self, key: &[u8], clock: &impl Clock) -> Option<BindingLimit<'_>> {
        let declared = || self.declared.get(key).map(OverrideInForce::from);
        match self.at_run_time.get(key, clock).or_else(declared)? {
            OverrideInForce::Limit(limit) => Some(limit),
            OverrideInForce::Allow | OverrideInForce::Block => None,
        }
    }
}

/// The overrides of single limits, in the order of the limits.
fn by_name(
    mut by_limit: BTreeMap<String, Overrides<Override>>,
    members: &[Member],
) -> Result<Box<[LimitOverrides]>, PolicyProblem> {
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        let declared = by_limit.remove(&member.name).unwrap_or_default();
        for own in declared.values() {
            if let Override::OneLimit { limit, .. } = own {
                check_own(std::iter::once(member), limit)?;
            }
        }
        found.push(LimitOverrides { declared, ..LimitOverrides::default() });
    }
    match by_limit.into_keys().next() {
        Some(unknown) => Err(PolicyProblem::NoSuchLimit(unknown)),
        None => Ok(found.into()),
    }
}

/// Whether a limit can stand for those of a policy.
fn check_own<'a>(
    mut members: impl ExactSizeIterator<Item = &'a Member>,
    own: &Limit,
) -> Result<(), PolicyProblem> {
    let several = members.len() > 1;
    let Some(member) = members.next() else { return Ok(()) };
    if member.limit.grants_permits() != own.grants_permits() {
        return Err(PolicyProblem::OverrideOfAnotherKind);
    }
    if several { Err(PolicyProblem::OverrideOfMany) } else { check_cost(member, own) }
}

/// Whether a limit, the member's or one in its place, can ever admit a check.
fn check_cost(member: &Member, limit: &Limit) -> Result<(), PolicyProblem> {
    let (cost, ceiling) = (member.cost.get(), limit.ceiling());
    if cost == 1 || cost <= ceiling {
        return Ok(());
    }
    Err(PolicyProblem::CostAboveLimit { limit: member.name.clone(), cost, ceiling })
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
