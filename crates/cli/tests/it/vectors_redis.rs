//! `tidegate vectors` with a real Redis: the same answers as in memory, and parallel runs do not affect each other.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::processes::RedisServer;
use crate::vectors::{golden, replay};

#[test]
fn redis_passes_every_golden_case() {
    let redis = RedisServer::builder().password("hunter2").start();
    let output = replay(&golden(), &["--store", &redis.url()]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let in_memory = replay(&golden(), &[]);
    assert!(output.stdout.lines().count() > 9_000 && output.stdout == in_memory.stdout);
    // Only queue reservations are left, and they expire.
    let keys = redis.command(&["KEYS", "*"]).text();
    for key in keys.lines() {
        assert!(key.starts_with("tg-vectors-") && key.ends_with(":a"), "{key}");
        assert_ne!(redis.command(&["PTTL", key]).text(), "-1", "{key}");
    }
}

#[test]
fn runs_do_not_disturb_each_other() {
    let redis = RedisServer::start();
    let files = [golden(), golden()].concat();
    for _ in 0..2 {
        let output = replay(&files, &["--store", &redis.unix_url()]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_difference_in_redis_exits_with_1() {
    let redis = RedisServer::start();
    let text = std::fs::read(&golden()[0]).unwrap();
    let mut cases: Value = serde_json::from_slice(&text).unwrap();
    cases[1]["expect"][3]["decision"]["remaining"] = json!(4711);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vectors-redis-doctored.json");
    std::fs::write(&path, cases.to_string()).unwrap();
    let output = replay(&[path.to_str().unwrap().to_owned()], &["--store", &redis.url()]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("step 3: expected") && output.stderr.contains("1 of "));
}

#[test]
fn a_store_that_refuses_the_login_is_named_without_its_password() {
    let redis = RedisServer::builder().password("hunter2").start();
    let address = redis.address();
    for user in ["", ":hunter3@", "nobody:hunter3@"] {
        let url = format!("redis://{user}{address}");
        let output = replay(&golden(), &["--store", &url]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{url}");
        assert!(output.stderr.contains(&format!("redis://{address} does not answer")), "{url}");
        assert!(!output.stderr.contains("hunter"), "{}", output.stderr);
    }
}
