//! One key of this node: its lease holder, and the checks that wait for the store.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tidegate_core::{Decision, Grant, LeaseHolder, Limit, Mode, Step, Terms, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::{
    KeyedLimit, Op, Scope, Source, StoreError, StoreErrorKind, StoreReply, StoreRequest,
};

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
    /// How often units of its keys had been given back when the last request was sent.
    pub(super) returns: u64,
    /// What the store answered last, and when.
    last: Verdict,
    last_us: u64,
    /// Why the store did not answer last time it failed.
    failure: Option<StoreError>,
}

/// A check that waits for the store.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) cost: u64,
    /// How many requests had been sent when it came.
    pub(super) since: u64,
    /// When it has to be answered. Until then at the latest, the request in flight when it came is over.
    pub(super) due: Option<Instant>,
    /// It waits for another request after that one.
    pub(super) waits_again: bool,
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
    fingerprint: u64,
    plain: Limit,
    leased: Limit,
}

impl LeasedLimits {
    pub(super) fn new(
        limits: &[KeyedLimit<'_>],
        leased: Vec<Limit>,
        fingerprint: impl Fn(&KeyedLimit<'_>) -> u64,
    ) -> Arc<Self> {
        let own = |(keyed, leased): (&KeyedLimit<'_>, Limit)| OwnedLimit {
            scope: keyed.scope.clone(),
            key: keyed.key.into(),
            fingerprint: fingerprint(keyed),
            plain: keyed.limit.clone(),
            leased,
        };
        Arc::new(Self { limits: limits.iter().zip(leased).map(own).collect() })
    }

    /// One for each scope and key.
    pub(super) fn fingerprints(&self) -> impl Iterator<Item = u64> {
        self.limits.iter().map(|own| own.fingerprint)
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
            returns: 0,
            last: Verdict { binding: 0, decision: Decision::admitted(ceiling, ceiling, 0) },
            last_us: now_us,
            failure: None,
        }
    }

    /// Whether these are its limits, unchanged.
    pub(super) fn has_limits(&self, limits: &[KeyedLimit<'_>]) -> bool {
        let own = &self.limits.limits;
        let same = |(own, it): (&OwnedLimit, &KeyedLimit<'_>)| {
            own.plain == *it.limit && own.scope.factor() == it.scope.factor()
        };
        own.len() == limits.len() && own.iter().zip(limits).all(same)
    }

    /// Whether nothing is held, asked for or waited for.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.holder.is_idle()
    }

    /// Takes over the checks that waited for another holder of this key, and so for a request before.
    pub(super) fn take_over(&mut self, waiting: VecDeque<Waiting>, now_us: u64) {
        for check in waiting {
            match self.holder.check(now_us, check.cost) {
                Step::Wait => {
                    let since = self.requests;
                    self.waiting.push_back(Waiting { since, waits_again: true, ..check });
                }
                step => drop(check.done.send(self.decide_one(step, now_us, Source::Lease))),
            }
        }
    }

    /// Replaces another holder of this key. While that leaves the store alone after a failure, so does this one.
    pub(super) fn succeed(&mut self, before: &Self) {
        self.holder = before.holder.successor(self.terms);
        self.failure.clone_from(&before.failure);
    }

    /// Decides the waiting checks. One that came while the request was in flight may wait for the next one, but not for a
    /// third: others could take the units each time.
    ///
    /// A check whose caller has gone is dropped: it would spend units that nobody uses. Where units were given back while
    /// the request was in flight (`gave_back`), the store may have decided before: then a refusal counts for nobody.
    pub(super) fn on_grant(&mut self, grant: &Grant, gave_back: bool, now_us: u64) {
        (self.last, self.last_us) = (grant.verdict, now_us);
        self.holder.on_reply(now_us, &self.in_leased_units(grant));
        if gave_back {
            self.holder.forget_refusal();
        }
        for _ in 0..self.waiting.len() {
            let Some(check) = self.waiting.pop_front() else { return };
            if check.done.is_closed() {
                self.holder.withdraw(check.cost);
                continue;
            }
            // The store granted less than was asked for, and earlier checks have spent it. If it granted nothing, that
            // was for the first cost; a smaller one may still be asked for.
            let last = check.since < self.requests && grant.units > 0;
            let step = if last {
                let later = Step::Refuse { retry_after_us: refill_us(grant) };
                self.holder.resume_once(now_us, check.cost).unwrap_or(later)
            } else {
                self.holder.resume(now_us, check.cost)
            };
            match step {
                Step::Wait => self.waiting.push_back(Waiting { waits_again: true, ..check }),
                step => drop(check.done.send(self.decide_one(step, now_us, Source::Store))),
            }
        }
    }

    /// What a leased unit takes of the limit that the store's last answer speaks of.
    fn binding_factor(&self) -> u64 {
        self.limits.limits.get(self.last.binding).map_or(1, |own| own.scope.factor())
    }

    /// A grant as the holder counts: if a leased unit takes several of the binding limit, fewer units are left of it.
    fn in_leased_units(&self, grant: &Grant) -> Grant {
        let Verdict { binding, decision } = grant.verdict;
        let left = decision.remaining() / self.binding_factor();
        // The holder reads nothing else of it.
        let decision = Decision::admitted(decision.limit(), left, decision.reset_after_us());
        Grant { verdict: Verdict { binding, decision }, ..*grant }
    }

    /// When the first check has to be answered that waits for a second request: the request's own deadline is later.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().filter(|check| check.waits_again).find_map(|check| check.due)
    }

    /// Fails the checks whose time is up. Nothing was charged for them: what is granted later, others spend.
    pub(super) fn expire(&mut self, now: Instant) {
        let late = || StoreError::new(StoreErrorKind::NotSent, "no units within the deadline");
        for _ in 0..self.waiting.len() {
            let Some(check) = self.waiting.pop_front() else { return };
            if check.waits_again && check.due.is_some_and(|due| due <= now) {
                self.holder.withdraw(check.cost);
                drop(check.done.send(Err(late())));
            } else {
                self.waiting.push_back(check);
            }
        }
    }

    /// A grant that was not received is lost. All waiting checks fail, and so do those that come until the store is asked
    /// again.
    pub(super) fn on_failure(&mut self, error: StoreError, now_us: u64) {
        // Each `RandomState` has keys of its own: that is all the randomness that is needed.
        self.holder.on_failure(now_us, RandomState::new().hash_one(now_us));
        self.fail_all(&error);
        self.failure = Some(error.for_unsent());
    }

    /// The request could not be sent, or nobody waits for its reply any more: no failure of the store.
    pub(super) fn cancel(&mut self, error: &StoreError) {
        self.holder.cancel();
        self.fail_all(error);
    }

    fn fail_all(&mut self, error: &StoreError) {
        for check in self.waiting.drain(..) {
            drop(check.done.send(Err(error.clone())));
        }
    }

    fn unavailable(&self) -> StoreError {
        let failed = || StoreError::new(StoreErrorKind::NotSent, "another request has just failed");
        self.failure.clone().unwrap_or_else(failed)
    }

    /// The verdict of a check that is admitted, with so many units left.
    #[inline]
    pub(super) fn admit(&self, remaining: u64, now_us: u64) -> Verdict {
        let Verdict { binding, decision } = self.last;
        let factor = self.binding_factor();
        // Most limits have the factor 1, which divides everything.
        let rest = if factor == 1 { 0 } else { decision.remaining() % factor };
        let remaining = remaining.saturating_mul(factor).saturating_add(rest);
        let decision = Decision::admitted(decision.limit(), remaining, self.reset_us(now_us));
        Verdict { binding, decision }
    }

    fn reset_us(&self, now_us: u64) -> u64 {
        let passed_us = now_us.saturating_sub(self.last_us);
        self.last.decision.reset_after_us().saturating_sub(passed_us)
    }

    /// A decision of the holder as a reply, with the limit and reset time that the store answered last.
    pub(super) fn decide_one(
        &self,
        step: Step,
        now_us: u64,
        source: Source,
    ) -> Result<StoreReply, StoreError> {
        let Verdict { binding, decision } = self.last;
        let reset_us = self.reset_us(now_us);
        let decision = match step {
            Step::Admit { remaining, .. } => self.admit(remaining, now_us).decision,
            Step::Refuse { retry_after_us } => {
                let reset_us = reset_us.max(retry_after_us.unwrap_or(0));
                Decision::refused(decision.limit(), decision.remaining(), retry_after_us, reset_us)
            }
            Step::Wait => decision,
            Step::Unavailable => return Err(self.unavailable()),
        };
        Ok(StoreReply { source, ..StoreReply::by_store(Verdict { binding, decision }) })
    }
}

/// When to retry after a grant that was too small for all who waited for it.
fn refill_us(grant: &Grant) -> Option<u64> {
    (grant.more_after_us != u64::MAX).then_some(grant.more_after_us.max(1))
}
