//! One question to the store and its answer. Where the store fails, `fallback` answers.

use std::sync::Arc;

use tidegate_core::{Decision, Limit, Mode, Timestamp};

use super::in_force::{InForce, OwnLimits};
use super::shares::{self, Tenant};
use super::{Answer, BindingLimit, CheckError, Engine, Key, Queued};
use crate::clock::Clock;
use crate::permit;
use crate::policy::{Compiled, CompiledKind, Member, OverrideInForce, PolicyKind};
use crate::reply::{Later, Reply};
use crate::store::owned::OwnedRequest;
use crate::store::{
    KeyedLimit, Op, ReserveReply, ReserveRequest, Scope, Source, Store, StoreError, StoreReply,
    StoreRequest, StoreResult,
};

/// An answer, and the permits that came with it.
pub(super) struct Decided<'e> {
    pub(super) answer: Answer<'e>,
    pub(super) permits: Vec<(usize, u64)>,
}

/// What a question comes to.
enum Asked<'e> {
    /// Limits that the store is asked about.
    Limits(Limits<'e>),
    /// An answer without any.
    Known(Answer<'e>),
}

/// The limits of one question.
#[derive(Clone)]
pub(super) struct Limits<'e> {
    pub(super) policy: &'e Compiled,
    pub(super) mode: Mode,
    pub(super) members: &'e [(Scope, Member)],
    /// What the key has instead.
    pub(super) own: OwnLimits<'e>,
    /// What of these is in force.
    pub(super) in_force: InForce,
    /// What is known of a tenant of a share.
    pub(super) tenant: Option<Box<Tenant>>,
    /// Whether its caller is never refused.
    pub(super) in_shadow: bool,
}

/// What a question is answered with: an answer, with the permits that came with it or without.
pub(super) trait FromReply<'e>: Send + Unpin {
    fn from_reply(answer: Answer<'e>, permits: Vec<(usize, u64)>) -> Self;
}

impl<'e> FromReply<'e> for Decided<'e> {
    fn from_reply(answer: Answer<'e>, permits: Vec<(usize, u64)>) -> Self {
        Self { answer, permits }
    }
}

impl<'e> FromReply<'e> for Answer<'e> {
    #[inline]
    fn from_reply(answer: Self, _: Vec<(usize, u64)>) -> Self {
        answer
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// Asks the store once, and makes an answer of its reply.
    #[inline]
    pub(super) fn decide<'e, T: FromReply<'e>>(
        &'e self,
        policy: &'e Compiled,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, T, CheckError> {
        match policy.plain_limits() {
            Some((mode, [only])) if op == Op::Take => {
                match key.find(policy, only.1.key.as_deref()) {
                    Ok(key) => self.take_one(policy, mode, only, key, cost),
                    Err(error) => Reply::failed(error),
                }
            }
            Some((mode, members)) if op != Op::Reset => {
                self.decide_limits(&Limits::declared(policy, mode, members), key, cost, op)
            }
            _ => self.decide_special(policy, key, cost, op),
        }
    }

    /// Most questions: to spend of one limit as it is declared. Nothing is copied that need not be: a copy of several words at
    /// once waits for the stores that have just written them one by one.
    #[inline]
    fn take_one<'e, T: FromReply<'e>>(
        &'e self,
        policy: &'e Compiled,
        mode: Mode,
        only: &'e (Scope, Member),
        key: &[u8],
        cost: u64,
    ) -> Reply<'e, T, CheckError> {
        let (scope, member) = only;
        let answer = |decision, source| Answer {
            decision,
            policy: &policy.name,
            binding: if member.name.is_empty() { &policy.name } else { &member.name },
            limit: Some(BindingLimit::of_policy(&member.limit)),
            source,
            store_error: None,
            shadow_denied: false,
        };
        let keyed = KeyedLimit { scope, key, limit: &member.limit };
        let request =
            StoreRequest { mode, limits: std::slice::from_ref(&keyed), cost, op: Op::Take };
        let (store, mut asked_at) = (self.state.stores.store_for(policy), None);
        let now = || *asked_at.insert(self.state.clock.now());
        let mut reply = match store.known_or_asked(&request, now) {
            Ok((verdict, source)) => {
                let answer = answer(verdict.decision, source);
                return Reply::ready(Ok(T::from_reply(answer, Vec::new())));
            }
            Err(reply) => reply,
        };
        // Read where it lies. Another binding than that of the only limit is an error of the store.
        if let Some(Ok(StoreReply { verdict, source, permits, .. })) = reply.known()
            && verdict.binding == 0
        {
            let answer = answer(verdict.decision, *source);
            return Reply::ready(Ok(T::from_reply(answer, std::mem::take(permits))));
        }
        let limits = Limits::declared(policy, mode, std::slice::from_ref(only));
        let now = asked_at.unwrap_or_else(|| self.state.clock.now());
        self.without_reply(reply, &limits, &[key], cost, Op::Take, now)
    }

    /// A policy with overrides, shares or the like.
    #[inline(never)]
    fn decide_special<'e, T: FromReply<'e>>(
        &'e self,
        policy: &'e Compiled,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, T, CheckError> {
        match self.limits_for(policy, key, cost, op) {
            Ok(Asked::Limits(limits)) => self.decide_limits(&limits, key, cost, op),
            Ok(Asked::Known(answer)) => Reply::ready(Ok(T::from_reply(answer, Vec::new()))),
            Err(error) => Reply::failed(error),
        }
    }

    /// The limits of a question, where they may be others than the policy declares.
    fn limits_for<'e>(
        &'e self,
        policy: &'e Compiled,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Result<Asked<'e>, CheckError> {
        let in_shadow = policy.is_shadow_for(key);
        let CompiledKind::Limits { mode, members, adaptive, .. } = &policy.kind else {
            return Err(CheckError::Shapes(policy.name()));
        };
        policy.check_cost(cost)?;
        let known = |decision| Ok(Asked::Known(without_limit(policy, decision, in_shadow)));
        let own = match self.override_for(policy, key) {
            None => None,
            Some(OverrideInForce::Limit(limit)) => Some(limit),
            Some(OverrideInForce::Allow) => return known(Decision::unlimited()),
            Some(OverrideInForce::Block) => return known(Decision::blocked()),
        };
        let own = policy.own_limits(key, own, &self.state.clock);
        // A tenant of a share is counted only if the question makes sense.
        members.iter().try_for_each(|(_, it)| key.find(policy, it.key.as_deref()).map(drop))?;
        let declared = Limits::declared(policy, *mode, members);
        if let (Op::Reset, Some(members)) = (op, policy.own_members()) {
            return Ok(Asked::Limits(Limits { members, in_shadow, ..declared }));
        }
        let (in_force, tenant) = match &policy.share {
            None => (InForce::find(*adaptive, members, key, &own), None),
            Some(shares) => self.tenant_limits(policy, shares, key, cost, op),
        };
        Ok(Asked::Limits(Limits { own, in_force, in_shadow, ..declared }.of_tenant(tenant)))
    }

    /// Inlined: of limits that are as declared, nothing is looked at.
    #[expect(clippy::inline_always, reason = "called, it would take 46 ns instead of 33")]
    #[inline(always)]
    fn decide_limits<'e, T: FromReply<'e>>(
        &'e self,
        limits: &Limits<'e>,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, T, CheckError> {
        let [(_, only)] = limits.members else {
            return self.decide_several(limits, key, cost, op);
        };
        match key.find(limits.policy, only.key.as_deref()) {
            Ok(key) => self.decide_for(limits, &[key], cost, op),
            Err(error) => Reply::failed(error),
        }
    }

    /// Several limits, each with its key.
    #[inline(never)]
    fn decide_several<'e, T: FromReply<'e>>(
        &'e self,
        limits: &Limits<'e>,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, T, CheckError> {
        let mut keys = [&[][..]; StoreRequest::MAX_LIMITS];
        for (slot, (_, member)) in keys.iter_mut().zip(limits.members) {
            match key.find(limits.policy, member.key.as_deref()) {
                Ok(found) => *slot = found,
                Err(error) => return Reply::failed(error),
            }
        }
        if limits.in_rest() {
            keys[shares::OWN] = shares::REST_KEY;
        }
        let count = limits.members.len().min(StoreRequest::MAX_LIMITS);
        self.decide_for(limits, &keys[..count], cost, op)
    }

    /// A reply that is known is read where it lies: to move it takes time.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn decide_for<'e, T: FromReply<'e>>(
        &'e self,
        limits: &Limits<'e>,
        keys: &[&[u8]],
        cost: u64,
        op: Op,
    ) -> Reply<'e, T, CheckError> {
        let now = self.state.clock.now();
        if op == Op::Refund && !limits.in_force.is_whole() {
            return self.refund_whole(limits.clone(), keys, cost, now);
        }
        let mut reply = self.put(limits, keys, cost, op, now);
        match reply.known() {
            Some(Ok(known)) => match limits.answer(known) {
                Ok(answer) => Reply::ready(Ok(answer)),
                Err(error) => Reply::failed(error),
            },
            _ => self.without_reply(reply, limits, keys, cost, op, now),
        }
    }

    /// The store has failed, or answers later.
    #[inline(never)]
    fn without_reply<'e, T: FromReply<'e>>(
        &'e self,
        reply: StoreResult<StoreReply>,
        limits: &Limits<'e>,
        keys: &[&[u8]],
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> Reply<'e, T, CheckError> {
        let later = match reply.split() {
            Ok(known) => return Reply::ready(self.answer(limits, keys, cost, op, now, known)),
            Err(later) => later,
        };
        let later = if op == Op::Take && limits.policy.purpose == PolicyKind::Concurrency {
            self.released_if_abandoned(later, limits, keys, cost)
        } else {
            later
        };
        let limits = limits.clone();
        // Only needed if the store fails.
        let keys: Vec<Box<[u8]>> = keys.iter().map(|key| (*key).into()).collect();
        Reply::later(async move { self.answer(&limits, &keys, cost, op, now, later.await) })
    }

    fn answer<'e, T: FromReply<'e>>(
        &'e self,
        limits: &Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        cost: u64,
        op: Op,
        now: Timestamp,
        reply: Result<StoreReply, StoreError>,
    ) -> Result<T, CheckError> {
        match reply {
            Ok(mut reply) => limits.answer(&mut reply),
            Err(error) => self.fall_back(limits, keys, cost, op, now, error),
        }
    }

    /// The reply to an acquire; what it grants is released if its caller has left by then.
    fn released_if_abandoned(
        &self,
        later: Later<'static, StoreReply, StoreError>,
        limits: &Limits<'_>,
        keys: &[&[u8]],
        cost: u64,
    ) -> Later<'static, StoreReply, StoreError> {
        let (mode, all) = (limits.mode, 0..limits.members.len());
        let own_limits = all.map(|index| limits.limit_of(index));
        let request = limits.with(keys, own_limits, |limits| {
            OwnedRequest::from_request(&StoreRequest { mode, limits, cost, op: Op::Take })
        });
        permit::released_if_abandoned(later, self.state.stores.plain.store.clone(), request)
    }

    /// Puts a question to the store.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    pub(super) fn put(
        &self,
        limits: &Limits<'_>,
        keys: &[impl AsRef<[u8]>],
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        let store = self.state.stores.store_for(limits.policy);
        let (mode, all) = (limits.mode, 0..limits.members.len());
        let own_limits = all.map(|index| limits.limit_of(index));
        limits.with(keys, own_limits, |limits| {
            store.decide(&StoreRequest { mode, limits, cost, op }, now)
        })
    }

    /// Gives back by the whole limits, and answers for what is in force of them. At a lower rate a unit is a longer time
    /// than it was when it was spent: to give that back would create units as soon as the rate is up again.
    #[inline(never)]
    fn refund_whole<'e, T: FromReply<'e>>(
        &'e self,
        limits: Limits<'e>,
        keys: &[&[u8]],
        cost: u64,
        now: Timestamp,
    ) -> Reply<'e, T, CheckError> {
        let whole = Limits { in_force: InForce::Whole, ..limits.clone() };
        match self.put(&whole, keys, cost, Op::Refund, now).split() {
            Ok(Ok(refunded)) => self.left_in_force(limits, whole, keys, refunded, now),
            Ok(Err(error)) => Reply::failed(error.into()),
            Err(later) => {
                let keys: Vec<Box<[u8]>> = keys.iter().map(|key| (*key).into()).collect();
                Reply::later(async move {
                    let refunded = later.await?;
                    self.left_in_force(limits, whole, &keys, refunded, now).await
                })
            }
        }
    }

    fn left_in_force<'e, T: FromReply<'e>>(
        &'e self,
        limits: Limits<'e>,
        whole: Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        mut refunded: StoreReply,
        now: Timestamp,
    ) -> Reply<'e, T, CheckError> {
        self.put(&limits, keys, 0, Op::Peek, now).then(move |left| match left {
            Ok(mut left) => limits.answer(&mut left),
            // It was given back: an error would have it given back again.
            Err(_) => whole.answer(&mut refunded),
        })
    }

    /// Asks the store for a place in a queue.
    pub(super) fn shape<'e>(
        &'e self,
        policy: &'e Compiled,
        request: &ReserveRequest<'_>,
        in_shadow: bool,
    ) -> Reply<'e, Queued, CheckError> {
        let store = &self.state.stores.for_policy(policy).store;
        let now = self.state.clock.now();
        let shaper = *request.shaper;
        let (scope, key, cost) =
            (request.scope.clone(), Box::<[u8]>::from(request.key), request.cost);
        store.reserve(request, now).then(move |reply| {
            let (scope, key) = (&scope, &*key);
            let request = ReserveRequest { scope, key, shaper: &shaper, cost, cancel: None };
            let queued = match reply {
                Ok(reply) => self.queued(reply, &request, store.clone()),
                Err(error) => self.fall_back_queue(policy, &request, in_shadow, now, error)?,
            };
            Ok(if in_shadow { queued.in_shadow() } else { queued })
        })
    }

    pub(super) fn queued(
        &self,
        reply: ReserveReply,
        request: &ReserveRequest<'_>,
        store: Arc<dyn Store>,
    ) -> Queued {
        Queued::from_reply(reply, request, store, self.state.clock.clone())
    }
}

impl<'e> Limits<'e> {
    /// The limits of a policy as it declares them.
    #[inline]
    pub(super) const fn declared(
        policy: &'e Compiled,
        mode: Mode,
        members: &'e [(Scope, Member)],
    ) -> Self {
        let (own, in_force) = (OwnLimits::None, InForce::Whole);
        Self { policy, mode, members, own, in_force, tenant: None, in_shadow: false }
    }

    /// Those of a tenant of a share. Where much can be saved up, its own limit is asked only while it has a part: what it
    /// spent of that before is no debt. Elsewhere, what it got too much in one second it gets too little in the next.
    pub(super) fn of_tenant(self, tenant: Option<Box<Tenant>>) -> Self {
        let has_whole = tenant.as_ref().is_some_and(|tenant| tenant.shown.is_none());
        let members = match self.members {
            [shared, (_, own)] if has_whole && shares::saves_up(&own.limit) => {
                std::slice::from_ref(shared)
            }
            all => all,
        };
        Self { members, tenant, ..self }
    }

    /// Whether a tenant of a share has no entry of its own.
    pub(super) fn in_rest(&self) -> bool {
        self.tenant.as_ref().is_some_and(|tenant| tenant.in_rest)
    }

    /// Hands the limits with their keys to `then`, without a box. Most policies have one: that takes no room for more.
    #[inline]
    pub(super) fn with<'a, R>(
        &'a self,
        keys: &'a [impl AsRef<[u8]>],
        mut limits: impl Iterator<Item = &'a Limit>,
        then: impl FnOnce(&[KeyedLimit<'a>]) -> R,
    ) -> R {
        if let ([(scope, _)], [key]) = (self.members, keys) {
            let keyed = |limit| KeyedLimit { scope, key: key.as_ref(), limit };
            return then(limits.next().map(keyed).as_slice());
        }
        self.with_several(keys, limits, then)
    }

    #[inline(never)]
    fn with_several<'a, R>(
        &'a self,
        keys: &'a [impl AsRef<[u8]>],
        limits: impl Iterator<Item = &'a Limit>,
        then: impl FnOnce(&[KeyedLimit<'a>]) -> R,
    ) -> R {
        let members = self.members.iter().zip(keys).zip(limits);
        let mut keyed = members.map(|(((scope, _), key), limit)| KeyedLimit {
            scope,
            key: key.as_ref(),
            limit,
        });
        let Some(first) = keyed.next() else { return then(&[]) };
        let mut all = [first; StoreRequest::MAX_LIMITS];
        let mut count = 1;
        for (slot, keyed) in all[1..].iter_mut().zip(keyed) {
            *slot = keyed;
            count += 1;
        }
        then(&all[..count])
    }

    /// The answer that a reply stands for. Takes its permits.
    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    pub(super) fn answer<T: FromReply<'e>>(&self, reply: &mut StoreReply) -> Result<T, CheckError> {
        let StoreReply { verdict, source, permits, .. } = reply;
        let Some((_, member)) = self.members.get(verdict.binding) else {
            return Err(self.policy.unknown());
        };
        if let (Some(tenant), Some(shares)) = (&self.tenant, &self.policy.share) {
            shares.note_left(tenant, verdict, *source);
        }
        let (decision, shadow_denied) = shadowed(verdict.decision, self.in_shadow);
        let name = &self.policy.name;
        let part = self.part();
        let answer = Answer {
            decision,
            policy: name,
            // A tenant that has only its part is told so, also where it is to leave the others what is left.
            binding: if member.name.is_empty() || part.is_some() { name } else { &member.name },
            limit: Some(part.map_or_else(
                || self.binding(verdict.binding),
                |part| BindingLimit::shared(part.clone()),
            )),
            source: *source,
            store_error: None,
            shadow_denied,
        };
        Ok(T::from_reply(answer, std::mem::take(permits)))
    }
}

/// An answer of an override, without a limit.
pub(super) fn without_limit(policy: &Compiled, decision: Decision, in_shadow: bool) -> Answer<'_> {
    let (decision, shadow_denied) = shadowed(decision, in_shadow);
    let (name, source, limit) = (&*policy.name, Source::Store, None);
    Answer {
        decision,
        policy: name,
        binding: name,
        limit,
        source,
        store_error: None,
        shadow_denied,
    }
}

/// A decision as callers get it, and whether it was allowed only because they are never refused.
const fn shadowed(decision: Decision, in_shadow: bool) -> (Decision, bool) {
    if in_shadow && !decision.allowed() { (decision.in_shadow(), true) } else { (decision, false) }
}
