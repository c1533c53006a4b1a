//! State in this process: what a [`Limiter`](crate::Limiter) counts in, and an [`Engine`](crate::Engine) by default.

pub use crate::store::memory::{MemoryStats, MemoryStore, Restored, SnapshotError, SnapshotFile};
