//! Asks that no store would send, straight to the script in a real Redis.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::time::Duration;

use tidegate::BreakerOptions;
use tidegate_testkit::processes::RedisServer;
use tokio::time::Instant;

use super::*;
use crate::client::Client;
use crate::script_reply::Expects;

/// Each names one limit, as every request has a word for each of its keys.
const BAD: &[&str] = &[
    "take all 1 nonsense",
    "take all 1 gcra",
    "take all 1 gcra,1000000",
    "take all  window,5,1000000",
    "TAKE all 1 window,5,1000000",
    "take 1 1 window,5,1000000",
    "take all 1 nobody,1,1",
    "take all x gcra,1000000,1,1,5,5000000",
    "take all 99999999999999999999 window,5,1000000",
    "take all 1 window,99999999999999999999,1000000",
    "take all 1 leaky,1000000,1,1,5,5000000,5000000",
    "take all -1 window,5,1000000",
    "dance all 1 window,5,1000000",
    "release all 1 permits,2,1000000",
    "release:1 all 1 window,5,1000000",
    "release:99999999999999999999 all 1 permits,2,1000000",
    "renew all 1 permits,2,1000000",
    "renew:1 all 1 window,5,1000000",
    "renew:99999999999999999999 all 1 permits,2,1000000",
    "lease all 1 window,5,1000000",
    "lease:1 all 1 leaky,1000000,1,1,5,5000000,5000000",
    "give all 1 window,5,1000000",
    "give:1:1 all 1 permits,2,1000000",
    "reserve all 1 window,5,1000000",
    "cancel:1 all 1 leaky,1000000,1,1,5,5000000,5000000",
    "each all 0 window,5,1000000",
    "each:1:1:1 all 0 window,5,1000000",
    "each:x all 0 window,5,1000000",
];

fn request(key: &str, text: &str, limits: usize) -> ScriptRequest {
    let one = |n: usize| format!("tg:{{t}}:{key}{n}").into_bytes();
    let expects = Expects::Verdict {
        limits: vec![(1000, false); limits],
        permits: false,
        leases: false,
        held: None,
    };
    ScriptRequest {
        keys: (0..limits).map(one).collect(),
        text: text.to_owned(),
        now: None,
        work: 1,
        charges: true,
        script: ScriptKind::Check,
        expects,
    }
}

#[test]
fn a_text_is_sent_once_and_every_request_of_a_full_batch_names_its_own() {
    let (texts, order) = distinct(["a", "b", "a", "c", "b"].into_iter());
    assert_eq!((texts, order), (vec!["a", "b", "c"], b"12132".to_vec()));
    let all: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let (texts, order) = distinct(all.iter().map(String::as_str));
    assert_eq!(texts, all);
    assert_eq!(order, (b'1'..b'1' + 64).collect::<Vec<_>>());
}

#[tokio::test]
// A bad ask must not stop the others of its call, nor move them to other keys.
async fn a_bad_ask_is_its_askers_error_and_leaves_its_neighbours_alone() {
    let server = RedisServer::start();
    let client = Client::start(
        &server.url(),
        Duration::from_secs(20),
        Some(BreakerOptions { failures: 1, slow: Duration::from_secs(20), ..Default::default() }),
    )
    .unwrap();
    for bad in BAD {
        for limits in 1..=2 {
            let again = bad.rsplit_once(' ').map_or("", |(_, limit)| limit);
            let bad = if limits == 2 { format!("{bad} {again}") } else { (*bad).to_owned() };
            // Sent before any is awaited, and so in one call behind the first.
            let (key, due) = ("k", Instant::now() + Duration::from_secs(20));
            let good = || request(key, "take all 1 window,1000,100000000000", 1);
            let send = |request| client.submit(request, due, None).unwrap();
            let first = send(good());
            let answers = [good(), request("bad", &bad, limits), good()].map(send);
            let [before, refused, after] = answers;
            let left = async |answer: ScriptResultFuture| match answer.await.unwrap() {
                ScriptReply::Decided(reply) => reply.verdict.decision.remaining(),
                other => panic!("{other:?}"),
            };
            let first = left(Box::pin(first)).await;
            assert_eq!(left(Box::pin(before)).await, first - 1, "{bad}");
            let error = refused.await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::BadRequest, "{bad}: {error}");
            assert_eq!(left(Box::pin(after)).await, first - 2, "{bad}");
        }
    }
    assert!(client.breakers().iter().all(|breaker| breaker.opened_total == 0));
    assert_eq!(server.cli(&["KEYS", "*bad*"]).trim(), "");
}

type ScriptResultFuture =
    std::pin::Pin<Box<dyn Future<Output = Result<ScriptReply, StoreError>> + Send>>;

/// As in texts of Redis 5 to 6.2, which begin with the place of the call.
#[test]
fn what_stops_every_write_is_known_in_every_version_of_redis() {
    let server = RedisServer::start();
    let from = SOURCE.find("local function reason").unwrap();
    let length = SOURCE[from..].find("\nend\n").unwrap() + "\nend\n".len();
    let reason = &SOURCE[from..from + length];
    let call =
        format!("{reason}local why, stops = reason(ARGV[1])\nreturn why .. (stops and '!' or '')");
    for (text, said) in [
        ("OOM command not allowed", "OOM command not allowed!"),
        ("@user_script: 12: -OOM command not allowed", "OOM command not allowed!"),
        ("=[C]: -1: -OOM command not allowed", "OOM command not allowed!"),
        ("@user_script: 12: -READONLY You can't", "READONLY You can't!"),
        ("@user_script: 12: -MISCONF Redis is", "MISCONF Redis is!"),
        ("@user_script: 12: -NOREPLICAS Not enough", "NOREPLICAS Not enough!"),
        ("user_script:12: attempt to index", "user_script:12: attempt to index"),
        ("WRONGTYPE tidegate: the key", "WRONGTYPE tidegate: the key"),
        ("ERR tidegate: malformed ask", "ERR tidegate: malformed ask"),
    ] {
        assert_eq!(server.cli(&["EVAL", &call, "0", text]), said, "{text}");
    }
}
