//! The atomics of the lock-free parts. `loom/` compiles those parts with a room of the same name that holds
//! loom's.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

/// Whether this is loom's model, where tables are small.
pub(crate) const MODELLED: bool = false;
