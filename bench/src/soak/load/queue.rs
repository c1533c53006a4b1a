//! When the requests to one door of one node are due, for the clients that share it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Instant;

use tokio::sync::Notify;

/// More requests than this do not wait: the load is far too high, and the rest counts as errors.
const WAITING_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Queue {
    due: RefCell<VecDeque<Instant>>,
    ready: Notify,
    is_closed: Cell<bool>,
}

impl Queue {
    pub(crate) fn push(&self, due: Instant) {
        let mut waiting = self.due.borrow_mut();
        if waiting.len() < WAITING_MAX {
            waiting.push_back(due);
            self.ready.notify_one();
        }
    }

    /// No more requests will come.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.ready.notify_waiters();
    }

    /// When the next request was due; `None` after the last one.
    pub(crate) async fn next(&self) -> Option<Instant> {
        loop {
            let next = self.due.borrow_mut().pop_front();
            if next.is_some() || self.is_closed.get() {
                return next;
            }
            self.ready.notified().await;
        }
    }
}
