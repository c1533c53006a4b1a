//! Snapshots: every state that is not idle, in checked blocks, so that a restart forgets nothing.

use std::fmt;
use std::io::{self, Read, Write};

use rapidhash::v3::rapidhash_v3;
use tidegate_core::{State, Timestamp};

use super::bucket::Word;
use super::{MemoryStore, word};
use crate::store::fingerprint::Fingerprints;
use crate::store::overrides::{OVERRIDE_BYTES_MAX, OverridesRecord};
use crate::sync::lock;

const MAGIC: &[u8; 15] = b"tidegate memory";
/// Follows the magic bytes.
const FORMAT: u8 = b'2';
/// Blocks are written when they pass this.
const BLOCK_BYTES: usize = 64 << 10;
/// The first block holds the overrides: their bytes, and what is around each of at most 10,000.
const FIRST_BLOCK_BYTES: usize = 2 * OVERRIDE_BYTES_MAX;

/// Why a snapshot could not be read.
///
/// ```
/// use tidegate::{Limiter, MemoryStore, SnapshotError::*, Timestamp};
///
/// let limiter = Limiter::new("sliding-log 5/h")?;
/// let _ = limiter.check("user-42");
/// let mut file = Vec::new();
/// limiter.store().snapshot(&mut file, Timestamp::EPOCH)?;
///
/// let error = |bytes: &[u8]| MemoryStore::restore(&mut &*bytes, 1 << 20, Timestamp::EPOCH).err();
/// assert!(error(&file).is_none());
/// assert!(matches!(error(b"something else"), Some(NotASnapshot)));
/// assert!(matches!(error(b"tidegate memory9 and more"), Some(OtherFormat)));
/// assert!(matches!(error(&file[..file.len() - 1]), Some(Truncated)));
/// file[40] ^= 1;
/// assert!(matches!(error(&file), Some(Corrupt)));
/// let unread = Io(std::io::Error::other("the disk is gone"));
/// assert_eq!(unread.to_string(), "snapshot could not be read: the disk is gone");
/// assert_eq!(TooLarge.to_string(), "snapshot has a part that is larger than max_bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Reading failed.
    Io(io::Error),
    /// The file is no snapshot.
    NotASnapshot,
    /// A snapshot in a format that this version does not read.
    OtherFormat,
    /// One state is larger than all that the store may hold.
    TooLarge,
    /// The file ends early.
    Truncated,
    /// What was read is not what was written.
    Corrupt,
}

impl MemoryStore {
    /// Writes all states that are not idle at `now`, for [`MemoryStore::restore`].
    ///
    /// ```
    /// use tidegate::{Clock, Limiter, MemoryStore, SystemClock};
    ///
    /// let limiter = Limiter::new("sliding-log 5/h")?;
    /// let _ = limiter.check_n("user-42", 5);
    /// let mut file = Vec::new(); // or a file that nobody else can read: it holds the hash's seed
    /// limiter.store().snapshot(&mut file, SystemClock.now())?;
    ///
    /// let store = MemoryStore::restore(&mut file.as_slice(), 256 << 20, SystemClock.now())?;
    /// let restarted = Limiter::builder("sliding-log 5/h").store(store).build()?;
    /// assert!(!restarted.check("user-42").allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [Overrides](crate::OverrideStore) are part of it. Checks go on meanwhile: a line is locked only while its words are
    /// copied, and a state that is more than a word only while it is. So the snapshot is not of one instant: what is
    /// spent while it is written may or may not be in it.
    pub fn snapshot(&self, out: &mut impl Write, now: Timestamp) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&[FORMAT])?;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block.extend_from_slice(&self.fingerprints.seed.to_le_bytes());
        block.extend_from_slice(&lock(&self.overrides).to_bytes());
        write_block(out, &mut block)?;
        let (mut index, mut entries) = (0, Vec::new());
        // A key that moves while the table grows moves to a later line, so none is missed; one seen twice is
        // read back with its later state.
        while index < self.table.lines() {
            self.copy_line(index, &mut entries);
            for (fingerprint, word) in entries.drain(..) {
                self.push_state(fingerprint, word, now, &mut block);
                if block.len() >= BLOCK_BYTES {
                    write_block(out, &mut block)?;
                }
            }
            index += 1;
        }
        if !block.is_empty() {
            write_block(out, &mut block)?;
        }
        write_block(out, &mut block)?; // the empty block is the end
        out.flush()
    }

    fn copy_line(&self, number: u64, entries: &mut Vec<(u64, Word)>) {
        let line = self.table.line(number);
        let _locked = line.lock();
        entries.extend(self.table.words(line));
    }

    /// Appends a state, unless it is idle or was dropped meanwhile.
    fn push_state(&self, fingerprint: u64, word: Word, now: Timestamp, block: &mut Vec<u8>) {
        let Some(number) = word::to_wide(word) else {
            let (spent, state) = (word::is_spent(word), self.units.to_state(word));
            return push_entry(fingerprint, spent, &state, now, block);
        };
        let wide = self.wide.lock(number).filter(|wide| wide.owner() == Some(fingerprint));
        if let Some(wide) = wide {
            push_entry(fingerprint, wide.spent, &wide.state, now, block);
        }
    }

    /// A store with what a snapshot holds, less what has become idle by `now`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Clock, Limiter, ManualClock, MemoryStore};
    /// let clock = ManualClock::default();
    /// let limiter = Limiter::builder("5/h").clock(clock.clone()).build()?;
    /// let _ = limiter.check("user-42");
    /// let mut file = Vec::new();
    /// limiter.store().snapshot(&mut file, clock.now())?;
    ///
    /// clock.advance(Duration::from_secs(3600)); // what was spent has come back meanwhile
    /// let store = MemoryStore::restore(&mut file.as_slice(), 256 << 20, clock.now())?;
    /// assert_eq!(store.stats().keys, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(
        input: &mut impl Read,
        max_bytes: usize,
        now: Timestamp,
    ) -> Result<Self, SnapshotError> {
        let magic: [u8; 15] = read_array(input).map_err(|error| match error {
            SnapshotError::Truncated => SnapshotError::NotASnapshot, // too short to be any
            error => error,
        })?;
        if &magic != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        if read_array(input)? != [FORMAT] {
            return Err(SnapshotError::OtherFormat);
        }
        let first = read_block(input, FIRST_BLOCK_BYTES)?.ok_or(SnapshotError::Corrupt)?;
        let mut rest = first.as_slice();
        let seed = u64::from_le_bytes(read_array(&mut rest).map_err(within_block)?);
        let overrides = OverridesRecord::from_bytes(rest).ok_or(SnapshotError::Corrupt)?;
        let store = Self::new(max_bytes, Fingerprints::from_seed(seed));
        *lock(&store.overrides) = overrides;
        let block_bytes_max = store.budget.max().saturating_add(2 * BLOCK_BYTES);
        while let Some(block) = read_block(input, block_bytes_max)? {
            store.put_all(&block, now).map_err(within_block)?;
        }
        Ok(store)
    }

    fn put_all(&self, mut block: &[u8], now: Timestamp) -> Result<(), SnapshotError> {
        while !block.is_empty() {
            let fingerprint = u64::from_le_bytes(read_array(&mut block)?);
            let [spent] = read_array(&mut block)?;
            let length = u32::from_le_bytes(read_array(&mut block)?) as usize;
            let (bytes, tail) = block.split_at_checked(length).ok_or(SnapshotError::Corrupt)?;
            let state = State::from_bytes(bytes).ok_or(SnapshotError::Corrupt)?;
            if state.idle_from() > now {
                self.put(fingerprint, &state, spent != 0, now);
            }
            block = tail;
        }
        Ok(())
    }

    fn put(&self, fingerprint: u64, state: &State, spent: bool, now: Timestamp) {
        self.on_state(fingerprint, now, |kept| {
            kept.clone_from(state);
            super::Outcome { answer: (), writes: true, spent }
        });
    }
}

/// Fingerprint, whether it is spent, length, bytes.
fn push_entry(fingerprint: u64, spent: bool, state: &State, now: Timestamp, block: &mut Vec<u8>) {
    if state.idle_from() <= now {
        return;
    }
    block.extend_from_slice(&fingerprint.to_le_bytes());
    block.push(u8::from(spent));
    let length_at = block.len();
    block.extend_from_slice(&[0; 4]);
    state.write_bytes(block);
    let length = u32::try_from(block.len() - length_at - 4).unwrap_or(u32::MAX);
    block[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Length, checksum, bytes.
fn write_block(out: &mut impl Write, block: &mut Vec<u8>) -> io::Result<()> {
    let length = u32::try_from(block.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&rapidhash_v3(block).to_le_bytes())?;
    out.write_all(block)?;
    block.clear();
    Ok(())
}

fn read_block(input: &mut impl Read, bytes_max: usize) -> Result<Option<Vec<u8>>, SnapshotError> {
    let length = u32::from_le_bytes(read_array(input)?) as usize;
    let checksum = u64::from_le_bytes(read_array(input)?);
    if length > bytes_max {
        return Err(SnapshotError::TooLarge);
    }
    // Grows with what is there, not with what the length claims.
    let mut block = Vec::new();
    input.take(length as u64).read_to_end(&mut block).map_err(SnapshotError::Io)?;
    if block.len() < length {
        return Err(SnapshotError::Truncated);
    }
    if rapidhash_v3(&block) != checksum {
        return Err(SnapshotError::Corrupt);
    }
    Ok((length > 0).then_some(block))
}

/// A block that is whole and ends early was not written so.
fn within_block(error: SnapshotError) -> SnapshotError {
    match error {
        SnapshotError::Truncated => SnapshotError::Corrupt,
        error => error,
    }
}

fn read_array<const N: usize>(input: &mut impl Read) -> Result<[u8; N], SnapshotError> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SnapshotError::Truncated,
        _ => SnapshotError::Io(error),
    })?;
    Ok(bytes)
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "snapshot could not be read: {error}"),
            Self::NotASnapshot => f.write_str("not a snapshot of tidegate"),
            Self::OtherFormat => {
                f.write_str("snapshot has a format of another, probably newer, version of tidegate")
            }
            Self::TooLarge => f.write_str("snapshot has a part that is larger than max_bytes"),
            Self::Truncated => f.write_str("snapshot ends early: it was not written to its end"),
            Self::Corrupt => {
                f.write_str("snapshot is damaged: its contents do not match their checksum")
            }
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
