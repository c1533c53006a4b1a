//! Several nodes that compete for one item.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    KeyedLimit, Limit, Mode, Op, Scope, Store, StoreErrorKind, StoreRequest, Timestamp,
};
use tidegate_cas::{CasOptions, CasStore};

use crate::map::{Faults, Map};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn nodes(map: &Map, count: usize) -> Vec<Arc<CasStore<Map>>> {
    let deadline = Duration::from_mins(1);
    let options = CasOptions { deadline, announces: false, ..CasOptions::default() };
    (0..count).map(|_| map.store(options.clone())).collect()
}

/// How many of 8 nodes × 60 checks are admitted to 100.
async fn admitted(map: &Map) -> (u64, u64) {
    let stores = nodes(map, 8);
    let tasks = stores.iter().cloned().map(|store| {
        tokio::spawn(async move {
            let (limit, scope): (Limit, _) =
                ("fixed-window 100/day".parse().unwrap(), Scope::named("hot", ""));
            let mut admitted = 0;
            for _ in 0..60 {
                let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
                let request =
                    StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
                let reply = store.decide(&request, NOW).await.unwrap();
                admitted += u64::from(reply.verdict.decision.allowed());
            }
            admitted
        })
    });
    let mut sum = 0;
    for task in tasks.collect::<Vec<_>>() {
        sum += task.await.unwrap();
    }
    (sum, stores.iter().map(|store| store.stats().conflicts).sum())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_admit_exactly_the_limit() {
    let map = Map::at(NOW);
    Faults::set(&map.faults.yields, true);
    let (admitted, conflicts) = admitted(&map).await;
    assert_eq!(admitted, 100);
    assert!(conflicts > 0, "they did compete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_ignores_versions_admits_more() {
    let map = Map::at(NOW);
    Faults::set(&map.faults.yields, true);
    Faults::set(&map.faults.ignores_versions, true);
    assert!(admitted(&map).await.0 > 100, "the control fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_of_one_node_share_reads_and_writes_and_never_compete() {
    let map = Map::at(NOW);
    Faults::set(&map.faults.yields, true);
    let store = nodes(&map, 1).remove(0);
    let (limit, scope): (Limit, _) = ("1000/day".parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    let replies: Vec<_> = (0..500).map(|_| store.decide(&request, NOW)).collect();
    let mut left: Vec<u64> = Vec::new();
    for reply in replies {
        left.push(reply.await.unwrap().verdict.decision.remaining());
    }
    let expected: Vec<u64> = (500..1000).rev().collect();
    assert_eq!(left, expected, "one after another");
    let stats = store.stats();
    assert_eq!((stats.requests, stats.conflicts), (500, 0));
    assert!(stats.calls <= 20, "{} calls", stats.calls);
}

#[tokio::test]
async fn a_key_that_others_change_at_every_attempt_is_given_up_at_the_deadline() {
    let map = Map::at(NOW);
    let deadline = Duration::from_millis(30);
    let options = CasOptions { deadline, announces: false, ..CasOptions::default() };
    let store = map.store(options);
    let (limit, scope): (Limit, _) = ("5/day".parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    Faults::set(&map.faults.always_changed, true);
    let error = store.decide(&request, NOW).await.unwrap_err();
    assert!(matches!(error.kind(), StoreErrorKind::NotSent | StoreErrorKind::Timeout), "{error}");
    assert!(store.stats().conflicts > 0);
    Faults::set(&map.faults.always_changed, false);
    let patient = nodes(&map, 1).remove(0);
    let reply = patient.decide(&request, NOW).await.unwrap();
    assert_eq!(reply.verdict.decision.remaining(), 4, "nothing was charged before");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_gets_no_turn_is_no_failure_of_the_backend() {
    let map = Map::at(NOW);
    let options = CasOptions { announces: false, lanes: 1, ..CasOptions::default() };
    let store = map.store(options);
    let (limit, scope): (Limit, _) = ("5/day".parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    Faults::set(&map.faults.reads_hang, true);
    let first = store.decide(&request, NOW);
    tokio::task::yield_now().await; // its batch leaves
    let second = store.decide(&request, NOW);
    let (first, second) = (first.await.unwrap_err(), second.await.unwrap_err());
    assert!(first.kind().is_store_failure(), "{first}");
    assert!(!second.kind().is_store_failure(), "{second}: it waited behind the first");
}
