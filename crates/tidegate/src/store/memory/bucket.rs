//! One cache line of the table: a version that is also a lock, three entries, and a link.
//!
//! Readers take no lock. They note the version, read, decide, and then either see that the version still
//! stands (a refusal, a peek) or move it from even to odd in one compare-and-swap (an admission), which
//! both proves that nothing changed since they read and locks the line for the one or two stores that
//! follow. All words are atomics, so a reader that raced reads old or new words, never undefined ones, and
//! its version check fails.

use crate::sync::{AtomicU64, MODELLED, Ordering, fence, spin_loop, yield_now};

/// How many entries share a line with their version.
pub(super) const ENTRIES: usize = 3;

/// How often a reader looks again before it lets another thread run. A line is locked for a few stores, so
/// a thread that holds it longer has been put off the processor.
const SPINS_BEFORE_YIELD: u32 = 64;

/// A line: 64 bytes, aligned so.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    /// Even: free, and a count of the changes so far. Odd: locked.
    version: AtomicU64,
    pub(super) entries: [Entry; ENTRIES],
    /// The overflow line that continues this one, by number; 0 for none.
    pub(super) next: AtomicU64,
}

/// A fingerprint and its word. Word 0 marks a free entry.
#[derive(Default)]
pub(super) struct Entry {
    fingerprint: AtomicU64,
    word: AtomicU64,
}

impl Entry {
    #[inline]
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    pub(super) fn is_free(&self) -> bool {
        self.word() == 0
    }

    pub(super) fn belongs_to(&self, fingerprint: u64) -> bool {
        self.fingerprint() == fingerprint && !self.is_free()
    }

    /// Only under the lock of the home line, as are the two below.
    #[inline]
    pub(super) fn set_word(&self, word: u64) {
        self.word.store(word, Ordering::Relaxed);
    }

    pub(super) fn fill(&self, fingerprint: u64, word: u64) {
        self.fingerprint.store(fingerprint, Ordering::Relaxed);
        self.set_word(word);
    }

    pub(super) fn free(&self) {
        self.fill(0, 0);
    }
}

/// A locked line; unlocked, with a new version, when dropped.
pub(super) struct Locked<'a> {
    bucket: &'a Bucket,
    version: u64,
}

impl Bucket {
    /// The entry of a fingerprint in this very line, looked for at `hint` first.
    #[inline]
    pub(super) fn find(&self, fingerprint: u64, hint: usize) -> Option<&Entry> {
        if let Some(hinted) = self.entries.get(hint)
            && hinted.fingerprint() == fingerprint
        {
            return Some(hinted);
        }
        self.entries.iter().find(|entry| entry.fingerprint() == fingerprint)
    }

    /// Where [`Bucket::find`] should look first. All entries are compared before one is chosen, since where a key
    /// sits could only be guessed; and the line is on its way from memory.
    #[inline]
    pub(super) fn hint(&self, fingerprint: u64) -> usize {
        let is = |index: usize| usize::from(self.entries[index].fingerprint() == fingerprint);
        is(1) + is(2) * 2
    }

    /// The version to read under, if the line is free.
    #[inline]
    pub(super) fn try_begin(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        version.is_multiple_of(2).then_some(version)
    }

    /// The version to read under, once the line is free.
    pub(super) fn begin(&self) -> u64 {
        let mut spins = 0;
        loop {
            if let Some(version) = self.try_begin() {
                return version;
            }
            pause(&mut spins);
        }
    }

    /// Whether everything read since [`Bucket::begin`] belongs together.
    #[inline]
    pub(super) fn is_at(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// Locks the line if nothing has changed since `version`.
    #[inline]
    pub(super) fn try_lock(&self, version: u64) -> Option<Locked<'_>> {
        self.version
            .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Acquire)
            .ok()?;
        // A thread that sees one of the stores to come also sees the odd version.
        fence(Ordering::Release);
        Some(Locked { bucket: self, version })
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        loop {
            if let Some(locked) = self.try_lock(self.begin()) {
                return locked;
            }
            spin_loop();
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.bucket.version.store(self.version + 2, Ordering::Release);
    }
}

fn pause(spins: &mut u32) {
    *spins += 1;
    // Under loom every turn must let another thread run, or the model never ends.
    if *spins >= SPINS_BEFORE_YIELD || MODELLED {
        *spins = 0;
        yield_now();
    } else {
        spin_loop();
    }
}
