//! One question to the store and its answer. Where the store fails, `fallback` answers.

use std::sync::Arc;

use tidegate_core::{Decision, Limit, Mode, Timestamp};

use super::in_force::InForce;
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

/// The limits of one question.
#[derive(Clone)]
pub(super) struct Limits<'e> {
    pub(super) policy: &'e Compiled,
    pub(super) mode: Mode,
    pub(super) members: &'e [(Scope, Member)],
    /// The key's own limit, instead of the policy's only one.
    pub(super) own: Option<BindingLimit<'e>>,
    /// What of these is in force.
    pub(super) in_force: InForce,
}

impl<C: Clock + 'static> Engine<C> {
    /// Asks the store once, and makes an answer of its reply.
    pub(super) fn decide<'e>(
        &'e self,
        policy: &'e Compiled,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let answered = |decision| {
            let answer = without_limit(policy, decision);
            Reply::ready(Ok(Decided { answer, permits: vec![] }))
        };
        let CompiledKind::Limits { mode, members, adaptive } = &policy.kind else {
            return Reply::failed(CheckError::Shapes(policy.name()));
        };
        let own = match policy.override_for(key, &self.state.clock) {
            None => None,
            Some(OverrideInForce::Limit(limit)) => Some(limit),
            Some(OverrideInForce::Allow) => return answered(Decision::unlimited()),
            Some(OverrideInForce::Block) => return answered(Decision::blocked()),
        };
        let in_force = InForce::find(*adaptive, members, key, own.as_deref());
        let limits = Limits { policy, mode: *mode, members, own, in_force };
        let mut keys = [&[][..]; StoreRequest::MAX_LIMITS];
        for (slot, (_, member)) in keys.iter_mut().zip(members) {
            match key.find(policy, member.key.as_deref()) {
                Ok(found) => *slot = found,
                Err(error) => return Reply::failed(error),
            }
        }
        let keys = &keys[..members.len().min(StoreRequest::MAX_LIMITS)];
        let now = self.state.clock.now();
        if op == Op::Refund && !limits.in_force.is_whole() {
            return self.refund_whole(limits, keys, cost, now);
        }
        let Some(reply) = self.put(&limits, keys, cost, op, now) else {
            return Reply::failed(CheckError::UnknownPolicy(policy.name()));
        };
        match reply.split() {
            Ok(Ok(reply)) => Reply::ready(limits.answer(reply)),
            Ok(Err(error)) => Reply::ready(self.fall_back(&limits, keys, cost, op, now, error)),
            Err(later) => {
                let later = if op == Op::Take && policy.purpose == PolicyKind::Concurrency {
                    self.released_if_abandoned(later, &limits, keys, cost)
                } else {
                    later
                };
                // Only needed if the store fails.
                let keys: Vec<Box<[u8]>> = keys.iter().map(|key| (*key).into()).collect();
                Reply::later(async move {
                    match later.await {
                        Ok(reply) => limits.answer(reply),
                        Err(error) => self.fall_back(&limits, &keys, cost, op, now, error),
                    }
                })
            }
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
        match request {
            Some(request) => {
                let store = self.state.stores.plain.store.clone();
                permit::released_if_abandoned(later, store, request)
            }
            None => later,
        }
    }

    /// Puts a question to the store; `None` where there is no limit to ask about.
    pub(super) fn put(
        &self,
        limits: &Limits<'_>,
        keys: &[impl AsRef<[u8]>],
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> Option<StoreResult<StoreReply>> {
        let store = self.state.stores.for_policy(limits.policy).store_for(limits.policy);
        let (mode, all) = (limits.mode, 0..limits.members.len());
        let own_limits = all.map(|index| limits.limit_of(index));
        limits.with(keys, own_limits, |limits| {
            store.decide(&StoreRequest { mode, limits, cost, op }, now)
        })
    }

    /// Gives back by the whole limits, and answers for what is in force of them. At a lower rate a unit is a longer time
    /// than it was when it was spent: to give that back would create units as soon as the rate is up again.
    pub(super) fn refund_whole<'e>(
        &'e self,
        limits: Limits<'e>,
        keys: &[&[u8]],
        cost: u64,
        now: Timestamp,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let whole = Limits { in_force: InForce::Whole, ..limits.clone() };
        let Some(refund) = self.put(&whole, keys, cost, Op::Refund, now) else {
            return Reply::failed(CheckError::UnknownPolicy(limits.policy.name()));
        };
        match refund.split() {
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

    fn left_in_force<'e>(
        &'e self,
        limits: Limits<'e>,
        whole: Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        refunded: StoreReply,
        now: Timestamp,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let Some(peek) = self.put(&limits, keys, 0, Op::Peek, now) else {
            return Reply::ready(whole.answer(refunded));
        };
        peek.then(move |left| match left {
            Ok(left) => limits.answer(left),
            // It was given back: an error would have it given back again.
            Err(_) => whole.answer(refunded),
        })
    }

    /// Asks the store for a place in a queue.
    pub(super) fn shape<'e>(
        &'e self,
        policy: &'e Compiled,
        request: &ReserveRequest<'_>,
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
                Err(error) => self.fall_back_queue(policy, &request, now, error)?,
            };
            Ok(if policy.options.shadow { queued.in_shadow() } else { queued })
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
    /// Hands the limits with their keys to `then`, without a box.
    pub(super) fn with<'a, R>(
        &'a self,
        keys: &'a [impl AsRef<[u8]>],
        limits: impl Iterator<Item = &'a Limit>,
        then: impl FnOnce(&[KeyedLimit<'a>]) -> R,
    ) -> Option<R> {
        let mut keyed = self
            .members
            .iter()
            .zip(keys)
            .zip(limits)
            .map(|(((scope, _), key), limit)| KeyedLimit { scope, key: key.as_ref(), limit });
        let mut all = [keyed.next()?; StoreRequest::MAX_LIMITS];
        let mut count = 1;
        for (slot, keyed) in all[1..].iter_mut().zip(keyed) {
            *slot = keyed;
            count += 1;
        }
        Some(then(&all[..count]))
    }

    pub(super) fn answer(&self, reply: StoreReply) -> Result<Decided<'e>, CheckError> {
        let StoreReply { verdict, source, permits, .. } = reply;
        let missing = || CheckError::UnknownPolicy(self.policy.name());
        let (_, member) = self.members.get(verdict.binding).ok_or_else(missing)?;
        let (decision, shadow_denied) = self.policy.shadowed(verdict.decision);
        let name = &self.policy.name;
        let answer = Answer {
            decision,
            policy: name,
            binding: if member.name.is_empty() { name } else { &member.name },
            limit: Some(self.binding(verdict.binding)),
            source,
            store_error: None,
            shadow_denied,
        };
        Ok(Decided { answer, permits })
    }
}

/// An answer of an override, without a limit.
pub(super) fn without_limit(policy: &Compiled, decision: Decision) -> Answer<'_> {
    let (decision, shadow_denied) = policy.shadowed(decision);
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
