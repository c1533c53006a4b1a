//! A primary and its standby, both in the URL.

use tidegate_testkit::processes::{AGREEMENT_DEADLINE, PostgresServer, wait_until};

use crate::load::Load;
use crate::support::{blocking, open, options, peek, take};

/// Gains nothing while a test runs.
const LIMIT: &str = "600/3650day";
const K: u64 = 600;

fn url_of(first: &PostgresServer, second: &PostgresServer) -> String {
    format!("postgres://tidegate@{},{}/postgres", first.address(), second.address())
}

struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
}

impl Pair {
    fn start() -> Self {
        let primary = PostgresServer::start();
        let standby = PostgresServer::builder().replica_of(&primary).start();
        let pair = Self { primary, standby };
        let connected = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        wait_until("the standby to follow", AGREEMENT_DEADLINE, || {
            pair.primary.sql(connected) == "1"
        });
        pair
    }

    /// A commit is acknowledged when the standby has it.
    fn synchronous() -> Self {
        let pair = Self::start();
        pair.primary.set("synchronous_standby_names", "*");
        let is_sync = "SELECT sync_state FROM pg_stat_replication";
        wait_until("the standby to be synchronous", AGREEMENT_DEADLINE, || {
            pair.primary.sql(is_sync) == "sync"
        });
        pair
    }

    /// The standby first: it is never the one to use while it is one.
    fn url(&self) -> String {
        url_of(&self.standby, &self.primary)
    }

    fn fail_over(&self) {
        self.primary.kill();
        self.standby.promote();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_under_load_admits_exactly_the_limit_with_a_synchronous_standby() {
    let pair = Pair::synchronous();
    let store = open(&pair.url(), &options("tg"));
    let load = Load::start(&store, LIMIT, "k");
    load.until_more(&load.outcomes.admitted, 100).await;
    blocking(|| pair.fail_over());
    let outcomes = load.until_spent().await;
    let (admitted, unknown) = (outcomes.admitted(), outcomes.unknown());
    assert!(admitted <= K, "{admitted} of {K}");
    assert!(admitted + unknown >= K, "{admitted} and {unknown} unknown of {K}");
    assert!(outcomes.failed() > 0, "the failover hit nobody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_primary_is_used_and_a_standby_that_hangs_does_not_hide_it() {
    let pair = Pair::start();
    let store = open(&pair.url(), &options("tg"));
    assert!(take(&*store, LIMIT, "k").await.unwrap().allowed());
    let of_ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    assert_ne!(pair.primary.sql(of_ours), "0");
    // One that was only asked whether it accepts writes is closed at once.
    wait_until("no connection to the standby", AGREEMENT_DEADLINE, || {
        pair.standby.sql(of_ours) == "0"
    });
    pair.standby.pause();
    let another = open(&pair.url(), &options("tg"));
    assert!(take(&*another, LIMIT, "k").await.unwrap().allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_synchronous_standby_exactly_what_it_missed_is_admitted_again() {
    const MISSED: u64 = 25;
    let pair = Pair::start();
    let store = open(&pair.url(), &options("tg"));
    for _ in 0..100 {
        assert!(take(&*store, LIMIT, "k").await.unwrap().allowed());
    }
    let has_all = "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication";
    wait_until("the standby to have it all", AGREEMENT_DEADLINE, || {
        pair.primary.sql(has_all) == "t"
    });
    // From here on the standby hears nothing.
    pair.standby.set("primary_conninfo", "");
    let followers = "SELECT count(*) FROM pg_stat_replication";
    wait_until("nobody to follow", AGREEMENT_DEADLINE, || pair.primary.sql(followers) == "0");
    for _ in 0..MISSED {
        assert!(take(&*store, LIMIT, "k").await.unwrap().allowed());
    }
    blocking(|| pair.fail_over());
    let again = Load::start(&store, LIMIT, "k").until_spent().await.admitted();
    assert_eq!(100 + MISSED + again, K + MISSED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_that_is_gone_stops_admissions_instead_of_losing_them() {
    let pair = Pair::synchronous();
    let store = open(&pair.url(), &crate::faults::quick());
    let warm = open(&pair.url(), &options("tg"));
    assert!(take(&*warm, LIMIT, "k").await.unwrap().allowed());
    pair.standby.kill();
    for _ in 0..3 {
        let error = take(&*store, LIMIT, "k").await.unwrap_err();
        assert!(error.kind() != tidegate::StoreErrorKind::BadRequest, "{error}");
    }
}

/// Runs in a process of its own use of the URL: a store that has seen no failover.
async fn left(url: &str) -> u64 {
    let store = open(url, &options("tg"));
    peek(&store, LIMIT, "k").await.unwrap().remaining()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_comes_back_is_not_used_if_it_only_reads_and_by_nobody_who_knows_better() {
    let pair = Pair::start();
    let old_first = url_of(&pair.primary, &pair.standby);
    let store = open(&old_first, &options("tg"));
    assert_eq!(take(&*store, LIMIT, "k").await.unwrap().remaining(), K - 1);
    let has_all = "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication";
    wait_until("the standby to have it all", AGREEMENT_DEADLINE, || {
        pair.primary.sql(has_all) == "t"
    });
    blocking(|| pair.fail_over());
    Load::start(&store, LIMIT, "k").until_spent().await;
    // Back as a second primary: a store that has found the new one stays there, whatever the order in the URL.
    blocking(|| pair.primary.restart());
    pair.standby.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidegate'",
    );
    let again = Load::start(&store, LIMIT, "k").until_spent().await;
    assert_eq!(again.admitted(), 0, "it went back to the old primary");
    // A store that knows of no failover cannot tell two primaries apart: it takes the first of its URL.
    assert_eq!(left(&old_first).await, K - 1);
    // As a standby, which is how it should come back, it is passed over.
    pair.primary.demote();
    blocking(|| pair.primary.restart());
    assert_eq!(left(&old_first).await, 0);
}
