//! What becomes of one call.

use std::sync::Arc;

use super::target::{BreakerPass, BreakerTarget};
use crate::store::StoreError;

/// A call under way. Dropped without an answer, it was abandoned.
pub(super) struct Watched<G: BreakerTarget> {
    target: Arc<G>,
    passed: BreakerPass,
    over: bool,
}

impl<G: BreakerTarget> Watched<G> {
    pub(super) fn begin(target: &Arc<G>) -> Result<Self, StoreError> {
        let passed = target.pass()?;
        Ok(Self { target: target.clone(), passed, over: false })
    }

    pub(super) fn answered(&mut self, error: Option<&StoreError>) {
        self.over = true;
        self.target.answered(self.passed, error);
    }
}

impl<G: BreakerTarget> Drop for Watched<G> {
    fn drop(&mut self) {
        if !self.over {
            self.target.abandoned(self.passed);
        }
    }
}
