//! Limits at the ends of what can be configured: bursts and periods of centuries, a unit in centuries, the most units.
//! Every algorithm answers as memory does, and no script fails.

use std::time::Duration;

use tidegate::{
    Charge, GrantRequest, KeyedLimit, LeakyBucket, Limit, LimitCharge, MemoryStore, Mode,
    MultiCharge, Op, ReserveRequest, Return, Scope, Store, StoreRequest, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::RedisServer;

use crate::support::{LONG_TIMEOUT, store};

const LIMITS: [&str; 34] = [
    "1/day burst 10000000",
    "1/day burst 104249",
    "1/day burst 100000000",
    "1/365day burst 285000",
    "3/365day burst 100000",
    "7/365day burst 285000",
    "1/104249day",
    "2/104249day",
    "9007199254740991/104249day",
    "9007199254740991/s",
    "9007199254740991/us burst 1",
    "1/us burst 9007199254740991",
    "1/ms burst 9007199254740991",
    "7/3ms burst 1000000000000",
    "token-bucket 1/day capacity 10000000",
    "token-bucket 7/30day capacity 100000",
    "fixed-window 9007199254740991/us",
    "fixed-window 9007199254740991/104249day",
    "fixed-window 1/104249day",
    "sliding-window 1000000/104249day buckets 1",
    "sliding-window 1/104000day buckets 1000",
    "sliding-window 9007199254740991/us buckets 1",
    "sliding-window 9007199254740/s buckets 1000",
    "sliding-log 1000000/104249day",
    "sliding-log 1/104249day",
    "sliding-log 1000000/us",
    "quota 9007199254740991/month",
    "quota 1/week",
    "quota 9007199254740991/day at +14:00",
    "quota 1/104249day",
    "quota 1/104000day rolling",
    "concurrency 1000000 lease 52124day",
    "concurrency 1 lease 1us",
    "concurrency 1000000 lease 1us",
];

const SHAPERS: [&str; 6] = [
    "1/104249day max-wait 1us",
    "1/day max-wait 100000day",
    "9007199254740991/s max-wait 1h",
    "1/us max-wait 104248day",
    "7/365day capacity 200",
    "1/day capacity 100000",
];

fn parsed<L: std::str::FromStr>(texts: &[&str]) -> Vec<(String, L)> {
    let limits = texts.iter().filter_map(|text| Some(((*text).to_owned(), text.parse().ok()?)));
    let limits: Vec<_> = limits.collect();
    // What is past the end is a configuration error, and no case.
    assert!(limits.len() * 4 >= texts.len() * 3, "{} of {}", limits.len(), texts.len());
    limits
}

/// No instant is a whole millisecond, and some are before the first edge of a period.
const START_US: u64 = 1_763_215_200_123_457;

/// What is spent at once: a little, all but a little, and amounts whose ends are odd.
fn costs(ceiling: u64) -> Vec<u64> {
    let mut costs = vec![1, 3, 7, ceiling / 5 * 2, ceiling / 3, ceiling / 7, 1, 13, ceiling, 5];
    costs.extend([ceiling / 1000, 11, ceiling / 2, 1, 2, 17]);
    costs
}

#[tokio::test]
async fn every_algorithm_decides_extreme_limits_as_memory_does() {
    decides_extreme_limits_as_memory_does(&RedisServer::start()).await;
}

#[tokio::test]
async fn valkey_decides_extreme_limits_as_memory_does() {
    decides_extreme_limits_as_memory_does(&RedisServer::builder().valkey().start()).await;
}

async fn decides_extreme_limits_as_memory_does(server: &RedisServer) {
    let options =
        RedisOptions { replays: true, deadline: LONG_TIMEOUT, ..RedisOptions::new(server.url()) };
    let (redis, memory) = (RedisStore::new(options).unwrap(), MemoryStore::default());
    for (text, limit) in parsed::<Limit>(&LIMITS) {
        let scope = Scope::named(&text, "");
        let keyed = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
        let mut now_us = START_US;
        let mut granted = None;
        for (step, cost) in costs(limit.ceiling()).into_iter().enumerate() {
            now_us += [0, 1, 999, 86_399_999_999, 1_000_001][step % 5];
            let lease = Op::Lease(GrantRequest { least: 1, most: cost });
            let ops = match granted.take() {
                _ if limit.grants_permits() => vec![(Op::Take, cost), (Op::Peek, cost)],
                Some(back) => vec![(Op::GiveBack(back), cost), (Op::Refund, 2), (Op::Take, cost)],
                None => vec![(Op::Take, cost), (Op::Refund, cost / 3), (lease, cost)],
            };
            for (op, cost) in ops {
                let ask = StoreRequest { mode: Mode::All, limits: &keyed, cost, op };
                let now = Timestamp::from_micros(now_us);
                let ours = redis.decide(&ask, now).await;
                let ours = ours.unwrap_or_else(|error| panic!("{text}: {op:?} {cost}: {error}"));
                let twin = memory.decide(&ask, now).now().unwrap();
                let known = |it: &tidegate::StoreReply| {
                    let decision = it.verdict.decision;
                    let granted = it.grant.as_ref().map_or(0, |grant| grant.units);
                    (decision.allowed(), decision.remaining(), granted)
                };
                let (ours, twin_knows) = (known(&ours), known(&twin));
                // Past 2^53 instants are rounded: where a unit is 1 µs, that is units.
                let rounded = if limit.ceiling() > 1 << 50 { 4 } else { 0 };
                let near = |a: u64, b: u64| a.abs_diff(b) <= rounded;
                assert!(
                    ours.0 == twin_knows.0
                        && near(ours.1, twin_knows.1)
                        && near(ours.2, twin_knows.2),
                    "{text}: step {step}, {op:?} {cost}: {ours:?}, in memory {twin_knows:?}"
                );
                if let Some(grant) = twin.grant {
                    let units = grant.units.div_ceil(2);
                    granted = grant.granted_at.map(|granted_at| Return {
                        units,
                        granted_at,
                        age: Duration::from_micros(3),
                    });
                }
            }
        }
        let reset = StoreRequest { mode: Mode::All, limits: &keyed, cost: 0, op: Op::Reset };
        redis.decide(&reset, Timestamp::from_micros(now_us)).await.unwrap();
    }
}

#[tokio::test]
async fn extreme_limits_run_on_redis_own_clock_and_every_key_has_a_time_to_live() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    for (text, limit) in parsed::<Limit>(&LIMITS) {
        let scope = Scope::named(&text, "");
        let keyed = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
        for cost in costs(limit.ceiling()) {
            for op in [Op::Take, Op::Refund] {
                let cost = if op == Op::Take { cost } else { cost / 5 };
                let ask = StoreRequest { mode: Mode::All, limits: &keyed, cost, op };
                let reply = store.decide(&ask, tidegate::Clock::now(&tidegate::SystemClock)).await;
                reply.unwrap_or_else(|error| panic!("{text}: {op:?} {cost}: {error}"));
            }
        }
    }
    for (text, shaper) in parsed::<LeakyBucket>(&SHAPERS) {
        let scope = Scope::named(&text, "shaper");
        let mut cancel = None;
        for cost in [1, shaper.limit(), 1, 2, 3] {
            let ask = ReserveRequest { scope: &scope, key: b"k", shaper: &shaper, cost, cancel };
            let reply = store.reserve(&ask, Timestamp::EPOCH).await;
            let reply = reply.unwrap_or_else(|error| panic!("{text}: {cost}: {error}"));
            cancel = reply.until.filter(|_| cancel.is_none());
        }
    }
    let keys = server.cli(&["--scan", "--pattern", "tg:{1:k}:*"]);
    assert!(keys.lines().count() > 20, "{keys}");
    for key in keys.lines() {
        // A state of 1 µs may have expired meanwhile: -2.
        let ttl_ms: i64 = server.cli(&["PTTL", key]).parse().unwrap();
        assert!(ttl_ms > 0 || ttl_ms == -2, "{key} lives for {ttl_ms} ms");
    }
}

#[tokio::test]
async fn a_batch_with_extreme_limits_fails_nobody() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let limits = parsed::<Limit>(&LIMITS);
    let scopes: Vec<_> = limits.iter().map(|(text, _)| Scope::named(text, "")).collect();
    for round in 1..8 {
        let mut under_way = Vec::new();
        for ((text, limit), scope) in limits.iter().zip(&scopes) {
            let keyed = [KeyedLimit { scope, key: b"k", limit }];
            let cost = limit.ceiling() / 5 + round;
            let ask = StoreRequest { mode: Mode::All, limits: &keyed, cost, op: Op::Take };
            under_way
                .push((text, store.decide(&ask, tidegate::Clock::now(&tidegate::SystemClock))));
        }
        for (text, reply) in under_way {
            reply.await.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let charges = limits.iter().zip(&scopes).filter(|((_, limit), _)| !limit.grants_permits());
        let charges: Vec<_> = charges
            .map(|((_, limit), scope)| LimitCharge {
                keyed: KeyedLimit { scope, key: b"k", limit },
                cost: round,
            })
            .collect();
        let charges = MultiCharge { limits: &charges, charge: Charge::IfAllAdmit };
        store.decide_each(&charges, tidegate::Clock::now(&tidegate::SystemClock)).await.unwrap();
    }
}

/// Redis does not let us write strings: only the asks about these fail.
#[tokio::test]
async fn a_write_that_fails_takes_no_neighbour_along() {
    let server = RedisServer::builder().user("half", "on >hunter2 ~* +@all -set").start();
    let store = store(server.url_as("half", "hunter2"), LONG_TIMEOUT);
    let limits = ["sliding-log 100/3650day", "fixed-window 100/3650day"];
    let limits = limits.map(|text| text.parse::<Limit>().unwrap());
    let scope = Scope::named("p", "");
    let ask = |limit: &Limit, op, cost| {
        let keyed = [KeyedLimit { scope: &scope, key: b"a", limit }];
        store.decide(&StoreRequest { mode: Mode::All, limits: &keyed, cost, op }, Timestamp::EPOCH)
    };
    ask(&limits[0], Op::Take, 1).await.unwrap();
    let calls = store.stats().calls;
    let under_way: Vec<_> =
        (0..60).map(|n| (n, ask(&limits[usize::from(n % 3 == 0)], Op::Take, 1))).collect();
    for (n, reply) in under_way {
        let reply = reply.await;
        assert_eq!(reply.is_err(), n % 3 == 0, "{n}: {reply:?}");
    }
    assert!(store.stats().calls - calls < 60, "nothing was batched");
    let left = ask(&limits[0], Op::Peek, 0).await.unwrap().verdict.decision.remaining();
    assert_eq!(left, 59);
}
