//! What limiters and shapers are built from.

use std::sync::Arc;

use tidegate_core::LimitError;

use crate::clock::{Clock, SystemClock};
use crate::store::Scope;
use crate::store::memory::MemoryStore;

/// Builds a [`Limiter`](crate::Limiter) or a [`Shaper`](crate::Shaper).
///
/// ```
/// use tidegate::{Limiter, ManualClock, MemoryStore};
///
/// let limiter = Limiter::builder("100/min burst 20")
///     .name("api")
///     .store(MemoryStore::with_max_bytes(16 << 20))
///     .clock(ManualClock::default())
///     .build()?;
/// assert!(limiter.check("user-42").allowed());
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder builds nothing by itself"]
pub struct Builder<L, C = SystemClock> {
    pub(crate) limit: Result<L, LimitError>,
    name: String,
    store: Option<Arc<MemoryStore>>,
    clock: C,
}

/// The keys of one limit: their scope, store and clock.
#[derive(Debug)]
pub(crate) struct KeySpace<C> {
    pub(crate) scope: Scope,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: C,
}

impl<L> Builder<L> {
    pub(crate) fn new(limit: Result<L, LimitError>) -> Self {
        Self { limit, name: String::new(), store: None, clock: SystemClock }
    }
}

impl<L, C: Clock> Builder<L, C> {
    /// Keeps the keys of those who share a store apart.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Limiter, MemoryStore};
    /// let store = Arc::new(MemoryStore::default());
    /// let reads = Limiter::builder("1/h").name("reads").store(store.clone()).build()?;
    /// let writes = Limiter::builder("1/h").name("writes").store(store).build()?;
    /// assert!(reads.check("user-42").allowed());
    /// assert!(writes.check("user-42").allowed()); // under another name, another count
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Keeps state in a store that others may share; give each of them a name.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Limiter, MemoryStore};
    /// let store = Arc::new(MemoryStore::with_max_bytes(16 << 20));
    /// let limiter = Limiter::builder("5/h").name("api").store(store.clone()).build()?;
    /// assert!(limiter.check("user-42").allowed());
    /// assert_eq!(store.stats().keys, 1);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn store(mut self, store: impl Into<Arc<MemoryStore>>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// Takes time from another clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Limiter, ManualClock};
    /// let clock = ManualClock::default();
    /// let limiter = Limiter::builder("1/h").clock(clock.clone()).build()?;
    /// assert!(limiter.check("user-42").allowed());
    /// clock.advance(Duration::from_secs(3600)); // a test need not wait
    /// assert!(limiter.check("user-42").allowed());
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> Builder<L, D> {
        Builder { limit: self.limit, name: self.name, store: self.store, clock }
    }

    pub(crate) fn into_parts(self) -> Result<(L, KeySpace<C>), LimitError> {
        let scope = Scope::named(&self.name, "");
        let store = self.store.unwrap_or_default();
        Ok((self.limit?, KeySpace { scope, store, clock: self.clock }))
    }
}
