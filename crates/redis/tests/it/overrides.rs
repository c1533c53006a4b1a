//! Overrides at run time in a real Redis: a fleet that follows, a table that is bounded, and what a check pays for it.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Breaker, BreakerOptions, Changed, Engine, MemoryStore, OverrideChange, OverrideStore,
    OverrideTable, Source, Store, StoreErrorKind, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};

use crate::support::{LONG_TIMEOUT, store, until_answered};
use tidegate_testkit::processes::{RedisCluster, RedisServer};

const TABLE: &str = "tg:{overrides}";

fn engine(store: impl Store + 'static) -> Engine {
    Engine::builder()
        .store(store)
        .policy("api", "5/3650day")
        .policy("sms", "5/3650day")
        .build()
        .unwrap()
}

async fn limit_of(engine: &Engine, key: &str) -> u64 {
    let answer = engine.check("api", key).await.unwrap();
    assert!(answer.limit.is_none() || answer.source != Source::Local, "{:?}", answer.source);
    answer.decision.limit()
}

async fn change(store: &RedisStore, change: OverrideChange<'_>) -> Changed {
    store.change_override(&change, Timestamp::EPOCH).await.unwrap()
}

async fn load(store: &RedisStore, known: u64) -> Option<OverrideTable> {
    store.overrides(known, Timestamp::EPOCH).await.unwrap()
}

async fn a_fleet_follows(url: String) {
    let stores = [store(url.as_str(), LONG_TIMEOUT), store(url.as_str(), LONG_TIMEOUT)];
    until_answered(&stores[0]).await;
    until_answered(&stores[1]).await;
    let [here, there] = stores.map(|it| engine(Breaker::around(it, BreakerOptions::default())));
    assert!(!there.overrides().refresh().await.unwrap(), "there is none yet");
    for (key, text, limit) in
        [("k", "9/3650day", 9), ("k", "block", 0), ("10.0.0.0/8", "allow", u64::MAX)]
    {
        here.overrides().set("api", key, text, None).await.unwrap();
        assert_eq!(limit_of(&here, key).await, limit, "{key} {text}");
        assert!(there.overrides().refresh().await.unwrap());
        assert!(!there.overrides().refresh().await.unwrap());
        assert_eq!(limit_of(&there, key).await, limit, "{key} {text}");
    }
    assert_eq!(limit_of(&there, "10.1.2.3").await, u64::MAX);
    assert_eq!(there.overrides().list().await.unwrap().len(), 2);
    assert!(there.overrides().remove("api", "k").await.unwrap());
    assert!(!there.overrides().remove("api", "k").await.unwrap());
    assert!(here.overrides().refresh().await.unwrap());
    assert_eq!(limit_of(&here, "k").await, 5);
}

#[tokio::test]
async fn a_fleet_follows_one_server() {
    let server = RedisServer::start();
    a_fleet_follows(server.url()).await;
    assert_eq!(server.command(&["PTTL", TABLE]).text(), "-1", "it is configuration, and stays");
}

#[tokio::test]
async fn a_fleet_follows_a_cluster() {
    let cluster = RedisCluster::start();
    a_fleet_follows(cluster.url()).await;
}

#[tokio::test]
async fn a_check_asks_for_no_table() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let engine = engine(store.clone());
    engine.overrides().set("api", "k", "50/3650day", None).await.unwrap();
    let before = store.stats();
    for _ in 0..20 {
        assert_eq!(limit_of(&engine, "k").await, 50);
    }
    let calls = store.stats().calls - before.calls;
    assert!((20..=22).contains(&calls), "{calls} calls for 20 checks");
    // Whoever is allowed or blocked as such asks for nothing at all.
    engine.overrides().set("api", "k", "block", None).await.unwrap();
    assert!(!engine.check("api", "k").now().unwrap().decision.allowed());
}

#[tokio::test]
async fn the_table_is_as_it_would_be_in_memory() {
    let server = RedisServer::start();
    let options =
        RedisOptions { deadline: LONG_TIMEOUT, replays: true, ..RedisOptions::new(server.url()) };
    let (redis, memory) = (RedisStore::new(options).unwrap(), MemoryStore::default());
    let (mut known, mut now) = ([0, 0], Timestamp::from_micros(1_700_000_000_000_000));
    let mut random = 7_u64;
    for step in 0..600 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let dice = random >> 33;
        now = now + Duration::from_millis(dice % 400);
        let policy = ["api", "a:b %", ""][(dice % 3) as usize];
        let key = [&b"k"[..], b"", b"2001:db8::/64", &[0, 255, b' ', b':', b'%']]
            [(dice / 3 % 4) as usize];
        let text = ["allow", "block", "5000/min burst 20"][(dice / 12 % 3) as usize];
        let life = (dice / 36).is_multiple_of(2).then(|| Duration::from_millis(dice % 900));
        let change = if (dice / 72).is_multiple_of(4) {
            OverrideChange::Remove { policy, key }
        } else {
            OverrideChange::Set { policy, key, text, life: life.filter(|life| !life.is_zero()) }
        };
        let changed =
            [redis.change_override(&change, now).await, memory.change_override(&change, now).now()];
        assert_eq!(changed[0], changed[1], "step {step}: {change:?}");
        let tables = [
            redis.overrides(known[0], now).await.unwrap(),
            memory.overrides(known[1], now).now().unwrap(),
        ];
        let sorted = tables.clone().map(|table| {
            let mut entries = table?.entries;
            entries.sort_unstable();
            Some(entries)
        });
        assert_eq!(sorted[0], sorted[1], "step {step}: {change:?}");
        for (known, table) in known.iter_mut().zip(tables) {
            *known = table.map_or(*known, |table| table.version);
        }
    }
}

#[tokio::test]
async fn the_table_is_bounded_and_loaded_whole() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let key = |n: u32| [&n.to_be_bytes()[..], &[b'x'; 150]].concat();
    let set = async |n: u32, life| {
        let key = key(n);
        change(&store, OverrideChange::Set { policy: "api", key: &key, text: "allow", life }).await
    };
    let hour = Some(Duration::from_hours(1));
    for n in 0..10_000 {
        assert_eq!(set(n, hour).await, Changed::Done, "{n}");
    }
    assert_eq!(set(10_000, None).await, Changed::Full);
    assert_eq!(set(9_999, None).await, Changed::Done, "it had one");
    let table = load(&store, 0).await.unwrap();
    assert_eq!(table.entries.len(), 10_000);
    assert_eq!(load(&store, table.version).await, None);
    let long = vec![b'x'; 1024 * 600];
    let huge = OverrideChange::Set { policy: "api", key: &long, text: "allow", life: None };
    assert_eq!(change(&store, huge).await, Changed::Full, "in bytes, too");
}

#[tokio::test]
async fn what_has_expired_makes_room_and_is_not_loaded() {
    let server = RedisServer::builder().shiftable_clock().start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let life = Some(Duration::from_mins(1));
    let set = |key, life| OverrideChange::Set { policy: "api", key, text: "allow", life };
    assert_eq!(change(&store, set(b"short", life)).await, Changed::Done);
    assert_eq!(change(&store, set(b"long", None)).await, Changed::Done);
    let table = load(&store, 0).await.unwrap();
    let left = table.entries.iter().find(|it| &*it.key == b"short").and_then(|it| it.life);
    assert!(left.is_some_and(|left| left <= Duration::from_mins(1)), "{left:?}");
    server.shift_clock_us(60_000_000);
    assert_eq!(load(&store, table.version).await, None, "it ends without a change");
    let table = load(&store, 0).await.unwrap();
    assert!(table.entries.iter().map(|it| &*it.key).eq([&b"long"[..]]));
    assert_eq!(server.command(&["HLEN", TABLE]).text(), "2", "and is gone");
}

#[tokio::test]
async fn a_redis_that_lost_its_memory_has_another_version() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let engine = engine(store.clone());
    engine.overrides().set("api", "k", "9/3650day", None).await.unwrap();
    server.command(&["FLUSHALL"]);
    assert!(engine.overrides().refresh().await.unwrap());
    assert_eq!(limit_of(&engine, "k").await, 5);
    engine.overrides().set("api", "other", "9/3650day", None).await.unwrap();
    server.command(&["FLUSHALL"]);
    // As many changes as before: not to be taken for the same table.
    let set = OverrideChange::Set { policy: "api", key: b"k", text: "7/3650day", life: None };
    change(&store, set).await;
    assert!(engine.overrides().refresh().await.unwrap());
    assert_eq!((limit_of(&engine, "k").await, limit_of(&engine, "other").await), (7, 5));
}

#[tokio::test]
async fn what_was_loaded_last_holds_while_redis_is_gone() {
    let server = RedisServer::start();
    let engine = engine(store(server.url(), Duration::from_millis(200)));
    engine.overrides().set("api", "k", "block", None).await.unwrap();
    server.kill();
    let error = engine.overrides().refresh().await.unwrap_err();
    assert_ne!(error.kind(), StoreErrorKind::Unsupported);
    assert!(engine.overrides().set("api", "k", "allow", None).await.is_err());
    assert!(!engine.check("api", "k").await.unwrap().decision.allowed());
}

#[tokio::test]
async fn changes_at_once_are_all_made() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let engine = Arc::new(engine(store.clone()));
    let tasks: Vec<_> = (0..50)
        .map(|n: u32| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine.overrides().set("sms", n.to_string(), "allow", None).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(load(&store, 0).await.unwrap().entries.len(), 50);
    assert_eq!(engine.overrides().list().await.unwrap().len(), 50);
}
