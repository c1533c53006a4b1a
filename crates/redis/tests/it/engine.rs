//! An engine over a real Redis: what callers get while Redis is absent, hangs, or has another idea of the time.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    BreakerOptions, BreakerState, Check, Engine, Key, ManualClock, OnStoreError, Op, Policy,
    Source, Store, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};
use tokio::time::Instant;

use tidegate_testkit::processes::{DEADLINE, RedisServer};

/// Far above what a busy machine adds, and far below what waiting for a hung server would.
const SOON: Duration = Duration::from_secs(4);

/// A store with a breaker.
fn guarded(url: impl Into<String>) -> Arc<RedisStore> {
    let breaker = Some(BreakerOptions::default());
    Arc::new(RedisStore::new(RedisOptions { breaker, ..RedisOptions::new(url) }).unwrap())
}

fn state(store: &RedisStore) -> BreakerState {
    store.breakers()[0].state
}

fn policies() -> [(&'static str, Policy); 3] {
    let limit = || Policy::all().limit("", "6/h");
    [
        ("open", limit().on_store_error(OnStoreError::Allow)),
        ("closed", limit().on_store_error(OnStoreError::DENY)),
        ("local", limit()),
    ]
}

fn engine(store: impl tidegate::Store + 'static) -> Engine {
    let builder = Engine::builder().store(store).nodes(3.try_into().unwrap());
    let add = |builder: tidegate::EngineBuilder, (name, policy)| builder.policy(name, policy);
    policies().into_iter().fold(builder, add).build().unwrap()
}

/// Asks until an answer comes from there.
async fn until(engine: &Engine, policy: &str, source: Source) {
    let start = Instant::now();
    while engine.check(policy, "probe").await.unwrap().source != source {
        assert!(start.elapsed() < DEADLINE, "{policy} is not answered by {source:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What each policy answers while nobody else can.
async fn each_policy_stands_in(engine: &Engine) {
    let open = engine.check("open", "stand-in").await.unwrap();
    assert_eq!((open.source, open.decision.remaining()), (Source::FailOpen, 6));
    let closed = engine.check("closed", "stand-in").await.unwrap();
    assert_eq!((closed.source, closed.decision.allowed()), (Source::FailClosed, false));
    assert_eq!(closed.decision.retry_after(), Some(Duration::from_mins(1)));
    // A third of six for each of three nodes.
    let mut local = Vec::new();
    for _ in 0..3 {
        local.push(engine.check("local", "stand-in").await.unwrap());
    }
    assert!(local.iter().all(|answer| answer.source == Source::Local));
    let admitted = local.iter().filter(|answer| answer.decision.allowed()).count();
    assert_eq!(admitted, 2);
}

#[tokio::test]
async fn an_absent_redis_is_stood_in_for_and_taken_up_when_it_comes() {
    let server = RedisServer::start();
    let url = server.url();
    server.kill();
    let engine = engine(guarded(url));
    each_policy_stands_in(&engine).await;
    server.restart();
    until(&engine, "local", Source::Store).await;
}

#[tokio::test]
async fn a_hung_redis_opens_the_breaker_and_then_nobody_waits() {
    let server = RedisServer::start();
    let store = guarded(server.url());
    let engine = engine(store.clone());
    until(&engine, "open", Source::Store).await;
    server.pause();
    let paused = Instant::now();
    while state(&store) == BreakerState::Closed {
        let start = Instant::now();
        engine.check("open", "k").await.unwrap();
        assert!(start.elapsed() < SOON, "an answer took {:?}", start.elapsed());
        assert!(paused.elapsed() < DEADLINE, "the breaker stays closed");
    }
    // There is nothing to wait for any more: the answer is there at once.
    for policy in ["open", "closed", "local"] {
        let answer = engine.check(policy, "k").now().unwrap();
        assert_ne!(answer.source, Source::Store);
    }
    each_policy_stands_in(&engine).await;
    server.resume();
    until(&engine, "open", Source::Store).await;
    assert_eq!(state(&store), BreakerState::Closed);
}

#[tokio::test]
async fn who_is_blocked_costs_redis_one_call_a_second() {
    let server = RedisServer::start();
    let store = Arc::new(RedisStore::new(RedisOptions::new(server.url())).unwrap());
    let engine = engine(store.clone());
    let ask = |cost| Check { policy: "local", key: Key::One(b"blocked"), cost };
    until(&engine, "local", Source::Store).await;
    assert!(engine.ask(&ask(6), Op::Take).await.unwrap().decision.allowed());
    assert!(!engine.check("local", "blocked").await.unwrap().decision.allowed());
    let (before, start) = (store.stats().requests, Instant::now());
    let mut refused = 0_u64;
    while start.elapsed() < Duration::from_millis(1500) {
        let replies: Vec<_> = (0..50).map(|_| engine.check("local", "blocked")).collect();
        for reply in replies {
            assert!(!reply.await.unwrap().decision.allowed());
            refused += 1;
        }
        tokio::task::yield_now().await;
    }
    let seconds = start.elapsed().as_secs() + 1;
    let asked = store.stats().requests - before;
    assert!(asked <= seconds + 1, "{asked} questions in {seconds} s for {refused} refusals");
}

#[tokio::test]
async fn a_nodes_clock_says_nothing() {
    let server = RedisServer::start();
    for (number, us) in [0, 1_000_000, 1_700_000_000_000_000, 1 << 53].into_iter().enumerate() {
        let clock = ManualClock::at(Timestamp::from_micros(us));
        let store =
            RedisStore::new(RedisOptions { deadline: DEADLINE, ..RedisOptions::new(server.url()) });
        let engine = Engine::builder()
            .store(store.unwrap())
            .clock(clock)
            .policy("gcra", "5/h")
            .policy("month", "quota 5/month")
            .policy("log", "sliding-log 5/h")
            .build()
            .unwrap();
        for policy in ["gcra", "month", "log"] {
            let answer = engine.check(policy, "shared").await.unwrap();
            assert_eq!(answer.source, Source::Store);
            assert_eq!(answer.decision.remaining(), 4 - number as u64, "{policy} at {us}");
        }
    }
}

/// Asks for one unit after another until it is refused.
async fn admitted(engine: &Engine, policy: &str) -> u64 {
    let mut count = 0;
    while engine.check(policy, "k").await.unwrap().decision.allowed() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn redis_clock_may_jump() {
    const HOUR_US: i64 = 3_600_000_000;
    let server = RedisServer::builder().shiftable_clock().start();
    let store =
        RedisStore::new(RedisOptions { deadline: DEADLINE, ..RedisOptions::new(server.url()) });
    let strict = |text: &str| {
        Policy::all().limit("", text.parse::<tidegate::Limit>().unwrap()).deny_cache(false)
    };
    let engine = Engine::builder()
        .store(store.unwrap())
        .policy("gcra", strict("10/h burst 20"))
        .policy("log", strict("sliding-log 20/h"))
        .build()
        .unwrap();
    assert_eq!((admitted(&engine, "gcra").await, admitted(&engine, "log").await), (20, 20));
    // Back: nothing is refilled, and nobody is locked out for longer than a burst takes.
    server.shift_clock_us(-5 * HOUR_US);
    let answer = engine.check("gcra", "k").await.unwrap();
    assert!(!answer.decision.allowed());
    assert!(answer.decision.reset_after() <= Duration::from_hours(2));
    assert_eq!((admitted(&engine, "gcra").await, admitted(&engine, "log").await), (0, 0));
    // Forward by an hour: what an hour is worth, and no more than a burst.
    server.shift_clock_us(-4 * HOUR_US);
    assert!((10..=11).contains(&admitted(&engine, "gcra").await));
    assert_eq!(admitted(&engine, "log").await, 20);
    server.shift_clock_us(20 * HOUR_US);
    assert_eq!((admitted(&engine, "gcra").await, admitted(&engine, "log").await), (20, 20));
}

#[tokio::test]
async fn an_identifier_that_equals_another_is_counted_where_it_always_is() {
    let server = RedisServer::start();
    let store =
        RedisStore::new(RedisOptions { deadline: DEADLINE, ..RedisOptions::new(server.url()) });
    let signup = Policy::all().limit_by("ip", "ip", "3/day").limit_by("mail", "domain", "50/day");
    let engine = Engine::builder().store(store.unwrap()).policy("signup", signup.deny_cache(false));
    let engine = engine.build().unwrap();
    let mut admitted = 0;
    // The caller chooses the domain, and so may choose the address of the machine it comes from.
    for domain in ["example.org", "203.0.113.9"].repeat(5) {
        let keys: [(&str, &[u8]); 2] = [("ip", b"203.0.113.9"), ("domain", domain.as_bytes())];
        let check = Check { policy: "signup", key: Key::Named(&keys), cost: 1 };
        let answer = engine.ask(&check, Op::Take).await.unwrap();
        admitted += u32::from(answer.decision.allowed());
    }
    assert_eq!(admitted, 3);
}

#[tokio::test]
async fn a_policy_has_a_deadline_of_its_own_over_the_same_connection() {
    let server = RedisServer::start();
    let options = |deadline| RedisOptions { deadline, ..RedisOptions::new(server.url()) };
    let policy = || Policy::all().limit("", "100/h");
    for (of_store, own) in [(DEADLINE, SOON / 20), (SOON / 20, DEADLINE)] {
        let store = std::sync::Arc::new(RedisStore::new(options(of_store)).unwrap());
        let engine = Engine::builder().store(store.clone()).policy("store", policy());
        let engine = engine.policy("own", policy().deadline(own)).build().unwrap();
        until(&engine, "store", Source::Store).await;
        until(&engine, "own", Source::Store).await;
        assert_eq!(store.stats().connects, 1, "one connection for both");
        let (short, long) = if own < of_store { ("own", "store") } else { ("store", "own") };
        server.pause();
        let (start, waiting) = (Instant::now(), engine.check(long, "k"));
        assert_eq!(engine.check(short, "k").await.unwrap().source, Source::Local);
        assert!(start.elapsed() < SOON, "{short} took {:?}", start.elapsed());
        server.resume();
        assert_eq!(waiting.await.unwrap().source, Source::Store, "{long} had time to wait");
    }
}

#[tokio::test]
async fn a_permit_gives_all_its_places_back() {
    let server = RedisServer::start();
    let store = crate::support::store(server.url(), DEADLINE);
    let engine = Engine::builder().store(store).policy("export", "concurrency 5 lease 1h");
    let engine = engine.build().unwrap();
    for cost in 1..=3 {
        let check = Check { policy: "export", key: Key::One(b"user-42"), cost };
        let left = async || {
            let peek = engine.ask(&Check { cost: 0, ..check }, Op::Peek).await;
            peek.unwrap().decision.remaining()
        };
        let held = engine.acquire_for(&check).await.unwrap();
        assert_eq!(left().await, 5 - cost);
        drop(held); // sent at once, and so before the next question
        assert_eq!(left().await, 5, "dropped, of {cost}");
        let id = engine.acquire_for(&check).await.unwrap().permit.unwrap().into_id();
        assert_eq!(left().await, 5 - cost);
        // What is written down knows by itself how many places it is for.
        let (id, check) = (id.to_string().parse().unwrap(), Check { cost: 1, ..check });
        for _ in 0..2 {
            engine.release(&check, &id).await.unwrap();
            assert_eq!(left().await, 5, "released, of {cost}");
        }
    }
}

#[tokio::test]
async fn no_deadline_is_too_long_to_be_kept() {
    let server = RedisServer::start();
    let breaker = Some(BreakerOptions { window: Duration::MAX, ..BreakerOptions::default() });
    let options =
        RedisOptions { deadline: Duration::MAX, breaker, ..RedisOptions::new(server.url()) };
    let store = Arc::new(RedisStore::new(options).unwrap());
    for store in [store.clone(), store.extensions().remote.unwrap().within(Duration::MAX).unwrap()]
        as [Arc<dyn Store>; 2]
    {
        let engine = Engine::builder().store(store).policy("p", "5/h").build().unwrap();
        assert_eq!(engine.check("p", "k").await.unwrap().source, Source::Store);
    }
}
