//! Servers that die, hang, are full of other things, or are too few.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::driver::{Severity, StoreDriver};
use tidegate::{Op, Ran, Store, StoreErrorKind};
use tidegate_quorum::QuorumDriver;
use tidegate_testkit::processes::{DEADLINE, RedisServer};
use tokio::time::Instant;

use crate::support::{Trio, ask, options, spent, take, until_ok, within};

const LIMIT: &str = "fixed-window 1000000/3650day";

/// What a load has seen.
#[derive(Default)]
struct Seen {
    admitted: AtomicU64,
    failures: Mutex<Vec<String>>,
    /// Checks whose outcome is not known.
    unknown: AtomicU64,
}

/// Two nodes that check one key all the time, while `fault` is done to a server.
async fn under_load(servers: &Trio, fault: impl AsyncFnOnce(&RedisServer, &Seen)) -> Arc<Seen> {
    let (seen, ends) = (Arc::<Seen>::default(), Arc::<AtomicBool>::default());
    // Long enough for a busy machine: what fails here is a failure of the quorum.
    let nodes = [(); 2].map(|()| servers.store(&within(DEADLINE / 2)));
    for node in &nodes {
        until_ok(async || ask(&**node, LIMIT, "k", Op::Peek).await).await;
    }
    let load = |store: Arc<dyn Store>| {
        let (seen, ends) = (seen.clone(), ends.clone());
        tokio::spawn(async move {
            while !ends.load(Ordering::SeqCst) {
                let begins = Instant::now();
                match take(&*store, LIMIT, "k").await {
                    Ok(decision) => {
                        assert!(decision.allowed());
                        seen.admitted.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => {
                        assert!(begins.elapsed() < DEADLINE, "{error}");
                        if error.ran() == Ran::Unknown {
                            seen.unknown.fetch_add(1, Ordering::SeqCst);
                        } else {
                            seen.failures.lock().unwrap().push(error.to_string());
                        }
                    }
                }
            }
        })
    };
    let loads: Vec<_> = nodes.iter().flat_map(|node| [0; 2].map(|_| load(node.clone()))).collect();
    more(&seen, 20).await;
    fault(&servers.0[1], &seen).await;
    ends.store(true, Ordering::SeqCst);
    for load in loads {
        load.await.unwrap();
    }
    seen
}

/// Waits until so many more were admitted.
async fn more(seen: &Seen, count: u64) {
    let from = seen.admitted.load(Ordering::SeqCst);
    let wait = async {
        while seen.admitted.load(Ordering::SeqCst) < from + count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(3 * DEADLINE, wait).await.expect("the load stands still");
}

/// No check fails. Each of the four may have been in a write at the fault, and on a busy machine so many others may follow it
/// that nothing says any more what has become of it.
fn is_served(seen: &Seen) {
    assert_eq!(*seen.failures.lock().unwrap(), [""; 0]);
    let unknown = seen.unknown.load(Ordering::SeqCst);
    assert!(unknown <= 4, "{unknown}");
}

/// What was admitted is charged once, and what is not known at most once.
async fn is_exact(servers: &Trio, seen: &Seen) {
    let charged = spent(&*servers.store(&options()), LIMIT, "k").await;
    let admitted = seen.admitted.load(Ordering::SeqCst);
    let unknown = seen.unknown.load(Ordering::SeqCst);
    assert!(
        (admitted..=admitted + unknown).contains(&charged),
        "{admitted} + {unknown}: {charged}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_costs_no_answer_and_no_charge() {
    let servers = Trio::start();
    let seen = under_load(&servers, async |server, seen| {
        server.kill();
        more(seen, 50).await;
    })
    .await;
    is_served(&seen);
    is_exact(&servers, &seen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_delays_nobody_for_long_and_comes_back() {
    let servers = Trio::start();
    let seen = under_load(&servers, async |server, seen| {
        server.pause();
        more(seen, 50).await;
        server.resume();
        more(seen, 50).await;
    })
    .await;
    is_served(&seen);
    is_exact(&servers, &seen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_checks_fail_within_the_deadline_and_heal() {
    let servers = Trio::start();
    let store = servers.store(&within(Duration::from_secs(2)));
    until_ok(async || take(&*store, LIMIT, "k").await).await;
    servers.0[0].pause();
    servers.0[1].pause();
    // The signal reaches a process a moment after it was sent.
    let hung = async {
        loop {
            if let Err(error) = take(&*store, LIMIT, "k").await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, hung).await.unwrap();
    assert!(!error.to_string().is_empty());
    servers.0[0].resume();
    until_ok(async || take(&*store, LIMIT, "k").await).await;
    servers.0[1].resume();
    servers.0[0].kill();
    servers.0[2].kill();
    let error = async {
        loop {
            match take(&*store, LIMIT, "k").await {
                Err(error) if error.kind() == StoreErrorKind::Unreachable => return error,
                _ => {}
            }
        }
    };
    let error = tokio::time::timeout(DEADLINE, error).await.unwrap();
    assert!(error.to_string().contains("no majority of 3 servers"), "{error}");
    assert_eq!(error.ran(), Ran::No);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_holds_other_things_is_a_clear_error_and_affects_no_other() {
    let servers = Trio::start();
    let store = servers.store(&options());
    take(&*store, LIMIT, "good").await.unwrap();
    let key = "tg:p:api:3:bad";
    // If keys are spelt another way, the test would say nothing.
    assert!(servers.0[0].cli(&["KEYS", "tg:p:api:*"]).contains("tg:p:api:4:good"));
    for server in &servers.0 {
        server.command(&["SET", key, "hello"]);
    }
    let of_other_type = take(&*store, LIMIT, "bad").await.unwrap_err();
    for server in &servers.0 {
        server.command(&["DEL", key]);
        server.command(&["HSET", key, "p", &"0".repeat(40), "a", "9", "v", "garbage"]);
    }
    let of_other_bytes = take(&*store, LIMIT, "bad").await.unwrap_err();
    for server in &servers.0 {
        server.command(&["DEL", key]);
        server.command(&["HSET", key, "p", &"9".repeat(40)]);
    }
    let of_other_ballots = take(&*store, LIMIT, "bad").await.unwrap_err();
    for error in [of_other_type, of_other_bytes, of_other_ballots] {
        assert_eq!(error.kind(), StoreErrorKind::WrongType, "{error}");
    }
    assert_eq!(spent(&*store, LIMIT, "good").await, 1);
    // One server of three with garbage is outvoted.
    for server in &servers.0[1..] {
        server.command(&["DEL", key]);
    }
    take(&*store, LIMIT, "bad").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_has_a_life_and_scripts_that_were_flushed_come_back() {
    let servers = Trio::start();
    let store = servers.store(&options());
    for key in 0..5 {
        take(&*store, "10/min", &format!("k{key}")).await.unwrap();
        for server in &servers.0 {
            server.command(&["SCRIPT", "FLUSH"]);
        }
    }
    let mut lives = 0;
    for server in &servers.0 {
        for key in server.cli(&["KEYS", "tg:p:*"]).lines() {
            let life_ms: i64 = server.cli(&["PTTL", key]).parse().unwrap();
            assert!((1..=61 * 1000).contains(&life_ms), "{key}: {life_ms} ms");
            lives += 1;
        }
    }
    assert!(lives >= 10, "{lives}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_looks_at_each_server() {
    let servers = Trio::start();
    let store = servers.store(&options());
    take(&*store, LIMIT, "k").await.unwrap();
    let examine = async || QuorumDriver.examine(&servers.url(), &options(), 1).await.unwrap();
    let findings = examine().await;
    let faults = |findings: &[tidegate::driver::Finding]| {
        findings.iter().filter(|it| it.severity == Severity::Fault).count()
    };
    assert_eq!(faults(&findings), 0, "{findings:?}");
    assert_eq!(findings.iter().filter(|it| it.seen == "it counts").count(), 3, "{findings:?}");
    assert!(findings.iter().any(|it| it.seen.contains("AOF is off")));
    servers.0[0].kill();
    let findings = examine().await;
    assert_eq!(faults(&findings), 1, "{findings:?}");
    assert!(findings.iter().any(|it| it.seen == "2 of 3 servers answer"), "{findings:?}");
}
