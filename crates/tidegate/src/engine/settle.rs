//! One question, one ask, one answer; and what a failure of the store means, which only the engine decides.

use std::sync::Arc;

use tidegate_core::{Decision, Limit, Mode, Reservation, Timestamp, Verdict};

use super::in_force::InForce;
use super::{Answer, BindingLimit, Check, CheckError, Engine, Queued};
use crate::clock::Clock;
use crate::policy::{Compiled, CompiledKind, Instead, Member, OnStoreError};
use crate::reply::Reply;
use crate::store::{
    KeyedLimit, Op, ReserveReply, ReserveRequest, Scope, Source, Store, StoreError, StoreReply,
    StoreRequest,
};

/// An answer, and the permits that came with it.
pub(super) struct Decided<'e> {
    pub(super) answer: Answer<'e>,
    pub(super) permits: Vec<(usize, u64)>,
}

/// The limits of one question.
#[derive(Clone)]
pub(super) struct Limits<'e> {
    pub(super) name: &'e str,
    pub(super) policy: &'e Compiled,
    pub(super) mode: Mode,
    pub(super) members: &'e [(Scope, Member)],
    /// The key's own limit, instead of the policy's only one.
    pub(super) own: Option<BindingLimit<'e>>,
    /// What of these is in force.
    pub(super) in_force: InForce,
}

impl<C: Clock + 'static> Engine<C> {
    /// Asks the store, once, and settles what it answers.
    pub(super) fn decide<'e>(
        &'e self,
        name: &'e str,
        policy: &'e Compiled,
        check: &Check<'_>,
        op: Op,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let settled = |decision| {
            let answer = without_limit(name, policy, decision);
            Reply::ready(Ok(Decided { answer, permits: vec![] }))
        };
        let CompiledKind::Limits { mode, members, adaptive } = &policy.kind else {
            return Reply::ready(Err(CheckError::Shapes(name.to_owned())));
        };
        let own = match policy.instead_for(check.key, &self.shared.clock) {
            None => None,
            Some(Instead::Limit(limit)) => Some(limit),
            Some(Instead::Allow) => return settled(Decision::unlimited()),
            Some(Instead::Block) => return settled(Decision::blocked()),
        };
        let in_force = InForce::of(*adaptive, members, check.key, own.as_deref());
        let limits = Limits { name, policy, mode: *mode, members, own, in_force };
        let mut keys = [&[][..]; StoreRequest::MAX_LIMITS];
        for (key, (_, member)) in keys.iter_mut().zip(members) {
            match check.key.find(name, member.key.as_deref()) {
                Ok(found) => *key = found,
                Err(error) => return Reply::ready(Err(error)),
            }
        }
        let keys = &keys[..members.len().min(StoreRequest::MAX_LIMITS)];
        let (cost, now) = (check.cost, self.shared.clock.now());
        if op == Op::Refund && !limits.in_force.is_whole() {
            return self.refund_whole(limits, keys, cost, now);
        }
        let Some(reply) = self.put(&limits, keys, cost, op, now) else {
            return Reply::ready(Err(CheckError::UnknownPolicy(name.to_owned())));
        };
        match reply.split() {
            Ok(Ok(settled)) => Reply::ready(limits.answer(settled)),
            Ok(Err(error)) => Reply::ready(self.stand_in(&limits, keys, cost, op, now, error)),
            Err(later) => {
                // Kept only for the case that the store fails.
                let keys: Vec<Box<[u8]>> = keys.iter().map(|key| (*key).into()).collect();
                Reply::later(async move {
                    match later.await {
                        Ok(settled) => limits.answer(settled),
                        Err(error) => self.stand_in(&limits, &keys, cost, op, now, error),
                    }
                })
            }
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
    ) -> Option<Reply<'static, StoreReply, StoreError>> {
        let store = self.shared.stores.of(limits.policy).asked_by(limits.policy);
        let (mode, all) = (limits.mode, 0..limits.members.len());
        let own_limits = all.map(|index| limits.limit_of(index));
        limits.with(keys, own_limits, |limits| {
            store.decide(&StoreRequest { mode, limits, cost, op }, now)
        })
    }

    /// What the policy says when the store does not. Only a check can be stood in for: a reset or a refund that
    /// did not happen is an error.
    fn stand_in<'e>(
        &'e self,
        limits: &Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        cost: u64,
        op: Op,
        now: Timestamp,
        error: StoreError,
    ) -> Result<Decided<'e>, CheckError> {
        if !matches!(op, Op::Take | Op::Peek) || error.kind().is_bad_request() {
            return Err(CheckError::Store(error));
        }
        let store_error = Some(error.kind());
        let in_trouble = |decided: Decided<'e>| Decided {
            answer: Answer { store_error, ..decided.answer },
            ..decided
        };
        if let Some(settled) = limits.assume(limits.policy.on_failure(&error)) {
            return limits.answer(settled).map(in_trouble);
        }
        let nodes = self.nodes();
        let shares = (0..limits.members.len()).map(|index| limits.share_of(index, nodes));
        let shares: Vec<Limit> = shares.collect();
        let mode = limits.mode;
        let reply = limits.with(keys, shares.iter(), |limits| {
            self.shared.local.decide(&StoreRequest { mode, limits, cost, op }, now)
        });
        let settled = reply.map_or(Err(error), Reply::now).map_err(CheckError::Store)?;
        limits.answer(StoreReply { source: Source::Local, ..settled }).map(in_trouble)
    }

    /// Asks the store for a place in a queue, and settles what it answers.
    pub(super) fn shape<'e>(
        &'e self,
        name: &str,
        turn: &ReserveRequest<'_>,
    ) -> Reply<'e, Queued, CheckError> {
        let policy = self.shared.policies.get(name);
        let is_shadow = policy.is_some_and(|policy| policy.shadow);
        let stores = &self.shared.stores;
        let store = &policy.map_or(&stores.plain, |policy| stores.of(policy)).store;
        let now = self.shared.clock.now();
        let shaper = *turn.shaper;
        let (scope, key, cost) = (turn.scope.clone(), Box::<[u8]>::from(turn.key), turn.cost);
        let settled = store.reserve(turn, now).then(move |place| {
            let (scope, key) = (&scope, &*key);
            let turn = ReserveRequest { scope, key, shaper: &shaper, cost, cancel: None };
            let error = match place {
                Ok(place) => return Ok(self.queued(place, &turn, store.clone())),
                Err(error) => error,
            };
            match policy.map(|policy| policy.on_failure(&error)) {
                Some(OnStoreError::Allow) => Ok(Queued::without_turn(Reservation::unlimited())),
                Some(OnStoreError::Local) => {
                    let turn = ReserveRequest { shaper: &shaper.share(self.nodes()), ..turn };
                    let place = self.shared.local.reserve(&turn, now).now();
                    let place = place.map_err(CheckError::Store)?;
                    Ok(self.queued(place, &turn, self.shared.local.clone()))
                }
                Some(OnStoreError::Deny { .. }) if is_shadow => {
                    Ok(Queued::without_turn(Reservation::blocked()))
                }
                // A refusal would look like a full queue: a failure must not.
                Some(OnStoreError::Deny { .. }) | None => Err(CheckError::Store(error)),
            }
        });
        settled.then(move |place| place.map(|it| if is_shadow { it.in_shadow() } else { it }))
    }

    fn queued(
        &self,
        place: ReserveReply,
        turn: &ReserveRequest<'_>,
        store: Arc<dyn Store>,
    ) -> Queued {
        Queued::of(place, turn, store, self.shared.clock.clone())
    }
}

impl<'e> Limits<'e> {
    /// What is answered without a decision while the store fails; `None` where this node decides.
    pub(super) fn assume(&self, instead: OnStoreError) -> Option<StoreReply> {
        let ceiling = self.members.first().map_or(0, |_| self.limit_of(0).ceiling());
        let (decision, source) = match instead {
            OnStoreError::Allow => (Decision::admitted(ceiling, ceiling, 0), Source::FailOpen),
            OnStoreError::Deny { retry_after } => {
                let us = u64::try_from(retry_after.as_micros()).unwrap_or(u64::MAX - 1);
                (Decision::refused(ceiling, 0, Some(us), us), Source::FailClosed)
            }
            OnStoreError::Local => return None,
        };
        let verdict = Verdict { binding: 0, decision };
        Some(StoreReply { source, ..StoreReply::by_store(verdict) })
    }

    /// Hands the limits with their keys to `then`, without a box.
    fn with<'a, R>(
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

    pub(super) fn answer(&self, settled: StoreReply) -> Result<Decided<'e>, CheckError> {
        let StoreReply { verdict, source, permits, .. } = settled;
        let missing = || CheckError::UnknownPolicy(self.name.to_owned());
        let (_, member) = self.members.get(verdict.binding).ok_or_else(missing)?;
        let (decision, shadow_denied) = self.policy.shadowed(verdict.decision);
        let answer = Answer {
            decision,
            policy: self.name,
            binding: if member.name.is_empty() { self.name } else { &member.name },
            limit: Some(self.binding(verdict.binding)),
            source,
            store_error: None,
            shadow_denied,
        };
        Ok(Decided { answer, permits })
    }
}

pub(super) fn without_limit<'e>(
    name: &'e str,
    policy: &Compiled,
    decision: Decision,
) -> Answer<'e> {
    let (decision, shadow_denied) = policy.shadowed(decision);
    let (source, limit) = (Source::Store, None);
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
