//! GCRA over a table without locks: open addressing, a fingerprint of 64 bits for each key, and its theoretical arrival
//! time in one word, which changes by compare-and-swap.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::DefaultHashBuilder;

/// Twice the keys of the load, and more, so that few probes go further than one slot.
const SLOTS: usize = 1 << 18;

pub(super) struct Arrivals {
    hasher: DefaultHashBuilder,
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    /// 0 if the slot is free.
    fingerprint: AtomicU64,
    /// In nanoseconds since the start.
    arrival: AtomicU64,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Self { hasher: DefaultHashBuilder::default(), slots }
    }

    /// Takes one unit. Returns the arrival time after it and, if it is allowed, how far that is below the limit.
    pub(super) fn take(
        &self,
        key: &[u8],
        now: u64,
        burst: u64,
        interval: u64,
    ) -> (u64, Option<u64>) {
        let arrival = self.arrival(key);
        let mut last = arrival.load(Relaxed);
        loop {
            let next = now.max(last) + interval;
            let Some(room) = (now + burst * interval).checked_sub(next) else {
                return (next, None);
            };
            match arrival.compare_exchange_weak(last, next, Relaxed, Relaxed) {
                Ok(_) => return (next, Some(room)),
                Err(changed) => last = changed,
            }
        }
    }

    fn arrival(&self, key: &[u8]) -> &AtomicU64 {
        let fingerprint = self.hasher.hash_one(key) | 1;
        let start = (fingerprint >> 32) as usize;
        for at in start..start + SLOTS {
            let slot = &self.slots[at % SLOTS];
            let held = match slot.fingerprint.load(Relaxed) {
                0 => slot.fingerprint.compare_exchange(0, fingerprint, Relaxed, Relaxed),
                held => Err(held),
            };
            if held.is_ok() || held == Err(fingerprint) {
                return &slot.arrival;
            }
        }
        panic!("more keys than slots");
    }
}
