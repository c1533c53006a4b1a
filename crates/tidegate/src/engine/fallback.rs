//! What a failure of the store means. Nothing else knows: every answer without the store is made here, as the policy's
//! `on_store_error` says.

use tidegate_core::{Decision, Limit, Mode, Reservation, Timestamp, Verdict};

use super::decide::{Decided, FromReply, Limits};
use super::given::GivenAnswer;
use super::step::{Count, Step};
use super::{Answer, CheckError, Engine, Queued, Together};
use crate::clock::Clock;
use crate::policy::{Compiled, OnStoreError};
use crate::store::{
    Charge, KeyedLimit, LimitCharge, MultiCharge, Op, ReserveRequest, Source, Store, StoreError,
    StoreErrorKind, StoreReply, StoreRequest,
};

impl<C: Clock + 'static> Engine<C> {
    /// What the policy answers when the store does not.
    pub(super) fn fall_back<'e, T: FromReply<'e>>(
        &'e self,
        limits: &Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        cost: u64,
        op: Op,
        now: Timestamp,
        error: StoreError,
    ) -> Result<T, CheckError> {
        let error = fallback_for(op, error)?;
        let store_error = Some(error.kind());
        let in_trouble =
            |Decided { answer, permits }| T::from_reply(Answer { store_error, ..answer }, permits);
        if let Some(mut reply) = limits.fixed_reply(limits.policy.on_failure(&error)) {
            return limits.answer(&mut reply).map(in_trouble);
        }
        let nodes = self.nodes();
        let shares = (0..limits.members.len()).map(|index| limits.share_of(index, nodes));
        let shares: Vec<Limit> = shares.collect();
        let mode = limits.mode;
        let reply = limits.with(keys, shares.iter(), |limits| {
            self.state.local.store.decide(&StoreRequest { mode, limits, cost, op }, now)
        });
        let mut reply = StoreReply { source: Source::Local, ..reply.now()? };
        limits.answer(&mut reply).map(in_trouble)
    }

    /// What the policy says of a place in a queue when the store does not.
    pub(super) fn fall_back_queue(
        &self,
        policy: &Compiled,
        request: &ReserveRequest<'_>,
        in_shadow: bool,
        now: Timestamp,
        error: StoreError,
    ) -> Result<Queued, CheckError> {
        let error = fallback_for(Op::Take, error)?;
        let (queued, source) = match policy.on_failure(&error) {
            OnStoreError::Allow => {
                let open = Source::FailOpen;
                (Queued::without_turn(Reservation::unlimited(), open), open)
            }
            OnStoreError::Local => {
                let request =
                    ReserveRequest { shaper: &request.shaper.share(self.nodes()), ..*request };
                let reply = self.state.local.store.reserve(&request, now).now()?;
                (self.queued(reply, &request, self.state.local.store.clone()), Source::Local)
            }
            OnStoreError::Deny { .. } if in_shadow => {
                let closed = Source::FailClosed;
                (Queued::without_turn(Reservation::blocked(), closed), closed)
            }
            // A refusal would look like a full queue: a failure must not.
            OnStoreError::Deny { .. } => return Err(CheckError::Store(error)),
        };
        Ok(queued.instead_of_store(source, error.kind()))
    }

    /// This node's share instead of the store.
    pub(super) fn fall_back_given(
        &self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
        now: Timestamp,
        error: StoreError,
    ) -> Result<GivenAnswer, CheckError> {
        let error = fallback_for(op, error)?;
        let limit = &given.limit.share(self.nodes());
        let request =
            StoreRequest { mode: Mode::All, limits: &[KeyedLimit { limit, ..*given }], cost, op };
        let reply = self.state.local.store.decide(&request, now).now()?;
        let (decision, store_error) = (reply.verdict.decision, Some(error.kind()));
        Ok(GivenAnswer { decision, source: Source::Local, store_error })
    }

    /// What the policies answer when the store does not: each for its own checks, and this node decides in one step of its
    /// own those that are left to it.
    pub(super) fn fall_back_together<'e>(
        &'e self,
        step: &Step<'e>,
        keys: &[impl AsRef<[u8]>],
        now: Timestamp,
        error: StoreError,
    ) -> Result<Together<'e>, CheckError> {
        let error = fallback_for(Op::Take, error)?;
        let on_error = |policy: &Compiled| policy.on_failure(&error);
        let denies =
            |count: &Count<'_>| matches!(on_error(count.policy), OnStoreError::Deny { .. });
        let charge = if step.counts.iter().any(denies) { Charge::Refused } else { step.charge };
        let nodes = self.nodes();
        let is_local = |count: &Count<'_>| on_error(count.policy) == OnStoreError::Local;
        let local = step.counts.iter().enumerate().filter(|(_, count)| is_local(count));
        let shares: Vec<(usize, Limit)> =
            local.map(|(place, count)| (place, step.share_of(count, nodes))).collect();
        let limits = shares.iter().map(|(place, limit)| {
            let (count, key) = (&step.counts[*place], keys[*place].as_ref());
            LimitCharge { keyed: KeyedLimit { scope: count.scope, key, limit }, cost: count.cost }
        });
        let limits: Vec<_> = limits.collect();
        // A placeholder where a policy answers by itself: it is never read.
        let mut decisions = vec![Decision::blocked(); step.counts.len()];
        if !limits.is_empty() {
            let reply =
                self.state.local.store.decide_each(&MultiCharge { limits: &limits, charge }, now);
            let decided = reply.now()?;
            for ((place, _), decision) in shares.iter().zip(decided) {
                decisions[*place] = decision;
            }
        }
        let by_itself = (Source::Local, Some(error.kind()));
        step.answers(&decisions, by_itself, |limits| limits.fixed_reply(on_error(limits.policy)))
    }
}

impl Limits<'_> {
    /// What is answered without a decision while the store fails; `None` where this node decides.
    fn fixed_reply(&self, on_error: OnStoreError) -> Option<StoreReply> {
        let ceiling = self.members.first().map_or(0, |_| self.limit_of(0).ceiling());
        let (decision, source) = match on_error {
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
}

/// The failure, where something else can answer instead of the store; otherwise the error that the caller gets. That is
/// only so for checks: a reset or a refund that did not happen is an error.
pub(super) fn fallback_for(op: Op, error: StoreError) -> Result<StoreError, CheckError> {
    match error.kind() {
        StoreErrorKind::Apart => Err(CheckError::Apart),
        _ if is_failure(&error) && matches!(op, Op::Take | Op::Peek) => Ok(error),
        _ => Err(CheckError::Store(error)),
    }
}

/// Whether the store has failed, and not the question.
pub(super) const fn is_failure(error: &StoreError) -> bool {
    !error.kind().is_bad_request()
}
