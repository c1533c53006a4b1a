//! `GET /readyz`: whether to send requests here.

use std::io::{Read, Write};

use serde_json::json;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::{Folder, Reply, Server};

#[test]
fn a_server_in_memory_is_ready_until_it_is_told_to_stop() {
    let mut server = Server::start();
    for path in ["/readyz", "/readyz?strict", "/readyz?strict=1&x"] {
        let reply = server.get(path);
        let store = json!({"kind": "memory", "state": "ok"});
        assert_eq!(reply.json(), json!({"ready": true, "state": "serving", "store": store}));
        assert_eq!(reply.status, 200, "{path}");
    }
    // A connection that is open keeps the server for a while.
    let mut open = server.connect();
    open.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(open.read(&mut [0; 1024]).unwrap() > 0);
    server.signal("TERM");
    // The signal may take a moment to arrive.
    let mut last = String::new();
    wait_until("it is not ready", DEADLINE, || {
        open.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut bytes = [0; 1024];
        let count = open.read(&mut bytes).unwrap();
        last = String::from_utf8_lossy(&bytes[..count]).into_owned();
        // Not ready first, and a moment later nobody is kept either.
        last.contains("connection: close\r\n")
    });
    let reply = Reply::read(&last);
    assert_eq!(reply.status, 503);
    assert_eq!(reply.json()["state"], "draining");
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn with_nobody_connected_a_balancer_still_sees_the_end_coming_and_a_terminal_does_not_wait() {
    let folder = Folder::new();
    let config = "drain: 5min\npolicies: { api: 100/min }\n";
    let stopped_by_manager = Server::with_config(&folder, config);
    stopped_by_manager.signal("TERM");
    let unready = || stopped_by_manager.get("/readyz").status == 503;
    wait_until("it is not ready", DEADLINE, unready);
    // Every look is a connection of its own, between which nobody is connected.
    for _ in 0..20 {
        assert!(unready());
        let check = stopped_by_manager.post("/v1/check", r#"{"policy":"api","key":"ann"}"#);
        assert_eq!((check.status, check.header("connection")), (200, Some("close")));
    }
    let mut stopped_by_hand = Server::with_config(&folder, config);
    assert_eq!(stopped_by_hand.stop("INT").code(), Some(0));
}

#[test]
fn a_store_that_is_gone_makes_it_unready_only_for_those_who_ask_strictly() {
    let redis = RedisServer::start();
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()]);
    let store = |path: &str| {
        let reply = server.get(path);
        (reply.status, reply.json()["store"]["state"].as_str().unwrap_or_default().to_owned())
    };
    wait_until("Redis is reached", DEADLINE, || store("/readyz?strict").0 == 200);
    assert_eq!(store("/readyz"), (200, "ok".to_owned()));
    redis.kill();
    wait_until("Redis is missed", DEADLINE, || store("/readyz").1 != "ok");
    assert_eq!(store("/readyz").0, 200);
    let (status, trouble) = store("/readyz?strict");
    assert_eq!(status, 503);
    assert!(["unreachable", "breaker-open", "not-sent"].contains(&&*trouble), "{trouble}");
    redis.restart();
    wait_until("Redis is reached again", DEADLINE, || store("/readyz?strict").0 == 200);
}
