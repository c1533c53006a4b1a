//! No request makes Redis work for long: what a script does is bounded, whatever is stored. Counted in commands, since
//! time depends on the machine; `./dev bench redis` measures it.

use std::time::Duration;

use tidegate::{
    Charge, KeyedLimit, Limit, LimitCharge, Mode, MultiCharge, Op, OverrideChange, OverrideStore,
    Return, Scope, Store, StoreErrorKind, StoreReply, StoreRequest, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::{FaultProxy, Faults, RedisServer, Way};
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, store, until_answered};

const NOW_US: u64 = 1_763_215_200_000_000;

fn replaying(server: &RedisServer) -> RedisStore {
    let options = RedisOptions {
        replays: true,
        announces: false,
        deadline: LONG_TIMEOUT,
        ..RedisOptions::new(server.url())
    };
    RedisStore::new(options).unwrap()
}

async fn ask(store: &RedisStore, limit: &Limit, op: Op, cost: u64, now_us: u64) -> StoreReply {
    let scope = Scope::named("p", "");
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit }];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&ask, Timestamp::from_micros(now_us)).await.unwrap()
}

/// How many commands Redis has run.
fn commands(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.lines().filter_map(|line| line.split_once("calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

/// A log of one unit per µs that ends now.
fn fill_log(server: &RedisServer, units: u64) {
    server.command(&["DEL", "tg:{1:k}:p:l"]);
    for chunk in (0..units).collect::<Vec<_>>().chunks(1000) {
        let words = chunk
            .iter()
            .flat_map(|n| [(NOW_US - units + n).to_string(), (n + 1).to_string(), "1".to_owned()]);
        let words: Vec<_> = words.collect();
        let mut command = vec!["RPUSH", "tg:{1:k}:p:l"];
        command.extend(words.iter().map(String::as_str));
        server.command(&command);
    }
}

#[tokio::test]
async fn a_refund_of_sixty_thousand_units_takes_few_commands() {
    let server = RedisServer::start();
    let store = replaying(&server);
    let limit: Limit = "sliding-log 100000/h".parse().unwrap();
    ask(&store, &limit, Op::Peek, 0, NOW_US).await;
    let back = |at: u64| {
        let (units, granted_at) = (5, Timestamp::from_micros(at));
        Op::GiveBack(Return { units, granted_at, age: Duration::ZERO })
    };
    for (what, op, cost, now_us, left) in [
        ("a take", Op::Take, 1, NOW_US, 39_999),
        ("a refusal", Op::Take, 99_999, NOW_US, 40_000),
        ("a refund of all", Op::Refund, 60_000, NOW_US, 100_000),
        ("a refund of most", Op::Refund, 59_999, NOW_US, 99_999),
        ("a refund of more", Op::Refund, 1 << 60, NOW_US, 100_000),
        ("half have expired", Op::Take, 1, NOW_US + 3_600_000_000 - 30_000, 70_000),
        ("all have expired", Op::Take, 1, NOW_US + 7_200_000_000, 99_999),
        ("the clock stepped back", Op::Take, 1, NOW_US - 7_200_000_000, 39_999),
        ("the clock stepped back before a refund", Op::Refund, 7, NOW_US - 7_200_000_000, 40_007),
        ("units of a lease", back(NOW_US - 500), 5, NOW_US, 40_001),
        // More than a call goes through: they stay spent.
        ("units of an old lease", back(NOW_US - 30_000), 5, NOW_US, 40_000),
        ("a reset", Op::Reset, 0, NOW_US, 100_000),
    ] {
        fill_log(&server, 60_000);
        let before = commands(&server);
        let reply = ask(&store, &limit, op, cost, now_us).await;
        let ran = commands(&server) - before;
        assert_eq!(reply.verdict.decision.remaining(), left, "{what}");
        assert!(ran < 150, "{what}: {ran} commands");
        let ttl: i64 = server.cli(&["PTTL", "tg:{1:k}:p:l"]).parse().unwrap();
        let writes = !matches!(op, Op::Reset) && left < 100_000 && what != "a refusal";
        assert!(!writes || ttl > 0, "{what}: lives for {ttl} ms");
    }
}

/// A set of permits of the policy `p` that end one µs after another from now on.
fn fill_permits(server: &RedisServer, permits: u64, places: u64) {
    fill_permits_of(server, "p", permits, places);
}

fn fill_permits_of(server: &RedisServer, policy: &str, permits: u64, places: u64) {
    let key = format!("tg:{{1:k}}:{policy}:p");
    server.command(&["DEL", &key]);
    for chunk in (0..permits).collect::<Vec<_>>().chunks(1000) {
        let words = chunk.iter().flat_map(|n| {
            [(NOW_US + n).to_string(), format!("{:016}:{places}", NOW_US - 60_000_000 + n)]
        });
        let words: Vec<_> = words.collect();
        let mut command = vec!["ZADD", &key];
        command.extend(words.iter().map(String::as_str));
        server.command(&command);
    }
    let used = format!("-{}", permits * places);
    server.command(&["ZADD", &key, &used, "used", "-1763215200000001", "next"]);
}

#[tokio::test]
async fn the_limits_of_one_request_share_one_bound() {
    let server = RedisServer::start();
    let store = replaying(&server);
    let limit: Limit = "concurrency 40000 lease 1min".parse().unwrap();
    let (held, expired) = (Scope::named("p", ""), Scope::named("q", ""));
    fill_permits_of(&server, "q", 10_000, 1);
    // Now is after the end of those: the others have to end later.
    let now_us = NOW_US + 10_000;
    let words = (0..2_000_u64).flat_map(|n| {
        [(now_us + 1 + n).to_string(), format!("{:016}:20", NOW_US - 60_000_000 + n)]
    });
    let words: Vec<_> = words.collect();
    let mut command = vec!["ZADD", "tg:{1:k}:p:p", "-40000", "used", "-1763215200000001", "next"];
    command.extend(words.iter().map(String::as_str));
    server.command(&command);
    let limits = [&held, &expired].map(|scope| KeyedLimit { scope, key: b"k", limit: &limit });
    let ask = StoreRequest { mode: Mode::Any, limits: &limits, cost: 39_999, op: Op::Take };
    let reply = store.decide(&ask, Timestamp::from_micros(now_us)).await.unwrap();
    // The first limit has used up the steps of the call: what has expired of the second counts as held.
    assert!(!reply.verdict.decision.allowed());
    assert_eq!(server.cli(&["ZCARD", "tg:{1:k}:q:p"]), "10002");
}

#[tokio::test]
async fn many_permits_take_few_commands() {
    let server = RedisServer::start();
    let store = replaying(&server);
    let limit: Limit = "concurrency 40000 lease 1min".parse().unwrap();
    ask(&store, &limit, Op::Peek, 0, NOW_US).await;
    for (what, permits, places, cost, now_us, retry_us) in [
        ("all held", 40_000, 1, 1, NOW_US - 1, Some(1)),
        ("a large ask", 40_000, 1, 30_000, NOW_US - 1, Some(30_000)),
        ("permits of two places", 20_000, 2, 600, NOW_US - 1, Some(300)),
        // Further than a call goes: until the last one has ended.
        ("many permits of two places", 20_000, 2, 30_000, NOW_US - 1, Some(20_000)),
        ("all expired", 40_000, 1, 1, NOW_US + 60_000, None),
        ("all expired, and a large ask", 40_000, 1, 40_000, NOW_US + 60_000, Some(1)),
        ("ends too far away", 40_000, 1, 1, NOW_US - 120_000_000, Some(60_000_000)),
    ] {
        fill_permits(&server, permits, places);
        let before = commands(&server);
        let reply = ask(&store, &limit, Op::Take, cost, now_us).await;
        let ran = commands(&server) - before;
        let retry = retry_us.map(Duration::from_micros);
        let decision = reply.verdict.decision;
        assert_eq!(
            (decision.allowed(), decision.retry_after()),
            (retry.is_none(), retry.or(Some(Duration::ZERO))),
            "{what}"
        );
        assert!(ran < 60, "{what}: {ran} commands");
    }
    // What has expired comes back in the end, a part with each ask.
    fill_permits(&server, 40_000, 1);
    let mut asks = 0;
    while !ask(&store, &limit, Op::Take, 40_000, NOW_US + 60_000).await.verdict.decision.allowed() {
        asks += 1;
        assert!(asks < 50, "{asks} asks");
    }
    fill_permits(&server, 40_000, 1);
    let before = commands(&server);
    let reply = ask(&store, &limit, Op::Reset, 0, NOW_US).await;
    assert_eq!(reply.verdict.decision.remaining(), 40_000);
    assert!(commands(&server) - before < 30);
}

#[tokio::test]
async fn heavy_requests_share_no_call_and_every_policy_can_be_checked() {
    let server = RedisServer::start();
    let store = replaying(&server);
    let limit: Limit = "sliding-window 1000000/s buckets 1000".parse().unwrap();
    ask(&store, &limit, Op::Peek, 0, NOW_US).await;
    let scopes: Vec<_> = (0..64).map(|n| Scope::named(&format!("p{n}"), "")).collect();
    let before = store.stats();
    let under_way: Vec<_> = scopes
        .iter()
        .map(|scope| {
            let limits = [KeyedLimit { scope, key: b"k", limit: &limit }];
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
            store.decide(&ask, Timestamp::from_micros(NOW_US))
        })
        .collect();
    for reply in under_way {
        assert!(reply.await.unwrap().verdict.decision.allowed());
    }
    let calls = store.stats().calls - before.calls;
    assert!(calls >= 32, "64 windows of 1000 slots in {calls} calls");
    let limits: Vec<_> =
        scopes[..16].iter().map(|scope| KeyedLimit { scope, key: b"k", limit: &limit }).collect();
    let all = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    let reply = store.decide(&all, Timestamp::from_micros(NOW_US)).await.unwrap();
    assert!(reply.verdict.decision.allowed());
}

#[tokio::test]
async fn all_that_an_atomic_batch_may_have_fits_unless_it_is_windows_of_many_buckets() {
    let server = RedisServer::start();
    let store = replaying(&server);
    let scopes: Vec<_> =
        (0..MultiCharge::MAX_LIMITS).map(|n| Scope::named(&format!("p{n}"), "")).collect();
    for (text, most) in [
        ("100/min", 64),
        ("sliding-log 1000000/h", 64),
        ("sliding-window 1000/min", 64),
        ("sliding-window 1000/s buckets 200", 64),
        ("sliding-window 1000000/s buckets 1000", 16),
    ] {
        let limit: Limit = text.parse().unwrap();
        for count in [most, most + 1].into_iter().filter(|count| *count <= scopes.len()) {
            let charge = |scope| LimitCharge {
                keyed: KeyedLimit { scope, key: b"k", limit: &limit },
                cost: 1,
            };
            let limits: Vec<_> = scopes[..count].iter().map(charge).collect();
            let charges = MultiCharge { limits: &limits, charge: Charge::IfAllAdmit };
            let answer = store.decide_each(&charges, Timestamp::from_micros(NOW_US)).await;
            if count == most {
                assert_eq!(answer.unwrap().len(), count, "{text}");
                continue;
            }
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{error}");
            assert!(error.to_string().contains("fewer buckets"), "{error}");
        }
    }
}

/// Each page has the deadline for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_table_of_overrides_is_loaded_from_far_away() {
    let server = RedisServer::start();
    for chunk in (0..6_000_u32).collect::<Vec<_>>().chunks(1000) {
        let words: Vec<_> = chunk.iter().map(|n| format!("api:{n}")).collect();
        let mut command = vec!["HSET", "tg:{overrides}", "", "7 60000"];
        command.extend(words.iter().flat_map(|name| [name, "0 allow"]));
        server.command(&command);
    }
    let proxy = FaultProxy::start(server.port());
    let far = store(format!("redis://{}", proxy.address()), Duration::from_millis(500));
    until_answered(&far).await;
    proxy.set(Faults::to_client(Way::delay(Duration::from_millis(150))));
    let start = Instant::now();
    let table = far.overrides(0, Timestamp::from_micros(NOW_US)).await.unwrap().unwrap();
    assert_eq!(table.entries.len(), 6_000);
    assert!(start.elapsed() > Duration::from_secs(1), "within one deadline: nothing is tested");
}

#[tokio::test]
async fn a_large_table_of_overrides_is_read_page_by_page() {
    let server = RedisServer::start();
    let store = replaying(&server);
    for n in 0..3_000_u32 {
        let key = n.to_string();
        let life = (n % 2 == 0).then_some(Duration::from_mins(1));
        let (policy, key, text) = ("api", key.as_bytes(), "allow");
        let set = OverrideChange::Set { policy, key, text, life };
        store.change_override(&set, Timestamp::from_micros(NOW_US)).await.unwrap();
    }
    let scans = || {
        let stats = server.cli(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hscan:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    let before = scans();
    let table = store.overrides(0, Timestamp::from_micros(NOW_US)).await.unwrap().unwrap();
    assert_eq!(table.entries.len(), 3_000);
    assert!(scans() - before >= 4, "{} pages", scans() - before);
    // What has expired is dropped page by page too.
    let later = Timestamp::from_micros(NOW_US + 61_000_000);
    assert_eq!(store.overrides(0, later).await.unwrap().unwrap().entries.len(), 1_500);
    assert_eq!(server.cli(&["HLEN", "tg:{overrides}"]), "1501");
}
