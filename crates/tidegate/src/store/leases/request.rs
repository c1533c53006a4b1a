//! A request for units in flight. If it is lost with the runtime that waits for it, it reports that.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tokio::runtime::Handle;
use tokio::time::timeout_at;

use super::{Outbox, Shared};
use crate::clock::Clock;
use crate::reply::Later;
use crate::store::{Store, StoreError, StoreErrorKind, StoreReply};

/// A request without an answer yet. Dropped without one, it is reported as lost: otherwise its key could never ask again,
/// and the waiting checks would wait for ever.
pub(super) struct LeaseRequest<S: Store + 'static, C: Clock + 'static> {
    shared: Arc<Shared<S, C>>,
    fingerprint: u64,
    generation: u64,
    answered: bool,
}

impl<S: Store + 'static, C: Clock + 'static> LeaseRequest<S, C> {
    pub(super) const fn new(shared: Arc<Shared<S, C>>, fingerprint: u64, generation: u64) -> Self {
        Self { shared, fingerprint, generation, answered: false }
    }

    /// Handles the answer. Returns what is to be sent next.
    pub(super) fn answered(mut self, reply: Result<StoreReply, StoreError>) -> Option<Outbox> {
        self.answered = true;
        self.shared.on_reply(self.fingerprint, self.generation, reply)
    }

    /// Waits for the answer in the background; `false` if there is no runtime to do so.
    pub(super) fn wait_for(
        self,
        later: Later<'static, StoreReply, StoreError>,
        now: Timestamp,
    ) -> bool {
        let Ok(runtime) = Handle::try_current() else { return false };
        runtime.spawn(async move {
            let reply = self.reply(later).await;
            let shared = self.shared.clone();
            shared.send(self.answered(reply), now);
        });
        true
    }
}

impl<S: Store + 'static, C: Clock + 'static> LeaseRequest<S, C> {
    /// The reply. A check that has waited for another request before this one is answered at its own deadline.
    async fn reply(
        &self,
        mut later: Later<'static, StoreReply, StoreError>,
    ) -> Result<StoreReply, StoreError> {
        let (fingerprint, generation) = (self.fingerprint, self.generation);
        while let Some(due) = self.shared.next_due(fingerprint, generation) {
            if let Ok(reply) = timeout_at(due, &mut later).await {
                return reply;
            }
            self.shared.expire(fingerprint, generation);
        }
        later.await
    }
}

impl<S: Store + 'static, C: Clock + 'static> Drop for LeaseRequest<S, C> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.on_loss(self.fingerprint, self.generation);
        }
    }
}

pub(super) fn has_runtime() -> bool {
    Handle::try_current().is_ok()
}

pub(super) fn lost() -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, "nobody waits for the reply to a lease any more")
}
