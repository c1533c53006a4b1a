//! A backend in this process: a map with versions, which can hang, fail or change under a write.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_cas::{Backend, CasOptions, CasStore, Commit, ItemKey, Snapshot, Stored, Written};
use tokio::time::Instant;

/// Shared by all stores over it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    items: Arc<Mutex<Items>>,
    next_version: Arc<AtomicU64>,
    pub(crate) faults: Arc<Faults>,
    now: Option<Timestamp>,
}

/// Versions and bytes.
type Items = HashMap<ItemKey, (u64, Vec<u8>)>;

/// What goes wrong.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) reads_hang: AtomicBool,
    pub(crate) writes_hang: AtomicBool,
    pub(crate) writes_fail: AtomicBool,
    /// A write happens, and is never answered.
    pub(crate) answers_late: AtomicBool,
    /// Lets other tasks run between a read and its answer.
    pub(crate) yields: AtomicBool,
    /// A write is answered as done, and lost.
    pub(crate) loses_writes: AtomicBool,
    /// Every commit finds its items changed.
    pub(crate) always_changed: AtomicBool,
    /// Versions are not compared.
    pub(crate) ignores_versions: AtomicBool,
    /// Only the first item of a commit is written.
    pub(crate) writes_half: AtomicBool,
    /// Every commit is refused by itself.
    pub(crate) is_overloaded: AtomicBool,
    /// The most items of a commit; 0 for any number.
    pub(crate) commit_items_max: AtomicUsize,
    pub(crate) writes: AtomicU64,
    /// The most items that a commit has had.
    pub(crate) largest_commit: AtomicUsize,
}

impl Faults {
    pub(crate) fn set(fault: &AtomicBool, on: bool) {
        fault.store(on, Ordering::SeqCst);
    }
}

fn is(fault: &AtomicBool) -> bool {
    fault.load(Ordering::SeqCst)
}

impl Map {
    /// A map whose own clock stands still.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self::default().with_clock(now)
    }

    /// The same map, seen through a clock of its own.
    pub(crate) fn with_clock(&self, now: Timestamp) -> Self {
        Self { now: Some(now), ..self.clone() }
    }

    /// A store over this map, as of one more node.
    pub(crate) fn store(&self, options: CasOptions) -> Arc<CasStore<Self>> {
        Arc::new(CasStore::new(self.clone(), Arc::new(NetworkCounters::default()), options))
    }

    pub(crate) fn items(&self) -> usize {
        self.items.lock().unwrap().len()
    }
}

impl Backend for Map {
    type Version = u64;

    async fn read(&self, keys: &[ItemKey], _: Instant) -> Result<Snapshot<u64>, StoreError> {
        if is(&self.faults.reads_hang) {
            std::future::pending::<()>().await;
        }
        let stored = |key| {
            let items = self.items.lock().unwrap();
            let (version, bytes) = items.get(key).cloned().unzip();
            Stored { version, bytes: bytes.unwrap_or_default() }
        };
        let items = keys.iter().map(stored).collect();
        if is(&self.faults.yields) {
            tokio::task::yield_now().await;
        }
        Ok(Snapshot { now: self.now, items })
    }

    async fn write(&self, commits: &[Commit<u64>], _: Instant) -> Result<Vec<Written>, StoreError> {
        self.faults.writes.fetch_add(1, Ordering::SeqCst);
        if is(&self.faults.writes_hang) {
            std::future::pending::<()>().await;
        }
        if is(&self.faults.writes_fail) {
            return Err(StoreError::new(StoreErrorKind::OutOfMemory, "full"));
        }
        if is(&self.faults.is_overloaded) {
            let why = || StoreError::new(StoreErrorKind::Overloaded, "fewer requests, please");
            return Ok(commits.iter().map(|_| Written::Failed(why())).collect());
        }
        let written = self.write_all(commits);
        if is(&self.faults.answers_late) {
            std::future::pending::<()>().await;
        }
        Ok(written)
    }

    fn commit_items_max(&self) -> usize {
        match self.faults.commit_items_max.load(Ordering::SeqCst) {
            0 => usize::MAX,
            most => most,
        }
    }

    fn item_bytes_max(&self) -> usize {
        4 << 20
    }
}

impl Map {
    fn write_all(&self, commits: &[Commit<u64>]) -> Vec<Written> {
        let mut items = self.items.lock().unwrap();
        let write = |commit: &Commit<u64>| {
            self.faults.largest_commit.fetch_max(commit.updates.len(), Ordering::SeqCst);
            let unchanged = commit.updates.iter().all(|update| {
                items.get(&update.key).map(|(version, _)| *version) == update.expected
            });
            if is(&self.faults.always_changed) || (!unchanged && !is(&self.faults.ignores_versions))
            {
                return Written::Changed;
            }
            let count = if is(&self.faults.writes_half) { 1 } else { commit.updates.len() };
            for update in commit.updates.iter().take(count) {
                if is(&self.faults.loses_writes) {
                    continue;
                }
                if update.bytes.is_empty() {
                    items.remove(&update.key);
                } else {
                    let version = self.next_version.fetch_add(1, Ordering::SeqCst);
                    items.insert(update.key.clone(), (version, update.bytes.clone()));
                }
            }
            Written::Done
        };
        commits.iter().map(write).collect()
    }
}
