//! A server that is killed under load, and what each durability forgets then.

use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};

use crate::load::Load;
use crate::support::{blocking, open, options, take};

/// Gains nothing while a test runs.
const LIMIT: &str = "600/3650day";
const K: u64 = 600;

/// What is left of the key, when the store answers again.
async fn left(store: &tidegate_postgres::PostgresStore) -> u64 {
    loop {
        if let Ok(decision) = crate::support::peek(store, LIMIT, "k").await {
            return decision.remaining();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_under_load_never_admits_more_than_the_limit_with_full_durability() {
    let server = PostgresServer::builder().setting("fsync=on").start();
    let store = open(&server.url(), &options("tg"));
    let load = Load::start(&store, LIMIT, "k");
    for _ in 0..2 {
        load.until_more(&load.outcomes.admitted, 100).await;
        blocking(|| {
            server.kill();
            server.restart();
        });
    }
    let outcomes = load.until_spent().await;
    let (admitted, unknown) = (outcomes.admitted(), outcomes.unknown());
    assert!(admitted <= K, "{admitted} of {K}");
    // What got no answer may have been charged, and nothing else is missing.
    assert!(admitted + unknown >= K, "{admitted} and {unknown} unknown of {K}");
    assert!(outcomes.failed() > 0, "the kill hit nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_with_async_forgets_only_what_the_log_had_not_on_disk() {
    // The log is written every 10 s, so that there is something to forget.
    let server =
        PostgresServer::builder().setting("wal_writer_delay=10s").setting("fsync=on").start();
    let store = open(&format!("{}?durability=async", server.url()), &options("tg"));
    for _ in 0..100 {
        assert!(take(&*store, LIMIT, "k").await.unwrap().allowed());
    }
    // An ordinary commit writes everything before it, as the log writer does three times in 0.6 s by default.
    server.sql("CREATE TABLE written (); DROP TABLE written");
    let load = Load::start(&store, LIMIT, "k");
    load.until_more(&load.outcomes.admitted, 50).await;
    blocking(|| server.kill());
    let outcomes = load.end().await;
    blocking(|| server.restart());
    let before = outcomes.admitted();
    let left = left(&store).await;
    assert!(left <= K - 100, "what was on disk was forgotten: {left} are left");
    let forgotten = (100 + before).saturating_sub(K - left);
    assert!(forgotten <= before, "{forgotten} forgotten of {before}");
    assert!(forgotten > 0, "nothing was forgotten: the test shows nothing");
    let again = Load::start(&store, LIMIT, "k").until_spent().await.admitted();
    assert_eq!(again, left, "what is left is admitted once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_with_unlogged_starts_from_zero_once_and_a_clean_stop_keeps_all() {
    let server = PostgresServer::start();
    let store = open(&format!("{}?durability=unlogged", server.url()), &options("tg"));
    let spend = async || Load::start(&store, LIMIT, "k").until_spent().await.admitted();
    assert_eq!(spend().await, K);
    blocking(|| {
        server.stop();
        server.restart();
    });
    assert_eq!(left(&store).await, 0, "a clean stop has forgotten something");
    blocking(|| {
        server.kill();
        server.restart();
    });
    assert_eq!(left(&store).await, K, "a crash empties the table");
    assert_eq!(spend().await, K);
    assert_eq!(spend().await, 0, "it starts from zero once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_for_ten_seconds_delays_nobody_and_leaves_nothing_open() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &crate::faults::quick());
    let warm = open(&server.url(), &options("tg"));
    take(&*warm, LIMIT, "k").await.unwrap();
    let lock =
        "BEGIN; SELECT 1 FROM tidegate.items WHERE key LIKE '%:k' FOR UPDATE; SELECT pg_sleep(10)";
    let mut stranger = server.psql(lock).spawn().unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait_until("the stranger to hold its lock", DEADLINE, || server.sql(sleeping) == "1");
    let load = Load::start(&store, LIMIT, "k");
    // Each of these has waited for its deadline only: a hundred and more fit into the ten seconds.
    while stranger.try_wait().unwrap().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let failed = load.outcomes.failed();
    assert!(failed > 20, "{failed} answers while the lock was held");
    load.until_more(&load.outcomes.admitted, 100).await;
    let outcomes = load.until_spent().await;
    assert!(outcomes.admitted() < K && outcomes.admitted() + outcomes.unknown() >= K - 1);
    let open_transactions = "SELECT count(*) FROM pg_stat_activity \
        WHERE application_name = 'tidegate' AND state LIKE 'idle in transaction%'";
    wait_until("no transaction to be open", DEADLINE, || server.sql(open_transactions) == "0");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait_until("no statement to wait", DEADLINE, || server.sql(waiting) == "0");
}
