//! Bytes per key, as the allocator counts them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::keys::key;

/// Only while a limiter is filled: at other times two threads that allocate would contend for the count.
static COUNTS: AtomicBool = AtomicBool::new(false);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the allocated bytes.
pub struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; only a counter is updated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Ordering::Relaxed) {
            HELD.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if COUNTS.load(Ordering::Relaxed) {
            HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A limiter that has seen so many keys, and the bytes per key that it holds. The keys themselves belong to the caller.
pub fn filled<L>(count: usize, fill: impl Fn(&[String]) -> L) -> (L, f64) {
    let keys: Vec<String> = (0..count).map(key).collect();
    HELD.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let limiter = fill(&keys);
    COUNTS.store(false, Ordering::Relaxed);
    (limiter, HELD.load(Ordering::Relaxed) as f64 / count as f64)
}

/// Bytes per key after a million keys.
pub fn per_key<L>(fill: impl Fn(&[String]) -> L) -> f64 {
    filled(1_000_000, fill).1
}
