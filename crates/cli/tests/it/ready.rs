//! `GET /readyz`: whether to send requests here.

use std::io::{Read, Write};

use serde_json::json;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::{Folder, Reply, Server};

#[test]
fn a_server_in_memory_is_ready_until_sigterm() {
    let mut server = Server::start();
    for path in ["/readyz", "/readyz?strict", "/readyz?strict=1&x"] {
        let reply = server.get(path);
        let store = json!({"kind": "memory", "state": "ok"});
        assert_eq!(reply.json(), json!({"ready": true, "state": "serving", "store": store}));
        assert_eq!(reply.status, 200, "{path}");
    }
    // An open connection keeps the server running for a while.
    let mut open = server.connect();
    open.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(open.read(&mut [0; 1024]).unwrap() > 0);
    server.signal("TERM");
    // The signal may arrive late.
    let mut last = String::new();
    wait_until("the server is not ready", DEADLINE, || {
        open.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut bytes = [0; 1024];
        let count = open.read(&mut bytes).unwrap();
        last = String::from_utf8_lossy(&bytes[..count]).into_owned();
        // The server first reports that it is not ready, and a moment later closes connections.
        last.contains("connection: close\r\n")
    });
    let reply = Reply::read(&last);
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["state"], "draining");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn sigterm_drains_even_without_connections_and_sigint_does_not() {
    let folder = Folder::new();
    let config = "drain: 5min\npolicies: { api: 100/min }\n";
    let stopped_by_manager = Server::with_config(&folder, config);
    stopped_by_manager.signal("TERM");
    let unready = || stopped_by_manager.get("/readyz").status == 503;
    wait_until("the server is not ready", DEADLINE, unready);
    // Every request has its own connection, and between them no client is connected.
    for _ in 0..20 {
        assert!(unready());
        let check = stopped_by_manager.post("/v1/check", r#"{"policy":"api","key":"ann"}"#);
        assert_eq!((check.status, check.header("connection")), (200, Some("close")));
    }
    let mut stopped_by_hand = Server::with_config(&folder, config);
    assert_eq!(stopped_by_hand.stop("INT").code(), Some(0));
}

#[test]
fn a_store_outage_makes_only_strict_checks_unready() {
    let redis = RedisServer::start();
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()]);
    let store = |path: &str| {
        let reply = server.get(path);
        (reply.status, reply.json()["store"]["state"].as_str().unwrap_or_default().to_owned())
    };
    wait_until("Redis is reached", DEADLINE, || store("/readyz?strict").0 == 200);
    assert_eq!(store("/readyz"), (200, "ok".to_owned()));
    redis.kill();
    wait_until("the outage is noticed", DEADLINE, || store("/readyz").1 != "ok");
    assert_eq!(store("/readyz").0, 200);
    let (status, trouble) = store("/readyz?strict");
    assert_eq!(status, 503);
    assert!(["unreachable", "breaker-open", "not-sent"].contains(&&*trouble), "{trouble}");
    redis.restart();
    wait_until("Redis is reached again", DEADLINE, || store("/readyz?strict").0 == 200);
}
