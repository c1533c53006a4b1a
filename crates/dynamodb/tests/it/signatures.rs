//! Who asks: signatures, and rights.

use std::sync::Arc;

use tidegate::{Ran, StoreErrorKind};
use tidegate_dynamodb::{DynamoDbDriver, DynamoDbStore};
use tidegate_testkit::processes::{DynamoDbServer, Imitation};

use crate::scripted::Scripted;
use crate::support::{TABLE, credentials, open, options, take, take_both};

fn open_as(server: &DynamoDbServer, key: &str, secret: &str) -> Arc<DynamoDbStore> {
    let credentials = credentials(key, secret);
    Arc::new(DynamoDbDriver::store_with(&server.url(TABLE), &options(), credentials).unwrap())
}

fn policy(actions: &[&str]) -> String {
    let actions = actions.iter().map(|it| format!(r#""dynamodb:{it}""#)).collect::<Vec<_>>();
    let statement =
        format!(r#"{{"Effect":"Allow","Action":[{}],"Resource":"*"}}"#, actions.join(","));
    format!(r#"{{"Version":"2012-10-17","Statement":[{statement}]}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_verifies_signatures_takes_ours_and_no_wrong_ones() {
    let actions = [
        "BatchGetItem",
        "CreateTable",
        "DescribeTable",
        "PutItem",
        "TransactWriteItems",
        "UpdateTimeToLive",
    ];
    let server = DynamoDbServer::start(Imitation::MotoWithPolicy(policy(&actions)));
    let (key, secret) = server.user();
    let store = open_as(&server, &key, &secret);
    store.backend().create_table().await.unwrap();
    assert!(take(&*store, "10/day", "k").await.unwrap().allowed());
    assert!(take_both(&*store, ["ann", "ben"]).await.unwrap().allowed());
    for (key, secret) in [(key.as_str(), "wrong"), ("AKIANOBODY", secret.as_str())] {
        let error = take(&*open_as(&server, key, secret), "10/day", "k").await.unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Denied, Ran::No), "{error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_a_right_is_denied_and_has_not_run() {
    let actions = ["BatchGetItem", "CreateTable", "DescribeTable", "UpdateTimeToLive"];
    let server = DynamoDbServer::start(Imitation::MotoWithPolicy(policy(&actions)));
    let (key, secret) = server.user();
    let store = open_as(&server, &key, &secret);
    store.backend().create_table().await.unwrap();
    let error = take(&*store, "10/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Denied, Ran::No), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_carry_a_signature_and_no_secret() {
    let server = Scripted::start(|_| (200, "{}".to_owned())).await;
    let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
    take(&*store, "10/day", "k").await.unwrap();
    for request in server.requests.lock().unwrap().iter() {
        let header = request.header("authorization").unwrap();
        assert!(header.starts_with("AWS4-HMAC-SHA256 Credential=AKIATESTS/"), "{header}");
        assert!(header.contains("/us-east-1/dynamodb/aws4_request"), "{header}");
        let (_, signature) = header.split_once("Signature=").unwrap();
        assert!(signature.len() == 64 && signature.bytes().all(|it| it.is_ascii_hexdigit()));
        assert!(request.header("x-amz-date").is_some());
        assert!(!format!("{request:?}").contains("secret"));
    }
    assert_eq!((server.count("BatchGetItem"), server.count("PutItem")), (1, 1));
}
