//! One request of the store, and what can be learnt from its answer.

use std::sync::Arc;

use tidegate_core::{Limit, Mode, Timestamp};

use super::refusals::{Asked, Refusals};
use super::returns::Returns;
use crate::clock::Clock;
use crate::reply::Reply;
use crate::store::fingerprint::Fingerprints;
use crate::store::{Source, Store, StoreError, StoreReply, StoreRequest};

/// How many refusals are remembered at most, in up to some 20 MB.
const MAX_REFUSALS: usize = 65_536;

/// What a cache and the requests under way share.
pub(super) struct Shared<S, C> {
    pub(super) store: S,
    pub(super) clock: C,
    pub(super) fingerprints: Fingerprints,
    pub(super) refusals: Refusals,
    pub(super) returns: Returns,
}

impl<S: Store + 'static, C: Clock + 'static> Shared<S, C> {
    pub(super) fn new(store: S, clock: C) -> Self {
        let fingerprints = Fingerprints::random();
        let (refusals, returns) = (Refusals::new(MAX_REFUSALS), Returns::new());
        Self { store, clock, fingerprints, refusals, returns }
    }

    /// A request that leaves now.
    pub(super) fn asked(&self, request: &StoreRequest<'_>) -> Asked {
        let mut returns = 0_u64;
        let seed = self.fingerprints.seed ^ u64::from(request.mode == Mode::Any);
        let mut fingerprint = mixed(seed, request.cost);
        for keyed in request.limits {
            let key = self.fingerprints.of(keyed.scope, keyed.key);
            returns = returns.wrapping_add(self.returns.to(key));
            fingerprint = mixed(fingerprint, key);
        }
        Asked { fingerprint, returns, left_us: self.clock.steady_us() }
    }

    /// Asks the store, and keeps what can be learnt from its answer.
    pub(super) fn ask(
        self: &Arc<Self>,
        asked: Asked,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        let limits = || request.limits.iter().map(|keyed| keyed.limit.clone()).collect();
        match self.store.decide(request, now).split() {
            Ok(answer) => {
                self.learn(&asked, &answer, limits);
                Reply::ready(answer)
            }
            Err(later) => {
                // Weak, because an unfinished ask is kept among the refusals.
                let (shared, limits) = (Arc::downgrade(self), limits());
                Reply::later(async move {
                    let answer = later.await;
                    if let Some(shared) = shared.upgrade() {
                        shared.learn(&asked, &answer, || limits);
                    }
                    answer
                })
            }
        }
    }

    fn learn(
        &self,
        asked: &Asked,
        answer: &Result<StoreReply, StoreError>,
        limits: impl FnOnce() -> Box<[Limit]>,
    ) {
        match answer {
            Ok(reply) if is_refusal(reply) => {
                self.refusals.refused(asked, limits(), reply.verdict, self.clock.steady_us());
            }
            Ok(_) => self.refusals.admitted(asked),
            Err(_) => self.refusals.failed(asked),
        }
    }
}

/// Whether an answer is worth remembering. Only the store's own: what another cache remembers has an age already.
pub(super) fn is_refusal(reply: &StoreReply) -> bool {
    reply.source == Source::Store && !reply.verdict.decision.allowed()
}

/// The folded product of two words, of which nobody outside knows one.
fn mixed(a: u64, b: u64) -> u64 {
    let (a, b) = (a ^ 0x9e37_79b9_7f4a_7c15, b ^ 0xd1b5_4a32_d192_ed03);
    let high = (u128::from(a) * u128::from(b)) >> 64;
    u64::try_from(high).unwrap_or_default() ^ a.wrapping_mul(b)
}
