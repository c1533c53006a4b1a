//! The byte cap, shared by all parts of the store that allocate.

use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: AtomicUsize::new(0), max }
    }

    /// Takes `bytes` if they are within the cap.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = used.saturating_add(bytes) <= self.max;
        if !fits {
            self.give(bytes);
        }
        fits
    }

    /// Takes `bytes` that are in use already.
    pub(super) fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn exceeded(&self) -> bool {
        self.used() > self.max
    }
}
