//! One key of this node: its lease holder, and the checks that wait for the store.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Decision, Grant, LeaseHolder, Limit, Mode, Step, Terms, Verdict};
use tokio::sync::oneshot;

use crate::clock::micros;
use crate::store::{KeyedLimit, Op, Scope, Source, StoreError, StoreReply, StoreRequest};

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) holder: LeaseHolder,
    pub(super) terms: Terms,
    pub(super) limits: Arc<LeasedLimits>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) generation: u64,
    /// How many requests were sent.
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
    /// How many requests had been sent when it came.
    pub(super) since: u64,
    pub(super) done: oneshot::Sender<Result<StoreReply, StoreError>>,
}

/// The limits of a key, as declared and as the store counts them.
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
            holder: LeaseHolder::new(terms),
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
    pub(super) fn has_limits(&self, limits: &[KeyedLimit<'_>]) -> bool {
        let own = &self.limits.limits;
        own.len() == limits.len() && own.iter().zip(limits).all(|(own, it)| own.plain == *it.limit)
    }

    /// Whether nothing is held, asked for or waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.holder.is_idle()
    }

    /// Takes over the checks that waited for another holder of this key.
    pub(super) fn take_over(&mut self, waiting: VecDeque<Waiting>, now_us: u64) {
        for check in waiting {
            match self.holder.check(now_us, check.cost) {
                Step::Wait => self.waiting.push_back(Waiting { since: self.requests, ..check }),
                step => drop(check.done.send(Ok(self.decide_one(step, now_us, Source::Lease)))),
            }
        }
    }

    /// Decides the waiting checks. One that came while the request was in flight may wait for the next one, but not for a
    /// third: others could take the units each time.
    pub(super) fn on_grant(&mut self, grant: &Grant, now_us: u64) {
        (self.last, self.last_us) = (grant.verdict, now_us);
        self.holder.on_reply(now_us, grant);
        for _ in 0..self.waiting.len() {
            let Some(check) = self.waiting.pop_front() else { return };
            // The store granted less than was asked for, and earlier checks have spent it. If it granted nothing, that
            // was for the first cost; a smaller one may still be asked for.
            let last = check.since < self.requests && grant.units > 0;
            let step = if last {
                let later = Step::Refuse { retry_after_us: Some(self.refill_us()) };
                self.holder.resume_once(now_us, check.cost).unwrap_or(later)
            } else {
                self.holder.resume(now_us, check.cost)
            };
            match step {
                Step::Wait => self.waiting.push_back(check),
                step => drop(check.done.send(Ok(self.decide_one(step, now_us, Source::Store)))),
            }
        }
    }

    /// When to retry after a grant that was too small. The store was not asked for this cost, so at most the lifetime of a
    /// lease, after which this node knows more, and at most until the limit is whole.
    fn refill_us(&self) -> u64 {
        let ttl_us = micros(self.terms.ttl());
        self.last.decision.reset_after_us().clamp(1, ttl_us.max(1))
    }

    /// A grant that was not received is lost. All waiting checks fail.
    pub(super) fn on_failure(&mut self, error: &StoreError) {
        self.holder.on_failure();
        for check in self.waiting.drain(..) {
            drop(check.done.send(Err(error.clone())));
        }
    }

    /// A decision of the holder as a reply, with the limit and reset time that the store answered last.
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
