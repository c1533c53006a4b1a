//! States that are more than a word, each behind a short lock of its own, beside the table.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::State;

use super::budget::Budget;

const CHUNK: usize = 1024;
const CHUNK_BYTES: usize = CHUNK * size_of::<Mutex<Wide>>();

type Chunk = Box<[Mutex<Wide>; CHUNK]>;

pub(super) struct WideStates {
    chunks: Box<[OnceLock<Chunk>]>,
    spare: Mutex<Spare>,
    budget: Arc<Budget>,
}

/// A state and the fingerprint it belongs to; 0 while it belongs to none.
#[derive(Default)]
pub(super) struct Wide {
    pub(super) fingerprint: u64,
    pub(super) state: State,
    /// Nothing was left when this was written.
    pub(super) spent: bool,
    counted_bytes: usize,
}

struct Spare {
    free: Vec<u32>,
    unused: u32,
}

impl WideStates {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        let max_chunks = (budget.max() / CHUNK_BYTES).clamp(1, 1 << 20);
        let chunks: Box<[_]> = (0..max_chunks).map(|_| OnceLock::new()).collect();
        budget.take(size_of_val(&*chunks));
        Self { chunks, spare: Mutex::new(Spare { free: Vec::new(), unused: 0 }), budget }
    }

    pub(super) fn lock(&self, number: u32) -> Option<MutexGuard<'_, Wide>> {
        let cell = self.cell(number)?;
        Some(cell.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn try_lock(&self, number: u32) -> Option<MutexGuard<'_, Wide>> {
        self.cell(number)?.try_lock().ok()
    }

    /// Makes room for one more state. `None` if all memory is taken.
    pub(super) fn add(&self, fingerprint: u64, state: State, spent: bool) -> Option<u32> {
        let number = self.spare_number()?;
        let mut wide = self.lock(number)?;
        *wide = Wide { fingerprint, state, spent, counted_bytes: 0 };
        self.recount(&mut wide);
        Some(number)
    }

    /// Takes a state out. The caller holds the lock of the line that named it.
    pub(super) fn remove(&self, number: u32, wide: &mut Wide) {
        self.budget.give(wide.counted_bytes);
        *wide = Wide::default();
        self.spare().free.push(number);
    }

    /// Counts anew what a state holds after it has changed.
    pub(super) fn recount(&self, wide: &mut Wide) {
        let bytes = wide.state.heap_bytes();
        if bytes != wide.counted_bytes {
            self.budget.take(bytes);
            self.budget.give(wide.counted_bytes);
            wide.counted_bytes = bytes;
        }
    }

    fn cell(&self, number: u32) -> Option<&Mutex<Wide>> {
        let index = number as usize;
        self.chunks.get(index / CHUNK)?.get()?.get(index % CHUNK)
    }

    fn spare_number(&self) -> Option<u32> {
        let mut spare = self.spare();
        if let Some(number) = spare.free.pop() {
            return Some(number);
        }
        let number = spare.unused;
        let chunk = self.chunks.get(number as usize / CHUNK)?;
        if chunk.get().is_none() {
            // The lock on `spare` is held: nobody else allocates.
            if !self.budget.try_take(CHUNK_BYTES) {
                return None;
            }
            let cells: Vec<Mutex<Wide>> = (0..CHUNK).map(|_| Mutex::default()).collect();
            chunk.set(cells.try_into().ok()?).ok()?;
        }
        spare.unused = number.checked_add(1)?;
        Some(number)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
