//! The way to Redis: every kind of connection, batches, deadlines of the healthy.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::{Op, StoreErrorKind};
use tidegate_redis::{RedisOptions, RedisStore};

use crate::support::{LONG_TIMEOUT, ask, limit_of, spent, store, take, until_answered};
use tidegate_testkit::processes::RedisServer;

/// Two checks over a URL.
async fn works(url: &str) {
    let store = store(url, LONG_TIMEOUT);
    for allowed in [true, false] {
        assert_eq!(take(&store, url, &limit_of(1)).await, Ok(allowed), "{url}");
    }
}

#[tokio::test]
async fn every_way_in_works() {
    let plain = RedisServer::start();
    let closed = RedisServer::builder()
        .password("s3cret/@:?")
        .user("app", "on >pw ~tg:* +eval +evalsha +time +get +set +del +pexpire +mget +script|load")
        .start();
    let url = closed.url().replace("s3cret/@:?", "s3cret%2F%40%3A%3F");
    for url in [
        plain.url(),
        format!("{}/3", plain.url()),
        format!("{}?db=4", plain.unix_url()),
        url,
        closed.url_as("app", "pw"),
        format!("{}?db=1&pass=s3cret%2F%40%3A%3F", closed.unix_url()),
    ] {
        works(&url).await;
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_works_and_nobody_else_is_trusted() {
    let (server, mutual) =
        (RedisServer::builder().tls().start(), RedisServer::builder().mutual_tls().start());
    let files = |server: &RedisServer| {
        let files = server.tls_files();
        let [ca, cert, key] = [&files.ca, &files.client_cert, &files.client_key]
            .map(|path| path.display().to_string());
        (format!("?ca={ca}"), format!("&cert={cert}&key={key}"))
    };
    works(&format!("{}{}", server.url(), files(&server).0)).await;
    let (ca, own) = files(&mutual);
    works(&format!("{}{ca}{own}", mutual.url())).await;
    for url in [
        format!("{}{}", server.url(), files(&mutual).0),
        format!("{}{ca}", mutual.url()),
        format!("{}{ca}", server.url().replace("rediss", "redis").replace(&ca, "")),
    ] {
        let Ok(store) = RedisStore::new(RedisOptions::new(url.as_str())) else { continue };
        assert!(take(&store, "k", &limit_of(1)).await.is_err(), "{url}");
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so() {
    let server = RedisServer::builder().password("right").start();
    let user = RedisServer::builder().user("app", "on >pw ~other:* +@all").start();
    for url in [
        server.url().replace("right", "wrong-canary"),
        server.url().replace(":right@", ""),
        user.url_as("app", "pw"),
    ] {
        let store = store(url, LONG_TIMEOUT);
        let error = take(&store, "k", &limit_of(1)).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
        assert!(!format!("{error} {store:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn the_key_of_hashes_is_never_shown() {
    let hash_key = *b"canary-canary-ca";
    let options = RedisOptions { hash_key, ..RedisOptions::new("redis://127.0.0.1:1") };
    let shown = format!("{options:?} {:?}", RedisStore::new(options.clone()).unwrap());
    assert!(!shown.contains("99, 97, 110") && !shown.contains("canary"), "{shown}");
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn half_of_a_client_certificate_is_an_error() {
    for (half, missing) in [("cert=/c.pem", "key"), ("key=/k.pem", "cert")] {
        let error = RedisStore::new(RedisOptions::new(format!("rediss://127.0.0.1:1?{half}")));
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("parameter {missing}: ")), "{error}");
    }
}

#[test]
fn a_password_is_not_in_the_options_either() {
    let options = RedisOptions::new("redis://user:canary@host?pass=canary");
    assert!(!format!("{options:?}").contains("canary"), "{options:?}");
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let error = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379")).unwrap_err();
    assert_eq!(error.to_string(), "a store in Redis needs a tokio runtime");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_at_once_share_calls_and_admit_exactly_k_in_order() {
    const K: u64 = 1_000;
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let tasks: Vec<_> = (0..4_000)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { ask(&store, "hot", &limit_of(K), Op::Take).await.unwrap() })
        })
        .collect();
    let mut left = Vec::new();
    for task in tasks {
        let decision = task.await.unwrap().verdict.decision;
        left.extend(decision.allowed().then(|| decision.remaining()));
    }
    assert_eq!(left.len() as u64, K);
    assert_eq!(left.iter().copied().collect::<BTreeSet<_>>(), (0..K).collect());
    let stats = store.stats();
    assert_eq!((stats.requests, stats.retries), (4_000, 0));
    assert!(stats.calls <= 4_000 / 10, "{stats:?}");
}

#[tokio::test]
async fn questions_of_one_asker_are_decided_in_the_order_they_were_put() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    let limit = limit_of(500);
    let replies: Vec<_> = (0..500).map(|_| ask(&store, "k", &limit, Op::Take)).collect();
    for (number, reply) in replies.into_iter().enumerate() {
        let left = reply.await.unwrap().verdict.decision.remaining();
        assert_eq!(left, 499 - number as u64);
    }
}

#[tokio::test]
async fn a_reply_that_nobody_waits_for_is_still_asked() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    for _ in 0..10 {
        drop(ask(&store, "k", &limit_of(50), Op::Take));
    }
    assert_eq!(spent(&store, "k", &limit_of(50)).await, 10);
    // A store that is dropped finishes what was asked of it.
    drop(ask(&store, "k", &limit_of(50), Op::Take));
    drop(store);
    let other = crate::support::store(server.url(), LONG_TIMEOUT);
    let finished = async {
        while spent(&other, "k", &limit_of(50)).await < 11 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, finished).await.unwrap();
}

#[tokio::test]
async fn too_many_are_turned_away_at_once() {
    let server = RedisServer::start();
    let store = store(server.url(), LONG_TIMEOUT);
    until_answered(&store).await;
    let limit = limit_of(100_000);
    let replies: Vec<_> = (0..10_000).map(|_| ask(&store, "k", &limit, Op::Take)).collect();
    let (mut answered, mut refused) = (0, 0);
    for reply in replies {
        match reply.await {
            Ok(_) => answered += 1,
            Err(error) if error.kind() == StoreErrorKind::Overloaded => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(answered >= 4_096 && refused > 0, "{answered} answered, {refused} turned away");
    assert_eq!(store.stats().overloaded, refused);
    assert_eq!(spent(&store, "k", &limit).await, answered);
}
