//! Permits: places of a concurrency limit, given back by themselves.

use std::sync::Arc;

use tidegate_core::{Limit, Mode, Timestamp};

use crate::reply::Reply;
use crate::store::{Ask, KeyedLimit, Op, Scope, Settled, Store, StoreError};

/// The answer to an `acquire`.
///
/// ```
/// let exports = tidegate::Limiter::new("concurrency 1")?;
/// match exports.acquire("user-42") {
///     tidegate::Acquired { permit: Some(_permit), .. } => println!("exporting"),
///     tidegate::Acquired { answer, .. } => println!("busy: {:?}", answer.retry_after()),
/// }
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once holds nothing"]
pub struct Acquired<A> {
    /// What was decided.
    pub answer: A,
    /// What was granted; `None` on a refusal.
    pub permit: Option<Permit>,
}

/// Places held. Given back when dropped.
///
/// A release that fails is sent again in the background, four times within some seconds, where permits come from a store
/// over the network and there is a tokio runtime. If that fails too, the place comes back when its lease ends.
///
/// ```
/// use tidegate::{Limiter, Permit};
///
/// let exports = Limiter::new("concurrency 1 lease 30s")?;
/// let permit: Option<Permit> = exports.acquire("user-42").permit;
/// assert_eq!(exports.peek("user-42", 0).remaining(), 0);
/// drop(permit); // as at the end of the work, or where it fails
/// assert_eq!(exports.peek("user-42", 0).remaining(), 1);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once holds nothing"]
pub struct Permit {
    store: Arc<dyn Store>,
    held: Vec<Held>,
}

/// Places held under one limit.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) scope: Scope,
    pub(crate) key: Box<[u8]>,
    pub(crate) limit: Limit,
    pub(crate) id: u64,
}

impl Permit {
    pub(crate) fn new(store: Arc<dyn Store>, held: Vec<Held>) -> Self {
        Self { store, held }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for held in self.held.drain(..) {
            // Under way with the call, whoever waits for it.
            let reply = held.release(&*self.store);
            #[cfg(any(feature = "breaker", feature = "leases"))]
            again::see_to(reply, &self.store, held);
            #[cfg(not(any(feature = "breaker", feature = "leases")))]
            drop(reply);
        }
    }
}

impl Held {
    fn release(&self, store: &dyn Store) -> Reply<'static, Settled, StoreError> {
        let Self { scope, key, limit, id } = self;
        let limits = [KeyedLimit { scope, key, limit }];
        let op = Op::Release { permit_id: *id };
        // Giving back takes no memory, so that no time is needed to find some.
        store.answer(&Ask { mode: Mode::All, limits: &limits, cost: 1, op }, Timestamp::EPOCH)
    }
}

/// Releases that fail. A place that stays taken for its whole lease is worth some more messages; and as ids do not
/// repeat, a release that ran after all frees nobody else's place when it is sent again.
#[cfg(any(feature = "breaker", feature = "leases"))]
mod again {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Held;
    use crate::reply::Reply;
    use crate::store::{Settled, Store, StoreError};

    /// How long to wait before each further attempt: long enough, in all, for a breaker to close or a replica to be
    /// promoted.
    const PAUSES: [Duration; 4] = [
        Duration::from_millis(50),
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(5),
    ];

    /// Sends a release again if it fails, in the background, as long as there is a runtime.
    pub(super) fn see_to(
        reply: Reply<'static, Settled, StoreError>,
        store: &Arc<dyn Store>,
        held: Held,
    ) {
        let first = reply.split();
        if matches!(first, Ok(Ok(_))) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let store = store.clone();
        runtime.spawn(async move {
            let mut released = match first {
                Ok(known) => known.is_ok(),
                Err(later) => later.await.is_ok(),
            };
            for pause in PAUSES {
                if released {
                    return;
                }
                tokio::time::sleep(pause).await;
                released = held.release(&*store).await.is_ok();
            }
        });
    }
}
