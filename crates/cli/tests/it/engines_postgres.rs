//! The server over PostgreSQL while it fails: answers come by policy and in time, and counting goes on by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::processes::{AGREEMENT_DEADLINE, DEADLINE, PostgresServer, SmallDisk, wait_until};
use crate::support::{Folder, Server};

/// Short beside what fails in these tests, long enough for a busy machine.
const STORE_DEADLINE: &str = "300ms";

/// How late an answer may come: far above the deadline, and far below what a server without one would wait.
const LATE: Duration = Duration::from_secs(5);

const K: u64 = 500;
const POLICIES: &str = "policies:\n  \
    pay: { limit: 500/3650day, on_store_error: deny }\n  api: { limit: 500/3650day }\n";

fn serve(folder: &Folder, url: &str) -> Server {
    let store = format!("store: {{ url: \"{url}\", deadline: {STORE_DEADLINE} }}\n");
    let server = Server::with_config(folder, &(store + POLICIES));
    wait_until("the server counts in its store", DEADLINE, || source(&server, "api") == "store");
    server
}

/// Where a peek was answered.
fn source(server: &Server, policy: &str) -> String {
    let question = format!(r#"{{"policy":"{policy}","key":"probe","cost":0}}"#);
    let reply = server.post("/v1/check", &question).json();
    reply["source"].as_str().unwrap_or_default().to_owned()
}

#[derive(Default, Debug)]
struct Outcomes {
    admitted: AtomicU64,
    refused: AtomicU64,
    by_policy: AtomicU64,
    late: AtomicU64,
}

/// Four clients ask for one key until it is over; `fault` happens meanwhile. Then everything is spent.
fn under_load(server: &Server, fault: impl FnOnce(&Outcomes)) -> Outcomes {
    let (outcomes, is_over) = (Outcomes::default(), AtomicBool::new(false));
    let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::SeqCst);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    #[allow(clippy::disallowed_methods, reason = "how long an answer takes")]
                    let start = std::time::Instant::now();
                    let reply = server.post("/v1/check", r#"{"policy":"pay","key":"k"}"#);
                    if start.elapsed() > LATE {
                        add(&outcomes.late);
                    }
                    match reply.status {
                        503 => add(&outcomes.by_policy),
                        _ if reply.json()["allowed"] == true => add(&outcomes.admitted),
                        _ => add(&outcomes.refused),
                    };
                }
            });
        }
        fault(&outcomes);
        wait_until("everything to be spent", AGREEMENT_DEADLINE, || {
            outcomes.refused.load(Ordering::SeqCst) > 20
        });
        is_over.store(true, Ordering::SeqCst);
    });
    outcomes
}

fn until(counter: &AtomicU64, count: u64) {
    wait_until("more answers", AGREEMENT_DEADLINE, || counter.load(Ordering::SeqCst) >= count);
}

/// At most the limit; something was answered by policy, and nothing late.
fn is_in_order(outcomes: &Outcomes) {
    let of = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    assert!(of(&outcomes.admitted) <= K, "{outcomes:?}");
    assert!(of(&outcomes.by_policy) > 0, "the fault hit nobody: {outcomes:?}");
    assert_eq!(of(&outcomes.late), 0, "{outcomes:?}");
}

#[test]
fn a_failover_to_a_synchronous_standby_is_answered_by_policy_and_heals() {
    let primary = PostgresServer::start();
    let standby = PostgresServer::builder().replica_of(&primary).start();
    primary.set("synchronous_standby_names", "*");
    let sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    wait_until("the standby to be synchronous", AGREEMENT_DEADLINE, || primary.sql(sync) == "1");
    let folder = Folder::new();
    let url = format!("postgres://tidegate@{},{}/postgres", primary.address(), standby.address());
    let server = serve(&folder, &url);
    let outcomes = under_load(&server, |outcomes| {
        until(&outcomes.admitted, 50);
        primary.kill();
        until(&outcomes.by_policy, 10);
        standby.promote();
    });
    is_in_order(&outcomes);
    wait_until("the server counts in its store", DEADLINE, || source(&server, "api") == "store");
}

#[test]
fn a_lock_that_is_held_for_ten_seconds_delays_no_answer() {
    let (postgres, folder) = (PostgresServer::start(), Folder::new());
    let server = serve(&folder, &postgres.url());
    let lock = "BEGIN; LOCK TABLE tidegate.items IN EXCLUSIVE MODE; SELECT pg_sleep(10)";
    let outcomes = under_load(&server, |outcomes| {
        until(&outcomes.admitted, 50);
        let mut stranger = postgres.psql(lock).spawn().unwrap();
        assert!(stranger.wait().unwrap().success());
        until(&outcomes.by_policy, 1);
    });
    is_in_order(&outcomes);
    wait_until("the server counts in its store", DEADLINE, || source(&server, "api") == "store");
    let open = "SELECT count(*) FROM pg_stat_activity \
        WHERE application_name = 'tidegate' AND state LIKE 'idle in transaction%'";
    wait_until("no transaction to be open", DEADLINE, || postgres.sql(open) == "0");
}

#[test]
fn a_full_disk_is_answered_by_policy_and_heals_when_it_has_room() {
    let (disk, folder) = (SmallDisk::mount(96), Folder::new());
    let postgres = PostgresServer::builder()
        .data_in(disk.path().join("data"))
        .setting("max_wal_size=32MB")
        .setting("min_wal_size=32MB")
        .start();
    let server = serve(&folder, &postgres.url());
    let outcomes = under_load(&server, |outcomes| {
        until(&outcomes.admitted, 50);
        disk.fill();
        // The rest of the log's file is used up at once.
        let _ = postgres.try_sql("SELECT pg_switch_wal()");
        let _ = postgres.try_sql("SELECT pg_switch_wal()");
        until(&outcomes.by_policy, 10);
        disk.free();
        postgres.restart();
    });
    is_in_order(&outcomes);
    wait_until("the server counts in its store", DEADLINE, || source(&server, "api") == "store");
}
