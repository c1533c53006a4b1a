//! States that are more than a word, each behind a short lock of its own, beside the table.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tidegate_core::State;

use super::budget::{Budget, Use};
use crate::sync::lock;

const CHUNK: usize = 1024;
const CHUNK_BYTES: usize = CHUNK * size_of::<Cell>();

/// When a search all over has found only spent states, this many are evicted before the next search. Otherwise a flood
/// of keys that are spent at once would pay for a search each time.
const NEAR_ONLY: u64 = 32;

type Chunk = Box<[Cell; CHUNK]>;

/// A state of its own cache line, where a lock is small enough for that.
#[derive(Default)]
#[cfg_attr(target_os = "linux", repr(align(64)))]
struct Cell(Mutex<Wide>);

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
const _: () = assert!(size_of::<Cell>() == 64);

pub(super) struct WideStates {
    chunks: Box<[OnceLock<Chunk>]>,
    spare: Mutex<Spare>,
    budget: Arc<Budget>,
    /// There was no memory for the last state to be added.
    starved: AtomicBool,
    /// The next state to examine when one must be evicted.
    cursor: AtomicU64,
    /// How many more are evicted without a search all over.
    near_only: AtomicU64,
}

/// A state and the fingerprint it belongs to.
#[derive(Default)]
pub(super) struct Wide {
    pub(super) state: State,
    fingerprint: u64,
    /// Four bytes, so that all of this is one cache line: the largest state takes a few megabytes.
    counted_bytes: u32,
    is_owned: bool,
    /// Nothing was left when this was written.
    pub(super) spent: bool,
}

impl Wide {
    /// The fingerprint that the state belongs to; `None` while it belongs to none.
    pub(super) fn owner(&self) -> Option<u64> {
        self.is_owned.then_some(self.fingerprint)
    }
}

/// A state that no line refers to yet. Its lock is held until one does: a thread that still has its number from an
/// earlier owner must not charge it before it is published.
pub(super) struct Unpublished<'a> {
    pub(super) number: u32,
    wide: MutexGuard<'a, Wide>,
}

struct Spare {
    free: Vec<u32>,
    unused: u32,
}

impl WideStates {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        let max_chunks = (budget.max() / CHUNK_BYTES).clamp(1, 1 << 20);
        let chunks: Box<[_]> = (0..max_chunks).map(|_| OnceLock::new()).collect();
        budget.take(size_of_val(&*chunks), Use::WideStates);
        Self {
            chunks,
            spare: Mutex::new(Spare { free: Vec::new(), unused: 0 }),
            budget,
            starved: AtomicBool::new(false),
            cursor: AtomicU64::new(0),
            near_only: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self, number: u32) -> Option<MutexGuard<'_, Wide>> {
        let cell = self.cell(number)?;
        Some(lock(&cell.0))
    }

    pub(super) fn try_lock(&self, number: u32) -> Option<MutexGuard<'_, Wide>> {
        self.cell(number)?.0.try_lock().ok()
    }

    /// Keeps one more state. `None` if all memory is taken.
    pub(super) fn add(&self, owner: u64, state: State, spent: bool) -> Option<Unpublished<'_>> {
        let number = self.spare_number();
        self.starved.store(number.is_none(), Ordering::Relaxed);
        let number = number?;
        let mut wide = self.lock(number)?;
        *wide = Wide { state, fingerprint: owner, counted_bytes: 0, is_owned: true, spent };
        self.recount(&mut wide);
        Some(Unpublished { number, wide })
    }

    /// Removes a state, if there is one, that was not published.
    pub(super) fn withdraw(&self, unpublished: Option<Unpublished<'_>>) {
        if let Some(Unpublished { number, mut wide }) = unpublished {
            self.remove(number, &mut wide);
        }
    }

    /// Removes a state. The caller holds the lock of the line that refers to it.
    pub(super) fn remove(&self, number: u32, wide: &mut Wide) {
        self.budget.give(wide.counted_bytes as usize, Use::WideStates);
        *wide = Wide::default();
        self.spare().free.push(number);
        self.starved.store(false, Ordering::Relaxed);
    }

    /// Updates the counted bytes of a state after it has changed. `true` if it has grown.
    pub(super) fn recount(&self, wide: &mut Wide) -> bool {
        let before = wide.counted_bytes;
        let now = u32::try_from(wide.state.heap_bytes()).unwrap_or(u32::MAX);
        if now != before {
            self.budget.take(now as usize, Use::WideStates);
            self.budget.give(before as usize, Use::WideStates);
            wide.counted_bytes = now;
        }
        now > before
    }

    /// Whether there was no memory for the last state to be added, and none has been freed since.
    pub(super) fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed)
    }

    /// The next `near` numbers, others each time, and `more` times as many from all over: those that were written one
    /// after another lie together, and may all be alike.
    pub(super) fn next_numbers(&self, near: u64, more: u64) -> impl Iterator<Item = u32> + use<> {
        let all = u64::from(self.spare().unused).max(1);
        let first = self.cursor.fetch_add(near, Ordering::Relaxed);
        let far = (0..near * more).map(move |step| {
            // Multiples of the golden ratio: however many are examined, they leave no large gap.
            let request = first.wrapping_mul(more).wrapping_add(step);
            let point = u128::from(request.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            u32::try_from((point * u128::from(all)) >> 64).unwrap_or(0)
        });
        let number = move |step| u32::try_from(first.wrapping_add(step) % all).unwrap_or(0);
        (0..near.min(all)).map(number).chain(far)
    }

    /// Whether to search all over, if need be.
    pub(super) fn may_look_far(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.near_only.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    /// A search all over has found only spent states.
    pub(super) fn all_are_spent(&self) {
        self.near_only.store(NEAR_ONLY, Ordering::Relaxed);
    }

    fn cell(&self, number: u32) -> Option<&Cell> {
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
            if !self.budget.try_take(CHUNK_BYTES, Use::WideStates) {
                return None;
            }
            let cells: Vec<Cell> = (0..CHUNK).map(|_| Cell::default()).collect();
            chunk.set(cells.try_into().ok()?).ok()?;
        }
        spare.unused = number.checked_add(1)?;
        Some(number)
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        lock(&self.spare)
    }
}
