//! Units by key, read without a lock: two tables of fingerprints, of which one is read while the other is filled.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use super::Effective;
use crate::key::AsKey;
use crate::store::Fingerprints;
use crate::sync::lock;

/// A power of two, so that with the most keys there are it is not two thirds full.
const SLOTS: usize = 16_384;

#[derive(Default)]
pub(super) struct Tables {
    /// Allocated with the first key: half a megabyte that most limits never need.
    both: OnceLock<Box<[Table; 2]>>,
    /// The one that is read.
    current: AtomicUsize,
    /// The number of keys in the current table. Held by the writer.
    len: Mutex<usize>,
}

struct Table {
    fingerprints: Fingerprints,
    /// Fingerprint and units. No key has the fingerprint 0.
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

impl Tables {
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        let both = self.both.get()?;
        both[self.current.load(Ordering::Acquire) % 2].get(key)
    }

    pub(super) fn len(&self) -> usize {
        *self.lock()
    }

    pub(super) fn set(&self, key: &[u8], units: u64) -> bool {
        let both = self.both.get_or_init(Box::default);
        let mut len = self.lock();
        both[self.current.load(Ordering::Relaxed) % 2].set(key, units, &mut len)
    }

    /// A reader that is still in the table that is refilled may miss its key, and gets what keys without an entry have.
    pub(super) fn replace<K: AsKey>(&self, keys: impl IntoIterator<Item = (K, u64)>) -> usize {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() && self.both.get().is_none() {
            return 0;
        }
        let both = self.both.get_or_init(Box::default);
        let mut len = self.lock();
        let next = self.current.load(Ordering::Relaxed) + 1;
        let table = &both[next % 2];
        table.clear();
        *len = 0;
        let left_out =
            keys.filter(|(key, units)| !table.set(key.as_key().as_ref(), *units, &mut len));
        let left_out = left_out.count();
        self.current.store(next % 2, Ordering::Release);
        left_out
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        lock(&self.len)
    }
}

impl Default for Table {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| <(AtomicU64, AtomicU64)>::default()).collect();
        Self { fingerprints: Fingerprints::random(), slots }
    }
}

impl Table {
    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        let fingerprint = self.fingerprint(key);
        for (found, units) in self.probe_from(fingerprint) {
            match found.load(Ordering::Acquire) {
                0 => return None,
                found if found == fingerprint => return Some(units.load(Ordering::Relaxed)),
                _ => {}
            }
        }
        None
    }

    fn set(&self, key: &[u8], units: u64, len: &mut usize) -> bool {
        let fingerprint = self.fingerprint(key);
        for (found, value) in self.probe_from(fingerprint) {
            let known = found.load(Ordering::Relaxed);
            if known == 0 && *len >= Effective::MAX_KEYS {
                return false;
            }
            if known == fingerprint || known == 0 {
                // The units first, so that a reader that finds the key finds them.
                value.store(units, Ordering::Relaxed);
                found.store(fingerprint, Ordering::Release);
                *len += usize::from(known == 0);
                return true;
            }
        }
        false
    }

    fn clear(&self) {
        self.slots.iter().for_each(|(fingerprint, _)| fingerprint.store(0, Ordering::Relaxed));
    }

    fn fingerprint(&self, key: &[u8]) -> u64 {
        self.fingerprints.hash_key(key).max(1)
    }

    /// All slots, beginning with the home slot of a fingerprint.
    fn probe_from(&self, fingerprint: u64) -> impl Iterator<Item = &(AtomicU64, AtomicU64)> {
        let home = usize::try_from(fingerprint % SLOTS as u64).unwrap_or_default();
        self.slots[home..].iter().chain(&self.slots[..home])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_own_until_they_are_replaced() {
        let tables = Tables::default();
        assert_eq!(tables.get(b"/a"), None);
        assert!(tables.set(b"/a", 1) && tables.set(b"/b", 2) && tables.set(b"/a", 3));
        assert_eq!((tables.get(b"/a"), tables.get(b"/b"), tables.len()), (Some(3), Some(2), 2));
        for round in 4..8 {
            assert_eq!(tables.replace([("/b", round), ("/c", 9)]), 0);
            let found = [b"/a", b"/b", b"/c"].map(|key| tables.get(key));
            assert_eq!((found, tables.len()), ([None, Some(round), Some(9)], 2));
        }
    }

    #[test]
    fn there_is_room_for_ten_thousand_and_no_more() {
        let tables = Tables::default();
        let keys = || (0..10_500_u64).map(|n| (n.to_le_bytes(), n));
        assert_eq!(tables.replace(keys()), 500);
        assert_eq!(tables.len(), Effective::MAX_KEYS);
        let own = keys().filter(|(key, n)| tables.get(key) == Some(*n)).count();
        assert_eq!(own, Effective::MAX_KEYS);
        assert!(!tables.set(b"one more", 1), "full");
        assert!(tables.set(&0_u64.to_le_bytes(), 7), "known already");
        assert_eq!(tables.replace(keys().take(1)), 0);
        assert!(tables.set(b"one more", 1));
    }
}
