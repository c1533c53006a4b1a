//! Redis answers as memory does: the same decision, to the microsecond, the same permits and places.

use std::num::NonZeroU64;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate::{
    Charge, KeyedLimit, LeakyBucket, Limit, LimitCharge, MemoryStore, Mode, MultiCharge, Op,
    ReserveRequest, Scope, Store, StoreReply, StoreRequest, Timestamp,
};
use tidegate_core::{GrantRequest, Return};
use tidegate_redis::{RedisOptions, RedisStore};

use tidegate_testkit::processes::RedisServer;

/// Each row is one limit and what it may become while its state is kept.
const LIMITS: [&[&str]; 13] = [
    &["10/s", "20/s burst 3"],
    &["3/s burst 2", "7/s burst 4", "1/s"],
    &["100/min burst 20", "7919/s burst 5"],
    &["1/day burst 5", "9007199254740991/day burst 2"],
    &["token-bucket 7/min capacity 3", "token-bucket 100000/s capacity 3"],
    // Where a burst in µs would pass 2^53, ticks are milliseconds.
    &["1/365day burst 300", "3/365day burst 299"],
    &["fixed-window 5/s", "fixed-window 9/s"],
    &["fixed-window 3/250ms", "fixed-window 2/999983us"],
    &[
        "sliding-window 6/s buckets 5",
        "sliding-window 9/s buckets 5",
        "sliding-window 6/s buckets 4",
    ],
    &["sliding-window 5/700ms buckets 1", "sliding-window 3/700ms buckets 7"],
    &["sliding-log 4/s", "sliding-log 9/s", "sliding-log 3/1500ms"],
    &["quota 5/day at +05:30", "quota 7/month", "quota 6/week", "quota 8/10s"],
    &["quota 7/10s rolling", "quota 4/10s rolling"],
];

const CONCURRENCY: &[&str] = &["concurrency 3 lease 2s", "concurrency 5 lease 700ms"];

const SHAPERS: [&[&str]; 3] = [
    &["2/s max-wait 1s", "5/s max-wait 1s"],
    &["3/s capacity 4"],
    &["7919/s max-wait 3ms", "3/min max-wait 90s"],
];

#[derive(Clone, Debug)]
struct Step {
    advance_us: i64,
    key: u8,
    cost: u64,
    op: u8,
    version: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        4 => Just(0),
        4 => 0..300_000_i64,
        2 => 0..3_000_000_i64,
        1 => 0..100_000_000_000_i64,
        1 => -300_000..0_i64,
        1 => -3_000_000..0_i64,
        1 => -200_000_000_000..0_i64,
    ];
    let cost = prop_oneof![8 => Just(1), 3 => 0..8_u64, 1 => Just(1 << 53), 1 => Just(u64::MAX)];
    let op = prop_oneof![12 => Just(0), 2 => 1..8_u8];
    let version = prop_oneof![6 => Just(0), 1 => 1..16_usize];
    let step = (advance, 0..2_u8, cost, op, version);
    let step = step.prop_map(|(advance_us, key, cost, op, version)| Step {
        advance_us,
        key,
        cost,
        op,
        version,
    });
    prop::collection::vec(step, 1..40)
}

fn parsed<L: std::str::FromStr<Err: std::fmt::Debug>>(versions: &[&str]) -> Vec<L> {
    versions.iter().map(|text| text.parse().unwrap()).collect()
}

/// The limits, what is in force of each while its load is high, and what a store keeps of all these where it is leased.
fn with_leased(versions: &[&str]) -> Vec<Limit> {
    let mut plain: Vec<Limit> = parsed(versions);
    let whole = plain[0].clone();
    let in_force = |part: u64| whole.effective_part(part, 100, 1);
    plain.extend([99, 53, 30, 7].map(in_force));
    let leased = plain.iter().filter_map(|limit| limit.leased(limit.lease_ttl().ok()?).ok());
    plain.iter().cloned().chain(leased).collect()
}

/// Both stores, and the permits that are out.
struct Pair {
    runtime: tokio::runtime::Runtime,
    redis: RedisStore,
    memory: MemoryStore,
    cases: u64,
    decisions: u64,
    /// Permits of more than one place that were given back.
    released: u64,
    renewed: u64,
}

impl Pair {
    fn new(url: String) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deadline = Duration::from_secs(30);
        let options = RedisOptions { replays: true, deadline, ..RedisOptions::new(url) };
        let redis = runtime.block_on(async { RedisStore::new(options) }).unwrap();
        let memory = MemoryStore::default();
        Self { runtime, redis, memory, cases: 0, decisions: 0, released: 0, renewed: 0 }
    }

    fn decide(&mut self, ask: &StoreRequest<'_>, now: Timestamp) -> (StoreReply, StoreReply) {
        let redis = self.runtime.block_on(async { self.redis.decide(ask, now).await });
        self.decisions += 1;
        (self.memory.decide(ask, now).now().unwrap(), redis.unwrap())
    }

    /// A case of its own: nothing that another left is swept away when the clock jumps.
    fn next_case(&mut self) -> String {
        self.cases += 1;
        self.memory = MemoryStore::with_max_bytes(1 << 20);
        format!("case-{}", self.cases)
    }

    /// In every third case, costs are multiplied for some of the limits.
    fn costing(&self, index: usize, scope: Scope) -> Scope {
        let place = usize::try_from(self.cases / 3).unwrap() + index;
        let factor = [2, 1, 3, 1 << 52][place % 4];
        if self.cases.is_multiple_of(3) {
            scope.costing(NonZeroU64::new(factor).unwrap())
        } else {
            scope
        }
    }

    fn limits_agree(&mut self, limits: &[Vec<Limit>], mode: Mode, steps: &[Step]) {
        let concurrency = |versions: &Vec<Limit>| matches!(versions[0], Limit::Concurrency(_));
        // What is left of the last lease; `None` where there are none.
        let mut leased = (!limits.iter().any(concurrency)).then_some(None);
        let policy = self.next_case();
        let scope = |index: usize| self.costing(index, Scope::named(&policy, &index.to_string()));
        let scopes: Vec<Scope> = (0..limits.len()).map(scope).collect();
        let mut now_us = 1_700_000_000_000_000_i64;
        let mut permits: Vec<(u8, usize, u64, u64)> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            now_us += step.advance_us;
            let now = Timestamp::from_micros(now_us.cast_unsigned());
            let key = [b'a' + step.key];
            let keyed: Vec<_> = limits
                .iter()
                .zip(&scopes)
                .map(|(versions, scope)| {
                    let limit = &versions[step.version % versions.len()];
                    KeyedLimit { scope, key: &key, limit }
                })
                .collect();
            let leases = leased.as_ref().filter(|_| step.op >= 5 && mode == Mode::All);
            let op = match (step.op, leases) {
                (5 | 6, Some(_)) => {
                    Op::Lease(GrantRequest { least: step.cost.min(3), most: step.cost })
                }
                (7, Some(Some(back))) => Op::GiveBack(*back),
                _ => [Op::Take, Op::Peek, Op::Refund, Op::Reset][usize::from(step.op % 4)],
            };
            let renewed = permits.last().filter(|held| step.op == 1 && held.0 == step.key).copied();
            let ask = match permits.pop_if(|_| step.op >= 4).or(renewed) {
                Some((_, index, permit_id, cost)) if renewed.is_some() => {
                    self.renewed += 1;
                    let op = Op::Renew { permit_id };
                    StoreRequest { mode, limits: &keyed[index..=index], cost, op }
                }
                Some((key, index, permit_id, cost)) if key == step.key => {
                    self.released += u64::from(cost > 1);
                    let op = Op::Release { permit_id };
                    StoreRequest { mode, limits: &keyed[index..=index], cost, op }
                }
                _ => StoreRequest { mode, limits: &keyed, cost: step.cost, op },
            };
            let (memory, redis) = self.decide(&ask, now);
            assert_eq!(redis, memory, "step {number} of {limits:?} {mode:?}\n{steps:#?}");
            if let (Some(leased), Some(grant)) = (&mut leased, memory.grant) {
                let age = Duration::from_micros(step.cost.min(400_000));
                let units = grant.units.div_ceil(2);
                *leased = grant.granted_at.map(|granted_at| Return { units, granted_at, age });
            }
            let places = |index: usize| scopes[index].cost(ask.cost);
            let granted = memory.permits.iter();
            permits.extend(granted.map(|(index, id)| (step.key, *index, *id, places(*index))));
        }
    }

    /// Asks that leave together, and share a call, are decided as if they had come one after another.
    fn batches_agree(&mut self, limits: &[Vec<Limit>], mode: Mode, steps: &[Step]) {
        const KEYS: [&[u8]; 2] = [b"a", b"b"];
        let policy = self.next_case();
        // In every other case each limit has an identifier of its own, which may be another's too.
        let apart = self.cases.is_multiple_of(2);
        let scope = if apart { Scope::together } else { Scope::named };
        let scope = |index: usize| self.costing(index, scope(&policy, &index.to_string()));
        let scopes: Vec<Scope> = (0..limits.len()).map(scope).collect();
        let mut now_us = 1_700_000_000_000_000_i64;
        for batch in steps.chunks(12) {
            now_us += batch[0].advance_us;
            let now = Timestamp::from_micros(now_us.cast_unsigned());
            let keyed = |step: &Step| -> Vec<KeyedLimit<'_>> {
                let version = step.version;
                // One of both, or the other for the limits after the first.
                let other = usize::from(apart && step.cost.is_multiple_of(2));
                let key = |index: usize| KEYS[(usize::from(step.key) + other * index) % 2];
                let pairs = limits.iter().zip(&scopes).enumerate();
                let limit = |versions: &'_ Vec<Limit>| version % versions.len();
                pairs
                    .map(|(index, (versions, scope))| {
                        let limit = &versions[limit(versions)];
                        KeyedLimit { scope, key: key(index), limit }
                    })
                    .collect()
            };
            let op =
                |step: &Step| [Op::Take, Op::Peek, Op::Refund, Op::Reset][usize::from(step.op % 4)];
            let asked: Vec<_> =
                batch.iter().map(|step| (op(step), step.cost, keyed(step))).collect();
            let mut redis = Vec::new();
            self.runtime.block_on(async {
                let mut under_way = Vec::new();
                for (op, cost, limits) in &asked {
                    let ask = StoreRequest { mode, limits, cost: *cost, op: *op };
                    under_way.push(self.redis.decide(&ask, now));
                }
                for reply in under_way {
                    redis.push(reply.await.unwrap());
                }
            });
            for ((op, cost, limits), redis) in asked.iter().zip(redis) {
                let ask = StoreRequest { mode, limits, cost: *cost, op: *op };
                let memory = self.memory.decide(&ask, now).now().unwrap();
                assert_eq!(redis, memory, "{op:?} {cost}\n{steps:#?}");
                self.decisions += 1;
            }
        }
    }

    /// Steps over limits of several policies, each with a cost of its own, alone and sharing a call, beside plain asks.
    fn steps_agree(&mut self, limits: &[Vec<Limit>], steps: &[Step]) {
        const KEYS: [&[u8]; 2] = [b"a", b"b"];
        let case = self.next_case();
        let names = (0..limits.len()).map(|index| format!("{case}-{index}"));
        let scopes: Vec<Scope> = names.map(|name| Scope::tagged("edge", &name, "")).collect();
        let mut now_us = 1_700_000_000_000_000_i64;
        for batch in steps.chunks(5) {
            now_us += batch[0].advance_us;
            let now = Timestamp::from_micros(now_us.cast_unsigned());
            let takes = |step: &Step| -> Vec<LimitCharge<'_>> {
                let (key, cost, version) = (usize::from(step.key), step.cost, step.version);
                let rows = limits.iter().zip(&scopes).enumerate();
                rows.map(|(index, (versions, scope))| {
                    let limit = &versions[version % versions.len()];
                    let keyed = KeyedLimit { scope, key: KEYS[(key + index) % 2], limit };
                    LimitCharge { keyed, cost: [cost, 1, 0, 2][(index + key) % 4] }
                })
                .collect()
            };
            let charge = |step: &Step| match step.op {
                5 => Charge::Never,
                6 | 7 => Charge::Refused,
                _ => Charge::IfAllAdmit,
            };
            let asked: Vec<_> = batch.iter().map(|step| (step, takes(step))).collect();
            let answers = self.runtime.block_on(async {
                let mut under_way = Vec::new();
                for (step, limits) in &asked {
                    let one = limits.first().map(|take| take.keyed);
                    let op = [Op::Refund, Op::Reset].get(usize::from(step.op).wrapping_sub(1));
                    let alone = op.zip(one).map(|(op, one)| {
                        let ask = StoreRequest {
                            mode: Mode::All,
                            limits: &[one],
                            cost: step.cost,
                            op: *op,
                        };
                        self.redis.decide(&ask, now)
                    });
                    let takes = MultiCharge { limits, charge: charge(step) };
                    under_way.push((alone, self.redis.decide_each(&takes, now)));
                }
                let mut answers = Vec::new();
                for (alone, each) in under_way {
                    let alone = match alone {
                        Some(reply) => Some(reply.await.unwrap()),
                        None => None,
                    };
                    answers.push((alone, each.await.unwrap()));
                }
                answers
            });
            for ((step, limits), (redis_alone, redis)) in asked.iter().zip(answers) {
                if let Some(redis_alone) = redis_alone {
                    let op = [Op::Refund, Op::Reset][usize::from(step.op) - 1];
                    let one = [limits[0].keyed];
                    let ask = StoreRequest { mode: Mode::All, limits: &one, cost: step.cost, op };
                    assert_eq!(redis_alone, self.memory.decide(&ask, now).now().unwrap());
                }
                let takes = MultiCharge { limits, charge: charge(step) };
                let memory = self.memory.decide_each(&takes, now).now().unwrap();
                assert_eq!(redis, memory, "{takes:?}\n{steps:#?}");
                self.decisions += memory.len() as u64;
            }
        }
    }

    fn shapers_agree(&mut self, versions: &[LeakyBucket], steps: &[Step]) {
        let scope = Scope::named(&self.next_case(), "");
        let mut now_us = 1_700_000_000_000_000_i64;
        let mut last = None;
        for (number, step) in steps.iter().enumerate() {
            now_us += step.advance_us;
            let now = Timestamp::from_micros(now_us.cast_unsigned());
            let shaper = &versions[step.version % versions.len()];
            let cancel = last.take().filter(|_| step.op > 0);
            let turn = ReserveRequest { scope: &scope, key: b"k", shaper, cost: step.cost, cancel };
            let redis = self.runtime.block_on(async { self.redis.reserve(&turn, now).await });
            let (redis, memory) = (redis.unwrap(), self.memory.reserve(&turn, now).now().unwrap());
            self.decisions += 1;
            assert_eq!(redis, memory, "step {number} of {versions:?}\n{steps:#?}");
            last = memory.until;
        }
    }
}

fn runner(cases: u32) -> TestRunner {
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
}

#[test]
fn memory_and_redis_agree_on_a_hundred_thousand_decisions() {
    let server = RedisServer::start();
    let pair = std::cell::RefCell::new(Pair::new(server.url()));
    let mixes = (prop::collection::vec(0..LIMITS.len(), 1..4), any::<bool>(), steps());
    runner(2500)
        .run(&mixes, |(limits, any, steps)| {
            let limits: Vec<_> = limits.iter().map(|row| with_leased(LIMITS[*row])).collect();
            let mode = if any { Mode::Any } else { Mode::All };
            pair.borrow_mut().limits_agree(&limits, mode, &steps);
            Ok(())
        })
        .unwrap();
    // Mostly one limit, since that is what has a way of its own in a batch.
    let batches = (prop::collection::vec(0..LIMITS.len(), 1..3), any::<bool>(), steps());
    runner(1500)
        .run(&batches, |(limits, any, steps)| {
            let limits: Vec<_> = limits.iter().map(|row| with_leased(LIMITS[*row])).collect();
            let mode = if any { Mode::Any } else { Mode::All };
            pair.borrow_mut().batches_agree(&limits, mode, &steps);
            Ok(())
        })
        .unwrap();
    runner(1000)
        .run(&steps(), |steps| {
            // Of every scale, so that a key that was written under one is read under another.
            let plain: Vec<_> = parsed(&[
                "10/s",
                "20/s burst 3",
                "60/s burst 9",
                "1000/s burst 2",
                "7919/s burst 5",
            ]);
            let takes: Vec<_> = steps.into_iter().map(|step| Step { op: 0, ..step }).collect();
            pair.borrow_mut().batches_agree(&[plain], Mode::All, &takes);
            Ok(())
        })
        .unwrap();
    let stats = pair.borrow().redis.stats();
    assert!(stats.calls < stats.requests, "nothing was batched: {stats:?}");
    let with_permits = (prop::sample::select(vec![None, Some(0), Some(9), Some(10)]), steps());
    runner(1000)
        .run(&with_permits, |(beside, steps)| {
            let beside = beside.map(|row: usize| parsed(LIMITS[row]));
            let limits: Vec<_> = [parsed(CONCURRENCY)].into_iter().chain(beside).collect();
            pair.borrow_mut().limits_agree(&limits, Mode::All, &steps);
            Ok(())
        })
        .unwrap();
    let released = pair.borrow().released;
    assert!(released > 20, "only {released} permits of several places were given back");
    let renewed = pair.borrow().renewed;
    assert!(renewed > 20, "only {renewed} permits were renewed");
    let shaped = (prop::sample::select(&SHAPERS[..]), steps());
    runner(500)
        .run(&shaped, |(versions, steps)| {
            pair.borrow_mut().shapers_agree(&parsed(versions), &steps);
            Ok(())
        })
        .unwrap();
    let decisions = pair.borrow().decisions;
    assert!(decisions >= 100_000, "only {decisions} decisions");
}

#[test]
fn memory_and_redis_agree_on_steps_over_several_policies() {
    let server = RedisServer::start();
    let pair = std::cell::RefCell::new(Pair::new(server.url()));
    let mixes = (prop::collection::vec(0..LIMITS.len(), 1..7), steps());
    runner(1500)
        .run(&mixes, |(limits, steps)| {
            let limits: Vec<_> = limits.iter().map(|row| with_leased(LIMITS[*row])).collect();
            pair.borrow_mut().steps_agree(&limits, &steps);
            Ok(())
        })
        .unwrap();
    let Pair { redis, decisions, .. } = pair.into_inner();
    assert!(redis.stats().calls < redis.stats().requests, "nothing was batched");
    assert!(decisions >= 50_000, "only {decisions} decisions");
}

/// Their bursts end after 2^53 µs: instants there are rounded, so that decisions agree, and times to 2 µs.
#[test]
fn bursts_of_centuries_are_admitted_as_in_memory() {
    let server = RedisServer::start();
    let mut pair = Pair::new(server.url());
    for text in ["2/100000day", "3/104249day", "7/100000day burst 7", "1/1day burst 104249"] {
        let limit: Limit = text.parse().unwrap();
        let scope = Scope::named(&pair.next_case(), "");
        let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
        let mut now_us = 1_700_000_000_000_001;
        for (advance_us, op, cost) in [
            (0, Op::Take, limit.ceiling() - 1),
            (0, Op::Take, 1),
            (0, Op::Take, 1),
            (1, Op::Peek, 1),
            (1_000_000, Op::Take, 1),
            (0, Op::Refund, 1),
            (7, Op::Take, 1),
            (3, Op::Take, 1),
            (0, Op::Reset, 0),
            (0, Op::Take, limit.ceiling()),
            (0, Op::Take, 1),
        ] {
            now_us += advance_us;
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
            let (memory, redis) = pair.decide(&ask, Timestamp::from_micros(now_us));
            let (memory, redis) = (memory.verdict.decision, redis.verdict.decision);
            let known = |it: tidegate::Decision| (it.allowed(), it.remaining());
            assert_eq!(known(redis), known(memory), "{text}: {op:?} {cost}");
        }
    }
}
