//! What becomes of one call.

use std::sync::Arc;

use tokio::time::Instant;

use super::health::says_failed;
use super::machine::Call;
use super::{Shared, prober};
use crate::store::{Store, StoreError, Trouble};

/// A call under way. Dropped without an answer, it was abandoned.
pub(super) struct Watched<S: Store + 'static> {
    shared: Arc<Shared<S>>,
    /// How often the breaker had opened by then.
    opened: u64,
    began: Instant,
    over: bool,
}

impl<S: Store + 'static> Watched<S> {
    pub(super) fn begin(shared: &Arc<Shared<S>>, opened: u64) -> Self {
        Self { shared: shared.clone(), opened, began: Instant::now(), over: false }
    }

    pub(super) fn answered(&mut self, error: Option<&StoreError>) {
        self.over = true;
        let trouble = error.map(StoreError::trouble);
        let failed = trouble.is_some_and(says_failed);
        if failed || trouble.is_none() {
            let at_deadline = matches!(trouble, Some(Trouble::Timeout | Trouble::NotSent));
            self.record(failed, at_deadline || self.is_slow());
        }
    }

    fn is_slow(&self) -> bool {
        self.began.elapsed() > self.shared.options.slow
    }

    fn record(&self, failed: bool, slow: bool) {
        let shared = &self.shared;
        let mut machine = shared.machine();
        let call = Call { opened: self.opened, failed, slow };
        if machine.record(shared.now_us(), call) {
            shared.show(&machine);
            drop(machine);
            prober::is_at_work(shared);
        }
    }
}

impl<S: Store + 'static> Drop for Watched<S> {
    fn drop(&mut self) {
        if !self.over && self.is_slow() {
            self.record(true, true);
        }
    }
}
