//! The dashboard: its files, its feed, and the page in a real browser.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::engines::quorum;
use crate::openapi::same_shape;
use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::programs::node;
use crate::support::{Folder, Server};

/// A client of the live feed.
struct Watcher(BufReader<TcpStream>);

impl Watcher {
    /// Opens the feed, and reads the status of the response.
    fn open(server: &Server) -> (u16, Self) {
        let mut stream = server.connect();
        write!(stream, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut watcher = Self(BufReader::new(stream));
        let line = watcher.line().unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        (status, watcher)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The name and data of the next event; `None` at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(name) = self.line()?.strip_prefix("event: ") {
                let data = self.line()?;
                let data = data.strip_prefix("data: ").unwrap();
                return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
    }
}

fn check(server: &Server, policy: &str, key: &str) {
    server.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"{key}"}}"#));
}

#[test]
fn the_feed_contains_every_check_and_the_denied_keys() {
    let server = Server::start();
    (0..3).for_each(|_| check(&server, "login", "ann"));
    let (status, mut watcher) = Watcher::open(&server);
    assert_eq!(status, 200);
    let (name, snapshot) = watcher.next().unwrap();
    assert_eq!(name, "snapshot");
    (0..4).for_each(|_| check(&server, "login", "ann"));
    let mut seen: Vec<Value> = snapshot["history"].as_array().unwrap().clone();
    let sum = |ticks: &[Value], what: &str| -> u64 {
        ticks.iter().filter_map(|tick| tick["policies"]["login"][what].as_u64()).sum()
    };
    let state = loop {
        let (name, event) = watcher.next().unwrap();
        assert_eq!(name, "tick");
        seen.push(event["tick"].clone());
        if sum(&seen, "allowed") + sum(&seen, "denied") >= 7 {
            break event["state"].clone();
        }
    };
    assert_eq!((sum(&seen, "allowed"), sum(&seen, "denied")), (5, 2), "each once");
    let login = &state["policies"]["login"];
    assert_eq!((&login["allowed"], &login["denied"]), (&5.into(), &2.into()));
    assert_eq!(login["top"][0]["count"], 2);
    assert_eq!(login["limits"][0], serde_json::json!({"limit": "login", "count": 2}));
    assert_eq!(login["recent"].as_array().unwrap().len(), 2);
    let timed = seen.iter().find(|tick| tick["policies"]["login"]["p99_us"].is_f64());
    assert!(timed.is_some_and(|tick| tick["all"]["p99_us"].is_f64()), "{seen:?}");
    let shape = serde_json::json!({
        "version": "", "started_ms": 0, "generation": 0, "keys": "", "watchers": 0, "nodes": 0,
        "connections": {"http": 0}, "adaptive": [],
        "store": {"kind": "", "condition": "", "breaker": null, "breaker_opened": 0, "errors": 0,
            "outages": [], "servers": null, "keys": 0, "bytes": 0, "given_up": 0},
        "leases": {"keys": 0, "requests": 0, "granted": 0, "returned": 0, "decided": 0},
    });
    same_shape(&shape, &state, "state");
}

#[test]
fn a_leaky_bucket_in_shadow_mode_reports_shadow_denials() {
    let policy = "{ algorithm: leaky-bucket, limit: 1/h, max_wait: 0s, mode: shadow }";
    let folder = Folder::new();
    let server = Server::with_config(&folder, &format!("policies: {{ export: {policy} }}\n"));
    for _ in 0..3 {
        let reply = server.post("/v1/reserve", r#"{"policy":"export","key":"ann"}"#);
        assert_eq!((reply.status, &reply.json()["accepted"]), (200, &true.into()));
    }
    let requests = |status: &str| {
        let series = format!("rate_limit_requests_total{{policy=\"export\",status=\"{status}\"}}");
        server.metric(&series)
    };
    assert_eq!(["allowed", "denied", "shadow_denied"].map(requests), [1.0, 0.0, 2.0].map(Some));
    wait_until("the feed reports them", DEADLINE, || {
        let (_, mut watcher) = Watcher::open(&server);
        let (_, snapshot) = watcher.next().unwrap();
        let export = &snapshot["state"]["policies"]["export"];
        (&export["shadow_denied"], &export["top"][0]["count"]) == (&2.into(), &2.into())
    });
}

#[test]
fn keys_are_hashed_unless_the_configuration_shows_them() {
    let folder = Folder::new();
    let policies = "policies: { login: { algorithm: sliding-log, limit: 1/h } }\n";
    let server = Server::with_config(&folder, policies);
    let top = || {
        let (_, mut watcher) = Watcher::open(&server);
        let (_, snapshot) = watcher.next().unwrap();
        snapshot["state"]["policies"]["login"]["top"][0]["key"].as_str().map(str::to_owned)
    };
    (0..2).for_each(|_| check(&server, "login", "ann@example.com"));
    wait_until("the key is hashed", DEADLINE, || {
        top().is_some_and(|key| key.len() == 16 && key.bytes().all(|it| it.is_ascii_hexdigit()))
    });
    folder.write("tidegate.yaml", format!("{policies}dashboard: {{ keys: shown }}\n"));
    server.signal("HUP");
    wait_until("the key is shown", DEADLINE, || {
        check(&server, "login", "ann@example.com");
        top().as_deref() == Some("ann@example.com")
    });
}

#[test]
fn watchers_are_limited_to_64_at_a_time() {
    let server = Server::start();
    let mut watchers: Vec<_> = (0..64).map(|_| Watcher::open(&server)).collect();
    assert!(watchers.iter().all(|(status, _)| *status == 200));
    let refused = server.get("/v1/live");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.json()["type"], "urn:tidegate:too-many-watchers");
    watchers.clear();
    wait_until("a watcher may connect again", DEADLINE, || Watcher::open(&server).0 == 200);
}

#[test]
fn a_server_that_stops_does_not_wait_for_watchers() {
    let mut server = Server::start();
    let (_, mut watcher) = Watcher::open(&server);
    watcher.next().unwrap();
    server.signal("TERM");
    while watcher.next().is_some() {}
    assert!(server.ended().success());
}

#[test]
fn files_of_this_build_are_immutable_and_others_are_revalidated() {
    let server = Server::start();
    let page = server.get("/");
    let tag = page.header("etag").unwrap().to_owned();
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert_eq!(server.send("GET", "/", &[("If-None-Match", &tag)], b"").status, 304);
    let script = page.body.split('"').find(|part| part.ends_with("/app.js")).unwrap();
    let kept = server.get(script);
    let kind = kept.header("content-type");
    assert_eq!((kept.status, kind), (200, Some("text/javascript; charset=utf-8")));
    assert!(kept.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(kept.header("x-content-type-options"), Some("nosniff"));
    let other = server.get("/assets/older/app.js");
    assert_eq!((other.status, other.header("cache-control")), (200, Some("no-cache")));
    assert_eq!(other.body, kept.body);
    let head = server.send("HEAD", script, &[], b"");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), kept.header("content-length"));
    for nothing in ["/assets/older/nothing.js", "/assets/older/..%2Fapp.js", "/assets/older/"] {
        assert_eq!(server.get(nothing).status, 404, "{nothing}");
    }
}

#[test]
fn the_dashboard_works_in_a_browser() {
    let server = Server::start();
    let output = node(&["dashboard.mjs", "browser.mjs"], &[&server.url()]);
    let expected = [
        "an empty page says how to send a check",
        "the page sends sample checks and shows them",
        "checks and denials appear as they happen",
        "everything is reachable by keyboard, with a focus ring",
        "a policy page shows limits and sends checks",
        "a peek spends nothing",
        "the legend and the tiles say the same",
        "the theme follows the system or the choice",
        "every view fits a phone",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_dashboard_shows_an_outage_of_the_store() {
    let (redis, folder, (servers, quorum)) = (RedisServer::start(), Folder::new(), quorum());
    let policies = "policies:\n  api: 100/h\n  login: { limit: 5/h, on_store_error: deny }\n  \
                    open: { limit: 100/h, on_store_error: allow }\n  \
                    payout: { limit: 5/day, quorum: true, on_store_error: deny }\n";
    let store = format!("store: {{ url: \"{}\", quorum: \"{quorum}\" }}\n", redis.url());
    let server = Server::with_config(&folder, &(store + policies));
    redis.kill();
    servers[1..].iter().for_each(RedisServer::kill);
    let args = [&server.url(), &redis.address()];
    let output = node(&["dashboard_outage.mjs", "browser.mjs"], &args.map(String::as_str));
    let expected = [
        "a banner says for each store why, since when, and what its policies do",
        "what is turned away and what passes without the store is counted",
        "an outage fits a phone",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    redis.restart();
    wait_until("the feed reports the end of one outage", DEADLINE, || {
        let (_, mut watcher) = Watcher::open(&server);
        let (_, snapshot) = watcher.next().unwrap();
        let outages = snapshot["state"]["store"]["outages"].as_array().unwrap();
        outages.iter().all(|outage| outage["store"] == "quorum")
    });
}

#[test]
fn the_dashboard_survives_a_server_restart() {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let output = node(&["dashboard_restart.mjs", "browser.mjs"], &[binary]);
    let expected = [
        "a lost connection is shown",
        "the page reconnects and shows a gap",
        "a hidden page closes its feed and misses nothing",
        "a full or silent server is shown",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_dashboard_accepts_any_name_and_reloads() {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let folder = Folder::new();
    let config = folder.path("tidegate.yaml");
    let output = node(&["dashboard_names.mjs", "browser.mjs"], &[binary, &config]);
    let expected = [
        "policies and keys may have any name",
        "an unknown policy name is reported",
        "a reloaded configuration appears at once",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}
