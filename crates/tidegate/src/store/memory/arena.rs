//! Lines in chunks: allocated as the table grows, kept until it is dropped, so that a reader without a lock
//! never reads freed memory.

use std::sync::OnceLock;

use super::bucket::Bucket;
use super::budget::{Budget, Use};
use crate::sync::MODELLED;

/// Lines per chunk: 64 KiB, a few microseconds to clear.
pub(super) const CHUNK: usize = if MODELLED { 4 } else { 1024 };

pub(super) const CHUNK_BYTES: usize = CHUNK * size_of::<Bucket>();

type Chunk = Box<[Bucket; CHUNK]>;

pub(super) struct Arena {
    chunks: Box<[OnceLock<Chunk>]>,
}

impl Arena {
    pub(super) fn new(max_chunks: usize) -> Self {
        Self { chunks: (0..max_chunks).map(|_| OnceLock::new()).collect() }
    }

    /// Line `index`, if its chunk has been allocated.
    #[inline]
    pub(super) fn get(&self, index: u64) -> Option<&Bucket> {
        let index = usize::try_from(index).ok()?;
        self.chunks.get(index / CHUNK)?.get().map(|chunk| &chunk[index % CHUNK])
    }

    /// Line `index`, allocated with its chunk if need be; `None` past the last chunk or the cap.
    pub(super) fn get_or_allocate(&self, index: u64, budget: &Budget) -> Option<&Bucket> {
        if let Some(line) = self.get(index) {
            return Some(line);
        }
        let chunk = self.chunks.get(usize::try_from(index).ok()? / CHUNK)?;
        if !budget.try_take(CHUNK_BYTES, Use::Lines) {
            return None;
        }
        let lines: Vec<Bucket> = (0..CHUNK).map(|_| Bucket::default()).collect();
        let lost_a_race = match lines.try_into() {
            Ok(lines) => chunk.set(lines).is_err(),
            Err(_) => true,
        };
        if lost_a_race {
            budget.give(CHUNK_BYTES, Use::Lines);
        }
        self.get(index)
    }

    /// What the chunks' directory takes by itself.
    pub(super) fn directory_bytes(&self) -> usize {
        size_of_val(&*self.chunks)
    }
}
