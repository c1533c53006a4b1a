//! Concurrency permits, observations of services, and admin calls over HTTP.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::processes::{DEADLINE, FaultProxy, Faults, RedisServer, Way, wait_until};
use crate::support::{Folder, Reply, Server};

const REPORT: &str = r#"{"policy":"report","key":"ann"}"#;

fn permit(reply: &Reply) -> Option<String> {
    reply.json()["permit"].as_str().map(str::to_owned)
}

#[test]
fn permits_are_held_until_they_are_released() {
    let server = Server::start();
    let acquire = || server.post("/v1/acquire", REPORT);
    let (first, second, third) = (acquire(), acquire(), acquire());
    assert_eq!((first.status, &first.json()["remaining"]), (200, &json!(1)));
    assert_eq!(second.json()["allowed"], true);
    assert_eq!((&third.json()["allowed"], permit(&third)), (&json!(false), None));
    assert!(third.header("retry-after").is_some());
    let (first, second) = (permit(&first).unwrap(), permit(&second).unwrap());
    assert_ne!(first, second);
    let release = |permit: &str| {
        let body = json!({"policy": "report", "key": "ann", "permit": permit}).to_string();
        server.post("/v1/release", &body)
    };
    for answer in [r#"{"released":true}"#, r#"{"released":false,"reason":"not-held"}"#] {
        let released = release(&first);
        assert_eq!((released.status, released.body.as_str()), (200, answer));
        assert_eq!(server.remaining("report", "ann"), 1, "a second release changes nothing");
    }
    assert!(permit(&acquire()).is_some());
}

/// The limit that an answer is about is often another one than the limit that the permit holds.
#[test]
fn a_permit_says_how_long_it_is_held() {
    let folder = Folder::new();
    let server = Server::with_config(
        &folder,
        "policies:\n  jobs: { algorithm: concurrency, limit: 9, ttl: 1500ms }\n  work:\n    all:\n      \
         - { name: rate, limit: 3/day }\n      - { name: slow, algorithm: concurrency, limit: 9, ttl: 1h }\n      \
         - { name: places, algorithm: concurrency, limit: 9, ttl: 5s }\n",
    );
    let acquire = |policy: &str, cost: u64| {
        let body = json!({"policy": policy, "key": "ann", "cost": cost}).to_string();
        server.post("/v1/acquire", &body).json()
    };
    let held = acquire("work", 1);
    assert_eq!((&held["binding"], &held["ttl_ms"]), (&json!("rate"), &json!(5000)), "{held}");
    assert_eq!(acquire("work", 0)["ttl_ms"], 5000, "renewed like a permit with places");
    assert_eq!(acquire("jobs", 1)["ttl_ms"], 1500);
    let refused = acquire("work", 3);
    assert_eq!((&refused["permit"], refused.get("ttl_ms")), (&Value::Null, None), "{refused}");
    let own = br#"{"limit":"concurrency 9 lease 2s"}"#;
    assert_eq!(server.send("PUT", "/v1/overrides/jobs/ann", &[], own).status, 204);
    assert_eq!(acquire("jobs", 1)["ttl_ms"], 2000);
    assert_eq!(server.send("PUT", "/v1/overrides/jobs/ann", &[], br#"{"allow":true}"#).status, 204);
    assert_eq!(acquire("jobs", 1)["ttl_ms"], 1500);
}

#[test]
fn several_permits_are_released_together_in_every_store() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let in_redis = format!("store: {{ url: \"{}\", deadline: 10s }}\n", redis.url());
    for store in ["", &in_redis] {
        let policies = "policies: { report: { algorithm: concurrency, limit: 5, ttl: 1h } }\n";
        let server = Server::with_config(&folder, &format!("{store}{policies}"));
        let three = r#"{"policy":"report","key":"ann","cost":3}"#;
        let held = server.post("/v1/acquire", three);
        assert_eq!((held.status, &held.json()["remaining"]), (200, &json!(2)), "{store}");
        let body = json!({"policy": "report", "key": "ann", "permit": permit(&held).unwrap()});
        for _ in 0..2 {
            assert_eq!(server.post("/v1/release", &body.to_string()).status, 200, "{store}");
            assert_eq!(server.remaining("report", "ann"), 5, "{store}");
        }
    }
}

#[test]
fn a_permit_is_renewed_on_every_node_until_it_is_released() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let in_redis = format!("store: {{ url: \"{}\", deadline: 10s }}\n", redis.url());
    for (store, nodes) in [("", 1), (in_redis.as_str(), 2)] {
        let policies = "policies: { report: { algorithm: concurrency, limit: 5, ttl: 1h } }\n";
        let config = format!("{store}{policies}");
        let nodes: Vec<_> = (0..nodes).map(|_| Server::with_config(&folder, &config)).collect();
        let held = nodes[0].post("/v1/acquire", REPORT);
        let ask = |node: &Server, path: &str, permit: &str| {
            let body = json!({"policy": "report", "key": "ann", "permit": permit});
            let reply = node.post(path, &body.to_string());
            (reply.status, reply.body)
        };
        let permit = permit(&held).unwrap();
        for node in &nodes {
            let renewed = (200, r#"{"renewed":true,"ttl_ms":3600000}"#.to_owned());
            assert_eq!(ask(node, "/v1/renew", &permit), renewed, "{store}");
        }
        let not_renewed =
            |reason: &str| (200, format!(r#"{{"renewed":false,"reason":"{reason}"}}"#));
        for (unknown, reason) in
            [("p2..1", "not-held"), ("p2.pool.1", "unknown-limit"), ("l2.7e..1", "other-node")]
        {
            let answer = ask(&nodes[0], "/v1/renew", unknown);
            assert_eq!(answer, not_renewed(reason), "{unknown} {store}");
        }
        assert_eq!(nodes[0].remaining("report", "ann"), 4, "{store}");
        assert_eq!(ask(&nodes[0], "/v1/release", &permit).1, r#"{"released":true}"#);
        for node in &nodes {
            assert_eq!(ask(node, "/v1/renew", &permit), not_renewed("not-held"), "{store}");
        }
    }
}

#[test]
fn invalid_permit_requests_are_refused() {
    let server = Server::start();
    for (path, body, status, field) in [
        ("/v1/acquire", r#"{"policy":"api","key":"k"}"#, 400, "policy"),
        ("/v1/acquire", r#"{"policy":"reprot","key":"k"}"#, 404, "policy"),
        ("/v1/renew", r#"{"policy":"api","key":"k","permit":"p2..1"}"#, 400, "policy"),
        ("/v1/acquire", r#"{"policy":"report"}"#, 400, "key"),
        ("/v1/acquire", r#"{"policy":"report","key":"k","cost":-1}"#, 400, "cost"),
        ("/v1/check", REPORT, 400, "policy"),
        ("/v1/release", REPORT, 400, "permit"),
        ("/v1/release", r#"{"policy":"report","key":"k","permit":"x"}"#, 400, "permit"),
        ("/v1/release", r#"{"policy":"report","key":"k","permit":7}"#, 400, "permit"),
        ("/v1/release", r#"{"policy":"report","key":"k","permit":"p2..1","cost":1}"#, 400, "cost"),
        ("/v1/release", r#"{"policy":"reprot","key":"k","permit":"p2..1"}"#, 404, "policy"),
        ("/v1/release", r#"{"policy":"report","permit":"p2..1"}"#, 400, "key"),
        ("/v1/renew", REPORT, 400, "permit"),
        ("/v1/renew", r#"{"policy":"report","key":"k","permit":"x"}"#, 400, "permit"),
        ("/v1/renew", r#"{"policy":"report","key":"k","permit":"p2..1","cost":1}"#, 400, "cost"),
        ("/v1/renew", r#"{"policy":"reprot","key":"k","permit":"p2..1"}"#, 404, "policy"),
        ("/v1/renew", r#"{"policy":"report","permit":"p2..1"}"#, 400, "key"),
        // By its position, as permits were once written.
        ("/v1/release", r#"{"policy":"report","key":"k","permit":"p0.1f"}"#, 400, "permit"),
    ] {
        let reply = server.post(path, body);
        assert_eq!(reply.status, status, "{path} {body}: {}", reply.body);
        assert_eq!(reply.json()["field"], field, "{path} {body}: {}", reply.body);
    }
    assert_eq!(server.remaining("report", "ann"), 2);
}

/// Two limits, of which one holds places until a test is over.
const JOBS: &str = "{ name: jobs, algorithm: concurrency, limit: 1, ttl: 1h }";
const RATE: &str = "{ name: rate, limit: 1000000/h, burst: 1000000 }";
const ANN: &str = r#"{"policy":"work","key":"ann"}"#;

fn release(server: &Server, permit: &str) -> String {
    let body = json!({"policy": "work", "key": "ann", "permit": permit}).to_string();
    let reply = server.post("/v1/release", &body);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.body
}

#[test]
fn a_permit_survives_a_reload_that_moves_its_limit() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let in_redis = format!("store: {{ url: \"{}\", deadline: 10s }}\n", redis.url());
    for store in ["", &in_redis] {
        let config = |limits: &str, mark: &str| {
            format!("{store}policies: {{ work: {{ all: [{limits}] }}, {mark}: 1/s }}\n")
        };
        let file = folder.write("t.yaml", config(&format!("{JOBS}, {RATE}"), "first"));
        let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
        let reload = |limits: &str, mark: &str| {
            folder.write("t.yaml", config(limits, mark));
            wait_until(mark, DEADLINE, || server.get("/v1/policies").json()[mark].is_object());
        };
        let held = permit(&server.post("/v1/acquire", ANN)).unwrap();
        reload(&format!("{RATE}, {JOBS}"), "second");
        assert_eq!(server.remaining("work", "ann"), 0, "{store}");
        assert_eq!(release(&server, &held), r#"{"released":true}"#, "{store}");
        assert_eq!(server.remaining("work", "ann"), 1, "{store}");
        let held = permit(&server.post("/v1/acquire", ANN)).unwrap();
        reload(RATE, "third");
        let gone = r#"{"released":false,"reason":"unknown-limit"}"#;
        assert_eq!(release(&server, &held), gone, "{store}");
        reload(&format!("{RATE}, {JOBS}"), "fourth");
        assert_eq!(release(&server, &held), r#"{"released":true}"#, "{store}");
    }
}

#[test]
fn a_stand_in_permit_is_only_released_by_its_own_node() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let config = format!(
        "store: {{ url: \"{}\", nodes: 1 }}\npolicies: {{ work: {{ all: [{JOBS}] }} }}\n",
        redis.url()
    );
    let (one, other) =
        (Server::with_config(&folder, &config), Server::with_config(&folder, &config));
    redis.kill();
    let by_itself = || one.post("/v1/peek", ANN).json()["source"] == "local";
    wait_until("the node stands in", DEADLINE, by_itself);
    let held = permit(&one.post("/v1/acquire", ANN)).unwrap();
    assert!(held.starts_with("l2."), "{held}");
    assert_eq!(release(&other, &held), r#"{"released":false,"reason":"other-node"}"#);
    assert_eq!(one.remaining("work", "ann"), 0);
    assert_eq!(release(&one, &held), r#"{"released":true}"#);
    assert_eq!(one.remaining("work", "ann"), 1);
}

/// The request and its end are both there before the server looks.
#[test]
fn a_caller_who_has_hung_up_gets_no_place() {
    let folder = Folder::new();
    let policies = format!("policies: {{ work: {{ all: [{JOBS}] }} }}\n");
    let server = Server::with_config(&folder, &policies);
    let head =
        format!("POST /v1/acquire HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", ANN.len());
    for _ in 0..20 {
        server.signal("STOP");
        let mut caller = server.connect();
        caller.write_all(format!("{head}{ANN}").as_bytes()).unwrap();
        caller.shutdown(Shutdown::Write).unwrap();
        server.signal("CONT");
        // One who stops sending counts as gone, and is not told of a permit. This also waits for the server.
        let mut reply = String::new();
        let _ = caller.read_to_string(&mut reply);
        assert!(!reply.contains("p2."), "{reply}");
        wait_until("the place is free", DEADLINE, || server.remaining("work", "ann") == 1);
    }
}

#[test]
fn a_caller_who_hangs_up_while_redis_decides_gets_no_place() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let slow = FaultProxy::start(redis.port());
    let config = |store: &str| {
        format!(
            "store: {{ url: \"redis://{store}\", deadline: 10s, breaker: false }}\n\
             policies: {{ work: {{ all: [{JOBS}] }} }}\n"
        )
    };
    let (server, checker) = (
        Server::with_config(&folder, &config(&slow.address())),
        Server::with_config(&folder, &config(&redis.address())),
    );
    assert_eq!(server.remaining("work", "ann"), 1);
    slow.set(Faults::to_client(Way::delay(Duration::from_millis(500))));
    let url = format!("{}/v1/acquire", server.url());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let gone = Command::new("curl")
            .args(["-s", version, "--max-time", "0.1", "-d", ANN, &url])
            .output()
            .unwrap();
        assert!(!gone.status.success(), "{version} got {gone:?}");
        wait_until("the place is granted", DEADLINE, || {
            checker.remaining("work", "ann") == 0 || redis.cli(&["KEYS", "*work*"]).contains("work")
        });
        wait_until("the place is free again", DEADLINE, || checker.remaining("work", "ann") == 1);
        redis.command(&["FLUSHALL"]);
    }
}

#[test]
fn an_atomic_batch_charges_all_or_none() {
    let server = Server::start();
    let batch = |cost: u64| {
        let checks =
            json!([{"policy":"api","key":"ann"}, {"policy":"login","key":"ann","cost":cost}]);
        server.post("/v1/check/batch", &json!({"checks": checks, "atomic": true}).to_string())
    };
    let refused = batch(6).json();
    assert_eq!(refused["decisions"][1]["allowed"], false, "{refused}");
    assert_eq!((server.remaining("api", "ann"), server.remaining("login", "ann")), (20, 5));
    let admitted = batch(5).json();
    assert_eq!(admitted["decisions"][1]["remaining"], 0, "{admitted}");
    assert_eq!((server.remaining("api", "ann"), server.remaining("login", "ann")), (19, 0));
    let one = json!({"policy":"api","key":"k"});
    let many: Vec<Value> =
        (0..65).map(|key| json!({"policy":"api","key":key.to_string()})).collect();
    for (body, field) in [
        (
            json!({"checks": [one, {"policy":"report","key":"k"}], "atomic": true}),
            "checks[1].policy",
        ),
        (json!({"checks": [one, {"policy":"apj","key":"k"}], "atomic": true}), "checks[1].policy"),
        (json!({"checks": [one], "atomic": 1}), "atomic"),
        (json!({"checks": many, "atomic": true}), "checks"),
    ] {
        let reply = server.post("/v1/check/batch", &body.to_string());
        assert!(matches!(reply.status, 400 | 404), "{body}: {}", reply.body);
        assert_eq!(reply.json()["field"], field, "{}", reply.body);
    }
    assert_eq!(server.remaining("api", "k"), 20);
}

#[test]
fn services_are_observed_for_a_minute() {
    let folder = Folder::new();
    let follows = "policies: { api: { limit: 9/s, adaptive: { source: { observe: cache } } } }\n";
    let server = Server::with_config(&folder, follows);
    for body in [
        r#"{"target":"db","latency_ms":12,"ok":true}"#,
        r#"{"target":"db","latency_ms":8.5}"#,
        r#"{"target":"db","latency_ms":0,"ok":false}"#,
    ] {
        let reply = server.post("/v1/observe", body);
        assert_eq!((reply.status, reply.body.as_str()), (204, ""), "{body}");
    }
    assert_eq!(server.send("PUT", "/v1/pressure/cache", &[], br#"{"pressure":0.7}"#).status, 204);
    let targets = server.get("/v1/pressure").json()["targets"].clone();
    assert_eq!((&targets["db"]["count"], &targets["db"]["errors"]), (&json!(3), &json!(1)));
    assert_eq!(targets["db"]["mean_ms"], 6.833);
    assert!(targets["db"]["p99_ms"].as_f64().is_some_and(|ms| (12.0..15.0).contains(&ms)));
    assert_eq!(targets["cache"]["pressure"], 0.7);
    assert_eq!(server.send("PUT", "/v1/pressure/cache", &[], br#"{"pressure":null}"#).status, 204);
    assert_eq!(server.get("/v1/pressure").json()["targets"]["cache"]["fixed"], Value::Null);
}

#[test]
fn a_batch_of_observations_counts_each_or_none() {
    let server = Server::start();
    let batch = |observations: &[&str]| {
        let body = format!(r#"{{"observations":[{}]}}"#, observations.join(","));
        server.post("/v1/observe/batch", &body)
    };
    let (good, failed) =
        (r#"{"target":"db","latency_ms":12}"#, r#"{"target":"db","latency_ms":8,"ok":false}"#);
    let bad = batch(&[good, r#"{"target":"db","latency_ms":-1}"#]);
    assert_eq!((bad.status, &bad.json()["field"]), (400, &json!("observations[1].latency_ms")));
    let many = batch(&[good; 1001]);
    assert_eq!((many.status, &many.json()["field"]), (400, &json!("observations")));
    assert_eq!(server.get("/v1/pressure").body, r#"{"targets":{}}"#);
    assert_eq!(batch(&[good, failed, good]).status, 204);
    assert_eq!(batch(&[good; 1000]).status, 204);
    let db = server.get("/v1/pressure").json()["targets"]["db"].clone();
    assert_eq!((&db["count"], &db["errors"]), (&json!(1003), &json!(1)));
}

#[test]
fn policies_say_which_refuse_nothing() {
    let folder = Folder::new();
    let config = "policies:\n  api: { limit: 9/s }\n  beta: { limit: 9/s, mode: shadow }\n";
    let server = Server::with_config(&folder, config);
    let policies = server.get("/v1/policies").json();
    assert_eq!(
        (&policies["api"]["shadow"], &policies["beta"]["shadow"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(policies["beta"]["limit"], 9);
}

#[test]
fn bad_observations_are_not_counted() {
    let server = Server::start();
    let long = format!(r#"{{"target":"{}","latency_ms":1}}"#, "x".repeat(101));
    for (body, field) in [
        ("{}", "target"),
        (r#"{"target":"db"}"#, "latency_ms"),
        (r#"{"target":"","latency_ms":1}"#, "target"),
        (r#"{"target":"a\nb","latency_ms":1}"#, "target"),
        (&long, "target"),
        (r#"{"target":"db","latency_ms":-1}"#, "latency_ms"),
        (r#"{"target":"db","latency_ms":1e400}"#, "latency_ms"),
        (r#"{"target":"db","latency_ms":9007199254740993}"#, "latency_ms"),
        (r#"{"target":"db","latency_ms":NaN}"#, "latency_ms"),
        (r#"{"target":"db","latency_ms":"1"}"#, "latency_ms"),
        (r#"{"target":"db","latency_ms":1,"ok":"yes"}"#, "ok"),
        (r#"{"target":"db","latency_ms":1,"x":1}"#, "x"),
    ] {
        let reply = server.post("/v1/observe", body);
        assert_eq!((reply.status, &reply.json()["field"]), (400, &json!(field)), "{body}");
    }
    for body in ["{}", r#"{"pressure":-0.1}"#, r#"{"pressure":1.1}"#, r#"{"pressure":"1"}"#] {
        let reply = server.send("PUT", "/v1/pressure/db", &[], body.as_bytes());
        assert_eq!((reply.status, &reply.json()["field"]), (400, &json!("pressure")), "{body}");
    }
    assert_eq!(server.get("/v1/pressure").body, r#"{"targets":{}}"#);
}

#[test]
fn the_status_describes_the_running_server() {
    let status = Server::start().get("/v1/status").json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&status["store"], &status["nodes"]), (&json!("memory"), &json!(1)));
    assert_eq!(status["policies"], 9);
    assert!(status["uptime_ms"].is_u64());
}

#[test]
fn admin_calls_need_the_token_which_is_never_printed() {
    let folder = Folder::new();
    let config = "policies: { api: { limit: 100/min, adaptive: { source: { observe: db } } } }\n\
        admin: { token: correct-horse-battery }\n";
    let server = Server::with_config(&folder, config);
    let call = |path: &str, method: &str, token: Option<&str>| {
        let headers: Vec<_> = token.into_iter().map(|token| ("Authorization", token)).collect();
        let body =
            if method == "PUT" { r#"{"pressure":1}"# } else { r#"{"policy":"api","key":"k"}"# };
        server.send(method, path, &headers, body.as_bytes())
    };
    for (path, method, done) in [("/v1/reset", "POST", 200), ("/v1/pressure/db", "PUT", 204)] {
        for wrong in [None, Some("Bearer correct-horse-batterx"), Some("correct-horse-battery")] {
            let refused = call(path, method, wrong);
            assert_eq!(refused.status, 401, "{path} {wrong:?}: {}", refused.body);
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            assert!(!refused.body.contains("correct-horse"), "{}", refused.body);
        }
        assert_eq!(call(path, method, Some("Bearer correct-horse-battery")).status, done, "{path}");
    }
    for path in ["/v1/check", "/v1/refund"] {
        assert_eq!(call(path, "POST", None).status, 200, "{path} needs no token");
    }
}

#[test]
fn overrides_are_set_shown_and_removed() {
    let server = Server::start();
    let send = |method: &str, path: &str, body: &str| {
        server.send(method, &format!("/v1/overrides{path}"), &[], body.as_bytes())
    };
    assert_eq!(send("GET", "", "").body, r#"{"overrides":[]}"#);
    assert_eq!(send("GET", "/api/partner-7", "").status, 404);
    assert_eq!(send("PUT", "/api/partner-7", r#"{"limit":"5000/min"}"#).status, 204);
    let shown = send("GET", "/api/partner-7", "").json();
    let expected = json!({"policy":"api","key":"partner-7","limit":"5000/min","ttl_ms":null});
    assert_eq!(shown, expected);
    assert_eq!(server.remaining("api", "partner-7"), 5000);
    assert_eq!(send("PUT", "/api/10.0.0.0%2F8", r#"{"block":true,"ttl_ms":60000}"#).status, 204);
    let blocked = server.post("/v1/check", r#"{"policy":"api","key":"10.1.2.3"}"#).json();
    assert_eq!((&blocked["allowed"], &blocked["retry_after_ms"]), (&json!(false), &Value::Null));
    assert_eq!(send("GET", "", "").json()["overrides"].as_array().unwrap().len(), 2);
    assert_eq!(send("DELETE", "/api/partner-7", "").status, 204);
    assert_eq!(send("DELETE", "/api/partner-7", "").status, 404);
    assert_eq!(server.remaining("api", "partner-7"), 20);
}

#[test]
fn invalid_overrides_are_refused() {
    let server = Server::start();
    for (path, body, status, field) in [
        ("/apj/k", r#"{"limit":"5/s"}"#, 404, "policy"),
        ("/api/k", "{}", 400, "limit"),
        ("/api/k", r#"{"limit":"5/fortnight"}"#, 400, "limit"),
        ("/api/k", r#"{"limit":5}"#, 400, "limit"),
        ("/api/k", r#"{"limit":"5/s","allow":true}"#, 400, "limit"),
        ("/plan/k", r#"{"limit":"5/s"}"#, 400, "limit_name"),
        ("/api/k", r#"{"allow":true,"ttl_ms":-1}"#, 400, "ttl_ms"),
        ("/api/k", r#"{"allow":true,"ttl_ms":0}"#, 400, "ttl_ms"),
        ("/api/k", r#"{"alow":true}"#, 400, "alow"),
        ("/api/10.0.0.0%2F33", r#"{"block":true}"#, 400, "key"),
        ("/api/2001:db8::%2Fx", r#"{"block":true}"#, 400, "key"),
    ] {
        let reply = server.send("PUT", &format!("/v1/overrides{path}"), &[], body.as_bytes());
        assert_eq!(reply.status, status, "{path} {body}: {}", reply.body);
        assert_eq!(reply.json()["field"], field, "{path} {body}: {}", reply.body);
    }
    let forwarded = [("X-Forwarded-For", "192.0.2.1")];
    let reply = server.send("PUT", "/v1/overrides/api/k", &forwarded, br#"{"allow":true}"#);
    assert_eq!(reply.status, 403, "{}", reply.body);
    assert_eq!(server.get("/v1/overrides").body, r#"{"overrides":[]}"#);
}
