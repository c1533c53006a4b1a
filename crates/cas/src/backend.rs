//! What a database has to offer.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::StoreServer;
use tidegate::{StoreError, Timestamp};
use tokio::time::Instant;

/// The name of an item: printable ASCII without spaces, up to 250 bytes.
pub type ItemKey = Arc<str>;

/// A place that keeps bytes under keys, and knows whether they have changed since they were read.
///
/// A call that is dropped, because its time is up, must not disturb later ones. An error says by its
/// [kind](tidegate::StoreErrorKind::ran) whether a write may have happened.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// What is different after every change of an item, also after it was removed and written again.
    type Version: Clone + Send + Sync + fmt::Debug;

    /// Reads items, in the order of `keys`, no key twice.
    fn read(
        &self,
        keys: &[ItemKey],
        due: Instant,
    ) -> impl Future<Output = Result<Snapshot<Self::Version>, StoreError>> + Send;

    /// The same for a backend that has to know for how long each item can matter at most, and that may fail to read some
    /// items and not others. The default reads them all.
    fn read_wanted(
        &self,
        wanted: &Wanted,
        due: Instant,
    ) -> impl Future<Output = Result<Reading<Self::Version>, StoreError>> + Send {
        async move {
            let snapshot = self.read(&wanted.keys, due).await?;
            Ok(Reading { snapshot, failed: Vec::new() })
        }
    }

    /// Writes each commit as a whole if all its items are unchanged, and otherwise nothing of it. Answers for each
    /// what became of it; an error is one of all of them. No two commits have an item in common.
    fn write(
        &self,
        commits: &[Commit<Self::Version>],
        due: Instant,
    ) -> impl Future<Output = Result<Vec<Written>, StoreError>> + Send;

    /// Whether the time of a [`Snapshot`] may come from another clock with each call, as it does from several servers.
    /// Then an item's time does not step back: it keeps the latest time it was decided at.
    fn has_several_clocks(&self) -> bool {
        false
    }

    /// The most items of one commit, at least 1; no bound by default. With 1, all limits of a check have to be on one
    /// identifier; otherwise as many as one check can name: 64.
    fn commit_items_max(&self) -> usize {
        usize::MAX
    }

    /// The most bytes of one item.
    fn item_bytes_max(&self) -> usize;

    /// The servers that decide together, as they were last seen; none by default.
    fn servers(&self) -> Vec<StoreServer> {
        Vec::new()
    }
}

/// The items of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Their names, no name twice.
    pub keys: Vec<ItemKey>,
    /// For each of them, how long what was ever written to it can matter at most: as the limits say, not as it was
    /// observed.
    pub lives_max: Vec<Duration>,
}

/// What a [`Backend`] has read of a batch.
#[derive(Clone, Debug)]
pub struct Reading<V> {
    /// What was read; anything for items that failed.
    pub snapshot: Snapshot<V>,
    /// The items that could not be read, by their place, and why. Nothing was written to them.
    pub failed: Vec<(usize, StoreError)>,
}

/// What a [`Backend`] has read.
#[derive(Clone, Debug)]
pub struct Snapshot<V> {
    /// The database's time, if it has a clock that can be asked.
    pub now: Option<Timestamp>,
    /// The items in the order they were asked for.
    pub items: Vec<Stored<V>>,
}

/// One item as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored<V> {
    /// `None` if there is no such item: also a version, which a write can expect.
    pub version: Option<V>,
    /// What is kept; empty if there is no such item.
    pub bytes: Vec<u8>,
}

/// Items that are written together or not at all.
#[derive(Clone, Debug)]
pub struct Commit<V> {
    /// At least one.
    pub updates: Vec<Update<V>>,
}

/// What became of a [`Commit`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// All of it was written.
    Done,
    /// Nothing was, because an item had changed: it is decided again.
    Changed,
    /// It failed by itself, and says whether it may have been written. An [overloaded](tidegate::StoreErrorKind::Overloaded)
    /// backend is given a pause.
    Failed(StoreError),
}

/// One item to write.
#[derive(Clone, Debug)]
pub struct Update<V> {
    /// Its name.
    pub key: ItemKey,
    /// Its version when it was read.
    pub expected: Option<V>,
    /// What it holds from now on; empty to remove it.
    pub bytes: Vec<u8>,
    /// How long it has to be kept; after that it may go.
    pub life: Duration,
}
