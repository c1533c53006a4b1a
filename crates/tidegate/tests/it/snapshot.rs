//! Snapshots: what was spent stays spent over a restart, and a damaged file is refused whole.

use std::io::{self, Read};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rapidhash::v3::rapidhash_v3;
use tidegate::{
    Clock, Limiter, ManualClock, MemoryStore, OverrideChange, OverrideStore, SnapshotError,
    Timestamp,
};

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
    assert!(matches!(restore(&bytes[..14], &clock), Err(SnapshotError::NotASnapshot)));
    assert!(matches!(
        restore(b"something else entirely", &clock),
        Err(SnapshotError::NotASnapshot)
    ));
    for format in [b'0', b'1', b'3', 0xff] {
        let other = [&bytes[..15], &[format], &bytes[16..]].concat();
        assert!(matches!(restore(&other, &clock), Err(SnapshotError::OtherFormat)), "{format}");
    }
    for length in [15, 16, 20, 24, 40, bytes.len() / 2, bytes.len() - 1] {
        let cut = restore(&bytes[..length], &clock);
        assert!(matches!(cut, Err(SnapshotError::Truncated)), "{length}: {cut:?}");
    }
    // Every byte of the head, the seed among them, and some of the rest.
    for at in (0..64).chain((64..bytes.len()).step_by(bytes.len() / 300)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(restore(&damaged, &clock).is_err(), "a flipped bit at {at} went unseen");
    }
}

#[test]
fn overrides_are_part_of_a_snapshot() {
    let (store, now) = (MemoryStore::default(), Timestamp::from_micros(1_700_000_000_000_000));
    let life = Some(Duration::from_hours(1));
    for (key, life) in [("partner-7", None), ("mallory", life)] {
        let key = key.as_bytes();
        let set = OverrideChange::Set { policy: "api", key, text: "block", life };
        store.change_override(&set, now).now().unwrap();
    }
    let mut bytes = Vec::new();
    store.snapshot(&mut bytes, now).unwrap();
    let later = now + Duration::from_mins(59);
    let restored = MemoryStore::restore(&mut &*bytes, 1 << 20, later).unwrap();
    let table = |store: &MemoryStore| store.overrides(0, later).now().unwrap().unwrap();
    assert_eq!(table(&restored), table(&store));
    assert_eq!(table(&restored).entries.len(), 2);
    let after = now + Duration::from_hours(1);
    assert_eq!(restored.overrides(0, after).now().unwrap().unwrap().entries.len(), 1);
}

#[test]
fn a_clock_that_went_back_meanwhile_refills_nothing_and_locks_nobody_out() {
    for limit in ["60/h", "fixed-window 60/h", "sliding-window 60/h", "sliding-log 60/h"] {
        let clock = ManualClock::default();
        let limiter = Limiter::builder(limit).clock(clock.clone()).build().unwrap();
        assert!(limiter.check_n("ann", 60).allowed(), "{limit}");
        let mut bytes = Vec::new();
        limiter.store().snapshot(&mut bytes, clock.now()).unwrap();
        let back = ManualClock::at(clock.now() - Duration::from_hours(48));
        let store = restore(&bytes, &back).unwrap();
        let limiter = Limiter::builder(limit).store(store).clock(back.clone()).build().unwrap();
        assert!(!limiter.check("ann").allowed(), "{limit}: refilled by a step back");
        back.advance(Duration::from_hours(2));
        assert!(limiter.check("ann").allowed(), "{limit}: locked out by a step back");
    }
}

#[test]
fn a_changed_limit_reads_what_was_spent_as_a_reload_does() {
    let clock = ManualClock::default();
    let remaining = |store: MemoryStore| {
        let builder = Limiter::builder("fixed-window 10/h").store(store).clock(clock.clone());
        builder.build().unwrap().peek("ann", 0).remaining()
    };
    let limiter = Limiter::builder("fixed-window 5/h").clock(clock.clone()).build().unwrap();
    assert!(limiter.check_n("ann", 4).allowed());
    let mut bytes = Vec::new();
    limiter.store().snapshot(&mut bytes, clock.now()).unwrap();
    assert_eq!(remaining(restore(&bytes, &clock).unwrap()), 6);
}

#[test]
fn a_smaller_cap_keeps_the_blocked_and_counts_what_it_gives_up() {
    let clock = ManualClock::default();
    let limiter = Limiter::builder("2/h").clock(clock.clone()).build().unwrap();
    for key in 0..60_000_u32 {
        let cost = if key % 100 == 0 { 2 } else { 1 };
        assert!(limiter.check_n(key.to_le_bytes(), cost).allowed());
    }
    let mut bytes = Vec::new();
    limiter.store().snapshot(&mut bytes, clock.now()).unwrap();
    let store = MemoryStore::restore(&mut &*bytes, 1 << 20, clock.now()).unwrap();
    let stats = store.stats();
    assert!(stats.bytes <= 1 << 20 && stats.given_up > 10_000, "{stats:?}");
    let restarted = Limiter::builder("2/h").store(store).clock(clock.clone()).build().unwrap();
    let blocked = (0..60_000_u32).step_by(100);
    let freed = blocked.filter(|key| restarted.peek(key.to_le_bytes(), 1).allowed()).count();
    assert_eq!(freed, 0, "blocked keys were given up before others");
}

/// Checks of other keys go on while a snapshot is written, and what was spent before it is in it.
#[test]
fn a_snapshot_under_load_holds_all_that_was_spent_before_it() {
    let limiter = Limiter::builder("3/h").store(MemoryStore::default()).build().unwrap();
    for key in 0..20_000_u32 {
        assert!(limiter.check_n(key.to_le_bytes(), 3).allowed());
    }
    let mut bytes = Vec::new();
    let now = tidegate::SystemClock.now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // New keys, so that the table grows under the snapshot.
            for key in 20_000..120_000_u32 {
                assert!(limiter.check(key.to_le_bytes()).allowed());
            }
        });
        limiter.store().snapshot(&mut bytes, now).unwrap();
    });
    let store = MemoryStore::restore(&mut &*bytes, 64 << 20, now).unwrap();
    let restarted = Limiter::builder("3/h").store(store).build().unwrap();
    let freed = (0..20_000_u32).filter(|key| restarted.peek(key.to_le_bytes(), 1).allowed());
    assert_eq!(freed.count(), 0);
}

/// A file as we write it, with blocks of these bytes.
fn file_of(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"tidegate memory2".to_vec();
    for block in blocks {
        file.extend_from_slice(&u32::try_from(block.len()).unwrap().to_le_bytes());
        file.extend_from_slice(&rapidhash_v3(block).to_le_bytes());
        file.extend_from_slice(block);
    }
    file
}

/// Counts what is read, and never ends.
struct Endless {
    head: Vec<u8>,
    read: usize,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let head = self.head.len().min(out.len());
        out[..head].copy_from_slice(&self.head[..head]);
        self.head.drain(..head);
        out[head..].fill(7);
        self.read += out.len();
        Ok(out.len())
    }
}

#[test]
fn a_file_that_never_ends_is_read_no_further_than_the_cap() {
    const CAP: usize = 1 << 20;
    let first = || file_of(&[vec![0; 16]]);
    let block = |length: u32| [first(), length.to_le_bytes().to_vec(), vec![7; 8]].concat();
    for (head, expected) in [
        (b"tidegate memory2".to_vec(), "TooLarge"),
        (block(u32::MAX), "TooLarge"),
        (block(1 << 20), "Corrupt"),
    ] {
        let mut endless = Endless { head, read: 0 };
        let refused = MemoryStore::restore(&mut endless, CAP, Timestamp::EPOCH);
        assert_eq!(format!("{:?}", refused.unwrap_err()), expected);
        assert!(endless.read <= 4 * CAP, "{} bytes read", endless.read);
    }
}

fn cases(cases: u32) -> ProptestConfig {
    let mut config =
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20);
    }
    config
}

/// Entries of a block, most of them in the right form, with states that nobody has written.
fn made_up_block() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![any::<u64>(), 0..9_u64, Just(1_700_000_000_000_000), Just(u64::MAX)];
    let state = (0..7_u8, vec(word, 0..8)).prop_map(|(tag, words)| {
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        std::iter::once(tag).chain(words).collect::<Vec<u8>>()
    });
    let entry =
        (any::<u64>(), any::<u8>(), state, 0..20_u8).prop_map(|(key, spent, state, odd)| {
            let length = u32::try_from(state.len()).unwrap() + u32::from(odd == 0);
            [key.to_le_bytes().to_vec(), vec![spent], length.to_le_bytes().to_vec(), state].concat()
        });
    vec(entry, 0..6).prop_map(|entries| entries.concat())
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn random_bytes_are_an_error_and_never_a_panic(bytes in vec(any::<u8>(), 0..400)) {
        let clock = ManualClock::default();
        prop_assert!(restore(&bytes, &clock).is_err());
        let named = [&b"tidegate memory2"[..], &bytes].concat();
        prop_assert!(restore(&named, &clock).is_err());
    }

    // The checksums are right: someone has made the file up.
    #[test]
    fn made_up_states_never_panic(first in vec(any::<u8>(), 0..60), block in made_up_block()) {
        let clock = ManualClock::default();
        let _ = restore(&file_of(&[first, vec![]]), &clock);
        let file = file_of(&[vec![0; 16], block, vec![]]);
        if let Ok(store) = MemoryStore::restore(&mut &*file, 1 << 20, clock.now()) {
            prop_assert!(store.stats().bytes <= 1 << 20);
            for limiter in limiters(store, &clock) {
                let _ = limiter.check("ann");
                limiter.store().snapshot(&mut io::sink(), clock.now()).unwrap();
            }
        }
    }
}
