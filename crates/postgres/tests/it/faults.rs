//! A server that crashes, hangs on a lock, or refuses.

use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{Ran, StoreErrorKind};
use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};

use crate::support::{open, options, take};

pub(crate) fn quick() -> StoreOptions {
    StoreOptions { deadline: Duration::from_millis(100), ..options("tg") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_loses_nothing_and_the_store_heals_by_itself() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    for left in [999, 998, 997] {
        assert_eq!(take(&*store, "1000/day", "k").await.unwrap().remaining(), left);
    }
    server.kill();
    // A connection's own process may live a little longer than the server.
    let mut left = 997;
    let error = loop {
        match take(&*store, "1000/day", "k").await {
            Ok(decision) => left = decision.remaining(),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error.kind(), StoreErrorKind::Unreachable | StoreErrorKind::Disconnected),
        "{error}"
    );
    server.restart();
    let healed = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Ok(decision) = take(&*store, "1000/day", "k").await {
                return decision.remaining();
            }
        }
    });
    // The one that failed may have been charged or not.
    let healed = healed.await.unwrap();
    assert!((left - 2..left).contains(&healed), "{left}, then {healed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_a_stranger_locks_fails_within_the_deadline_and_leaves_no_statement_behind() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &quick());
    let warm = open(&server.url(), &options("tg"));
    take(&*warm, "100/day", "k").await.unwrap();
    wait_until("a connection", DEADLINE, || {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(take(&*store, "100/day", "warm")).is_ok()
        })
    });
    let lock =
        "BEGIN; SELECT 1 FROM tidegate.items WHERE key LIKE '%:k' FOR UPDATE; SELECT pg_sleep(60)";
    let mut stranger = server.psql(lock).spawn().unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait_until("the stranger to hold its lock", DEADLINE, || server.sql(sleeping) == "1");
    let error = take(&*store, "100/day", "k").await.unwrap_err();
    let known = [StoreErrorKind::Busy, StoreErrorKind::Timeout, StoreErrorKind::NotSent];
    assert!(known.contains(&error.kind()), "{error}");
    assert!(take(&*warm, "100/day", "other").await.unwrap().allowed(), "other keys are served");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    wait_until("no statement to wait for the lock", DEADLINE, || server.sql(waiting) == "0");
    let open_transactions = "SELECT count(*) FROM pg_stat_activity \
        WHERE application_name = 'tidegate' AND state LIKE 'idle in transaction%'";
    assert_eq!(server.sql(open_transactions), "0");
    server
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    stranger.wait().unwrap();
    assert!(take(&*warm, "100/day", "k").await.unwrap().allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_only_reads_says_so_and_has_not_run() {
    let server = PostgresServer::start();
    let store = open(&server.url(), &options("tg"));
    take(&*store, "100/day", "k").await.unwrap();
    server.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    server.sql("SELECT pg_reload_conf()");
    wait_until("the setting to hold", DEADLINE, || {
        server.sql("SHOW default_transaction_read_only") == "on"
    });
    // Open connections learn of it a moment later.
    let refused = async {
        loop {
            if let Err(error) = take(&*store, "100/day", "k").await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, refused).await.unwrap();
    assert_eq!(error.ran(), Ran::No, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_checks_stays_within_its_connections() {
    let server = PostgresServer::start();
    let store = open(&format!("{}?connections=3", server.url()), &options("tg"));
    let checks = (0..500).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { take(&*store, "100/day", &format!("key-{n}")).await.unwrap() })
    });
    for check in checks.collect::<Vec<_>>() {
        assert!(check.await.unwrap().allowed());
    }
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    let count: u32 = server.sql(connections).parse().unwrap();
    assert!((1..=3).contains(&count), "{count} connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_user_or_database_is_told() {
    let server = PostgresServer::start();
    for (url, word) in [
        (server.url().replace("tidegate@", "stranger@"), "stranger"),
        (server.url().replace("/postgres", "/nowhere"), "nowhere"),
    ] {
        let store = open(&url, &options("tg"));
        let error = take(&*store, "100/day", "k").await.unwrap_err();
        assert!(error.to_string().contains(word) && error.ran() == Ran::No, "{error}");
    }
}
