//! What is in the table, and what a late removal or a stranger does to it.

use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{Clock, StoreErrorKind, SystemClock};
use tidegate_cas::{Backend, Commit, ItemKey, Update, Written};
use tidegate_dynamodb::DynamoDbStore;
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, TABLE, dynalite, moto, open_table, options, take};

fn due() -> Instant {
    Instant::now() + LONG_TIMEOUT
}

fn commit(key: &str, expected: Option<[u8; 16]>, bytes: Vec<u8>) -> Commit<[u8; 16]> {
    let life = Duration::from_hours(1);
    Commit { updates: vec![Update { key: key.into(), expected, bytes, life }] }
}

async fn version(store: &DynamoDbStore, key: &ItemKey) -> Option<[u8; 16]> {
    let snapshot = store.backend().read(std::slice::from_ref(key), due()).await.unwrap();
    snapshot.items[0].version
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_was_removed_and_written_again_has_another_version() {
    for server in [moto(), dynalite()] {
        let store = open_table(&server.url(TABLE), &options()).await;
        let key: ItemKey = format!("{}-again", server.port()).into();
        let write = async |expected, bytes: &[u8]| {
            let commits = [commit(&key, expected, bytes.to_vec())];
            store.backend().write(&commits, due()).await.unwrap().remove(0)
        };
        assert_eq!(write(None, b"one").await, Written::Done);
        let first = version(&store, &key).await;
        assert_eq!(write(None, b"two").await, Written::Changed, "it is there");
        assert_eq!(write(first, b"").await, Written::Done);
        assert_eq!(version(&store, &key).await, None);
        assert_eq!(write(first, b"two").await, Written::Changed, "it is gone");
        assert_eq!(write(first, b"").await, Written::Changed, "it is gone");
        assert_eq!(write(None, b"one").await, Written::Done);
        assert_ne!(version(&store, &key).await, first);
        assert_eq!(write(first, b"two").await, Written::Changed, "it is another one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_keys_than_one_call_takes_are_read() {
    let store = open_table(&dynalite().url(TABLE), &options()).await;
    let keys: Vec<ItemKey> = (0..230).map(|n| format!("many-{n}").into()).collect();
    let commits: Vec<_> =
        keys.iter().step_by(2).map(|key| commit(key, None, key.as_bytes().to_vec())).collect();
    let written = store.backend().write(&commits, due()).await.unwrap();
    assert!(written.iter().all(|written| *written == Written::Done));
    let snapshot = store.backend().read(&keys, due()).await.unwrap();
    for (n, (key, item)) in keys.iter().zip(snapshot.items).enumerate() {
        let expected: &[u8] = if n % 2 == 0 { key.as_bytes() } else { b"" };
        assert_eq!((item.bytes.as_slice(), item.version.is_some()), (expected, n % 2 == 0), "{n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_the_largest_size_is_written_and_a_larger_one_is_not() {
    // dynalite enforces DynamoDB's limit.
    let store = open_table(&dynalite().url(TABLE), &options()).await;
    let most = store.backend().item_bytes_max();
    let key = |name: &str| format!("{name:-<250}");
    for (bytes, fits) in [(most, true), (most + 1_024, false)] {
        let commits = [commit(&key(&bytes.to_string()), None, vec![7; bytes])];
        let written = store.backend().write(&commits, due()).await.unwrap().remove(0);
        assert_eq!(written == Written::Done, fits, "{bytes} bytes: {written:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_should_be_gone_by_now_is_harmless() {
    // By replayed time it is long expired, and the imitation has removed nothing, as DynamoDB may for days.
    let options = StoreOptions { replays: true, ..options() };
    let store = open_table(&moto().url(TABLE), &options).await;
    let limit: tidegate::Limit = "fixed-window 2/min".parse().unwrap();
    let scope = tidegate::Scope::named("stale", "");
    let limits = [tidegate::KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
    let request = tidegate::StoreRequest {
        mode: tidegate::Mode::All,
        limits: &limits,
        cost: 1,
        op: tidegate::Op::Take,
    };
    let start = SystemClock.now();
    for (after_min, left) in [(0, Some(1)), (0, Some(0)), (0, None), (4_000, Some(1))] {
        let now = start + Duration::from_mins(after_min);
        let decision =
            tidegate::Store::decide(&*store, &request, now).await.unwrap().verdict.decision;
        assert_eq!(decision.allowed().then(|| decision.remaining()), left, "{after_min} min");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_a_stranger_fails_its_own_checks_alone_and_is_not_overwritten() {
    let options = options();
    let store = open_table(&moto().url(TABLE), &options).await;
    // Bytes that are no states, under the key of a check.
    let key: ItemKey = format!("{}:p:api:3:ann", options.key_prefix).into();
    let commits = [commit(&key, None, vec![9; 3])];
    assert_eq!(store.backend().write(&commits, due()).await.unwrap(), [Written::Done]);
    let before = version(&store, &key).await;
    let (ann, ben) = tokio::join!(take(&*store, "10/day", "ann"), take(&*store, "10/day", "ben"));
    assert_eq!(ann.unwrap_err().kind(), StoreErrorKind::WrongType, "is `{key}` its key?");
    assert!(ben.unwrap().allowed());
    assert_eq!(version(&store, &key).await, before);
}
