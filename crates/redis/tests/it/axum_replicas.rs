//! The example: three axum servers that share a limit over one Redis.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::{MemoryStore, Store};
use tidegate_testkit::processes::{DEADLINE, RedisServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, store};

#[path = "../../examples/axum.rs"]
#[allow(dead_code, reason = "its main is for people")]
mod example;

const REPLICAS: usize = 3;
/// More than a third of the limit, so that replicas which count by themselves admit all.
const REQUESTS: usize = 60;
const LIMIT: usize = 100;

/// The servers, each with a store of its own; they end with the test's runtime.
async fn serve<S: Store + 'static>(stores: impl IntoIterator<Item = S>) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    for store in stores {
        // Gains nothing while the test runs.
        let app = example::app(store, &format!("{LIMIT}/3650day")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        addresses.push(listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async { axum::serve(listener, app).await });
    }
    addresses
}

/// The whole answer to a request of this client.
async fn fetch(replica: SocketAddr, client: &str) -> String {
    let request = format!(
        "GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-forwarded-for: {client}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(replica).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// How many requests of a client are admitted if all replicas are asked at once.
async fn admitted(replicas: &[SocketAddr], client: &'static str) -> usize {
    let all = replicas.iter().flat_map(|replica| std::iter::repeat_n(*replica, REQUESTS));
    let answers: Vec<_> = all.map(|replica| tokio::spawn(fetch(replica, client))).collect();
    let mut admitted = 0;
    for answer in answers {
        let answer = answer.await.unwrap();
        match answer.get(..12) {
            Some("HTTP/1.1 200") => admitted += 1,
            Some("HTTP/1.1 429") => assert!(answer.contains("\r\nretry-after: "), "{answer}"),
            _ => panic!("{answer}"),
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_axum_servers_admit_exactly_the_limit_over_one_redis() {
    let redis = RedisServer::start();
    let replicas = serve((0..REPLICAS).map(|_| store(redis.url(), LONG_TIMEOUT))).await;
    for client in ["203.0.113.7", "203.0.113.8"] {
        assert_eq!(admitted(&replicas, client).await, LIMIT, "{client}");
    }
    // The control: where each counts by itself, more are admitted.
    let alone = serve((0..REPLICAS).map(|_| MemoryStore::default())).await;
    assert_eq!(admitted(&alone, "203.0.113.7").await, REPLICAS * REQUESTS);
}

#[tokio::test]
async fn without_redis_a_replica_is_unavailable_and_recovers() {
    let redis = RedisServer::start();
    let replica = serve([store(redis.url(), Duration::from_secs(1))]).await[0];
    until(replica, "200 OK").await;
    redis.kill();
    let answer = until(replica, "503 Service Unavailable").await;
    assert!(answer.contains("\r\nretry-after: "), "{answer}");
    let reason = "x-tidegate-error: policy `api` admits nothing while its store fails\r\n";
    assert!(answer.contains(reason) && !answer.contains("\r\nratelimit"), "{answer}");
    redis.restart();
    until(replica, "200 OK").await;
}

/// Asks until the status is this one. It is never a refusal.
async fn until(replica: SocketAddr, status: &str) -> String {
    let start = Instant::now();
    loop {
        let answer = fetch(replica, "203.0.113.9").await;
        if answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) {
            return answer;
        }
        assert!(!answer.starts_with("HTTP/1.1 429"), "{answer}");
        assert!(start.elapsed() < DEADLINE, "no {status}: {answer}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
