//! What becomes of one call.

use std::sync::Arc;

use super::guarded::{Guarded, Passed};
use crate::store::StoreError;

/// A call under way. Dropped without an answer, it was abandoned.
pub(super) struct Watched<G: Guarded> {
    guarded: Arc<G>,
    passed: Passed,
    over: bool,
}

impl<G: Guarded> Watched<G> {
    pub(super) fn begin(guarded: &Arc<G>) -> Result<Self, StoreError> {
        let passed = guarded.pass()?;
        Ok(Self { guarded: guarded.clone(), passed, over: false })
    }

    pub(super) fn answered(&mut self, error: Option<&StoreError>) {
        self.over = true;
        self.guarded.answered(self.passed, error);
    }
}

impl<G: Guarded> Drop for Watched<G> {
    fn drop(&mut self) {
        if !self.over {
            self.guarded.abandoned(self.passed);
        }
    }
}
