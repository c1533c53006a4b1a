//! Refusals that still hold: a bounded table. Time is an argument.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::{Decision, Limit, Verdict};

use super::shared_call::SharedCall;
use crate::store::KeyedLimit;
use crate::store::fingerprint::IdentityHasher;
use crate::sync::lock;

/// How long after a refusal has expired its key still counts as blocked, and how long an unanswered request is waited for.
pub(super) const PENDING_US: u64 = 1_000_000;

const SHARDS: u64 = 64;

/// How often a shard is swept for expired refusals, which takes some microseconds.
const SWEEP_EVERY_US: u64 = 10_000;

/// What identifies a request among refusals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    /// Of scopes with their factors, keys, cost and mode.
    pub(super) fingerprint: u64,
    /// How often units of these keys had been given back before it was sent.
    pub(super) returns: u64,
    /// When it was sent.
    pub(super) sent_us: u64,
    /// How long its refusal counts at most, since other nodes may give units back.
    pub(super) ttl_us: u64,
}

impl Lookup {
    /// How long a refusal holds, counted from before its request was sent.
    pub(super) fn hold_us(&self, decision: &Decision) -> u64 {
        decision.retry_after_us().map_or(self.ttl_us, |us| us.min(self.ttl_us))
    }
}

/// What is known about a request.
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// It would be refused.
    Refused(Verdict),
    /// Its refusal has just expired: ask the store, and let other callers wait for the answer.
    Expired(Arc<SharedCall>),
    /// Its refusal has expired, and another caller is asking the store.
    Asking(Arc<SharedCall>),
}

pub(super) struct Refusals {
    shards: Box<[Mutex<Shard>]>,
    max_per_shard: usize,
}

#[derive(Default)]
struct Shard {
    refusals: HashMap<u64, Refusal, BuildHasherDefault<IdentityHasher>>,
    sweep_at_us: u64,
}

struct Refusal {
    limits: Box<[Limit]>,
    verdict: Verdict,
    returns: u64,
    sent_us: u64,
    until_us: u64,
    asking: Option<Arc<SharedCall>>,
}

impl Refusals {
    pub(super) fn new(max: usize) -> Self {
        let shards: Box<[_]> = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { max_per_shard: max.div_ceil(shards.len()), shards }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).refusals.len()).sum()
    }

    pub(super) fn find(&self, lookup: &Lookup, limits: &[KeyedLimit<'_>]) -> Found {
        let mut shard = self.shard(lookup.fingerprint);
        let Some(refusal) = shard.refusals.get_mut(&lookup.fingerprint) else {
            return Found::Nothing;
        };
        let now_us = lookup.sent_us;
        if !refusal.is_about(lookup, limits) {
            return Found::Nothing;
        }
        if now_us < refusal.until_us {
            return Found::Refused(aged(&refusal.verdict, now_us.saturating_sub(refusal.sent_us)));
        }
        match &refusal.asking {
            Some(call) if !is_over(call.sent_us, now_us) => {
                return Found::Asking(call.clone());
            }
            None if is_over(refusal.until_us, now_us) => return Found::Nothing,
            // A request without an answer for that long is given up.
            Some(_) | None => {}
        }
        let call = Arc::new(SharedCall::new(now_us));
        refusal.asking = Some(call.clone());
        Found::Expired(call)
    }

    /// Remembers a refusal, if there is room.
    pub(super) fn refused(
        &self,
        lookup: &Lookup,
        limits: Box<[Limit]>,
        verdict: Verdict,
        now_us: u64,
    ) {
        let until_us = lookup.sent_us.saturating_add(lookup.hold_us(&verdict.decision));
        let Lookup { fingerprint, returns, sent_us, .. } = *lookup;
        let refusal = Refusal { limits, verdict, returns, sent_us, until_us, asking: None };
        let mut shard = self.shard(fingerprint);
        if let Some(known) = shard.refusals.get_mut(&fingerprint) {
            // Answers may overtake each other: keep the one to the later request.
            if known.sent_us <= sent_us || known.limits != refusal.limits {
                *known = refusal;
            }
        } else if shard.has_room(now_us, self.max_per_shard) {
            shard.refusals.insert(fingerprint, refusal);
        }
    }

    /// Forgets what an admission has disproved.
    pub(super) fn admitted(&self, lookup: &Lookup) {
        let mut shard = self.shard(lookup.fingerprint);
        let known = shard.refusals.get(&lookup.fingerprint);
        if known.is_some_and(|refusal| refusal.sent_us <= lookup.sent_us) {
            shard.refusals.remove(&lookup.fingerprint);
        }
    }

    /// The request failed: the next caller asks again.
    pub(super) fn failed(&self, lookup: &Lookup) {
        let mut shard = self.shard(lookup.fingerprint);
        if let Some(refusal) = shard.refusals.get_mut(&lookup.fingerprint) {
            refusal.asking.take_if(|call| call.sent_us == lookup.sent_us);
        }
    }

    fn shard(&self, fingerprint: u64) -> MutexGuard<'_, Shard> {
        // Neither the lowest nor the highest bits, by which the map finds its entries.
        let index = usize::try_from((fingerprint >> 40) % SHARDS).unwrap_or_default();
        lock(&self.shards[index])
    }
}

impl Shard {
    /// Drops expired refusals if it would grow. Whether one more may be remembered.
    fn has_room(&mut self, now_us: u64, max: usize) -> bool {
        let would_grow = self.refusals.len() >= self.refusals.capacity().min(max);
        if would_grow && now_us >= self.sweep_at_us {
            self.sweep_at_us = now_us.saturating_add(SWEEP_EVERY_US);
            self.refusals.retain(|_, refusal| refusal.is_of_use(now_us));
        }
        self.refusals.len() < max
    }
}

impl Refusal {
    /// Whether the lookup is for the same limits, later, with nothing given back in between.
    fn is_about(&self, lookup: &Lookup, limits: &[KeyedLimit<'_>]) -> bool {
        self.returns == lookup.returns
            && self.sent_us <= lookup.sent_us
            && self.limits.len() == limits.len()
            && self.limits.iter().zip(limits).all(|(limit, keyed)| limit == keyed.limit)
    }

    fn is_of_use(&self, now_us: u64) -> bool {
        let asking = self.asking.as_ref().is_some_and(|it| !is_over(it.sent_us, now_us));
        now_us < self.until_us || asking
    }
}

/// Whether a time is so long ago that it does not count any more.
const fn is_over(at_us: u64, now_us: u64) -> bool {
    now_us.saturating_sub(at_us) >= PENDING_US
}

/// A refusal some time later. It stays a refusal, so `retry_after` is never zero.
pub(super) fn aged(verdict: &Verdict, passed_us: u64) -> Verdict {
    let Verdict { binding, decision } = verdict;
    let retry_us = decision.retry_after_us().map(|us| us.saturating_sub(passed_us).max(1));
    let reset_us = decision.reset_after_us().saturating_sub(passed_us);
    let decision = Decision::refused(decision.limit(), decision.remaining(), retry_us, reset_us);
    Verdict { binding: *binding, decision }
}
