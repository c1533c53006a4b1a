//! How locks are taken, and the atomics of the lock-free parts. `loom/` compiles those parts with a module of the same
//! name that holds loom's.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// Whether this is loom's model, where tables are small.
pub(crate) const MODELLED: bool = false;

/// Locks, also after a panic: no change under a lock of this crate can stop half way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
