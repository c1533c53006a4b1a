//! What a breaker protects: a store, or one node of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::machine::Call;
use super::prober;
use super::switch::BreakerSwitch;
use crate::reply::Reply;
use crate::store::{StoreError, StoreErrorKind, StoreReply};

/// Something that a breaker protects. [`Breaker`](crate::Breaker) does so for a whole store; a store of several nodes
/// implements this for each of them.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::store_kit::{BreakerPass, BreakerSwitch, BreakerTarget};
/// use tidegate::{BreakerOptions, BreakerState, Reply, StoreError, StoreErrorKind, StoreReply};
///
/// struct Node {
///     switch: BreakerSwitch,
/// }
///
/// impl BreakerTarget for Node {
///     fn switch(&self) -> &BreakerSwitch {
///         &self.switch
///     }
///
///     fn probe(&self) -> Reply<'static, StoreReply, StoreError> {
///         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "still down")))
///     }
/// }
///
/// let node = Arc::new(Node { switch: BreakerSwitch::new(BreakerOptions::default()) });
/// let timeout = StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms");
/// for _ in 0..5 {
///     let pass: BreakerPass = node.pass()?;
///     node.answered(pass, Some(&timeout));
/// }
/// assert_eq!(node.switch().state(), BreakerState::Open);
/// # Ok::<(), StoreError>(())
/// ```
pub trait BreakerTarget: Send + Sync + Sized + 'static {
    /// Its breaker.
    fn switch(&self) -> &BreakerSwitch;

    /// A call that works if the others would.
    fn probe(&self) -> Reply<'static, StoreReply, StoreError>;

    /// Whether an error of this kind speaks of its health.
    fn has_failed(&self, kind: StoreErrorKind) -> bool {
        kind.is_store_failure()
    }

    /// Lets a call through, unless the breaker is open.
    fn pass(self: &Arc<Self>) -> Result<BreakerPass, StoreError> {
        let (opened, is_open) = self.switch().look();
        if is_open && prober::is_at_work(self) {
            let left_alone = "the store failed or was slow, and is left alone for now";
            return Err(StoreError::new(StoreErrorKind::BreakerOpen, left_alone));
        }
        Ok(BreakerPass { opened, began: Instant::now() })
    }

    /// Counts what became of a call, and answers whether the breaker opens for it.
    fn answered(self: &Arc<Self>, passed: BreakerPass, error: Option<&StoreError>) -> bool {
        let kind = error.map(StoreError::kind);
        let failed = kind.is_some_and(|kind| self.has_failed(kind));
        if kind.is_some() && !failed {
            return false;
        }
        let at_deadline = matches!(kind, Some(StoreErrorKind::Timeout | StoreErrorKind::NotSent));
        self.record(passed, failed, at_deadline || self.is_slow(passed))
    }

    /// Counts a call whose answer nobody waits for any more: a failure if that took long, otherwise nothing.
    fn abandoned(self: &Arc<Self>, passed: BreakerPass) {
        if self.is_slow(passed) {
            self.record(passed, true, true);
        }
    }

    /// Whether the call takes longer than [`BreakerOptions::slow`](crate::BreakerOptions::slow).
    fn is_slow(&self, passed: BreakerPass) -> bool {
        passed.began.elapsed() > self.switch().options().slow
    }

    /// Counts one call, and starts to probe if the breaker opens for it.
    fn record(self: &Arc<Self>, passed: BreakerPass, failed: bool, slow: bool) -> bool {
        let opens = self.switch().record(Call { opened: passed.opened, failed, slow });
        if opens {
            prober::is_at_work(self);
        }
        opens
    }
}

/// A call that the breaker let through.
///
/// ```
/// # use tidegate::store_kit::BreakerPass;
/// fn was_patient(pass: BreakerPass, due: tokio::time::Instant) -> bool {
///     pass.time_until(due).as_millis() >= 10
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BreakerPass {
    /// How often the breaker had opened by then.
    opened: u64,
    began: Instant,
}

impl BreakerPass {
    /// How long a caller was ready to wait that needs the reply by `due`.
    pub fn time_until(&self, due: Instant) -> Duration {
        due.saturating_duration_since(self.began)
    }
}
