//! Extreme numbers, odd permits and huge keys at every call of every door, over a real Redis: they are the caller's
//! errors, and never make the store look broken.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::processes::{RedisCluster, RedisServer};
use crate::rls::{RULES, Rules};
use crate::support::{Folder, Server};

/// A limit of every algorithm, small ones and the largest that can be written.
const POLICIES: &str = r"
policies:
  gcra: 5/min
  gcra-large: { limit: 9007199254/s, burst: 9007199 }
  gcra-odd: { limit: 7/13s, burst: 3 }
  bucket: { algorithm: token-bucket, capacity: 50, refill: 10/s }
  leased: { algorithm: token-bucket, capacity: 1000, refill: 1000/s, lease: true }
  fixed: { algorithm: fixed-window, limit: 5/min }
  fixed-large: { algorithm: fixed-window, limit: 9007199254740991/day }
  slots: { algorithm: sliding-window, limit: 5/min }
  log: { algorithm: sliding-log, limit: 5/min }
  quota: { algorithm: quota, limit: 9007199254740991, every: month }
  places: { algorithm: concurrency, limit: 3 }
  places-large: { algorithm: concurrency, limit: 1000000 }
  queue: { algorithm: leaky-bucket, limit: 2/s, max_wait: 5s }
  both: { all: [{ name: rate, limit: 5/min }, { name: jobs, algorithm: concurrency, limit: 2 }] }
  named: { all: [{ name: ip, key: ip, limit: 3/h }, { name: user, key: user, algorithm: fixed-window, limit: 50/h }] }
  either: { any: [{ name: a, limit: 3/h }, { name: b, algorithm: sliding-log, limit: 50/h }] }
";

const NAMES: &[&str] = &[
    "gcra",
    "gcra-large",
    "gcra-odd",
    "bucket",
    "leased",
    "fixed",
    "fixed-large",
    "slots",
    "log",
    "quota",
    "places",
    "places-large",
    "queue",
    "both",
    "named",
    "either",
    "nobody",
];

const NUMBERS: &[&str] = &[
    "-9223372036854775808",
    "-1",
    "0",
    "1",
    "2",
    "2147483647",
    "2147483648",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e400",
    "-0",
    "0.5",
];

const PERMITS: &[&str] = &[
    "",
    "p",
    "l",
    "p0.1",
    "p0.ffffffffffffffff",
    "p2",
    "p2.",
    "p2..",
    "p2..0",
    "p2..1",
    "p2..20000000000000",
    "p2..20000000000001",
    "p2..ffffffffffffffff",
    "p2..1x0",
    "p2..1x1000000",
    "p2..1x1000001",
    "p2.jobs.1",
    "p2.rate.1",
    "p2.jobs.1.jobs.1",
    "p2.jobs.1.rate.1",
    "p2.jobs",
    "p2.~00.1",
    "l2.0..1",
    "l2.ffffffffffffffff..1",
    "l2..1",
];

fn keys() -> Vec<String> {
    let odd = ["", "k", "k with spaces", "k\u{0}k", "{tag}", "é", "a:b|c", "%00", "\r\n"];
    let long = ["x".repeat(65), "é".repeat(2_000), "x".repeat(20_000)];
    odd.iter().map(|key| (*key).to_owned()).chain(long).collect()
}

fn server(store: &str, folder: &Folder) -> Server {
    let store = format!(
        "store: {{ url: \"{store}\", deadline: 20s, breaker: {{ slow: 20s, failures: 1 }} }}\n"
    );
    let file = folder.write("tidegate.yaml", format!("{store}{POLICIES}"));
    let any = "127.0.0.1:0";
    Server::start_with(&["serve", "-c", &file, "--listen", any, "--resp", any])
}

/// No failure of the store was counted, and its breaker has never opened.
fn assert_store_is_well(server: &Server, after: &str) {
    let page = server.get("/metrics").body;
    for line in page.lines().filter(|line| line.starts_with("tidegate_store_errors_total{")) {
        assert!(line.ends_with(" 0"), "{after}: {line}");
    }
    assert_eq!(server.metric("tidegate_breaker_state"), Some(0.0), "{after}");
    for source in ["local", "fail-open", "fail-closed"] {
        let by_itself = format!("source=\"{source}\"}} ");
        let counted = page.lines().filter(|line| line.contains(&by_itself));
        assert!(
            counted.clone().all(|line| line.ends_with(" 0")),
            "{after}: {:?}",
            counted.collect::<Vec<_>>()
        );
    }
}

fn post(server: &Server, path: &str, body: &str) {
    let reply = server.post(path, body);
    let shown: String = body.chars().take(200).collect();
    assert!(
        matches!(reply.status, 200 | 400 | 404),
        "{path} {shown}: {} {}",
        reply.status,
        reply.body
    );
    if reply.status != 200 {
        let answer = reply.json();
        assert!(answer["detail"].is_string(), "{path} {shown}: {answer}");
    }
}

/// What is done with a permit.
const HELD: [&str; 2] = ["/v1/release", "/v1/renew"];

fn fire(server: &Server) {
    let calls = ["check", "peek", "refund", "reset", "reserve", "acquire"];
    for path in calls.map(|call| format!("/v1/{call}")) {
        for policy in NAMES {
            for cost in NUMBERS {
                post(server, &path, &format!(r#"{{"policy":"{policy}","key":"k","cost":{cost}}}"#));
                let both = r#"{"ip":"203.0.113.9","user":"ann"}"#;
                post(
                    server,
                    &path,
                    &format!(r#"{{"policy":"{policy}","keys":{both},"cost":{cost}}}"#),
                );
            }
        }
        assert_store_is_well(server, &path);
    }
    for policy in NAMES {
        for (permit, path) in PERMITS.iter().flat_map(|it| HELD.map(|path| (it, path))) {
            post(
                server,
                path,
                &json!({"policy": policy, "key": "k", "permit": permit}).to_string(),
            );
            let keys = json!({"ip": "203.0.113.9"});
            post(
                server,
                path,
                &json!({"policy": policy, "keys": keys, "permit": permit}).to_string(),
            );
        }
        for key in keys() {
            for path in calls.map(|call| format!("/v1/{call}")) {
                post(server, &path, &json!({"policy": policy, "key": key}).to_string());
            }
            for path in HELD {
                let body = json!({"policy": policy, "key": key, "permit": "p2..1"}).to_string();
                post(server, path, &body);
            }
        }
    }
    assert_store_is_well(server, "permits and keys");
    for atomic in [false, true] {
        for cost in NUMBERS {
            let mut checks = String::new();
            for policy in NAMES.iter().filter(|name| !["queue", "places", "nobody"].contains(name))
            {
                let _ = write!(checks, r#"{{"policy":"{policy}","key":"k","cost":{cost}}},"#);
            }
            let one = format!(
                r#"{{"policy":"gcra","key":"k","cost":{cost}}},{{"policy":"fixed","key":"k"}}"#
            );
            post(
                server,
                "/v1/check/batch",
                &format!(r#"{{"checks":[{}],"atomic":{atomic}}}"#, checks.trim_end_matches(',')),
            );
            post(server, "/v1/check/batch", &format!(r#"{{"checks":[{one}],"atomic":{atomic}}}"#));
        }
    }
    assert_store_is_well(server, "batches");
}

fn fire_overrides(server: &Server) {
    for policy in NAMES {
        for number in NUMBERS {
            for body in [
                format!(r#"{{"limit":"{number}/s"}}"#),
                format!(r#"{{"limit":"{number}/{number}s"}}"#),
                format!(r#"{{"limit":"5/min burst {number}"}}"#),
                format!(r#"{{"limit":"concurrency {number}"}}"#),
                format!(r#"{{"limit":"concurrency 5 lease {number}s"}}"#),
                format!(r#"{{"allow":true,"ttl_ms":{number}}}"#),
            ] {
                let reply =
                    server.send("PUT", &format!("/v1/overrides/{policy}/k"), &[], body.as_bytes());
                let is_expected = matches!(reply.status, 200 | 204 | 400 | 404);
                assert!(is_expected, "{policy} {body}: {} {}", reply.status, reply.body);
                if matches!(reply.status, 200 | 204) {
                    for cost in ["0", "1", "2147483648", "9007199254740991"] {
                        for call in ["check", "peek", "acquire", "refund"] {
                            let body =
                                format!(r#"{{"policy":"{policy}","key":"k","cost":{cost}}}"#);
                            post(server, &format!("/v1/{call}"), &body);
                        }
                    }
                }
            }
        }
        server.send("DELETE", &format!("/v1/overrides/{policy}/k"), &[], b"");
        assert_store_is_well(server, &format!("overrides of {policy}"));
    }
}

fn fire_resp(server: &Server) {
    for policy in NAMES {
        for number in NUMBERS {
            server.resp_line(&format!("TG.CHECK {policy} k {number}"));
        }
    }
    for burst in NUMBERS {
        for count in NUMBERS {
            for period in ["0", "1", "60", "2147483648", "9007199254740992", "9223372036854775807"]
            {
                server.resp_line(&format!("CL.THROTTLE k {burst} {count} {period} {count}"));
                server.resp_line(&format!("CL.THROTTLE k {burst} {count} {period}"));
            }
        }
    }
    assert_store_is_well(server, "the Redis protocol");
}

/// Through JSON, which shares its code with gRPC.
fn fire_envoy(server: &Server) {
    for number in NUMBERS {
        for limit in NUMBERS {
            let entries = r#"[{"key":"bare","value":"k"}]"#;
            let limit = format!(r#"{{"requestsPerUnit":{limit},"unit":"DAY"}}"#);
            for request in [
                format!(
                    r#"{{"domain":"edge","hitsAddend":{number},"descriptors":[{{"entries":{entries}}}]}}"#
                ),
                format!(
                    r#"{{"domain":"edge","descriptors":[{{"entries":{entries},"hitsAddend":{number}}}]}}"#
                ),
                format!(
                    r#"{{"domain":"edge","hitsAddend":{number},"descriptors":[{{"entries":{entries},"limit":{limit}}}]}}"#
                ),
            ] {
                let reply = server.post("/json", &request);
                let is_expected = matches!(reply.status, 200 | 400 | 429);
                assert!(is_expected, "{request}: {} {}", reply.status, reply.body);
            }
        }
    }
    assert_store_is_well(server, "the rate limit service");
}

#[test]
fn no_argument_of_the_rate_limit_service_makes_the_store_look_broken() {
    let (redis, rules) = (RedisServer::start(), Rules::new(&[("edge.yaml", RULES)]));
    let server = rules.serve(&["--store", &redis.url()]);
    fire_envoy(&server);
}

#[test]
fn no_argument_of_any_door_makes_the_store_look_broken() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let server = server(&redis.url(), &folder);
    fire(&server);
    fire_resp(&server);
    fire_overrides(&server);
    let left: Value = server.post("/v1/peek", r#"{"policy":"gcra","key":"fresh"}"#).json();
    assert_eq!(left["source"], "store", "{left}");
}

#[test]
fn no_argument_makes_a_cluster_look_broken() {
    let (redis, folder) = (RedisCluster::start(), Folder::new());
    let server = server(&redis.url(), &folder);
    fire(&server);
}
