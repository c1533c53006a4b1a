//! N threads × M requests at limit K admit exactly K: every algorithm, one limit and several.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate::{
    Engine, KeyedLimit, Limiter, ManualClock, MemoryStore, Mode, Op, Policy, Scope, Store,
    StoreRequest,
};

const THREADS: u64 = 8;
const REQUESTS: u64 = 2_000;
const K: u64 = 777;

/// Every algorithm, with room for exactly `K` while the clock stands still; rates with and without a
/// fraction, so that states in a word and states beside the table are both tried.
const LIMITS: [&str; 11] = [
    "777/h",
    "1000000/h burst 777",
    "7919/s burst 777",
    "token-bucket 3/s capacity 777",
    "token-bucket 100/s capacity 777",
    "fixed-window 777/h",
    "fixed-window 777/1500ms",
    "sliding-window 777/h",
    "sliding-log 777/h",
    "quota 777/month",
    "concurrency 777",
];

fn admitted(check: impl Fn() -> bool + Sync) -> u64 {
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    count.fetch_add(u64::from(check()), Ordering::Relaxed);
                }
            });
        }
    });
    count.into_inner()
}

#[test]
fn threads_on_one_key_admit_exactly_k() {
    for limit in LIMITS {
        let limiter = Limiter::builder(limit).clock(ManualClock::default()).build().unwrap();
        assert_eq!(admitted(|| limiter.check("hot").allowed()), K, "{limit}");
        assert!(!limiter.peek("hot", 1).allowed(), "{limit}");
    }
}

#[test]
fn threads_on_many_keys_admit_exactly_k_each() {
    // New keys come, and the table grows, while others are checked.
    for limit in ["20/h", "7919/s burst 20", "sliding-log 20/h"] {
        let limiter = Limiter::builder(limit).clock(ManualClock::default()).build().unwrap();
        let next = AtomicU64::new(0);
        let keys = 300;
        let check = || {
            let key = next.fetch_add(1, Ordering::Relaxed) % keys;
            limiter.check(key.to_le_bytes()).allowed()
        };
        assert_eq!(admitted(check), 20 * keys, "{limit}");
    }
}

#[test]
fn batches_on_one_key_admit_exactly_k() {
    let limiter = Limiter::builder("777/h").clock(ManualClock::default()).build().unwrap();
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for decisions in (0..50).map(|_| limiter.check_many(&["hot"; 40])) {
                    let admitted = decisions.iter().filter(|decision| decision.allowed()).count();
                    count.fetch_add(admitted as u64, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), K);
}

#[test]
fn threads_over_several_limits_admit_exactly_the_smallest() {
    // Each in turn is the tightest of the four; the others are of other kinds.
    for (tightest, limit) in LIMITS.iter().enumerate().filter(|(_, l)| !l.starts_with("conc")) {
        let others = ["5000/h", "fixed-window 5000/h", "sliding-log 5000/h", "7919/s burst 5000"];
        let mut policy = Policy::all();
        for (index, other) in others.iter().enumerate() {
            policy = policy.limit(format!("other-{index}"), *other);
        }
        let engine = Engine::builder()
            .clock(ManualClock::default())
            .policy("plan", policy.limit("tightest", *limit))
            .build()
            .unwrap();
        let check = || engine.check("plan", "hot").now().unwrap().decision.allowed();
        assert_eq!(admitted(check), K, "{limit} ({tightest})");
        assert_eq!(engine.check("plan", "hot").now().unwrap().binding, "tightest");
    }
}

#[test]
fn opposite_orders_of_the_same_limits_neither_deadlock_nor_overshoot() {
    let store = MemoryStore::default();
    let a: tidegate::Limit = "777/h".parse().unwrap();
    let b: tidegate::Limit = "sliding-log 777/h".parse().unwrap();
    let (first, second) = (Scope::named("p", "a"), Scope::named("p", "b"));
    let a = KeyedLimit { scope: &first, key: b"hot", limit: &a };
    let b = KeyedLimit { scope: &second, key: b"hot", limit: &b };
    let (forward, backward) = ([a, b], [b, a]);
    let now = tidegate::Timestamp::from_micros(1_700_000_000_000_000);
    let turn = AtomicU64::new(0);
    let check = || {
        let limits = if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            &forward
        } else {
            &backward
        };
        let ask = StoreRequest { mode: Mode::All, limits, cost: 1, op: Op::Take };
        store.decide(&ask, now).now().unwrap().verdict.decision.allowed()
    };
    assert_eq!(admitted(check), K);
}

#[test]
fn any_admits_exactly_what_its_limits_admit_together() {
    // A check is charged to every limit that admits it, so the largest decides.
    let engine = Engine::builder()
        .clock(ManualClock::default())
        .policy("either", Policy::any().limit("small", "100/h").limit("large", "sliding-log 777/h"))
        .build()
        .unwrap();
    assert_eq!(admitted(|| engine.check("either", "hot").now().unwrap().decision.allowed()), K);
}

#[test]
fn permits_are_never_more_than_the_limit_and_all_come_back() {
    let limiter = Limiter::builder("concurrency 5").clock(ManualClock::default()).build().unwrap();
    let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..REQUESTS {
                    let Some(_permit) = limiter.acquire("hot").permit else { continue };
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!((1..=5).contains(&most.into_inner()));
    assert_eq!(limiter.peek("hot", 5).remaining(), 0);
    assert!(limiter.peek("hot", 5).allowed());
}

#[test]
fn sweeping_loses_no_admission_of_a_state_that_is_just_becoming_idle() {
    // Each round a key becomes idle, and is swept and charged at the same time: whichever comes first, the charge
    // must be there afterwards.
    let clock = ManualClock::default();
    let limiter = Limiter::builder("sliding-log 1/s").clock(clock.clone()).build().unwrap();
    for round in 0..20_000 {
        clock.advance(std::time::Duration::from_secs(2));
        let now = tidegate::Clock::now(&clock);
        thread::scope(|scope| {
            scope.spawn(|| limiter.store().sweep(now, 64));
            assert!(limiter.check("k").allowed(), "round {round}");
        });
        assert!(!limiter.check("k").allowed(), "round {round}: the charge was swept away");
    }
}

#[test]
fn new_states_snapshots_resets_and_several_limits_do_not_wait_for_each_other() {
    // Each of these locks lines and wide states; whoever locked them in the wrong order would never come back.
    let store = std::sync::Arc::new(MemoryStore::with_max_bytes(8 << 20));
    let clock = ManualClock::default();
    let policy =
        Policy::all().limit("log", "sliding-log 5/s").limit("window", "sliding-window 5/s");
    let engine = Engine::builder().store(store.clone()).clock(clock.clone());
    let engine = engine.policy("one", "sliding-log 5/s").policy("two", policy).build().unwrap();
    let rounds = |work: &dyn Fn(u64)| (0..300_000_u64).for_each(work);
    thread::scope(|scope| {
        scope.spawn(|| rounds(&|n| drop(engine.check("one", (n % 300).to_le_bytes()).now())));
        scope.spawn(|| rounds(&|n| drop(engine.acquire("one", (n % 300).to_le_bytes()).now())));
        scope.spawn(|| rounds(&|n| drop(engine.check("two", (n % 300).to_le_bytes()).now())));
        scope.spawn(|| {
            rounds(&|n| {
                let key = (n % 300).to_le_bytes();
                let check =
                    tidegate::Check { policy: "one", key: tidegate::Key::One(&key), cost: 1 };
                engine.ask(&check, Op::Reset).now().unwrap();
                store.sweep(tidegate::Clock::now(&clock), 8);
                clock.advance(std::time::Duration::from_secs(20));
            });
        });
        scope.spawn(|| {
            for _ in 0..50_000 {
                store.snapshot(&mut std::io::sink(), tidegate::Clock::now(&clock)).unwrap();
            }
        });
    });
}
