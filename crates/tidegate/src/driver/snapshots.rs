//! Snapshots of a store in memory: its file, and what has become of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::Timestamp;

use super::{MemoryOptions, StoreMonitor, StoreReport};
use crate::store::memory::{MemoryStore, Restored, SnapshotFile};
use crate::store::{StoreError, StoreErrorKind};

/// Saves a store in memory, which was restored when it was opened.
///
/// ```
/// use tidegate::driver::{MemoryOptions, StoreDrivers, StoreOptions};
/// use tidegate::{Clock, Restored, SystemClock};
///
/// # let path = std::env::temp_dir().join(format!("tidegate-snapshots-{}", std::process::id()));
/// let memory = MemoryOptions { snapshot: Some(path.clone()), ..MemoryOptions::default() };
/// let options = StoreOptions { memory, ..StoreOptions::default() };
/// let opened = StoreDrivers::MEMORY.open("memory:", &options)?;
/// let snapshots = opened.snapshots().expect("the options name a file");
/// assert!(matches!(snapshots.restored(), Restored::Nothing));
/// snapshots.save(SystemClock.now())?;
/// assert_eq!(opened.report().snapshots.map(|stats| (stats.written, stats.failed)), Some((1, 0)));
/// # std::fs::remove_file(path.with_extension("lock"))?;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Snapshots {
    store: Arc<MemoryStore>,
    file: SnapshotFile,
    restored: Restored,
    written: AtomicU64,
    failed: AtomicU64,
    last_us: AtomicU64,
}

/// How often a store in memory was saved, since it was opened.
///
/// ```
/// use tidegate::driver::SnapshotStats;
///
/// let SnapshotStats { written, failed, set_aside, last_us } = SnapshotStats::default();
/// assert_eq!((written, failed, set_aside, last_us), (0, 0, 0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SnapshotStats {
    /// Snapshots that were written.
    pub written: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Files that could not be read, and were renamed: 0 or 1.
    pub set_aside: u64,
    /// When the last one was written, in µs since the Unix epoch; 0 for never.
    pub last_us: u64,
}

impl Snapshots {
    /// Restores the store that the file holds.
    pub(super) fn open(file: SnapshotFile, max_bytes: usize, now: Timestamp) -> io::Result<Self> {
        let (store, restored) = file.restore(max_bytes, now)?;
        let [written, failed, last_us] = [0; 3].map(AtomicU64::new);
        Ok(Self { store: Arc::new(store), file, restored, written, failed, last_us })
    }

    pub(super) fn store(&self) -> Arc<MemoryStore> {
        self.store.clone()
    }

    /// The file.
    pub fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// What there was when the store was opened.
    pub const fn restored(&self) -> &Restored {
        &self.restored
    }

    /// Writes a snapshot, and returns its length in bytes. Waits for the disk.
    pub fn save(&self, now: Timestamp) -> io::Result<u64> {
        let saved = self.file.save(&self.store, now);
        let counter = if saved.is_ok() { &self.written } else { &self.failed };
        counter.fetch_add(1, Relaxed);
        if saved.is_ok() {
            self.last_us.store(now.as_micros(), Relaxed);
        }
        saved
    }
}

impl StoreMonitor for Snapshots {
    fn report(&self) -> StoreReport {
        let stats = SnapshotStats {
            written: self.written.load(Relaxed),
            failed: self.failed.load(Relaxed),
            set_aside: u64::from(matches!(self.restored, Restored::SetAside { .. })),
            last_us: self.last_us.load(Relaxed),
        };
        StoreReport { snapshots: Some(stats), ..self.store.report() }
    }
}

/// Opens a store in memory, restored if its options name a file.
pub(super) fn open_memory(
    options: &MemoryOptions,
    now: Timestamp,
) -> Result<(Arc<MemoryStore>, Option<Arc<Snapshots>>), StoreError> {
    let max_bytes = options.max_bytes.unwrap_or(MemoryOptions::MAX_BYTES);
    let Some(path) = &options.snapshot else {
        return Ok((Arc::new(MemoryStore::with_max_bytes(max_bytes)), None));
    };
    let opened = SnapshotFile::open(path).and_then(|file| Snapshots::open(file, max_bytes, now));
    let failed = |error| format!("store.snapshot: {error}");
    let snapshots =
        opened.map_err(|error| StoreError::new(StoreErrorKind::BadRequest, failed(error)))?;
    Ok((snapshots.store(), Some(Arc::new(snapshots))))
}
