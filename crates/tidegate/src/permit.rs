//! Permits: places of a concurrency limit, given back by themselves.

use std::sync::Arc;

use tidegate_core::{Limit, Mode, Timestamp};

use crate::store::{Ask, KeyedLimit, Op, Scope, Store};

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
        for Held { scope, key, limit, id } in &self.held {
            let limits = [KeyedLimit { scope, key, limit }];
            let op = Op::Release { permit_id: *id };
            let ask = Ask { mode: Mode::All, limits: &limits, cost: 1, op };
            // Under way with the call, whoever waits for it. Giving back takes no memory, so that no time is needed
            // to find some.
            drop(self.store.answer(&ask, Timestamp::EPOCH));
        }
    }
}
