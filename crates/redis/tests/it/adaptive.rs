//! What nodes tell each other through a real Redis: as through memory, and by Redis' own clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate::adaptive::Adaptive;
use tidegate::{Coordination, MemoryStore, ReadingReport, StateUpdate, SystemClock, Timestamp};
use tidegate_redis::{RedisOptions, RedisStore};
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, store};
use tidegate_testkit::fleet::{Fleet, governed};
use tidegate_testkit::processes::{DEADLINE, RedisServer};

/// A store that uses the time it is given.
fn replaying(server: &RedisServer) -> Arc<RedisStore> {
    let options =
        RedisOptions { replays: true, deadline: LONG_TIMEOUT, ..RedisOptions::new(server.url()) };
    Arc::new(RedisStore::new(options).unwrap())
}

#[derive(Clone, Debug)]
enum Step {
    Report { advance_us: i64, node: u64 },
    Keep { ahead: u64, stale: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        4 => 0..400_000_i64,
        4 => 0..2_000_000_i64,
        1 => 0..30_000_000_i64,
        1 => -3_000_000..0_i64,
        1 => -60_000_000..0_i64,
    ];
    let step = prop_oneof![
        3 => (advance, 0..5_u64).prop_map(|(advance_us, node)| Step::Report { advance_us, node }),
        1 => (0..2_u64, prop::bool::weighted(0.3)).prop_map(|(ahead, stale)| Step::Keep { ahead, stale }),
    ];
    prop::collection::vec(step, 1..40)
}

#[test]
fn redis_keeps_readings_as_memory_does() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let redis = runtime.block_on(async { replaying(&server) });
    let case = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() };
    let ran = TestRunner::new(config).run(&steps(), |steps| {
        case.set(case.get() + 1);
        let (scope, memory) = (format!("case {}", case.get()), MemoryStore::default());
        let (mut now_us, mut last) = (1_700_000_000_000_000_i64, None);
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Report { advance_us, node } => {
                    now_us += advance_us;
                    let now = Timestamp::from_micros(now_us.cast_unsigned());
                    let (tick, reading) = (Duration::from_secs(1), &*format!("v{number}:1"));
                    let report = ReadingReport { scope: &scope, tick, node, reading };
                    let reported = memory.report_reading(&report, now).now().unwrap();
                    let redis_reported =
                        runtime.block_on(redis.report_reading(&report, now)).unwrap();
                    prop_assert_eq!(&redis_reported, &reported, "step {}", number);
                    last = Some(reported);
                }
                Step::Keep { ahead, stale } => {
                    let Some(reported) = &last else { continue };
                    let before = reported.kept.as_ref().map(|kept| kept.tick).filter(|_| !stale);
                    let text = format!("{number:02x}");
                    let tick = reported.tick + ahead;
                    let update = StateUpdate { scope: &scope, tick, before, text: &text };
                    let kept = memory.keep_state(&update, reported.now).now().unwrap();
                    let redis_kept = runtime.block_on(redis.keep_state(&update, reported.now));
                    prop_assert_eq!(redis_kept.unwrap(), kept, "step {}", number);
                }
            }
        }
        Ok(())
    });
    ran.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_tick_at_once_agree() {
    let server = RedisServer::start();
    let mut fleet = Fleet::new(8, &replaying(&server));
    for second in 0..40 {
        fleet.second_at_once(if second < 20 { 0.5 } else { 0.8 }).await;
    }
    assert_eq!((fleet.units(), fleet.alone()), (vec![200; 8], 0));
}

/// A tick, and what is in force.
type Agreed = Option<(u64, u64)>;

/// The latest that each node agreed on.
fn agreed(nodes: &[Adaptive]) -> Vec<Agreed> {
    let one = |node: &Adaptive| {
        let status = &node.status()[0];
        status.agreed.map(|tick| (tick, status.units))
    };
    nodes.iter().map(one).collect()
}

/// By Redis' own clock, each in a task of its own; then Redis goes, and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_agree_in_real_time_go_alone_and_agree_again() {
    let server = RedisServer::start();
    let nodes: Vec<_> = (0..4)
        .map(|_| governed(Adaptive::shared_over(store(server.url(), LONG_TIMEOUT), SystemClock)))
        .collect();
    for node in &nodes {
        node.target("db").fix(Some(0.6));
        assert!(node.start());
    }
    let mut known = BTreeMap::new();
    let mut until = async |what: &str, holds: &dyn Fn(&[Agreed]) -> bool| {
        let start = Instant::now();
        loop {
            let now = agreed(&nodes);
            for (tick, units) in now.iter().flatten() {
                assert_eq!(known.entry(*tick).or_insert(*units), units, "two limits in {tick}");
            }
            if holds(&now) {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {now:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until("agree", &|now| now.iter().all(|it| it.is_some_and(|(_, units)| units == 400))).await;
    server.kill();
    until("go alone", &|now| now.iter().all(Option::is_none)).await;
    assert!(nodes.iter().all(|node| node.status()[0].units == 400), "from where they were");
    server.restart();
    until("agree again", &|now| now.iter().all(Option::is_some)).await;
    assert!(nodes.iter().all(|node| node.status()[0].units == 400));
    assert!(known.len() >= 2, "one tick is no proof: {known:?}");
}
