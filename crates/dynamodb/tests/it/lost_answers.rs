//! A write whose answer is lost: it is sent once more, and never charged twice.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::{Ran, StoreError, StoreErrorKind};
use tidegate_cas::{Backend, Commit, ItemKey, Update, Written};
use tidegate_dynamodb::DynamoDbStore;
use tidegate_testkit::processes::{DynamoDbServer, FaultProxy, Faults, Way};
use tokio::time::{Instant, sleep};

use crate::scripted::{NO_ANSWER, Scripted};
use crate::support::{LONG_TIMEOUT, TABLE, dynalite, moto, open, open_table, options, take};

type Version = Option<[u8; 16]>;

fn due() -> Instant {
    Instant::now() + LONG_TIMEOUT
}

fn commit(keys: &[ItemKey], expected: Version) -> Commit<[u8; 16]> {
    let (bytes, life) = (b"state".to_vec(), Duration::from_hours(1));
    let update = |key: &ItemKey| Update { key: key.clone(), expected, bytes: bytes.clone(), life };
    Commit { updates: keys.iter().map(update).collect() }
}

async fn version(store: &DynamoDbStore, key: &ItemKey) -> Version {
    let snapshot = store.backend().read(std::slice::from_ref(key), due()).await.unwrap();
    snapshot.items[0].version
}

/// Writes new items through a proxy that loses the answer, runs `between` once they are written, and says what the writer
/// learns when its connection is reset.
async fn write_and_lose_the_answer(
    server: &DynamoDbServer,
    keys: &[ItemKey],
    between: impl AsyncFnOnce(&DynamoDbStore),
) -> (Written, u64) {
    let direct = open_table(&server.url(TABLE), &options()).await;
    let proxy = FaultProxy::start(server.port());
    let store = open(&DynamoDbServer::url_at(TABLE, &proxy.address()), &options());
    assert_eq!(version(&store, &keys[0]).await, None);
    proxy.set(Faults::to_client(Way::blackhole()));
    let writer = store.clone();
    let commits = [commit(keys, None)];
    let writes = tokio::spawn(async move { writer.backend().write(&commits, due()).await });
    let written = async {
        while version(&direct, &keys[0]).await.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, written).await.expect("the write to happen");
    between(&direct).await;
    // The second one goes over a new connection, whose answer comes after the healing.
    let accepted = proxy.accepted();
    proxy.reset_connections();
    let again = async {
        while proxy.accepted() == accepted && !writes.is_finished() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, again).await.expect("a second connection");
    proxy.heal();
    let written = writes.await.unwrap().unwrap().remove(0);
    (written, store.stats().retries)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_happened_is_recognised_by_its_version() {
    let keys = ["lost-put".into()];
    let (written, retries) = write_and_lose_the_answer(moto(), &keys, async |_| {}).await;
    assert_eq!((written, retries), (Written::Done, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_happened_is_recognised() {
    let keys = ["lost-transaction-a".into(), "lost-transaction-b".into()];
    let (written, retries) = write_and_lose_the_answer(moto(), &keys, async |_| {}).await;
    assert_eq!((written, retries), (Written::Done, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_somebody_wrote_over_is_unknown_and_not_decided_again() {
    let keys: [ItemKey; 1] = ["lost-and-overwritten".into()];
    let overwrite = async |direct: &DynamoDbStore| {
        let commits = [commit(&keys, version(direct, &keys[0]).await)];
        assert_eq!(direct.backend().write(&commits, due()).await.unwrap(), [Written::Done]);
    };
    let (written, retries) = write_and_lose_the_answer(moto(), &keys, overwrite).await;
    let Written::Failed(error) = written else { panic!("{written:?}") };
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Disconnected, Ran::Unknown));
    assert_eq!(retries, 1);
}

/// dynalite does not say what an item was when a condition fails, as DynamoDB before 2023.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_old_item_is_not_told_a_lost_answer_stays_unknown() {
    let keys = ["lost-on-dynalite".into()];
    let (written, retries) = write_and_lose_the_answer(dynalite(), &keys, async |_| {}).await;
    let Written::Failed(error) = written else { panic!("{written:?}") };
    assert_eq!((error.ran(), retries), (Ran::Unknown, 1));
}

/// Answers an empty table, and loses the answers to this operation so many times.
async fn losing(operation: &'static str, times: u32) -> Scripted {
    let lost = AtomicU32::new(0);
    Scripted::start(move |request| {
        if request.operation == operation && lost.fetch_add(1, Ordering::SeqCst) < times {
            return NO_ANSWER;
        }
        (200, "{}".to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_whose_answer_is_lost_is_sent_again_once() {
    for (times, expected) in [(1, None), (9, Some(Ran::No))] {
        let server = losing("BatchGetItem", times).await;
        let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
        let outcome = take(&*store, "10/day", "k").await;
        assert_eq!(outcome.as_ref().err().map(StoreError::ran), expected, "{outcome:?}");
        assert_eq!((server.count("BatchGetItem"), store.stats().retries), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answers_are_all_lost_is_unknown() {
    let server = losing("PutItem", 9).await;
    let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
    let error = take(&*store, "10/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Disconnected, Ran::Unknown));
    assert_eq!(server.count("PutItem"), 2, "once more, and not again");
}
