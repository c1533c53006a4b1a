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

/// How many low bits of a fingerprint its line implies, as there are never fewer lines. In an entry, the unit of its word
/// takes their place.
pub(super) const LINE_BITS: u32 = if MODELLED { 1 } else { 10 };
const LOW: u64 = (1 << LINE_BITS) - 1;

/// What is kept for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Word {
    /// Not 0, unless there is none.
    pub(super) bits: u64,
    /// The number of an arrival's unit; 0 for other states.
    pub(super) unit: u64,
}

impl Word {
    pub(super) const NONE: Self = Self { bits: 0, unit: 0 };
}

/// A fingerprint and its word.
#[derive(Default)]
pub(super) struct Entry {
    /// The fingerprint, with the unit of its word in the low bits.
    label: AtomicU64,
    bits: AtomicU64,
}

/// The label of a fingerprint with a word of this unit.
#[inline]
pub(super) fn label(fingerprint: u64, unit: u64) -> u64 {
    fingerprint & !LOW | unit & LOW
}

impl Entry {
    #[inline]
    fn label(&self) -> u64 {
        self.label.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn bits(&self) -> u64 {
        self.bits.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn word(&self) -> Word {
        Word { bits: self.bits(), unit: self.label() & LOW }
    }

    pub(super) fn is_free(&self) -> bool {
        self.bits() == 0
    }

    /// The fingerprint, on a line with this number.
    pub(super) fn fingerprint(&self, line: u64) -> u64 {
        label(self.label(), line)
    }

    pub(super) fn belongs_to(&self, fingerprint: u64) -> bool {
        label(self.label(), 0) == label(fingerprint, 0) && !self.is_free()
    }

    /// Only under the lock of the home line, as are those below. The word keeps its unit.
    #[inline]
    pub(super) fn set_bits(&self, bits: u64) {
        self.bits.store(bits, Ordering::Relaxed);
    }

    pub(super) fn set_word(&self, word: Word) {
        self.fill(self.label(), word);
    }

    pub(super) fn fill(&self, fingerprint: u64, word: Word) {
        self.label.store(label(fingerprint, word.unit), Ordering::Relaxed);
        self.set_bits(word.bits);
    }

    pub(super) fn free(&self) {
        self.fill(0, Word::NONE);
    }
}

/// A locked line; unlocked, with a new version, when dropped.
pub(super) struct Locked<'a> {
    bucket: &'a Bucket,
    version: u64,
}

impl Bucket {
    /// Asks for the line, and waits for nothing. A load would do so too, but all that follows it waits in line for its end:
    /// the sixteen commands of a pipeline would not overlap.
    #[inline]
    pub(super) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: it changes no memory and answers nothing, and the address is one of a reference.
            #[expect(unsafe_code, reason = "the standard library only offers it as unsafe")]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(self).cast());
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::hint::black_box(self.version.load(Ordering::Relaxed));
    }

    /// The entry with a label in this very line, looked for at `hint` first.
    #[inline]
    pub(super) fn find(&self, label: u64, hint: usize) -> Option<&Entry> {
        if let Some(hinted) = self.entries.get(hint)
            && hinted.label() == label
        {
            return Some(hinted);
        }
        self.entries.iter().find(|entry| entry.label() == label)
    }

    /// Where [`Bucket::find`] should look first. All entries are compared before one is chosen, since where a key
    /// sits could only be guessed; and the line is on its way from memory.
    #[inline]
    pub(super) fn hint(&self, fingerprint: u64) -> usize {
        let is = |index: usize| {
            usize::from(label(self.entries[index].label(), 0) == label(fingerprint, 0))
        };
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
