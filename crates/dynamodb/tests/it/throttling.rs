//! Throttling is backpressure: no imitation does it, so these answers are scripted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::driver::OpenStore;
use tidegate::{BreakerOptions, BreakerState, Ran, StoreErrorKind};
use tidegate_testkit::processes::DynamoDbServer;

use crate::scripted::{Scripted, error};
use crate::support::{TABLE, open, options, take, take_both};

const EMPTY: &str = r#"{"Responses":{},"UnprocessedKeys":{}}"#;

const THROTTLED: [&str; 3] =
    ["ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throttled_calls_have_not_run_are_counted_and_open_no_breaker() {
    for (operation, code) in
        ["BatchGetItem", "PutItem"].into_iter().flat_map(|it| THROTTLED.map(|code| (it, code)))
    {
        let server = Scripted::start(move |request| {
            if request.operation == operation { error(code) } else { (200, EMPTY.to_owned()) }
        })
        .await;
        let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
        let behind =
            OpenStore::with_breaker("dynamodb", store.clone(), Some(BreakerOptions::default()));
        for n in 1..=10 {
            let refused = take(&*behind.store, "10/day", "k").await.unwrap_err();
            let expected = (StoreErrorKind::Overloaded, Ran::No);
            assert_eq!((refused.kind(), refused.ran()), expected, "{operation}: {refused}");
            assert_eq!(server.count(operation), n, "no retry of its own");
        }
        assert_eq!(store.stats().overloaded, 10);
        assert_eq!(behind.report().breaker, Some((BreakerState::Closed, 0)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_errors_do_open_the_breaker() {
    let server = Scripted::start(|_| error("ValidationException")).await;
    let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
    let behind =
        OpenStore::with_breaker("dynamodb", store.clone(), Some(BreakerOptions::default()));
    for _ in 0..10 {
        take(&*behind.store, "10/day", "k").await.unwrap_err();
    }
    assert_ne!(behind.report().breaker, Some((BreakerState::Closed, 0)), "the control fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_were_left_out_are_read_again_and_not_for_ever() {
    for (left_out, allowed) in [(3, true), (u32::MAX, false)] {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let server = Scripted::start(move |request| {
            let left = count.fetch_add(1, Ordering::SeqCst) < left_out;
            match request.operation.as_str() {
                "BatchGetItem" if left => {
                    // What was asked for, as what was left out.
                    let keys = request.body.split_once(':').unwrap().1.trim_end_matches('}');
                    (200, format!(r#"{{"Responses":{{}},"UnprocessedKeys":{keys}}}}}}}"#))
                }
                "BatchGetItem" => (200, EMPTY.to_owned()),
                _ => (200, "{}".to_owned()),
            }
        })
        .await;
        let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
        match take(&*store, "10/day", "k").await {
            Ok(decision) => assert!(allowed && decision.allowed()),
            Err(error) => {
                assert!(!allowed && error.kind() == StoreErrorKind::Overloaded, "{error}");
            }
        }
        let reads = server.count("BatchGetItem");
        assert_eq!(reads, if allowed { 4 } else { 6 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_transaction_is_decided_again_or_says_why() {
    let cancelled = |codes: [&str; 2]| {
        let reasons = codes.map(|code| format!(r#"{{"Code":"{code}","Message":"m"}}"#)).join(",");
        let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
        (400, format!(r#"{{"__type":"{kind}","CancellationReasons":[{reasons}]}}"#))
    };
    for (codes, expected) in [
        (["ConditionalCheckFailed", "None"], None),
        (["None", "TransactionConflict"], None),
        (["ConditionalCheckFailed", "ThrottlingError"], Some(StoreErrorKind::Overloaded)),
        (["ProvisionedThroughputExceeded", "None"], Some(StoreErrorKind::Overloaded)),
        (["None", "ValidationError"], Some(StoreErrorKind::Other)),
    ] {
        let asked = AtomicU32::new(0);
        let server = Scripted::start(move |request| match request.operation.as_str() {
            "TransactWriteItems" if asked.fetch_add(1, Ordering::SeqCst) == 0 => cancelled(codes),
            "TransactWriteItems" => (200, "{}".to_owned()),
            _ => (200, EMPTY.to_owned()),
        })
        .await;
        let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
        let outcome = take_both(&*store, ["ann", "ben"]).await;
        assert_eq!(outcome.as_ref().err().map(tidegate::StoreError::kind), expected, "{codes:?}");
        assert_eq!(store.stats().conflicts, u64::from(expected.is_none()), "{codes:?}");
    }
}

/// A failure inside DynamoDB may have happened: it is sent once more with the same token, and then unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_inside_dynamodb_is_unknown_and_sent_again_once_with_the_same_token() {
    let server = Scripted::start(|request| match request.operation.as_str() {
        "TransactWriteItems" => (500, error("InternalServerError").1),
        _ => (200, EMPTY.to_owned()),
    })
    .await;
    let store = open(&DynamoDbServer::url_at(TABLE, &server.address), &options());
    let failed = take_both(&*store, ["ann", "ben"]).await.unwrap_err();
    assert_eq!(failed.ran(), Ran::Unknown, "{failed}");
    let requests = server.requests.lock().unwrap();
    let sent = requests.iter().filter(|request| request.operation == "TransactWriteItems");
    let tokens: Vec<_> = sent
        .map(|request| {
            let (_, rest) = request.body.split_once(r#""ClientRequestToken":""#).unwrap();
            rest.split('"').next().unwrap().to_owned()
        })
        .collect();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1] && tokens[0].len() == 32, "{tokens:?}");
}
