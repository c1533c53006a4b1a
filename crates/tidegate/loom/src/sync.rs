//! Loom's stand-ins for what the library takes from the standard library.

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
pub use loom::thread::yield_now;

/// Small tables, and no spinning without letting another thread run.
pub const MODELLED: bool = true;
