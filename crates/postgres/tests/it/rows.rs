//! What is in the table.

use std::time::Duration;

use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};

use crate::support::{open, options, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_touch_no_index_and_rows_can_be_read_by_people() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    for _ in 0..200 {
        take(&*store, "1000000/day", "user-42").await.unwrap();
    }
    assert_eq!(server.sql("SELECT key FROM tidegate.items"), "tg:p:api:7:user-42");
    // Statistics are written by each connection, at most once a second.
    wait_until("200 updates in the statistics", DEADLINE, || updates(&server).0 >= 199);
    let (all, hot) = updates(&server);
    assert!(hot * 10 >= all * 9, "{hot} of {all} updates left the index alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_thousand_decisions_stay_on_their_pages_and_the_table_stays_small() {
    const KEYS: usize = 16;
    const DECISIONS: usize = 1_500;
    /// What as many row versions would take without being reused: some 100 bytes each.
    const GROWN_BYTES: u64 = (KEYS * DECISIONS * 100) as u64;
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    let tasks = (0..KEYS).map(|key| {
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..DECISIONS {
                take(&*store, "1000000/day", &format!("key-{key}")).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Each key was decided by itself, because a task waits for its answer.
    let decided = (KEYS * (DECISIONS - 1)) as u64;
    wait_until("the updates in the statistics", DEADLINE, || updates(&server).0 >= decided);
    let (all, hot) = updates(&server);
    assert!(hot * 100 >= all * 95, "{hot} of {all} updates left the index alone");
    server.sql("VACUUM tidegate.items");
    let size = |what: &str| -> u64 { server.sql(&format!("SELECT {what}")).parse().unwrap() };
    let bytes = size("pg_total_relation_size('tidegate.items')");
    assert!(bytes < GROWN_BYTES / 4, "{bytes} bytes for {KEYS} rows");
}

/// All updates of the table, and those that left the index alone.
fn updates(server: &PostgresServer) -> (u64, u64) {
    let counts = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'items'";
    let row = server.sql(counts);
    let (all, hot) = row.split_once('|').unwrap();
    (all.parse().unwrap(), hot.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_say_nothing_any_more_are_swept() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    for key in 0..300 {
        take(&*store, "1/s", &format!("key-{key}")).await.unwrap();
    }
    take(&*store, "1/day", "stays").await.unwrap();
    let rows = || server.sql("SELECT count(*) FROM tidegate.items");
    assert_eq!(rows(), "301");
    server
        .sql("UPDATE tidegate.items SET expires = now() - interval '1 s' WHERE key LIKE '%key-%'");
    wait_until("expired rows to be removed", Duration::from_mins(1), || rows() == "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_together_make_the_tables_once() {
    let server = PostgresServer::start();
    let tasks = (0..6).map(|_| {
        let store = open(&server.url(), &options("tg"));
        tokio::spawn(async move { take(&*store, "100/day", "k").await.unwrap().remaining() })
    });
    let mut left = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        left.push(task.await.unwrap());
    }
    left.sort_unstable();
    assert_eq!(left, [94, 95, 96, 97, 98, 99]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlogged_table_is_another_one() {
    let server = PostgresServer::start();
    let store = open(&format!("{}?durability=unlogged", server.url()), &options("tg"));
    take(&*store, "100/day", "k").await.unwrap();
    let kind = "SELECT relpersistence FROM pg_class WHERE relname = 'items_unlogged'";
    assert_eq!(server.sql(kind), "u");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_says_nothing_is_as_good_as_none() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    take(&*store, "100/day", "k").await.unwrap();
    server.sql("UPDATE tidegate.items SET version = 0, data = ''");
    for left in [99, 98] {
        assert_eq!(take(&*store, "100/day", "k").await.unwrap().remaining(), left);
    }
    assert_eq!(server.sql("SELECT count(*) FROM tidegate.items"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_an_older_version_are_brought_up_to_date_and_keep_their_rows() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    assert_eq!(take(&*store, "100/day", "k").await.unwrap().remaining(), 99);
    drop(store);
    server.sql("UPDATE tidegate.versions SET version = 1");
    server.sql("DROP FUNCTION tidegate.swap_items, tidegate.expires");
    let store = open(&server.url(), &options("tg"));
    assert_eq!(take(&*store, "100/day", "k").await.unwrap().remaining(), 98);
    assert_eq!(server.sql("SELECT version FROM tidegate.versions"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_by_their_key_even_if_the_table_was_empty_when_it_was_planned() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    for _ in 0..20 {
        take(&*store, "1000/day", "first").await.unwrap();
    }
    let scans = || {
        let counts = "SELECT idx_scan, seq_scan FROM pg_stat_user_tables WHERE relname = 'items'";
        let row = server.sql(counts);
        let (index, whole) = row.split_once('|').unwrap();
        (index.parse::<u64>().unwrap(), whole.parse::<u64>().unwrap())
    };
    wait_until("20 reads and writes in the statistics", DEADLINE, || scans().0 >= 39);
    // Making the index reads it once.
    let (_, whole) = scans();
    assert!(whole <= 1, "the whole table was read {whole} times");
}
