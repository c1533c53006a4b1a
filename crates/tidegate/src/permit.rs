//! Permits: places of a concurrency limit, given back by themselves.

use std::sync::Arc;

use crate::store::memory::MemoryStore;

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
    store: Arc<MemoryStore>,
    /// Fingerprints and the ids of the permits held under them.
    held: Vec<(u64, u64)>,
}

impl Permit {
    pub(crate) fn new(store: Arc<MemoryStore>, held: Vec<(u64, u64)>) -> Self {
        Self { store, held }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for (fingerprint, id) in &self.held {
            self.store.release(*fingerprint, *id);
        }
    }
}
