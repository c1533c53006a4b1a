//! What a layer does with a request: what its limiter or its policy says of it.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;

use http::request::Parts;
use tidegate_core::{Decision, Timestamp};

use super::headers::Report;
use super::key::NoPeer;
use super::refusal::Failure;
use super::watch::Slot;
use super::{RateLimitLayer, Rules};
use crate::clock::Clock;
use crate::engine::{Answer, CheckError, Key, PolicyHandle};
use crate::limiter::Limiter;
use crate::store::Op;

/// What becomes of a request. There is nothing to report where no limit decided.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is not counted.
    Skip,
    Admit(Option<Report>, Slot),
    Refuse(Decision, Option<Report>),
    Fail(Failure),
}

/// An outcome that comes over a network.
pub(super) type LaterOutcome = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A request that is to be counted.
struct Counted<'a> {
    key: Cow<'a, [u8]>,
    cost: u64,
    /// `None` if the target has none left.
    slot: Option<Slot>,
}

impl Rules {
    /// Whom to charge, and what; an outcome where there is one without.
    fn count<'a>(&self, request: &'a Parts) -> Result<Counted<'a>, Outcome> {
        if self.skip.as_ref().is_some_and(|skip| skip.call(request)) {
            return Err(Outcome::Skip);
        }
        let key = self.key.value(request, &self.client_ip);
        let key = key.map_err(|NoPeer| Outcome::Fail(Failure::NoPeer))?;
        let cost = self.cost.as_ref().map_or(1, |cost| cost.call(request));
        // Before anything is charged: a request without a slot costs nothing.
        Ok(Counted { key, cost, slot: self.watch.enter() })
    }
}

impl Outcome {
    fn new(decision: Decision, report: Option<Report>, slot: Option<Slot>) -> Self {
        match slot {
            Some(slot) if decision.allowed() => Self::Admit(report, slot),
            _ => Self::Refuse(decision, report),
        }
    }
}

/// A refusal because the target has no slot left. When a request ends is not known: a second is a guess.
fn no_capacity(left: &Decision) -> Decision {
    let wait_us = 1_000_000;
    Decision::refused(left.limit(), left.remaining(), Some(wait_us), left.reset_after_us())
}

impl<C: Clock, R> RateLimitLayer<Limiter<C>, R> {
    pub(super) fn decide(&self, request: &Parts) -> Outcome {
        let Counted { key, cost, slot } = match self.rules.count(request) {
            Ok(counted) => counted,
            Err(outcome) => return outcome,
        };
        let limiter = &self.limits;
        let report = self.report(&key, || match &slot {
            Some(_) => limiter.check_n(&key, cost),
            None => no_capacity(&limiter.peek(&key, 0)),
        });
        Outcome::new(report.decision, Some(report), slot)
    }

    fn report(&self, key: &[u8], decide: impl FnOnce() -> Decision) -> Report {
        let labels = &self.rules.labels;
        // The clock is read before the decision. Otherwise the end of a window could seem to be just after its edge, and
        // be reported a second late.
        let (label, now) = self.limits.with_limit(key, |limit, now| {
            (labels.find([self.limits.limit()], &labels.name, limit), now)
        });
        Report { headers: self.rules.headers, label, decision: decide(), now }
    }
}

impl<C: Clock + 'static, R: Send + Sync + 'static> RateLimitLayer<PolicyHandle<C>, R> {
    /// The outcome if the store is in this process, and else a future of it.
    pub(super) fn ask(self: &Arc<Self>, request: &Parts) -> Result<Outcome, LaterOutcome> {
        let Counted { key, cost, slot } = match self.rules.count(request) {
            Ok(counted) => counted,
            Err(outcome) => return Ok(outcome),
        };
        let (cost, op) = if slot.is_some() { (cost, Op::Take) } else { (0, Op::Peek) };
        let policy = self.limits.as_ref();
        if policy.engine.is_local() {
            let now = policy.engine.now();
            let answer = policy.ask(Key::One(&key), cost, op).now();
            return Ok(self.outcome(answer, now, slot));
        }
        let (layer, key) = (self.clone(), key.into_owned());
        Err(Box::pin(async move {
            let (mut slot, policy) = (slot, layer.limits.as_ref());
            let now = policy.engine.now();
            let answer = policy.ask(Key::One(&key), cost, op).await;
            slot.iter_mut().for_each(Slot::restart);
            layer.outcome(answer, now, slot)
        }))
    }

    fn outcome(
        &self,
        answer: Result<Answer<'_>, CheckError>,
        now: Timestamp,
        slot: Option<Slot>,
    ) -> Outcome {
        let answer = match answer {
            Ok(answer) if !answer.fails_closed() => answer,
            Ok(answer) => return Outcome::Fail(Failure::closed(&answer)),
            Err(error) => return Outcome::Fail(Failure::Unanswered(error)),
        };
        let decision = if slot.is_some() { answer.decision } else { no_capacity(&answer.decision) };
        let report = answer.limit.as_deref().map(|limit| {
            let declared = self.limits.as_ref().members().map(|member| &member.limit);
            let label = self.rules.labels.find(declared, answer.binding, limit);
            Report { headers: self.rules.headers, label, decision, now }
        });
        Outcome::new(decision, report, slot)
    }
}
