//! Probes beside the requests: one at a time, jittered, until the breaker closes or nobody holds it any more.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Gcra, Limit, Mode};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::target::BreakerTarget;
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;
use crate::store::{
    KeyedLimit, Op, Scope, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
};

/// Whether somebody probes: starts to, if nobody does. Without a runtime nobody can.
pub(super) fn is_at_work<G: BreakerTarget>(target: &Arc<G>) -> bool {
    let has_prober = &target.switch().has_prober;
    if has_prober.load(Ordering::Relaxed) {
        return true;
    }
    let Ok(runtime) = Handle::try_current() else { return false };
    if !has_prober.swap(true, Ordering::AcqRel) {
        runtime.spawn(probe_until_closed(Prober(Arc::downgrade(target))));
    }
    true
}

/// Says that it is gone, also when its runtime ends before the breaker does.
struct Prober<G: BreakerTarget>(Weak<G>);

impl<G: BreakerTarget> Drop for Prober<G> {
    fn drop(&mut self) {
        if let Some(target) = self.0.upgrade() {
            target.switch().has_prober.store(false, Ordering::Release);
        }
    }
}

async fn probe_until_closed<G: BreakerTarget>(mut prober: Prober<G>) {
    let next = |target: Arc<G>| target.switch().next_probe(random());
    let start = |target: Arc<G>| (target.probe(), target.switch().options().slow);
    loop {
        let Some(wait) = prober.0.upgrade().and_then(next) else { return };
        sleep(wait).await;
        // Not held while waiting: whoever drops the breaker ends this.
        let Some((probe, patience)) = prober.0.upgrade().map(start) else { return };
        let answer = timeout(patience, probe).await;
        let Some(target) = prober.0.upgrade() else { return };
        // What it cannot be blamed for is an answer too.
        let good = match answer {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !target.has_failed(error.kind()),
            Err(_) => false,
        };
        if target.switch().probed(good) {
            // Gone already, as far as the next opening is concerned.
            prober.0 = Weak::new();
            return;
        }
    }
}

/// A whole check on a key of its own. It takes, because a store that cannot write (a replica, no memory, no disk)
/// would still answer a peek.
pub(super) fn take_one<S: Store>(store: &S) -> Reply<'static, StoreReply, StoreError> {
    with_probe_request(|request| store.decide(request, SystemClock.now())).unwrap_or_else(|| {
        Reply::ready(Err(StoreError::new(StoreErrorKind::BadRequest, "no limit to probe with")))
    })
}

/// Calls `send` with the request to probe with: it takes one unit of a key that no policy uses.
///
/// ```
/// # use tidegate::store_kit::with_probe_request;
/// assert_eq!(with_probe_request(|request| request.cost), Some(1));
/// ```
pub fn with_probe_request<T>(send: impl FnOnce(&StoreRequest<'_>) -> T) -> Option<T> {
    // More than any fleet will probe: a refusal would write nothing.
    let limit = Gcra::new(1_000_000, Duration::from_secs(1), 1_000_000).map(Limit::from).ok()?;
    let scope = Scope::named("_tidegate", "probe");
    let limits = [KeyedLimit { scope: &scope, key: b"probe", limit: &limit }];
    Some(send(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }))
}

/// From the operating system's randomness, by way of the keys of hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
