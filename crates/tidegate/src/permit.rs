//! Permits of a concurrency limit, released when dropped.

mod id;

use std::sync::Arc;

use tidegate_core::{Limit, Mode, Timestamp};

pub(crate) use self::id::HeldPermits;
pub use self::id::{BadPermitId, PermitId};
use crate::store::{KeyedLimit, Op, Scope, Store, StoreReply, StoreRequest, StoreResult};

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

/// Permits of a concurrency limit. Released when dropped.
///
/// A release that fails is sent again in the background, four times within some seconds, where permits come from a store
/// over the network and there is a tokio runtime. If that fails too, the permit is freed when its lease ends.
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
    /// Whether the permits come from the local fallback, because the store failed.
    is_fallback: bool,
}

/// Permits held under one limit, and where to release them.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) permits: HeldPermits,
    pub(crate) scope: Scope,
    pub(crate) key: Box<[u8]>,
    pub(crate) limit: Limit,
}

impl Permit {
    pub(crate) fn new(store: Arc<dyn Store>, held: Vec<Held>, is_fallback: bool) -> Self {
        Self { store, held, is_fallback }
    }

    /// Turns the permit into an id that can be written as text. It is then released only by
    /// [`Engine::release`](crate::Engine::release), or when its lease ends.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key};
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let Some(permit) = engine.acquire("export", "user-42").now()?.permit else { panic!("refused") };
    /// let text = permit.into_id().to_string(); // to another process, and back
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// assert!(engine.acquire("export", "user-42").now()?.permit.is_none());
    /// engine.release(&check, &text.parse()?).now()?;
    /// assert!(engine.acquire("export", "user-42").now()?.permit.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_id(mut self) -> PermitId {
        let held = std::mem::take(&mut self.held);
        let permits = held.into_iter().map(|held| held.permits).collect();
        PermitId::new(self.is_fallback, permits)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for held in self.held.drain(..) {
            // Sent by the call itself, even if the reply is dropped.
            let reply = held.release(&*self.store);
            #[cfg(any(feature = "breaker", feature = "leases"))]
            retry::release_in_background(reply, &self.store, held);
            #[cfg(not(any(feature = "breaker", feature = "leases")))]
            drop(reply);
        }
    }
}

impl Held {
    pub(crate) fn release(&self, store: &dyn Store) -> StoreResult<StoreReply> {
        let Self { permits, scope, key, limit } = self;
        let limits = [KeyedLimit { scope, key, limit }];
        let (cost, op) = (permits.cost, Op::Release { permit_id: permits.id });
        // The store needs the time only to evict keys for memory, and a release takes none.
        store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost, op }, Timestamp::EPOCH)
    }
}

/// Retries of failed releases, so that a permit is not taken for its whole lease. Ids do not repeat, so a release that did
/// run frees no other permit when it is sent again.
#[cfg(any(feature = "breaker", feature = "leases"))]
mod retry {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Held;
    use crate::store::{Store, StoreReply, StoreResult};

    /// How long to wait before each further attempt: long enough, in all, for a breaker to close or a replica to be
    /// promoted.
    const PAUSES: [Duration; 4] = [
        Duration::from_millis(50),
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(5),
    ];

    /// Sends a release again if it fails, in the background, as long as there is a runtime.
    pub(super) fn release_in_background(
        reply: StoreResult<StoreReply>,
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
