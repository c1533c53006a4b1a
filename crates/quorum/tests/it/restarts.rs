//! A server that restarts empty stays out until what it knew no longer matters.

use tidegate::StoreErrorKind;
use tidegate::store_kit::written_life_max;
use tidegate_core::Limit;
use tidegate_testkit::processes::{DEADLINE, RedisServer, wait_until};

use crate::support::{Trio, options, take, until_ok, within};

/// Matters for two seconds, a lease and a margin: 13 seconds.
const SHORT: &str = "fixed-window 1000/2s";
const MONTH: &str = "quota 2/month";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_empty_counts_again_when_the_policys_longest_window_has_passed() {
    let servers = Trio::start();
    let store = servers.store(&within(DEADLINE / 10));
    until_ok(async || take(&*store, SHORT, "k").await).await;
    // The month's quota is spent where the other two know of it.
    assert!(take(&*store, MONTH, "m").await.unwrap().allowed());
    assert!(take(&*store, MONTH, "m").await.unwrap().allowed());
    servers.0[2].restart();
    until_ok(async || take(&*store, SHORT, "k").await).await;
    let error = until_out(&servers, async || take(&*store, SHORT, "k").await.err()).await;
    assert!(error.contains("has lost its data, and counts for this limit again from 2"), "{error}");
    // Without one of the others there is no majority, until the short window has passed; for the month there is none then
    // either.
    let served = until_ok(async || take(&*store, SHORT, "k").await).await;
    assert!(served.allowed());
    let error = take(&*store, MONTH, "m").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Recovering, "{error}");
    assert!(error.to_string().contains(&servers.0[2].address()), "{error}");
    // What a majority has confirmed is not forgotten.
    servers.0[0].resume();
    let refused = until_ok(async || take(&*store, MONTH, "m").await).await;
    assert!(!refused.allowed());
}

/// Hangs the first server, and waits for the error that says that the third is out.
async fn until_out(
    servers: &Trio,
    mut error: impl AsyncFnMut() -> Option<tidegate::StoreError>,
) -> String {
    servers.0[0].pause();
    let out = async {
        loop {
            match error().await {
                Some(error) if error.kind() == StoreErrorKind::Recovering => {
                    let text = error.to_string();
                    if text.contains("has lost its data") {
                        return text;
                    }
                }
                _ => {}
            }
        }
    };
    tokio::time::timeout(2 * DEADLINE, out).await.expect("it is never said that it is out")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_set_is_formed_by_one_of_many_that_start_together() {
    let servers = Trio::start();
    let stores = [(); 6].map(|()| servers.store(&options()));
    let checks = stores.map(|store| {
        tokio::spawn(async move { take(&*store, MONTH, "m").await.unwrap().allowed() })
    });
    let mut admitted = 0;
    for check in checks {
        admitted += u32::from(check.await.unwrap());
    }
    assert_eq!(admitted, 2);
    for server in &servers.0 {
        let marker = server.cli(&["GET", "tg:q:since"]);
        assert!(marker.contains("n:"), "{marker}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_first_start_a_set_waits_for_a_server_that_comes_a_little_later() {
    let servers = Trio::start();
    servers.0[1].kill();
    let store = servers.store(&within(DEADLINE / 20));
    let error = take(&*store, MONTH, "m").await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Recovering, "{error}");
    assert!(error.to_string().contains("the set is not complete yet"), "{error}");
    servers.0[1].restart();
    // It is seen a moment later. If that took more than ten seconds, the others are out for a month: then the test says
    // nothing.
    let complete = async {
        loop {
            let answer = take(&*store, MONTH, "m").await;
            let waits =
                |error: &tidegate::StoreError| error.to_string().contains("not complete yet");
            if !answer.as_ref().is_err_and(waits) {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(2 * DEADLINE, complete).await.expect("it stays incomplete");
    let is_member = |server: &RedisServer| server.cli(&["GET", "tg:q:since"]).contains("n:");
    if answer.is_err() {
        assert!(servers.0.iter().any(|server| !is_member(server)), "{answer:?}");
        return;
    }
    wait_until("all are members", DEADLINE, || servers.0.iter().all(is_member));
}

/// The table of the page is what the code does.
#[test]
fn the_page_says_how_long_a_server_that_has_lost_its_data_is_out() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quorum.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| !line.contains("| out for |")).skip(2);
    let mut seen = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let limit: Limit = cells[1].trim_matches('`').parse().unwrap();
        let out = cells[2].split(';').next().unwrap();
        assert_eq!(duration(written_life_max(limit.state_life_max()).as_secs()), out, "{row}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

fn duration(seconds: u64) -> String {
    match seconds {
        ..86_400 if seconds < 3_600 => format!("{seconds} s"),
        ..172_800 => format!("{} h {} s", seconds / 3_600, seconds % 3_600),
        _ => format!("{} days {} s", seconds / 86_400, seconds % 86_400),
    }
}
