//! A server that dies, hangs, is not there, or has no table.

use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{Ran, StoreErrorKind};
use tidegate_testkit::processes::{AGREEMENT_DEADLINE, DynamoDbServer, Imitation};

use crate::support::{TABLE, moto, open, open_table, options, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_is_used_again() {
    let server = DynamoDbServer::start(Imitation::Dynalite);
    let store = open_table(&server.url(TABLE), &options()).await;
    for left in [999, 998, 997] {
        assert_eq!(take(&*store, "1000/day", "k").await.unwrap().remaining(), left);
    }
    server.kill();
    let error = take(&*store, "1000/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Unreachable, Ran::No), "{error}");
    server.restart();
    let left = take(&*store, "1000/day", "k").await.unwrap().remaining();
    assert_eq!(left, 996, "dynalite keeps what was written; what failed was not charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_fails_within_the_deadline_and_heals() {
    for imitation in [Imitation::Moto, Imitation::Dynalite] {
        let server = DynamoDbServer::start(imitation);
        let deadline = Duration::from_millis(500);
        let store = open_table(&server.url(TABLE), &StoreOptions { deadline, ..options() }).await;
        let healthy = async || while take(&*store, "10/day", "k").await.is_err() {};
        tokio::time::timeout(AGREEMENT_DEADLINE, healthy()).await.unwrap();
        server.pause();
        // The signal reaches its threads a moment after it was sent.
        let hung = async {
            loop {
                if let Err(error) = take(&*store, "10/day", "k").await {
                    return error;
                }
            }
        };
        let error = tokio::time::timeout(AGREEMENT_DEADLINE, hung).await.unwrap();
        let late = [StoreErrorKind::Timeout, StoreErrorKind::NotSent];
        assert!(late.contains(&error.kind()), "{error}");
        server.resume();
        tokio::time::timeout(AGREEMENT_DEADLINE, healthy()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_has_not_run() {
    let server = DynamoDbServer::start(Imitation::Dynalite);
    let store = open(&server.url(TABLE), &options());
    server.kill();
    let error = take(&*store, "10/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Unreachable, Ran::No), "{error}");
    assert_eq!(store.stats().connects, 0);
    assert!(store.stats().connect_failures > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_missing_says_how_to_make_it() {
    let store = open(&moto().url("nowhere"), &options());
    let error = take(&*store, "10/day", "k").await.unwrap_err();
    assert_eq!(error.ran(), Ran::No);
    let text = error.to_string();
    assert!(text.contains("no table `nowhere`") && text.contains("--create"), "{text}");
}
