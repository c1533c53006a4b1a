//! What a store can do beyond deciding.

use std::num::NonZeroU32;

use tidegate_core::Timestamp;

use super::{
    Changed, Coordination, KeyHasher, OverrideChange, OverrideStore, OverrideTable, ReadingReport,
    RemoteStore, StateUpdate, StoreError, StoreErrorKind, StoreResult, TickReadings,
};
use crate::reply::Reply;

/// The optional abilities of a [`Store`](crate::Store). Ask it for overrides or readings directly: where the store has
/// no such ability, the answer is [`StoreErrorKind::Unsupported`].
///
/// ```
/// use tidegate::{MemoryStore, OverrideStore, Store, StoreErrorKind, StoreExtensions, Timestamp};
///
/// let store = MemoryStore::default();
/// assert_eq!(store.extensions().overrides(0, Timestamp::EPOCH).now()?, None); // none set yet
///
/// assert!(store.extensions().coordination.is_some() && store.extensions().remote.is_none());
/// assert!(store.extensions().is_local() && store.extensions().key_hasher.is_none());
///
/// let none = StoreExtensions::default();
/// let error = none.overrides(0, Timestamp::EPOCH).now().unwrap_err();
/// assert_eq!(error.kind(), StoreErrorKind::Unsupported);
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreExtensions<'a> {
    /// Keeps overrides for all nodes that share the store.
    pub overrides: Option<&'a dyn OverrideStore>,
    /// Lets nodes share readings, and counts them.
    pub coordination: Option<&'a dyn Coordination>,
    /// The store is reached over a network.
    pub remote: Option<&'a dyn RemoteStore>,
    /// Identifiers are [hashed](crate::HashedKeys) before the store has them: those of overrides have to be, too.
    pub key_hasher: Option<&'a KeyHasher>,
}

impl StoreExtensions<'_> {
    /// Whether every reply is known at once, in this process: then a cache or lease in front saves nothing.
    pub const fn is_local(&self) -> bool {
        self.remote.is_none()
    }
}

impl OverrideStore for StoreExtensions<'_> {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        self.overrides.map_or_else(no_overrides, |it| it.overrides(known, now))
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        self.overrides.map_or_else(no_overrides, |it| it.change_override(change, now))
    }
}

impl Coordination for StoreExtensions<'_> {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        self.coordination.map_or_else(no_readings, |it| it.report_reading(report, now))
    }

    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool> {
        self.coordination.map_or_else(no_readings, |it| it.keep_state(update, now))
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.coordination?.nodes()
    }
}

fn no_overrides<T: Send>() -> StoreResult<T> {
    Reply::failed(StoreError::new(StoreErrorKind::Unsupported, "this store keeps no overrides"))
}

fn no_readings<T: Send>() -> StoreResult<T> {
    Reply::failed(StoreError::new(StoreErrorKind::Unsupported, "this store keeps no readings"))
}
