//! Snapshots: what was spent stays spent over a restart, and a damaged file is refused whole.

use std::io::{self, Read};
use std::time::Duration;

use tidegate::{Clock, Limiter, ManualClock, MemoryStore, SnapshotError};

const LIMITS: [&str; 6] = [
    "3/h",
    "7919/h burst 3",
    "fixed-window 3/h",
    "sliding-window 3/h",
    "sliding-log 3/h",
    "concurrency 3 lease 1h",
];

fn limiters(store: MemoryStore, clock: &ManualClock) -> Vec<Limiter<ManualClock>> {
    let store = std::sync::Arc::new(store);
    let build = |limit: &&str| {
        let builder = Limiter::builder(*limit).name(*limit).store(store.clone());
        builder.clock(clock.clone()).build().unwrap()
    };
    LIMITS.iter().map(build).collect()
}

fn snapshot(clock: &ManualClock) -> Vec<u8> {
    let limiters = limiters(MemoryStore::default(), clock);
    for limiter in &limiters {
        for key in 0..2_000_u32 {
            assert!(limiter.check_n(key.to_le_bytes(), u64::from(key % 3) + 1).allowed());
        }
    }
    let mut bytes = Vec::new();
    limiters[0].store().snapshot(&mut bytes, clock.now()).unwrap();
    bytes
}

fn restore(bytes: &[u8], clock: &ManualClock) -> Result<MemoryStore, SnapshotError> {
    MemoryStore::restore(&mut &*bytes, 64 << 20, clock.now())
}

#[test]
fn what_was_spent_stays_spent() {
    let clock = ManualClock::default();
    let bytes = snapshot(&clock);
    for limiter in limiters(restore(&bytes, &clock).unwrap(), &clock) {
        for key in 0..2_000_u32 {
            let left = 2 - u64::from(key % 3);
            assert_eq!(
                limiter.peek(key.to_le_bytes(), 0).remaining(),
                left,
                "{:?}",
                limiter.limit()
            );
        }
    }
}

#[test]
fn what_became_idle_meanwhile_is_not_restored() {
    let clock = ManualClock::default();
    let bytes = snapshot(&clock);
    clock.advance(Duration::from_hours(3));
    assert_eq!(restore(&bytes, &clock).unwrap().stats().keys, 0);
}

/// Fails once it has given all it has.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::Error::other("the disk is gone")) } else { self.0.read(out) }
    }
}

#[test]
fn a_disk_that_fails_is_not_taken_for_a_damaged_file() {
    let clock = ManualClock::default();
    let bytes = snapshot(&clock);
    for length in [0, 1, 15, 16, 20, 24, 30, 36, 40, bytes.len() / 2, bytes.len() - 1] {
        let mut failing = Failing(&bytes[..length]);
        let cut = MemoryStore::restore(&mut failing, 64 << 20, clock.now());
        assert!(matches!(cut, Err(SnapshotError::Io(_))), "{length}: {cut:?}");
    }
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let clock = ManualClock::default();
    let bytes = snapshot(&clock);
    assert!(matches!(restore(b"", &clock), Err(SnapshotError::NotASnapshot)));
    assert!(matches!(restore(&bytes[..15], &clock), Err(SnapshotError::NotASnapshot)));
    assert!(matches!(
        restore(b"something else entirely", &clock),
        Err(SnapshotError::NotASnapshot)
    ));
    for length in [16, 20, 24, 40, bytes.len() / 2, bytes.len() - 1] {
        let cut = restore(&bytes[..length], &clock);
        assert!(matches!(cut, Err(SnapshotError::Truncated)), "{length}: {cut:?}");
    }
    for at in (24..bytes.len()).step_by(bytes.len() / 300) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(restore(&damaged, &clock).is_err(), "a flipped bit at {at} went unseen");
    }
}
