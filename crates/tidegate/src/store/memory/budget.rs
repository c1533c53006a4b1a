//! The byte cap, shared by the parts of the store that allocate.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What bytes are for. Neither use can take all: an eighth of the cap is always left to the other, so that a flood
/// of keys of one kind does not switch limits of the other kind off.
#[derive(Clone, Copy)]
pub(super) enum Use {
    Lines,
    WideStates,
}

pub(super) struct Budget {
    used: [AtomicUsize; 2],
    max: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: [AtomicUsize::new(0), AtomicUsize::new(0)], max }
    }

    /// Takes `bytes` if they are within the cap.
    pub(super) fn try_take(&self, bytes: usize, of: Use) -> bool {
        self.take(bytes, of);
        let share = self.max - self.max / 8;
        let fits = self.used[of as usize].load(Ordering::Relaxed) <= share && !self.exceeded();
        if !fits {
            self.give(bytes, of);
        }
        fits
    }

    /// Takes `bytes` that are in use already.
    pub(super) fn take(&self, bytes: usize, of: Use) {
        self.used[of as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give(&self, bytes: usize, of: Use) {
        self.used[of as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.iter().map(|used| used.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn exceeded(&self) -> bool {
        self.used() > self.max
    }
}
