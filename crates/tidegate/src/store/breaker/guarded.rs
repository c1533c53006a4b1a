//! What a breaker stands before: a store, or one node of Redis.

use std::sync::Arc;
#[cfg(feature = "redis")]
use std::time::Duration;

use tokio::time::Instant;

use super::health::says_failed;
use super::machine::Call;
use super::prober;
use super::switch::Switch;
use crate::reply::Reply;
use crate::store::{StoreError, StoreErrorKind, StoreReply};

/// Asked only while its breaker lets it be.
pub(crate) trait Guarded: Send + Sync + Sized + 'static {
    fn switch(&self) -> &Switch;

    /// A call that works if the others would.
    fn probe(&self) -> Reply<'static, StoreReply, StoreError>;

    /// Whether a kind speaks of its health.
    fn has_failed(&self, kind: StoreErrorKind) -> bool {
        says_failed(kind)
    }

    /// Lets a call through, unless the breaker is open.
    fn pass(self: &Arc<Self>) -> Result<Passed, StoreError> {
        let (opened, is_open) = self.switch().look();
        if is_open && prober::is_at_work(self) {
            let left_alone = "the store failed or was slow, and is left alone for now";
            return Err(StoreError::new(StoreErrorKind::BreakerOpen, left_alone));
        }
        Ok(Passed { opened, began: Instant::now() })
    }

    /// Counts what became of a call, and answers whether the breaker opens for it.
    fn answered(self: &Arc<Self>, passed: Passed, error: Option<&StoreError>) -> bool {
        let kind = error.map(StoreError::kind);
        let failed = kind.is_some_and(|kind| self.has_failed(kind));
        if kind.is_some() && !failed {
            return false;
        }
        let at_deadline = matches!(kind, Some(StoreErrorKind::Timeout | StoreErrorKind::NotSent));
        self.record(passed, failed, at_deadline || self.is_slow(passed))
    }

    /// Counts a call whose answer nobody waits for any more: a failure if that took long, otherwise nothing.
    fn abandoned(self: &Arc<Self>, passed: Passed) {
        if self.is_slow(passed) {
            self.record(passed, true, true);
        }
    }

    fn is_slow(&self, passed: Passed) -> bool {
        passed.began.elapsed() > self.switch().options().slow
    }

    fn record(self: &Arc<Self>, passed: Passed, failed: bool, slow: bool) -> bool {
        let opens = self.switch().record(Call { opened: passed.opened, failed, slow });
        if opens {
            prober::is_at_work(self);
        }
        opens
    }
}

/// A call that was let through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// How often the breaker had opened by then.
    opened: u64,
    began: Instant,
}

impl Passed {
    /// How long it was to wait that had to be answered by `due`.
    #[cfg(feature = "redis")]
    pub(crate) fn patience(&self, due: Instant) -> Duration {
        due.saturating_duration_since(self.began)
    }
}
