//! The table: fingerprints to words, by linear hashing over lines.
//!
//! It grows one line at a time, so that no insertion ever pays for all keys: line `n` takes over its share
//! of line `n − 2^k`. A key's line follows from its fingerprint and the number of lines. A reader may hold an
//! outdated number; the line it then looks into was locked after its share had moved on, so that its version
//! shows it.

use std::sync::{Arc, Mutex, PoisonError};

use super::arena::{Arena, CHUNK_BYTES};
use super::bucket::{Bucket, ENTRIES, Entry, LINE_BITS, Locked, Word, label};
use super::budget::{Budget, Use};
use crate::sync::{AtomicU64, Ordering};

/// Lines a new table starts with: a chunk, so that they are allocated anyway.
const FIRST_LINES: u64 = 1 << LINE_BITS;
/// Mean load at which a line is added: 7/4 keys per line of three. About 40 bytes per key, and nine keys in
/// ten in their home line.
const LOAD: (u64, u64) = (7, 4);
/// Overflow lines, as a share of the home lines: far above what chance needs at this load.
const OVERFLOW_SHARE: usize = 4;

pub(super) struct Table {
    home: Arena,
    overflow: Arena,
    budget: Arc<Budget>,
    /// Overflow lines not in use, by number, and the next never used.
    spare: Mutex<Spare>,
    lines: AtomicU64,
    /// The smallest 2^k − 1 that is no less than `lines − 1`.
    mask: AtomicU64,
    keys: OwnLine<AtomicU64>,
    /// Held by the thread that adds a line; no thread waits for it.
    growing: Mutex<()>,
}

/// Kept off the cache lines of what every check reads, since every new key writes it.
#[derive(Default)]
#[repr(align(64))]
struct OwnLine<T>(T);

struct Spare {
    free: Vec<u64>,
    unused: u64,
}

/// A home line, and its number.
#[derive(Clone, Copy)]
pub(super) struct Line<'t> {
    pub(super) bucket: &'t Bucket,
    number: u64,
}

impl<'t> Line<'t> {
    pub(super) fn lock(self) -> Locked<'t> {
        self.bucket.lock()
    }
}

/// Where a fingerprint was found, as of a version of its home line.
pub(super) struct FoundEntry<'t> {
    line: &'t Bucket,
    version: u64,
    entry: &'t Entry,
}

impl FoundEntry<'_> {
    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.entry.bits()
    }

    pub(super) fn word(&self) -> Word {
        self.entry.word()
    }

    /// Whether nothing changed on the line since it was found.
    #[inline]
    pub(super) fn is_unchanged(&self) -> bool {
        self.line.is_at(self.version)
    }

    /// Replaces the bits of the word, if nothing changed on the line since it was found.
    #[inline]
    pub(super) fn replace_bits(&self, bits: u64) -> bool {
        let locked = self.line.try_lock(self.version);
        if locked.is_some() {
            self.entry.set_bits(bits);
        }
        locked.is_some()
    }
}

/// Where a fingerprint should be looked for first. It may have moved since.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hint<'t> {
    line: Option<&'t Bucket>,
    index: usize,
}

impl<'t> Hint<'t> {
    /// Finds a fingerprint whose word has this unit there, with nothing but loads. `None` if it is not there, or the line
    /// is locked.
    #[inline]
    pub(super) fn find(self, fingerprint: u64, unit: u64) -> Option<FoundEntry<'t>> {
        let line = self.line?;
        let version = line.try_begin()?;
        let entry = line.find(label(fingerprint, unit), self.index)?;
        Some(FoundEntry { line, version, entry })
    }
}

/// Where a fingerprint is, or would be, as of a version of its home line.
pub(super) struct Spot<'t> {
    line: &'t Bucket,
    version: u64,
    entry: Option<&'t Entry>,
    /// [`Word::NONE`] if the fingerprint is not in the table.
    pub(super) word: Word,
}

impl Spot<'_> {
    /// Whether nothing changed on the line since it was read.
    #[inline]
    pub(super) fn is_unchanged(&self) -> bool {
        self.line.is_at(self.version)
    }

    /// Replaces the word, if nothing changed on the line since it was read.
    pub(super) fn replace(&self, word: Word) -> bool {
        let Some((entry, _locked)) = self.entry.zip(self.line.try_lock(self.version)) else {
            return false;
        };
        entry.set_word(word);
        true
    }
}

impl Table {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        let max_chunks = (budget.max() / CHUNK_BYTES).max(2);
        let overflow_chunks = (max_chunks / OVERFLOW_SHARE).max(1);
        let home_chunks = max_chunks - overflow_chunks;
        let (home, overflow) = (Arena::new(home_chunks), Arena::new(overflow_chunks));
        budget.take(home.directory_bytes() + overflow.directory_bytes(), Use::Lines);
        for index in 0..FIRST_LINES {
            home.get_or_allocate(index, &budget);
        }
        Self {
            home,
            overflow,
            budget,
            spare: Mutex::new(Spare { free: Vec::new(), unused: 1 }),
            lines: AtomicU64::new(FIRST_LINES),
            mask: AtomicU64::new(FIRST_LINES - 1),
            keys: OwnLine::default(),
            growing: Mutex::new(()),
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.0.load(Ordering::Relaxed)
    }

    pub(super) fn lines(&self) -> u64 {
        self.lines.load(Ordering::Acquire)
    }

    /// The number of the line a fingerprint belongs to.
    #[inline]
    pub(super) fn line_of(&self, fingerprint: u64) -> u64 {
        // Read apart, the two may be of different moments. Then the line is one that the fingerprint belonged to
        // a moment ago, which its version shows.
        let lines = self.lines.load(Ordering::Acquire);
        let mask = self.mask.load(Ordering::Acquire);
        let index = fingerprint & mask;
        if index < lines { index } else { index & (mask >> 1) }
    }

    /// A home line, which `lines` counts.
    pub(super) fn line(&self, number: u64) -> Line<'_> {
        match self.home.get(number) {
            Some(bucket) => Line { bucket, number },
            None => unreachable!("a line is allocated before `lines` counts it"),
        }
    }

    /// The home line of a fingerprint.
    pub(super) fn line_for(&self, fingerprint: u64) -> Line<'_> {
        self.line(self.line_of(fingerprint))
    }

    /// The home line of a fingerprint as of now.
    #[inline]
    pub(super) fn home(&self, fingerprint: u64) -> Hint<'_> {
        Hint { line: self.home.get(self.line_of(fingerprint)), index: 0 }
    }

    /// Finds a fingerprint that is in the table, without a lock. `None` if it was not there, or moved meanwhile:
    /// [`Table::find`] tells which.
    pub(super) fn find_entry(&self, fingerprint: u64) -> Option<FoundEntry<'_>> {
        let line = self.line_for(fingerprint).bucket;
        let version = line.begin();
        let entry = self.find_locked(line, fingerprint)?;
        Some(FoundEntry { line, version, entry })
    }

    /// Finds a fingerprint, or where it would be, without a lock.
    pub(super) fn find(&self, fingerprint: u64) -> Spot<'_> {
        loop {
            let Line { bucket: line, number } = self.line_for(fingerprint);
            let version = line.begin();
            let entry = self.find_locked(line, fingerprint);
            let word = entry.map_or(Word::NONE, Entry::word);
            // What was read is true while the version stands and the fingerprint still belongs here.
            if line.is_at(version) && self.line_of(fingerprint) == number {
                return Spot { line, version, entry, word };
            }
        }
    }

    /// Asks for the line of a fingerprint that will be needed soon, and waits for nothing.
    #[inline]
    pub(super) fn prefetch(&self, fingerprint: u64) {
        if let Some(line) = self.home(fingerprint).line {
            line.prefetch();
        }
    }

    /// Prefetches the line of a fingerprint, for a batch: loads do not wait for each other. Answers where on it to look
    /// first.
    #[inline]
    pub(super) fn hint(&self, fingerprint: u64) -> Hint<'_> {
        let home = self.home(fingerprint);
        Hint { index: home.line.map_or(0, |line| line.hint(fingerprint)), ..home }
    }

    /// Adds a fingerprint that `spot` found absent.
    pub(super) fn insert(&self, spot: &Spot<'_>, fingerprint: u64, word: Word) -> Insert {
        let Some(_locked) = spot.line.try_lock(spot.version) else { return Insert::Changed };
        self.insert_locked(spot.line, fingerprint, word)
    }

    /// Adds a fingerprint to a locked line that does not hold it.
    pub(super) fn insert_locked(&self, line: &Bucket, fingerprint: u64, word: Word) -> Insert {
        if let Some(free) = self.entries(line).find(|entry| entry.is_free()) {
            free.fill(fingerprint, word);
            self.keys.0.fetch_add(1, Ordering::Relaxed);
            return Insert::Done;
        }
        let mut last = line;
        while let Some(next) = self.overflow_line(last.next.load(Ordering::Relaxed)) {
            last = next;
        }
        let Some(number) = self.spare_line() else { return Insert::Full };
        if let Some(fresh) = self.overflow_line(number) {
            fresh.entries[0].fill(fingerprint, word);
        }
        last.next.store(number, Ordering::Relaxed);
        self.keys.0.fetch_add(1, Ordering::Relaxed);
        Insert::Done
    }

    /// Whether a line seems to have room for another entry without new memory.
    pub(super) fn has_room(&self, line: &Bucket) -> bool {
        self.entries(line).any(Entry::is_free) || !self.spare().free.is_empty()
    }

    /// Whether the last overflow line of a line seems to hold a single entry, so that one key less frees it.
    pub(super) fn ends_in_one(&self, line: &Bucket) -> bool {
        let held = self.entries(line).filter(|entry| !entry.is_free()).count();
        held > ENTRIES && held % ENTRIES == 1
    }

    /// The entry of a fingerprint in a line: true if the line is locked, or its version proves it.
    pub(super) fn find_locked<'t>(
        &'t self,
        line: &'t Bucket,
        fingerprint: u64,
    ) -> Option<&'t Entry> {
        self.entries(line).find(|entry| entry.belongs_to(fingerprint))
    }

    /// All entries of a line, those of its overflow lines included.
    pub(super) fn entries<'t>(&'t self, line: &'t Bucket) -> impl Iterator<Item = &'t Entry> {
        line.entries.iter().chain(self.chain(line.next.load(Ordering::Relaxed)))
    }

    /// The fingerprints of a line and their words.
    pub(super) fn words<'t>(&'t self, line: Line<'t>) -> impl Iterator<Item = (u64, Word)> {
        let held = self.entries(line.bucket).filter(|entry| !entry.is_free());
        held.map(move |entry| (entry.fingerprint(line.number), entry.word()))
    }

    /// Keeps only the entries of a locked line that `keep` wants, closes the gaps, and gives empty overflow
    /// lines back. Answers how many went.
    pub(super) fn retain(&self, line: Line<'_>, mut keep: impl FnMut(u64, Word) -> bool) -> u64 {
        let mut removed = 0;
        for entry in self.entries(line.bucket) {
            if !entry.is_free() && !keep(entry.fingerprint(line.number), entry.word()) {
                entry.free();
                removed += 1;
            }
        }
        if removed > 0 {
            self.keys.0.fetch_sub(removed, Ordering::Relaxed);
            self.close_gaps(line);
        }
        removed
    }

    fn close_gaps(&self, line: Line<'_>) {
        let mut filled = 0;
        for entry in self.entries(line.bucket) {
            if entry.is_free() {
                continue;
            }
            if let Some(target) = self.entries(line.bucket).nth(filled)
                && !std::ptr::eq(target, entry)
            {
                target.fill(entry.fingerprint(line.number), entry.word());
                entry.free();
            }
            filled += 1;
        }
        // Overflow lines behind the last that is in use go back.
        let mut last = line.bucket;
        for _ in 1..filled.div_ceil(ENTRIES) {
            match self.overflow_line(last.next.load(Ordering::Relaxed)) {
                Some(next) => last = next,
                None => return,
            }
        }
        let mut number = last.next.load(Ordering::Relaxed);
        last.next.store(0, Ordering::Relaxed);
        while let Some(unused) = self.overflow_line(number) {
            let next = unused.next.load(Ordering::Relaxed);
            unused.next.store(0, Ordering::Relaxed);
            self.spare().free.push(number);
            number = next;
        }
    }

    /// Whether there are more keys than the lines should hold.
    pub(super) fn is_loaded(&self) -> bool {
        self.keys() * LOAD.1 > self.lines.load(Ordering::Relaxed) * LOAD.0
    }

    /// Adds one line, or leaves it to another thread that is at it. `false` if there is no memory for one.
    pub(super) fn grow(&self) -> bool {
        let Ok(_growing) = self.growing.try_lock() else { return true };
        let lines = self.lines.load(Ordering::Relaxed);
        let Some(fresh) = self.home.get_or_allocate(lines, &self.budget) else { return false };
        let fresh = Line { bucket: fresh, number: lines };
        let half = 1 << (u64::BITS - 1 - lines.leading_zeros());
        let line = self.line(lines - half);
        // Nobody can reach the new line before it is counted: it needs no lock.
        let _locked = line.lock();
        let moves = |fingerprint: u64| fingerprint & (2 * half - 1) == lines;
        let mut is_full = false;
        for (fingerprint, word) in self.words(line).filter(|(it, _)| moves(*it)) {
            let moved = self.insert_locked(fresh.bucket, fingerprint, word);
            is_full |= !matches!(moved, Insert::Done);
        }
        if is_full {
            // No overflow line left for the new line: undo, and do not grow.
            self.retain(fresh, |_, _| false);
            return false;
        }
        self.retain(line, |fingerprint, _| !moves(fingerprint));
        self.mask.store((lines + 1).next_power_of_two() - 1, Ordering::Release);
        self.lines.store(lines + 1, Ordering::Release);
        true
    }

    fn chain(&self, first: u64) -> impl Iterator<Item = &Entry> {
        // A reader without a lock may walk a chain that is being changed: the bound keeps it from circling.
        const MAX_CHAIN: usize = 64;
        let follow = |line: &&Bucket| self.overflow_line(line.next.load(Ordering::Relaxed));
        std::iter::successors(self.overflow_line(first), follow)
            .take(MAX_CHAIN)
            .flat_map(|line| &line.entries)
    }

    fn overflow_line(&self, number: u64) -> Option<&Bucket> {
        if number == 0 { None } else { self.overflow.get(number) }
    }

    fn spare_line(&self) -> Option<u64> {
        let mut spare = self.spare();
        if let Some(number) = spare.free.pop() {
            return Some(number);
        }
        self.overflow.get_or_allocate(spare.unused, &self.budget)?;
        spare.unused += 1;
        Some(spare.unused - 1)
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Insert {
    Done,
    /// The line has changed since it was read: look again.
    Changed,
    /// The line and its overflow are full, and there is no memory for more.
    Full,
}
