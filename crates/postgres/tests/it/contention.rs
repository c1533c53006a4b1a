//! Nodes that write the same rows, existing and new ones, alone and together.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{KeyedLimit, Limit, Mode, Op, Scope, Store, StoreRequest, Timestamp};
use tidegate_postgres::PostgresStore;
use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};
use tokio::time::{sleep, timeout};

use crate::support::{open, options};

const NODES: usize = 3;
const TASKS: usize = 16;
const ROUNDS: usize = 40;
const KEYS: usize = 24;
const LIMIT: u64 = 1_000_000;

/// Takes one unit of each key, in one step.
async fn take(store: &PostgresStore, keys: &[usize]) -> u64 {
    let limit: Limit = format!("fixed-window {LIMIT}/day").parse().unwrap();
    let scopes: Vec<_> = (0..keys.len())
        .map(|n| match keys {
            [_] => Scope::named("one", ""),
            _ => Scope::together("several", &n.to_string()),
        })
        .collect();
    let names: Vec<_> = keys.iter().map(|key| format!("key-{key}")).collect();
    let limits: Vec<_> = scopes
        .iter()
        .zip(&names)
        .map(|(scope, key)| KeyedLimit { scope, key: key.as_bytes(), limit: &limit })
        .collect();
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    let reply = store.decide(&request, Timestamp::EPOCH).await.unwrap();
    reply.verdict.decision.remaining()
}

/// One check of each key, all of which wait at once.
fn take_each(
    store: &Arc<PostgresStore>,
    keys: std::ops::Range<usize>,
) -> Vec<impl Future<Output = u64> + use<>> {
    let take = |key| {
        let store = store.clone();
        async move { take(&store, &[key]).await }
    };
    keys.map(take).collect()
}

async fn wait_for_all(checks: Vec<impl Future<Output = u64> + Send + 'static>) {
    for check in checks.into_iter().map(tokio::spawn).collect::<Vec<_>>() {
        check.await.unwrap();
    }
}

/// Checks of one row and of two, over keys that are new at first, in different orders.
async fn compete(store: Arc<PostgresStore>, task: usize) {
    for round in 0..ROUNDS {
        let key = (task * 7 + round * 5) % KEYS;
        if (task + round).is_multiple_of(4) {
            take(&store, &[key, (key + 11) % KEYS]).await;
        } else {
            take(&store, &[key]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_write_the_same_rows_count_exactly() {
    let server = PostgresServer::start();
    let stores: Vec<_> = (0..NODES).map(|_| open(&server.url(), &options("tg"))).collect();
    let tasks = (0..NODES * TASKS)
        .map(|task| tokio::spawn(compete(stores[task % NODES].clone(), task / NODES)));
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let conflicts: u64 = stores.iter().map(|store| store.stats().conflicts).sum();
    assert!(conflicts > 0, "they did compete");
    let mut expected = [0; KEYS];
    for (task, round) in (0..TASKS).flat_map(|task| (0..ROUNDS).map(move |round| (task, round))) {
        if !(task + round).is_multiple_of(4) {
            expected[(task * 7 + round * 5) % KEYS] += NODES as u64;
        }
    }
    for (key, spent) in expected.into_iter().enumerate() {
        assert_eq!(take(&stores[0], &[key]).await, LIMIT - spent - 1, "key {key}");
    }
}

/// Two batches that lock the same rows wait for each other only if they lock them in different orders.
#[tokio::test]
async fn a_batch_locks_its_rows_in_the_order_of_their_keys() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    // All checks wait before the first lane runs: the test has one thread.
    let all = || take_each(&store, 100..200);
    wait_for_all(all()).await;
    let middle = "SELECT key FROM tidegate.items WHERE key LIKE '%key-150'";
    let middle = server.sql(middle);
    let lock = format!(
        "BEGIN; SELECT 1 FROM tidegate.items WHERE key = '{middle}' FOR UPDATE; SELECT pg_sleep(60)"
    );
    let mut stranger = server.psql(&lock).spawn().unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait_until("the stranger to hold its lock", DEADLINE, || server.sql(sleeping) == "1");
    let blocked = tokio::spawn(wait_for_all(all()));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let is_waiting = async {
        while server.sql(waiting) != "1" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, is_waiting).await.expect("a batch to wait for the lock");
    let free = server.sql("SELECT key FROM tidegate.items FOR UPDATE SKIP LOCKED");
    let rows = server.sql("SELECT key FROM tidegate.items");
    let locked: Vec<_> = rows.lines().filter(|row| !free.lines().any(|it| it == *row)).collect();
    assert!(locked.len() > 1 && locked.iter().all(|row| **row <= *middle), "{locked:?}");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    server.sql(end);
    stranger.wait().unwrap();
    blocked.await.unwrap();
}
