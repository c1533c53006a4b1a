//! What is left in Redis: small, named so that people can read it, and never for ever.

use tidegate::{
    Clock, GrantRequest, KeyedLimit, LeakyBucket, Limit, Mode, Op, ReserveRequest, Return, Scope,
    Store, StoreRequest, SystemClock,
};
use tidegate_redis::{RedisOptions, RedisStore};

use tidegate_testkit::processes::{DEADLINE, RedisServer};

const LIMITS: [&str; 10] = [
    "100/min burst 20",
    "3/s burst 20",
    "7/365day burst 250",
    "token-bucket 10/s capacity 50",
    "fixed-window 100/h",
    "sliding-window 100/h",
    "sliding-log 100/h",
    "quota 100/month",
    "quota 100/h rolling",
    "concurrency 100 lease 1h",
];

fn store(server: &RedisServer) -> RedisStore {
    // Nothing but what is asked for, so that nobody else's keys are in the way.
    let options =
        RedisOptions { deadline: DEADLINE, announces: false, ..RedisOptions::new(server.url()) };
    RedisStore::new(options).unwrap()
}

/// Takes, leases, gives back, refunds and releases, in ways that leave a state behind.
async fn use_every_way(store: &RedisStore, policy: &str, key: &[u8], limit: &Limit) {
    let scope = Scope::named(policy, "");
    let limits = [KeyedLimit { scope: &scope, key, limit }];
    let ask = async |op, cost| {
        let ask = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
        store.decide(&ask, SystemClock.now()).await.unwrap()
    };
    let permit = ask(Op::Take, 1).await.permits.first().copied();
    ask(Op::Take, 3).await;
    ask(Op::Refund, 1).await;
    if let Some((_, permit_id)) = permit {
        ask(Op::Release { permit_id }, 1).await;
        return;
    }
    let grant = ask(Op::Lease(GrantRequest { least: 1, most: 4 }), 1).await.grant.unwrap();
    if let Some(granted_at) = grant.granted_at {
        ask(Op::GiveBack(Return { units: 1, granted_at, age: std::time::Duration::ZERO }), 1).await;
    }
}

fn keys(server: &RedisServer) -> Vec<String> {
    let text = server.cli(&["--scan", "--pattern", "*"]);
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn every_key_has_a_time_to_live() {
    let server = RedisServer::start();
    let store = store(&server);
    for (number, text) in LIMITS.iter().enumerate() {
        let limit: Limit = text.parse().unwrap();
        use_every_way(&store, &format!("p{number}"), b"user-42", &limit).await;
        // A reset leaves the numbers of permits only.
        use_every_way(&store, &format!("r{number}"), b"user-42", &limit).await;
        let scope = Scope::named(&format!("r{number}"), "");
        let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
        let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Reset };
        store.decide(&ask, SystemClock.now()).await.unwrap();
    }
    let (scope, shaper): (_, LeakyBucket) =
        (Scope::named("export", ""), "2/s max-wait 5s".parse().unwrap());
    let turn =
        ReserveRequest { scope: &scope, key: b"user-42", shaper: &shaper, cost: 2, cancel: None };
    store.reserve(&turn, SystemClock.now()).await.unwrap();
    let keys = keys(&server);
    assert!(keys.len() > LIMITS.len(), "{keys:?}");
    for key in keys {
        let ttl_ms: i64 = server.cli(&["PTTL", &key]).parse().unwrap();
        assert!(ttl_ms > 0, "{key} lives for {ttl_ms} ms");
    }
}

#[tokio::test]
async fn a_gcra_key_takes_at_most_120_bytes() {
    let server = RedisServer::start();
    let store = store(&server);
    let identifier = b"user-0123456789-01234567"; // 24 bytes
    for text in
        ["100/min burst 20", "3/s burst 20", "7919/s burst 5", "token-bucket 7/h capacity 9"]
    {
        let limit: Limit = text.parse().unwrap();
        use_every_way(&store, "api", identifier, &limit).await;
        let key = keys(&server).pop().unwrap();
        assert_eq!(key, "tg:{24:user-0123456789-01234567}:api:a");
        let bytes: u64 = server.cli(&["MEMORY", "USAGE", &key]).parse().unwrap();
        assert!(bytes <= 120, "{text}: {bytes} bytes");
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn what_somebody_else_wrote_is_an_error_and_stays() {
    let server = RedisServer::start();
    let store = store(&server);
    for (text, letter) in [("5/s", 'a'), ("fixed-window 5/s", 'w'), ("sliding-log 5/s", 'l')] {
        let limit: Limit = text.parse().unwrap();
        let key = format!("tg:{{1:k}}:api:{letter}");
        for value in [&["SET", &key, "hello"][..], &["SADD", &key, "hello"]] {
            server.cli(&["DEL", &key]);
            server.cli(value);
            let scope = Scope::named("api", "");
            let (mine, other) = (
                KeyedLimit { scope: &scope, key: b"k", limit: &limit },
                KeyedLimit { scope: &scope, key: b"other", limit: &limit },
            );
            let ask = |limits, op| {
                let ask = StoreRequest { mode: Mode::All, limits, cost: 1, op };
                store.decide(&ask, SystemClock.now())
            };
            // In one batch with somebody whose key is in order.
            let (mine, other) = ([mine], [other]);
            let replies = [ask(&mine, Op::Take), ask(&other, Op::Take), ask(&mine, Op::Refund)];
            let [first, second, third] = replies;
            assert_eq!(
                first.await.unwrap_err().kind(),
                tidegate::StoreErrorKind::WrongType,
                "{text}"
            );
            assert!(second.await.unwrap().verdict.decision.allowed(), "{text}");
            assert_eq!(
                third.await.unwrap_err().kind(),
                tidegate::StoreErrorKind::WrongType,
                "{text}"
            );
            let kind = server.cli(&["TYPE", &key]);
            assert_eq!(kind, if value[0] == "SET" { "string" } else { "set" }, "{text}");
        }
    }
}

#[tokio::test]
async fn numbers_that_somebody_else_wrote_are_of_the_wrong_type_and_stay() {
    let server = RedisServer::start();
    let store = store(&server);
    for (text, letter, command) in [
        ("5/s", 'a', &["SET", "1e300"][..]),
        ("5/s", 'a', &["SET", "1.5 0 1 1"]),
        ("7/365day burst 250", 'a', &["SET", "1 99999999999999999999 1 1"]),
        ("fixed-window 5/s", 'w', &["SET", "99999999999999999999 1"]),
        ("fixed-window 5/s", 'w', &["SET", "1 99999999999999999999"]),
        ("sliding-window 5/s", 's', &["SET", "99999999999999999999 1 1 1"]),
        ("sliding-window 5/s", 's', &["SET", "a1 b2 c3 d4 e5"]),
        ("sliding-log 5/s", 'l', &["RPUSH", "a", "b", "c"]),
        ("sliding-log 5/s", 'l', &["RPUSH", "1", "2"]),
        ("sliding-log 5/s", 'l', &["RPUSH", "1", "2", "1e300"]),
        ("sliding-log 5/s", 'l', &["RPUSH", "5", "5", "9"]),
        ("sliding-log 5/s", 'l', &["RPUSH", "1", "1", "1", "0", "2", "1"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "1e17", "hello"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "1e17", "hello", "2e17", "1:1"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "1", "hello"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "5", "used"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "-5", "used"]),
        ("concurrency 5 lease 60s", 'p', &["ZADD", "1", "1:5"]),
    ] {
        let limit: Limit = text.parse().unwrap();
        let key = format!("tg:{{1:k}}:api:{letter}");
        server.cli(&["DEL", &key]);
        server.cli(&[&[command[0], &key], &command[1..]].concat());
        let before = server.cli(&["DUMP", &key]);
        let scope = Scope::named("api", "");
        let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
        for op in [Op::Take, Op::Peek, Op::Take] {
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 5, op };
            let error = store.decide(&ask, SystemClock.now()).await.unwrap_err();
            assert_eq!(error.kind(), tidegate::StoreErrorKind::WrongType, "{command:?}: {error}");
        }
        assert_eq!(server.cli(&["DUMP", &key]), before, "{command:?}");
    }
}

#[tokio::test]
async fn a_reset_that_cannot_be_whole_changes_nothing() {
    let server = RedisServer::start();
    let store = store(&server);
    let limits = ["3/day", "sliding-log 3/day", "concurrency 3 lease 60s"];
    let limits = limits.map(|text| text.parse::<Limit>().unwrap());
    let scopes = ["rate", "log", "places"].map(|name| Scope::named("p", name));
    let keyed: Vec<_> = limits
        .iter()
        .zip(&scopes)
        .map(|(limit, scope)| KeyedLimit { scope, key: b"k", limit })
        .collect();
    let ask = |op| {
        store.decide(
            &StoreRequest { mode: Mode::All, limits: &keyed, cost: 1, op },
            SystemClock.now(),
        )
    };
    ask(Op::Take).await.unwrap();
    let places = keys(&server).into_iter().find(|key| key.ends_with(":p")).unwrap();
    server.cli(&["SET", &places, "foreign"]);
    let error = ask(Op::Reset).await.unwrap_err();
    assert_eq!(error.kind(), tidegate::StoreErrorKind::WrongType, "{error}");
    let left = keys(&server).iter().filter(|key| key.starts_with("tg:{1:k}")).count();
    assert_eq!(left, 3, "{:?}", keys(&server));
    server.cli(&["DEL", &places]);
    assert_eq!(ask(Op::Reset).await.unwrap().verdict.decision.remaining(), 3);
}
