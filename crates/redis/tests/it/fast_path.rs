//! Batches of takes and leases of plain rates are decided by the first lines of the script (`lua/fast.lua`). All keys are
//! read by one `MGET`, while the rest of the script reads each by a `GET`: so Redis' statistics tell which one decided.

use tidegate::{
    KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, StoreError, StoreErrorKind, StoreReply,
    StoreRequest, Timestamp,
};
use tidegate_core::GrantRequest;
use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::RedisServer;

use crate::support::LONG_TIMEOUT;

/// No whole number of thirds of a millisecond.
const START_US: u64 = 1_763_215_200_123_457;

/// One ask of a batch.
#[derive(Clone, Copy)]
struct Ask<'a> {
    key: &'a str,
    limit: &'a str,
    op: Op,
    cost: u64,
}

const fn take<'a>(key: &'a str, limit: &'a str, cost: u64) -> Ask<'a> {
    Ask { key, limit, op: Op::Take, cost }
}

const fn lease<'a>(key: &'a str, limit: &'a str, least: u64, most: u64) -> Ask<'a> {
    Ask { key, limit, op: Op::Lease(GrantRequest { least, most }), cost: 0 }
}

struct Pair {
    server: RedisServer,
    redis: RedisStore,
    memory: MemoryStore,
}

impl Pair {
    async fn start() -> Self {
        let server = RedisServer::start();
        let options = RedisOptions {
            replays: true,
            deadline: LONG_TIMEOUT,
            ..RedisOptions::new(server.url())
        };
        let pair = Self {
            redis: RedisStore::new(options).unwrap(),
            memory: MemoryStore::default(),
            server,
        };
        // From here on the connection is there, and what is asked together shares a call.
        pair.batch(0, &[take("first", "1/s", 1)]).await;
        pair
    }

    fn decide<T>(ask: &Ask<'_>, decide: impl FnOnce(&StoreRequest<'_>) -> T) -> T {
        let (scope, limit) = (Scope::named("api", ""), ask.limit.parse::<Limit>().unwrap());
        let limits = [KeyedLimit { scope: &scope, key: ask.key.as_bytes(), limit: &limit }];
        decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: ask.cost, op: ask.op })
    }

    /// What Redis answers to asks that share a call.
    async fn batch(&self, after_us: u64, asks: &[Ask<'_>]) -> Vec<Result<StoreReply, StoreError>> {
        let now = Timestamp::from_micros(START_US + after_us);
        let sent =
            asks.iter().map(|ask| Self::decide(ask, |request| self.redis.decide(request, now)));
        let mut replies = Vec::new();
        for reply in sent.collect::<Vec<_>>() {
            replies.push(reply.await);
        }
        replies
    }

    /// Answers as memory does. Returns how often Redis ran a script, `MGET` and `GET`.
    async fn agrees(&self, after_us: u64, asks: &[Ask<'_>]) -> [u64; 3] {
        self.server.cli(&["CONFIG", "RESETSTAT"]);
        let replies = self.batch(after_us, asks).await;
        let stats = self.server.cli(&["INFO", "commandstats"]);
        let now = Timestamp::from_micros(START_US + after_us);
        for (index, (ask, redis)) in asks.iter().zip(replies).enumerate() {
            let memory = Self::decide(ask, |request| self.memory.decide(request, now));
            assert_eq!(
                redis.unwrap(),
                memory.now().unwrap(),
                "ask {index}: {} {}",
                ask.key,
                ask.limit
            );
        }
        ["evalsha", "mget", "get"].map(|name| {
            let prefix = format!("cmdstat_{name}:calls=");
            let calls =
                stats.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
            calls.map_or(0, |calls| calls.parse().unwrap())
        })
    }
}

#[tokio::test]
async fn every_small_rate_is_read_at_once_and_decided_as_in_memory() {
    let pair = Pair::start().await;
    for (after_us, asks) in [
        // One text; a key twice; up to the burst and past it.
        (
            0,
            vec![
                take("a", "60/s burst 2", 1),
                take("b", "60/s burst 2", 1),
                take("a", "60/s burst 2", 1),
            ],
        ),
        (
            1,
            vec![
                take("a", "60/s burst 2", 1),
                take("b", "60/s burst 2", 0),
                take("b", "60/s burst 2", 3),
            ],
        ),
        // Several texts, and fractions that are read again under their own scale and under others.
        (
            20_001,
            vec![take("a", "60/s burst 2", 1), take("b", "7/s burst 4", 2), take("c", "10/s", 1)],
        ),
        (
            20_002,
            vec![take("a", "7919/s burst 5", 1), take("b", "60/s burst 2", 1), take("c", "3/s", 1)],
        ),
        (20_003, vec![take("a", "1000/s", 1), take("b", "10/s burst 3", 1), take("c", "10/s", 1)]),
        // A key whose state changes its scale within a batch.
        (
            30_000,
            vec![
                take("d", "7/s", 1),
                take("d", "60/s", 1),
                take("d", "10/s", 1),
                take("d", "7/s", 2),
            ],
        ),
        // Further ahead than a smaller limit allows.
        (
            30_001,
            vec![
                take("e", "7/s burst 7", 7),
                take("e", "60/s burst 1", 1),
                take("e", "7/s burst 7", 1),
            ],
        ),
        // All has run off.
        (
            90_000_000,
            vec![take("a", "60/s", 1), take("b", "60/s", 60), take("e", "3/s burst 9", 9)],
        ),
    ] {
        assert_eq!(pair.agrees(after_us, &asks).await, [1, 1, 0], "after {after_us} µs");
    }
    assert_eq!(pair.agrees(90_000_001, &[take("a", "60/s", 1)]).await, [1, 0, 1], "a single ask");
}

#[tokio::test]
async fn leases_of_rates_are_decided_there_too() {
    let pair = Pair::start().await;
    for (after_us, asks) in [
        // All that is wanted, what is left of it, less than the least, and more than ever.
        (0, vec![lease("a", "60/s burst 9", 1, 5), lease("b", "1000/s burst 9", 1, 5)]),
        (1, vec![lease("a", "60/s burst 9", 2, 9), lease("b", "1000/s burst 9", 9, 9)]),
        (2, vec![lease("a", "60/s burst 9", 1, 1), lease("b", "1000/s burst 9", 10, 20)]),
        // What is left after it is not enough for the same again.
        (3, vec![lease("c", "7/s burst 10", 4, 7), lease("d", "100/s", 60, 60)]),
        // One key several times, beside takes of it.
        (
            4,
            vec![
                lease("e", "7919/s burst 20", 1, 12),
                take("e", "7919/s burst 20", 3),
                lease("e", "7919/s burst 20", 3, 12),
                take("e", "7919/s burst 20", 3),
            ],
        ),
        (5, vec![lease("f", "60/s burst 9", 0, 0), lease("f", "60/s burst 9", 3, 1)]),
        // Some units are there again, in the middle of one, and under another rate.
        (40_001, vec![lease("a", "60/s burst 9", 1, 9), lease("c", "60/s burst 9", 1, 9)]),
        // All has run off.
        (90_000_000, vec![lease("a", "60/s burst 9", 1, 4), lease("e", "3/s burst 2", 2, 2)]),
    ] {
        assert_eq!(pair.agrees(after_us, &asks).await, [1, 1, 0], "after {after_us} µs");
    }
}

/// The control of the tests above: what does not fit is read key by key, and the answers are the same.
#[tokio::test]
async fn a_batch_with_anything_else_is_decided_by_the_rest_of_the_script() {
    let pair = Pair::start().await;
    let fits = take("a", "60/s", 1);
    for (after_us, other) in [
        (0, Ask { op: Op::Peek, ..take("b", "60/s", 1) }),
        (0, lease("b", "60/s", 1, u64::MAX)),
        (0, lease("b", "1/365day burst 300", 1, 1)),
        (1, take("b", "60/s", u64::MAX)),
        (2, take("b", "1/365day burst 300", 1)),
        // What the ask before has written counts in milliseconds.
        (3, take("b", "60/s", 1)),
    ] {
        let [scripts, _, reads] = pair.agrees(after_us, &[fits, other]).await;
        assert_eq!((scripts, reads), (1, 2), "{}", other.limit);
    }
    assert_eq!(pair.agrees(4, &[fits, take("c", "60/s", 1)]).await, [1, 1, 0]);
    pair.server.cli(&["ACL", "SETUSER", "default", "-mget"]);
    assert_eq!(
        pair.agrees(5, &[fits, take("c", "60/s", 1)]).await[2],
        2,
        "without the right to MGET"
    );
    pair.server.cli(&["ACL", "SETUSER", "default", "+mget", "-exists"]);
    assert_eq!(
        pair.agrees(6, &[fits, take("d", "60/s", 1)]).await[2],
        2,
        "without the right to EXISTS"
    );
}

#[tokio::test]
async fn a_key_of_another_type_is_its_askers_error_and_stays() {
    let pair = Pair::start().await;
    for (key, words) in [
        ("list", ["RPUSH", "tg:{4:list}:api:a", "x"]),
        ("text", ["SET", "tg:{4:text}:api:a", "x"]),
        ("half", ["SET", "tg:{4:half}:api:a", "1763215200123457.5"]),
    ] {
        pair.server.cli(&words);
        let before = pair.server.cli(&["DUMP", words[1]]);
        let asks = [
            take(key, "60/s burst 9", 1),
            take("a", "60/s burst 9", 1),
            take(key, "60/s burst 9", 1),
        ];
        let replies = pair.batch(0, &asks).await;
        let kinds: Vec<_> =
            replies.iter().map(|reply| reply.as_ref().map_err(StoreError::kind)).collect();
        assert_eq!(kinds[0].unwrap_err(), StoreErrorKind::WrongType, "{key}");
        assert_eq!(kinds[2].unwrap_err(), StoreErrorKind::WrongType, "{key}");
        assert!(kinds[1].is_ok(), "{key}");
        assert_eq!(pair.server.cli(&["DUMP", words[1]]), before);
    }
}
