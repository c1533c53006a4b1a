//! Probes beside the requests: one at a time, jittered, until the breaker closes or nobody holds it any more.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Gcra, Limit, Mode};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::health::says_failed;
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;
use crate::store::{Ask, KeyedLimit, Op, Scope, Settled, Store, StoreError, Trouble};

/// Whether somebody probes: starts to, if nobody does. Without a runtime nobody can.
pub(super) fn is_at_work<S: Store + 'static>(shared: &Arc<Shared<S>>) -> bool {
    if shared.has_prober.load(Ordering::Relaxed) {
        return true;
    }
    let Ok(runtime) = Handle::try_current() else { return false };
    if !shared.has_prober.swap(true, Ordering::AcqRel) {
        runtime.spawn(probe_until_closed(Prober(Arc::downgrade(shared))));
    }
    true
}

/// Says that it is gone, also when its runtime ends before the breaker does.
struct Prober<S>(Weak<Shared<S>>);

impl<S> Drop for Prober<S> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.has_prober.store(false, Ordering::Release);
        }
    }
}

async fn probe_until_closed<S: Store + 'static>(mut prober: Prober<S>) {
    loop {
        let Some(wait) = prober.0.upgrade().and_then(|shared| shared.next_probe(random())) else {
            return;
        };
        sleep(wait).await;
        // Not held while waiting: whoever drops the breaker ends this.
        let Some((probe, patience)) =
            prober.0.upgrade().map(|shared| ((shared.probe)(&shared.store), shared.options.slow))
        else {
            return;
        };
        let good = is_good(probe, patience).await;
        let Some(shared) = prober.0.upgrade() else { return };
        if shared.probed(good) {
            // Gone already, as far as the next opening is concerned.
            prober.0 = Weak::new();
            return;
        }
    }
}

/// Whether the store answered in time. What it cannot be blamed for is an answer too.
async fn is_good(probe: Reply<'static, Settled, StoreError>, patience: Duration) -> bool {
    match timeout(patience, probe).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => !says_failed(error.trouble()),
        Err(_) => false,
    }
}

/// A whole check on a key of its own. It takes, because a store that cannot write (a replica, no memory, no disk)
/// would still answer a peek.
pub(super) fn take_one<S: Store>(store: &S) -> Reply<'static, Settled, StoreError> {
    // More than any fleet will probe: a refusal would write nothing.
    let Ok(limit) = Gcra::new(1_000_000, Duration::from_secs(1), 1_000_000).map(Limit::from) else {
        return Reply::ready(Err(StoreError::new(Trouble::BadAsk, "no limit to probe with")));
    };
    let scope = Scope::named("_tidegate", "probe");
    let limits = [KeyedLimit { scope: &scope, key: b"probe", limit: &limit }];
    store
        .answer(&Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }, SystemClock.now())
}

/// From the operating system's randomness, by way of the keys of hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
