//! The memory store: its size, its cap, and what it lets go.

use std::time::Duration;

use tidegate::{Clock, Limiter, ManualClock, MemoryStore};

fn limiter(limit: &str, store: MemoryStore, clock: &ManualClock) -> Limiter<ManualClock> {
    Limiter::builder(limit).store(store).clock(clock.clone()).build().unwrap()
}

#[test]
fn a_million_keys_take_at_most_48_bytes_each() {
    for limit in
        ["100/h", "60/s", "7919/s", "token-bucket 3/s capacity 1000000", "fixed-window 100/h"]
    {
        let clock = ManualClock::default();
        let limiter = limiter(limit, MemoryStore::default(), &clock);
        for key in 0..1_000_000_u32 {
            assert!(limiter.check(key.to_le_bytes()).allowed());
        }
        let stats = limiter.store().stats();
        assert_eq!((stats.keys, stats.given_up), (1_000_000, 0), "{limit}");
        assert!(stats.bytes <= 48_000_000, "{limit}: {} bytes", stats.bytes);
        // And none of them was lost or mixed up on the way.
        for key in (0..1_000_000_u32).step_by(997) {
            assert_eq!(
                limiter.peek(key.to_le_bytes(), 0).remaining() + 1,
                limiter.limit().ceiling()
            );
        }
    }
}

/// Bytes that the store counts per key, after this many checks of each, a second apart.
fn bytes_per_key(limit: &str, checks: u32) -> usize {
    const KEYS: u32 = 100_000;
    let clock = ManualClock::default();
    let limiter = limiter(limit, MemoryStore::default(), &clock);
    for _ in 0..checks {
        clock.advance(Duration::from_secs(1));
        for key in 0..KEYS {
            assert!(limiter.check(key.to_le_bytes()).allowed());
        }
    }
    let stats = limiter.store().stats();
    assert_eq!((stats.keys, stats.given_up), (u64::from(KEYS), 0), "{limit}");
    stats.bytes / KEYS as usize
}

#[test]
fn a_sliding_window_of_ten_buckets_takes_at_most_120_bytes_per_key() {
    for limit in ["sliding-window 100/min", "sliding-window 1000000/h", "sliding-window 30/10s"] {
        let bytes = bytes_per_key(limit, 25);
        assert!(bytes <= 120, "{limit}: {bytes} bytes");
    }
}

#[test]
fn a_stamp_of_a_sliding_log_takes_at_most_8_bytes() {
    let empty = bytes_per_key("sliding-window 100/min", 1);
    for stamps in [5, 30, 100] {
        // A check adds one stamp, and from the second round on forgets another.
        for checks in [stamps, stamps + stamps / 3] {
            let bytes = bytes_per_key(&format!("sliding-log {stamps}/{stamps}s"), checks);
            let most = empty + 8 * stamps as usize;
            assert!(bytes <= most, "{stamps} stamps: {bytes} bytes, and {most} are enough");
        }
    }
}

#[test]
fn idle_keys_make_room_for_new_ones() {
    let clock = ManualClock::default();
    let limiter = limiter("100/s", MemoryStore::default(), &clock);
    for round in 0..50_u32 {
        for key in 0..1_000_u32 {
            let _ = limiter.check((round * 1_000 + key).to_le_bytes());
        }
        clock.advance(Duration::from_secs(15));
    }
    let stats = limiter.store().stats();

    assert!(stats.keys < 5_000, "{} keys kept of 50000 idle ones", stats.keys);
    assert_eq!(stats.given_up, 0);
}

#[test]
fn a_sweep_by_hand_drops_every_idle_key() {
    let clock = ManualClock::default();
    for limit in ["100/s", "sliding-log 100/s", "fixed-window 100/s", "concurrency 5 lease 1s"] {
        let limiter = limiter(limit, MemoryStore::default(), &clock);
        for key in 0..1_000_u32 {
            let _ = limiter.check(key.to_le_bytes());
        }
        limiter.store().sweep(clock.now(), u64::from(u16::MAX));
        assert_eq!(limiter.store().stats().keys, 1_000, "{limit}: not idle yet");
        clock.advance(Duration::from_secs(2));
        limiter.store().sweep(clock.now(), u64::from(u16::MAX));
        assert_eq!(limiter.store().stats().keys, 0, "{limit}");
    }
}

/// Floods a small store with new keys after some have been spent, one after another.
fn flood(limit: &str, blocked: u32) -> (Limiter<ManualClock>, usize) {
    const CAP: usize = 1 << 20;
    let clock = ManualClock::default();
    let limiter = limiter(limit, MemoryStore::with_max_bytes(CAP), &clock);
    for key in 0..blocked {
        assert!(limiter.check_n(key.to_be_bytes(), limiter.limit().ceiling()).allowed());
        assert!(!limiter.check(key.to_be_bytes()).allowed());
    }
    for key in 10_000..160_000_u32 {
        let _ = limiter.check(key.to_be_bytes());
    }
    (limiter, CAP)
}

#[test]
fn a_flood_of_keys_stays_under_the_cap_and_the_blocked_stay_blocked() {
    for limit in [
        "10/h",
        "fixed-window 10/h",
        // Kept beside the table, where those that came one after another are neighbours.
        "sliding-log 10/h",
        "sliding-window 10/h",
        "7919/h burst 10",
    ] {
        const BLOCKED: u32 = 800;
        let (limiter, cap) = flood(limit, BLOCKED);
        let stats = limiter.store().stats();
        assert!(stats.bytes <= cap, "{limit}: {} bytes", stats.bytes);
        assert!(stats.given_up > 100_000, "{limit}: what was given up is counted: {stats:?}");
        let is_free = |key: &u32| limiter.peek(key.to_be_bytes(), 1).allowed();
        let freed = (0..BLOCKED).filter(is_free).count();
        assert_eq!(freed, 0, "{limit}: of {BLOCKED} blocked keys, {stats:?}");
    }
}

#[test]
fn idle_keys_go_before_any_other_is_given_up() {
    let clock = ManualClock::default();
    let limiter = limiter("1000/s burst 1", MemoryStore::with_max_bytes(1 << 20), &clock);
    for key in 0..300_000_u32 {
        let _ = limiter.check(key.to_le_bytes());
        clock.advance(Duration::from_micros(1));
    }
    // A key is idle after a millisecond, so that at most a thousand are in use.
    assert_eq!(limiter.store().stats().given_up, 0);
}

#[test]
fn limiters_with_names_share_a_store_without_sharing_keys() {
    let store = std::sync::Arc::new(MemoryStore::default());
    let build =
        |name: &str| Limiter::builder("1/h").name(name).store(store.clone()).build().unwrap();
    assert!(build("reads").check("user-42").allowed());
    assert!(build("writes").check("user-42").allowed());
    assert!(!build("reads").check("user-42").allowed(), "the same name is the same counter");
}

/// How often each of some new keys is admitted, after a flood of others.
fn admitted_after_flood(flood: &str, limits: &[&str], cap: usize) -> Vec<usize> {
    let store = std::sync::Arc::new(MemoryStore::with_max_bytes(cap));
    let clock = ManualClock::default();
    let flooded = Limiter::builder(flood).name("flood").store(store.clone());
    let flooded = flooded.clock(clock.clone()).build().unwrap();
    for key in 0..100_000_u32 {
        let _ = flooded.check(key.to_le_bytes());
    }
    let policy = limits
        .iter()
        .enumerate()
        .fold(tidegate::Policy::all(), |policy, (n, limit)| policy.limit(n.to_string(), *limit));
    let engine = tidegate::Engine::builder().store(store.clone()).clock(clock);
    let engine = engine.policy("login", policy).build().unwrap();
    let admitted = (0..50_u32).map(|key| {
        let allowed =
            |_: &usize| engine.check("login", key.to_le_bytes()).now().unwrap().decision.allowed();
        (0..20).filter(allowed).count()
    });
    let admitted = admitted.collect();
    assert!(store.stats().bytes <= cap, "{:?}", store.stats());
    admitted
}

#[test]
fn a_flood_of_one_kind_of_state_does_not_switch_the_other_off() {
    let rows: [(&str, &[&str]); 4] = [
        ("10/day", &["sliding-log 5/h"]),
        ("sliding-log 10/day", &["5/h"]),
        ("sliding-log 10/day", &["sliding-log 5/h"]),
        ("10/day", &["sliding-log 5/h", "sliding-window 5/h", "5/h"]),
    ];
    for (flood, limits) in rows {
        let admitted = admitted_after_flood(flood, limits, 2 << 20);
        // The first few asks of a policy of several limits may find no memory for one of them.
        let exact = admitted.iter().filter(|count| **count == 5).count();
        assert!(exact >= 48, "{flood}, then {limits:?}: {admitted:?}");
    }
}

#[test]
fn several_limits_stay_under_the_cap_too() {
    let (flood, limits) = ("1/s", ["sliding-log 5/h", "sliding-log 5/day"]);
    let store = std::sync::Arc::new(MemoryStore::with_max_bytes(2 << 20));
    let policy = tidegate::Policy::all().limit("a", limits[0]).limit("b", limits[1]);
    let engine = tidegate::Engine::builder().store(store.clone()).clock(ManualClock::default());
    let engine = engine.policy("p", policy).policy("q", flood).build().unwrap();
    for key in 0..50_000_u32 {
        let _ = engine.check("p", key.to_le_bytes()).now();
    }
    assert!(store.stats().bytes <= 2 << 20, "{:?}", store.stats());
    let admitted = (0..100).filter(|_| engine.check("p", "new").now().unwrap().decision.allowed());
    assert!(admitted.count() <= 6);
}

#[test]
fn one_state_twice_in_one_ask_has_no_answer() {
    use tidegate::{KeyedLimit, Mode, Op, Scope, Store, StoreErrorKind, StoreRequest};
    let (store, scope) = (MemoryStore::default(), Scope::named("p", ""));
    for limit in ["5/h", "sliding-log 5/h"] {
        let limit: tidegate::Limit = limit.parse().unwrap();
        let keyed = KeyedLimit { scope: &scope, key: b"k", limit: &limit };
        let answer = |limits: &[KeyedLimit<'_>], op| {
            let ask = StoreRequest { mode: Mode::All, limits, cost: 1, op };
            store.decide(&ask, ManualClock::default().now()).now()
        };
        for bad in [&[keyed, keyed][..], &[], &[keyed; StoreRequest::MAX_LIMITS + 1]] {
            assert_eq!(answer(bad, Op::Take).unwrap_err().kind(), StoreErrorKind::BadRequest);
        }
        assert_eq!(answer(&[keyed], Op::Take).unwrap().verdict.decision.remaining(), 4);
        assert_eq!(answer(&[keyed], Op::Reset).unwrap().verdict.decision.remaining(), 5);
    }
}

#[test]
fn the_smallest_store_still_limits() {
    for limit in ["5/h", "sliding-log 5/h", "7919/h burst 5", "sliding-window 5/h"] {
        let limiter = limiter(limit, MemoryStore::with_max_bytes(0), &ManualClock::default());
        assert_eq!((0..100).filter(|_| limiter.check("k").allowed()).count(), 5, "{limit}");
    }
}

#[test]
fn permits_given_back_over_the_cap_give_nothing_else_up() {
    let clock = ManualClock::default();
    let limiter = limiter("concurrency 1000000", MemoryStore::with_max_bytes(0), &clock);
    let permits: Vec<_> = (0..20_000).map(|_| limiter.acquire("k").permit).collect();
    let before = limiter.store().stats().given_up;
    drop(permits);
    assert_eq!(limiter.store().stats().given_up, before);
}
