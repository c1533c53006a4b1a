//! Bytes per key, as the allocator counts them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::keys::key;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the allocated bytes.
pub struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; only a counter is updated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Bytes per key that a limiter holds after a million keys. The keys themselves belong to the caller.
pub fn per_key<L>(fill: impl Fn(&[String]) -> L) -> f64 {
    let keys: Vec<String> = (0..1_000_000).map(key).collect();
    let before = HELD.load(Ordering::Relaxed);
    let limiter = fill(&keys);
    let held = HELD.load(Ordering::Relaxed) - before;
    drop(limiter);
    held as f64 / keys.len() as f64
}
