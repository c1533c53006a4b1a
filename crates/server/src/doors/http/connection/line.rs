//! What happens on a connection, told to those who wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How many requests there were and are. Nothing else is ordered by these: they only have to become right soon.
#[derive(Debug, Default)]
pub(crate) struct Line {
    begun: AtomicU64,
    ended: AtomicU64,
    is_http2: AtomicBool,
}

/// A request that is under way, until this is dropped.
pub(super) struct UnderWay<'a>(&'a Line);

/// The same, for answers that go on after their head: until this is dropped the connection is busy.
#[derive(Debug)]
pub(crate) struct Held(Arc<Line>);

impl Line {
    /// Something goes on that keeps the connection busy.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.begin();
        Held(self.clone())
    }

    /// A request is there. Said before anything else is read.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// The request that has begun.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        UnderWay(self)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.begun.load(Relaxed) != self.ended.load(Relaxed)
    }

    /// Whether there was no request since this was last asked, and none is under way.
    pub(super) fn is_idle_since(&self, seen: &mut u64) -> bool {
        let begun = self.begun();
        let is_idle = begun == *seen && !self.is_busy();
        *seen = begun;
        is_idle
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2.load(Relaxed)
    }

    pub(super) fn speaks_http2(&self) {
        self.is_http2.store(true, Relaxed);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}
