//! A closure of the user's, shared by the clones of a layer.

use std::fmt;
use std::sync::Arc;

/// A question about an `A`.
pub(super) struct Hook<A, R>(Arc<dyn Fn(&A) -> R + Send + Sync>);

impl<A, R> Hook<A, R> {
    pub(super) fn new(ask: impl Fn(&A) -> R + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    pub(super) fn ask(&self, about: &A) -> R {
        (self.0)(about)
    }
}

impl<A, R> Clone for Hook<A, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A, R> fmt::Debug for Hook<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closure")
    }
}
