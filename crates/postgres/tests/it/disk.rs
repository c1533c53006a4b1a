//! A disk that is full: of rows, and of the log.

use tidegate::{Ran, StoreError, StoreErrorKind};
use tidegate_postgres::PostgresStore;
use tidegate_testkit::processes::{PostgresServer, SmallDisk};

use crate::support::{blocking, open, options, peek, take};

const LIMIT: &str = "100/3650day";

/// Takes one unit each of many keys, until one fails. Answers the keys that were admitted, and the failure.
async fn until_full(store: &PostgresStore, prefix: &str) -> (Vec<String>, StoreError) {
    let mut admitted = Vec::new();
    loop {
        let key = format!("{prefix}-{}", admitted.len());
        match take(store, LIMIT, &key).await {
            Ok(decision) => assert!(decision.allowed()),
            Err(error) => return (admitted, error),
        }
        admitted.push(key);
    }
}

/// Each key has lost what was admitted, and nothing else.
async fn each_was_charged_once(store: &PostgresStore, keys: &[String]) {
    for key in keys {
        assert_eq!(peek(store, LIMIT, key).await.unwrap().remaining(), 99, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_rows_writes_nothing_by_half_and_heals_when_it_has_room() {
    let disk = SmallDisk::mount(32);
    let server = PostgresServer::start();
    let place = disk.path().join("rows");
    server.own(&place);
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", place.display()));
    server.set("default_tablespace", "small");
    let store = open(&server.url(), &options("tg"));
    assert!(take(&*store, LIMIT, "first").await.unwrap().allowed());
    disk.fill();
    let (admitted, error) = until_full(&store, "key").await;
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::OutOfMemory, Ran::No), "{error}");
    assert!(error.to_string().contains("No space left"), "{error}");
    // A key that has a row is served all the while: its page has room.
    assert!(take(&*store, LIMIT, "first").await.unwrap().allowed());
    let refused = format!("key-{}", admitted.len());
    disk.free();
    each_was_charged_once(&store, &admitted).await;
    assert_eq!(take(&*store, LIMIT, &refused).await.unwrap().remaining(), 99);
    assert_eq!(peek(&store, LIMIT, "first").await.unwrap().remaining(), 98);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_without_room_stops_the_server_and_loses_nothing() {
    let disk = SmallDisk::mount(96);
    let server = PostgresServer::builder()
        .data_in(disk.path().join("data"))
        .setting("max_wal_size=32MB")
        .setting("min_wal_size=32MB")
        .start();
    let store = open(&server.url(), &options("tg"));
    assert!(take(&*store, LIMIT, "first").await.unwrap().allowed());
    disk.fill();
    // The rest of the log's file is used up at once.
    let _ = server.try_sql("SELECT pg_switch_wal()");
    let _ = server.try_sql("SELECT pg_switch_wal()");
    let (admitted, error) = until_full(&store, "key").await;
    assert_ne!(error.kind(), StoreErrorKind::BadRequest, "{error}");
    disk.free();
    blocking(|| server.restart());
    each_was_charged_once(&store, &admitted).await;
    assert_eq!(peek(&store, LIMIT, "first").await.unwrap().remaining(), 99);
}
