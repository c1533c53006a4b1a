//! One key of this node: its lessee, and the checks that wait for the store.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Decision, Grant, LeaseHolder, Limit, Mode, Step, Terms, Verdict};
use tokio::sync::oneshot;

use crate::store::{KeyedLimit, Op, Scope, Source, StoreError, StoreReply, StoreRequest};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) lessee: LeaseHolder,
    pub(super) terms: Terms,
    pub(super) limits: Arc<LeasedLimits>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) generation: u64,
    /// How many requests have left.
    pub(super) requests: u64,
    /// When a check came last.
    pub(super) used_us: u64,
    /// What the store answered last, and when.
    last: Verdict,
    last_us: u64,
}

/// A check that waits for the store.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) cost: u64,
    /// How many requests had left when it came.
    pub(super) since: u64,
    pub(super) done: oneshot::Sender<Result<StoreReply, StoreError>>,
}

/// The limits of a key, as they were declared and as the store keeps them.
#[derive(Debug)]
pub(super) struct LeasedLimits {
    limits: Vec<OwnedLimit>,
}

#[derive(Debug)]
struct OwnedLimit {
    scope: Scope,
    key: Box<[u8]>,
    plain: Limit,
    leased: Limit,
}

impl LeasedLimits {
    pub(super) fn new(limits: &[KeyedLimit<'_>], leased: Vec<Limit>) -> Arc<Self> {
        let own = |(keyed, leased): (&KeyedLimit<'_>, Limit)| OwnedLimit {
            scope: keyed.scope.clone(),
            key: keyed.key.into(),
            plain: keyed.limit.clone(),
            leased,
        };
        Arc::new(Self { limits: limits.iter().zip(leased).map(own).collect() })
    }

    /// Whether these limits, in place of others of the same key, still count what was spent under those.
    pub(super) fn remembers(&self, before: &Self) -> bool {
        let mut pairs = self.limits.iter().zip(&before.limits);
        pairs.all(|(now, before)| now.leased.remembers(&before.leased))
    }

    pub(super) fn with<R>(&self, op: Op, then: impl FnOnce(&StoreRequest<'_>) -> R) -> R {
        let limits: Vec<_> = self.limits.iter().map(OwnedLimit::keyed).collect();
        then(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op })
    }
}

impl OwnedLimit {
    fn keyed(&self) -> KeyedLimit<'_> {
        KeyedLimit { scope: &self.scope, key: &self.key, limit: &self.leased }
    }
}

impl Entry {
    pub(super) fn new(
        terms: Terms,
        limits: Arc<LeasedLimits>,
        generation: u64,
        now_us: u64,
    ) -> Self {
        let ceiling = terms.ceiling();
        Self {
            lessee: LeaseHolder::new(terms),
            terms,
            limits,
            waiting: VecDeque::new(),
            generation,
            requests: 0,
            used_us: now_us,
            last: Verdict { binding: 0, decision: Decision::admitted(ceiling, ceiling, 0) },
            last_us: now_us,
        }
    }

    /// Whether these are its limits, unchanged.
    pub(super) fn is_of(&self, limits: &[KeyedLimit<'_>]) -> bool {
        let own = &self.limits.limits;
        own.len() == limits.len() && own.iter().zip(limits).all(|(own, it)| own.plain == *it.limit)
    }

    /// Whether nothing is held, asked for or waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.lessee.is_idle()
    }

    /// Takes over those who waited for another lessee of this key.
    pub(super) fn take_over(&mut self, waiting: VecDeque<Waiting>, now_us: u64) {
        for check in waiting {
            match self.lessee.check(now_us, check.cost) {
                Step::Wait => self.waiting.push_back(Waiting { since: self.requests, ..check }),
                step => drop(check.done.send(Ok(self.decide_one(step, now_us, Source::Lease)))),
            }
        }
    }

    /// Decides those who waited. Who came while the request was under way may wait for the next one, and nobody for a
    /// third: others may take what comes in time and again.
    pub(super) fn on_grant(&mut self, grant: &Grant, now_us: u64) {
        (self.last, self.last_us) = (grant.verdict, now_us);
        self.lessee.on_reply(now_us, grant);
        for _ in 0..self.waiting.len() {
            let Some(check) = self.waiting.pop_front() else { return };
            // The store had less than was asked for, and those before have it. If it had nothing, it said so of the
            // first cost, and a smaller one may still be asked for.
            let last = check.since < self.requests && grant.units > 0;
            let step = if last {
                let later = Step::Refuse { retry_after_us: Some(self.refill_us()) };
                self.lessee.resume_once(now_us, check.cost).unwrap_or(later)
            } else {
                self.lessee.resume(now_us, check.cost)
            };
            match step {
                Step::Wait => self.waiting.push_back(check),
                step => drop(check.done.send(Ok(self.decide_one(step, now_us, Source::Store)))),
            }
        }
    }

    /// When to come back after a grant that was too small. Nobody has asked the store for just that: after a lease's
    /// life this node knows more, unless all is there before.
    fn refill_us(&self) -> u64 {
        let ttl_us = u64::try_from(self.terms.ttl().as_micros()).unwrap_or(u64::MAX);
        self.last.decision.reset_after_us().clamp(1, ttl_us.max(1))
    }

    /// What was granted, if anything was, is lost; and nobody waits for longer than one request.
    pub(super) fn on_failure(&mut self, error: &StoreError) {
        self.lessee.on_failure();
        for check in self.waiting.drain(..) {
            drop(check.done.send(Err(error.clone())));
        }
    }

    /// A decision of the lessee, with what the store said last of the limits themselves.
    pub(super) fn decide_one(&self, step: Step, now_us: u64, source: Source) -> StoreReply {
        let Verdict { binding, decision } = self.last;
        let passed_us = now_us.saturating_sub(self.last_us);
        let reset_us = decision.reset_after_us().saturating_sub(passed_us);
        let decision = match step {
            Step::Admit { remaining, .. } => {
                Decision::admitted(decision.limit(), remaining, reset_us)
            }
            Step::Refuse { retry_after_us } => {
                let reset_us = reset_us.max(retry_after_us.unwrap_or(0));
                Decision::refused(decision.limit(), 0, retry_after_us, reset_us)
            }
            Step::Wait => decision,
        };
        StoreReply { source, ..StoreReply::by_store(Verdict { binding, decision }) }
    }
}
