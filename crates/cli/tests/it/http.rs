//! The routes of the API and their answers.

use serde_json::{Value, json};

use crate::support::{Folder, Reply, Server};

/// Sends a POST, expects a 200, and compares the given fields.
fn check(server: &Server, path: &str, body: &str, expected: &Value) -> Reply {
    let reply = server.post(path, body);
    assert_eq!(reply.status, 200, "{path} {body}: {}", reply.body);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let got = reply.json();
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&got[field], value, "{path} {body}: {field} in {got}");
    }
    reply
}

#[test]
fn a_check_answers_as_documented_to_the_byte() {
    let server = Server::start();
    let reply = server.post("/v1/check", r#"{"policy":"api","key":"user-42","cost":1}"#);
    let expected = r#"{"allowed":true,"limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":600,"policy":"api","binding":"api","source":"store"}"#;
    assert_eq!(reply.body, expected);
    for (name, value) in [
        ("content-type", "application/json"),
        ("ratelimit-policy", "\"api\";q=100;w=60"),
        ("ratelimit", "\"api\";r=19;t=1"),
        ("x-ratelimit-limit", "20"),
        ("x-ratelimit-remaining", "19"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{name}");
    }
    let reset: u64 = reply.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(reset > 1_700_000_000, "{reset} is not in epoch seconds");
    assert_eq!(reply.header("retry-after"), None);
}

#[test]
fn a_window_resets_at_its_end_and_not_a_second_later() {
    let folder = Folder::new();
    let config = "policies: { edge: { algorithm: fixed-window, limit: 5/h } }";
    let config = folder.write("tidegate.yaml", config);
    let server = Server::start_with(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
    let body = r#"{"policy":"edge","key":"ann"}"#;
    let alone = [server.post("/v1/check", body), server.get("/v1/auth/edge")]
        .map(|reply| reply.header("x-ratelimit-reset").unwrap().to_owned());
    let batch = server.post("/v1/check/batch", &format!(r#"{{"checks":[{body}],"headers":true}}"#));
    let in_batch = batch.json()["decisions"][0]["headers"]["x-ratelimit-reset"].clone();
    for reset in alone.iter().map(String::as_str).chain(in_batch.as_str()) {
        assert_eq!(reset.parse::<u64>().unwrap() % 3600, 0, "{reset}");
    }
    assert!(in_batch.is_string());
}

#[test]
fn an_override_counts_with_the_algorithm_of_the_policy() {
    let folder = Folder::new();
    let config = "policies: { log: { algorithm: sliding-log, limit: 5/h }, budget: { algorithm: quota, limit: 5, every: day } }";
    let config = folder.write("tidegate.yaml", config);
    let server = Server::start_with(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
    let left = |policy: &str, cost: u64| {
        let body = format!(r#"{{"policy":"{policy}","key":"ann","cost":{cost}}}"#);
        server.post("/v1/check", &body).json()["remaining"].as_u64().unwrap()
    };
    let set = |policy: &str, limit: &str| {
        let path = format!("/v1/overrides/{policy}/ann");
        let body = format!(r#"{{"limit":{limit}}}"#);
        server.send("PUT", &path, &[], body.as_bytes())
    };
    for (policy, limit) in [("log", r#""7/h""#), ("budget", "7"), ("budget", r#""7""#)] {
        server.post("/v1/reset", &format!(r#"{{"policy":"{policy}","key":"ann"}}"#));
        let path = format!("/v1/overrides/{policy}/ann");
        server.send("DELETE", &path, &[], b"");
        assert_eq!(left(policy, 4), 1);
        assert_eq!(set(policy, limit).status, 204, "{policy} {limit}");
        assert_eq!(left(policy, 1), 2, "{policy} {limit}: the usage is kept");
    }
    for (policy, limit, output) in [
        ("log", "7", "has no time unit"),
        ("budget", r#""7/day""#, "expected a whole number"),
        ("budget", "true", "a limit like"),
        ("budget", "-7", "a limit like"),
    ] {
        let reply = set(policy, limit);
        assert_eq!((reply.status, &reply.json()["field"]), (400, &json!("limit")), "{reply:?}");
        assert!(reply.body.contains(output), "{reply:?}");
    }
}

#[test]
fn an_override_that_does_not_fit_names_its_field_and_says_why() {
    let folder = Folder::new();
    let config = "policies:\n  plan: { all: [{ name: minute, limit: 9/min }, { name: day, limit: 99/day }] }\n  \
                  total: { limit: 9/s, key: global }\n  shared: { share: { of: total, by: tenant } }\n";
    let server = Server::with_config(&folder, config);
    let long = format!("plan/{}", "x".repeat(5_000));
    for (path, body, expected) in [
        ("shared/ann", r#"{"limit":"5/s"}"#, "`limit`: tenants of a share"),
        ("plan/ann", r#"{"limit":"5/s","limit_name":"dya"}"#, "`limit_name`: "),
        ("total/10.0.0.0%2F33", r#"{"limit":"5/s"}"#, "`key`: "),
        (&long, r#"{"allow":true}"#, "`key`: "),
    ] {
        let reply = server.send("PUT", &format!("/v1/overrides/{path}"), &[], body.as_bytes());
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(reply.status == 400 && detail.starts_with(expected), "{reply:?}");
        let field = problem["field"].as_str().unwrap();
        assert!(expected.starts_with(&format!("`{field}`: ")), "{reply:?}");
    }
}

#[test]
fn every_operation_works() {
    let server = Server::start();
    let login = r#"{"policy":"login","key":"ann","cost":3}"#;
    for (path, body, expected) in [
        ("/v1/peek", login, json!({"allowed": true, "remaining": 2})),
        ("/v1/check", login, json!({"allowed": true, "limit": 5, "remaining": 2})),
        ("/v1/peek", login, json!({"allowed": false, "remaining": 2})),
        ("/v1/check", login, json!({"allowed": false, "remaining": 2, "binding": "login"})),
        ("/v1/refund", r#"{"policy":"login","key":"ann"}"#, json!({"remaining": 3})),
        ("/v1/refund", login, json!({"remaining": 5})),
        ("/v1/check", login, json!({"allowed": true, "remaining": 2})),
        (
            "/v1/reset",
            r#"{"policy":"login","key":"ann"}"#,
            json!({"allowed": true, "remaining": 5}),
        ),
        ("/v1/check", r#"{"policy":"login","key":"ben"}"#, json!({"remaining": 4})),
        ("/v1/check", r#"{"policy":"login","key":"ben","cost":0}"#, json!({"remaining": 4})),
        (
            "/v1/check",
            r#"{"policy":"plan","key":"ann"}"#,
            json!({"binding": "second", "limit": 10}),
        ),
        ("/v1/check", r#"{"policy":"monthly","key":"ann"}"#, json!({"remaining": 99_999})),
        ("/v1/check", r#"{"policy":"upload","keys":{"any":"ann"}}"#, json!({"remaining": 49})),
        ("/v1/check", r#"{"policy":"search","key":"\u00e4\n"}"#, json!({"remaining": 239})),
        (
            "/v1/check",
            r#"{"policy":"signup","keys":{"ip":"192.0.2.1","email_domain":"example.com"}}"#,
            json!({"policy": "signup", "binding": "ip", "remaining": 2}),
        ),
    ] {
        check(&server, path, body, &expected);
    }
}

#[test]
fn a_refusal_has_a_retry_time() {
    let server = Server::start();
    let all = r#"{"policy":"login","key":"ann","cost":5}"#;
    check(&server, "/v1/check", all, &json!({"allowed": true}));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let reply = check(&server, "/v1/check", all, &json!({"allowed": false, "limit": 5}));
        let wait_ms = reply.json()["retry_after_ms"].as_u64().unwrap();
        let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        let (least, most) = (wait_ms.div_ceil(1000), wait_ms.div_ceil(1000) * 6 / 5);
        assert!((least..=most).contains(&seconds), "{seconds} for {wait_ms} ms");
        seen.insert(seconds);
    }
    assert!(seen.len() > 1, "no jitter: {seen:?}");
}

/// Whole seconds leave room for one more only: one in ten gets it.
#[test]
fn a_refusal_for_less_than_a_second_has_jitter_too() {
    let server = Server::start();
    let all = r#"{"policy":"api","key":"ann","cost":20}"#;
    check(&server, "/v1/check", all, &json!({"allowed": true}));
    let one = r#"{"policy":"api","key":"ann"}"#;
    let (mut seen, mut refused) = ([0; 3], 0);
    while refused < 40 {
        let reply = server.post("/v1/check", one);
        if reply.json()["allowed"] == true {
            continue; // the machine is slow
        }
        refused += 1;
        seen[reply.header("retry-after").unwrap().parse::<usize>().unwrap()] += 1;
    }
    assert!(seen[1] > seen[2] && seen[2] > 0, "{seen:?}");
}

#[test]
fn a_cost_above_the_limit_has_no_retry_time() {
    let server = Server::start();
    let body = r#"{"policy":"api","key":"ann","cost":21}"#;
    let expected = json!({"allowed": false, "retry_after_ms": null, "remaining": 20});
    let reply = check(&server, "/v1/check", body, &expected);
    assert_eq!(reply.header("retry-after"), None);
    let largest = r#"{"policy":"api","key":"ann","cost":9007199254740992}"#;
    check(&server, "/v1/check", largest, &expected);
}

#[test]
fn reservations_queue_and_then_refuse() {
    let server = Server::start();
    let two = r#"{"policy":"export","key":"ann","cost":2}"#;
    let first = check(&server, "/v1/reserve", two, &json!({"accepted": true, "retry_after_ms": 0}));
    assert_eq!(first.body, r#"{"accepted":true,"delay_ms":0,"retry_after_ms":0}"#);
    let mut delay_ms = 0;
    let refused = loop {
        let reply = server.post("/v1/reserve", two);
        if reply.json()["accepted"] == false {
            break reply;
        }
        let next_ms = reply.json()["delay_ms"].as_u64().unwrap();
        assert!(next_ms > delay_ms && next_ms <= 5000, "{next_ms} after {delay_ms}");
        delay_ms = next_ms;
    };
    assert!(delay_ms > 3000, "refused after only {delay_ms} ms");
    assert!(refused.json()["retry_after_ms"].as_u64().unwrap() <= 1000);
    assert_eq!(refused.json()["delay_ms"], 0);
    assert!(["1", "2"].contains(&refused.header("retry-after").unwrap()));
    let never = r#"{"policy":"export","key":"ann","cost":3}"#;
    let expected = json!({"accepted": false, "retry_after_ms": null});
    assert_eq!(check(&server, "/v1/reserve", never, &expected).header("retry-after"), None);
}

#[test]
fn a_batch_is_answered_in_order_and_each_check_separately() {
    let server = Server::start();
    let body = r#"{"checks":[
        {"policy":"login","key":"ann","cost":4},
        {"policy":"login","key":"ann","cost":4},
        {"policy":"login","key":"ann"},
        {"policy":"plan","key":"ann"}]}"#;
    let decisions = server.post("/v1/check/batch", body).json()["decisions"].clone();
    let of = |field: &str| -> Vec<Value> {
        decisions.as_array().unwrap().iter().map(|decision| decision[field].clone()).collect()
    };
    assert_eq!(of("allowed"), [json!(true), json!(false), json!(true), json!(true)]);
    assert_eq!(of("remaining"), [json!(1), json!(1), json!(0), json!(9)]);
    assert_eq!(of("binding"), [json!("login"), json!("login"), json!("login"), json!("second")]);
    assert_eq!(server.post("/v1/check/batch", r#"{"checks":[]}"#).body, r#"{"decisions":[]}"#);
}

#[test]
fn a_batch_can_include_the_headers_of_single_checks() {
    let names = [
        "ratelimit-policy",
        "ratelimit",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "retry-after",
    ];
    let questions = |who: &str| {
        [("login", 4), ("login", 4), ("login", 6), ("plan", 1)]
            .map(|(policy, cost)| format!(r#"{{"policy":"{policy}","key":"{who}","cost":{cost}}}"#))
    };
    // The retry time of a refusal has jitter, and other times may differ by a second.
    let normalised = |name: &str, value: Option<&str>| match name {
        "retry-after" => value.map(|_| String::new()),
        _ => value.map(|value| value.split(";t=").next().unwrap_or_default().to_owned()),
    };
    let server = Server::start();
    let alone = questions("ann").map(|body| {
        let reply = server.post("/v1/check", &body);
        names.map(|name| normalised(name, reply.header(name)))
    });
    let batch = format!(r#"{{"headers":true,"checks":[{}]}}"#, questions("ben").join(","));
    let decisions = server.post("/v1/check/batch", &batch).json()["decisions"].clone();
    let together = [0, 1, 2, 3].map(|index| {
        let headers = &decisions[index]["headers"];
        assert!(headers["x-ratelimit-reset"].is_string());
        names.map(|name| normalised(name, headers[name].as_str()))
    });
    assert_eq!(together, alone);
    let retry_after = |index: usize| together[index][4].is_some();
    assert_eq!([0, 1, 2, 3].map(retry_after), [false, true, false, false], "6 of 5 will never be");

    let plain = batch.replace(r#""headers":true,"#, "");
    let decision = server.post("/v1/check/batch", &plain).json()["decisions"][0].clone();
    assert!(decision.get("headers").is_none(), "{decision}");
    let atomic = r#"{"atomic":true,"headers":true,"checks":[{"policy":"api","key":"cleo"}]}"#;
    let decision = server.post("/v1/check/batch", atomic).json()["decisions"][0].clone();
    assert_eq!(decision["headers"]["ratelimit-policy"], r#""api";q=100;w=60"#);
}

#[test]
fn a_batch_takes_a_thousand_checks() {
    let server = Server::start();
    let one = r#"{"policy":"monthly","key":"ann"}"#;
    let body = format!(r#"{{"checks":[{}]}}"#, vec![one; 1000].join(","));
    let reply = server.post("/v1/check/batch", &body).json();
    assert_eq!(reply["decisions"].as_array().unwrap().len(), 1000);
    assert_eq!(reply["decisions"][999]["remaining"], 99_000);
}

#[test]
fn policies_are_shown_by_name() {
    let policies = Server::start().get("/v1/policies").json();
    let api = json!({"algorithm": "gcra", "rate": "100/min", "limit": 100, "period_us": 60_000_000, "burst": 20});
    assert_eq!(policies["api"], api);
    assert_eq!(policies["upload"]["capacity"], 50);
    assert_eq!(policies["export"]["max_wait_us"], 5_000_000);
    let report =
        json!({"algorithm": "concurrency", "rate": "2 at once", "limit": 2, "ttl_us": 60_000_000});
    assert_eq!(policies["report"], report, "a ttl is not a rate");
    let monthly = &policies["monthly"];
    assert_eq!(
        (&monthly["rate"], &monthly["time_zone"]),
        (&json!("100000/month"), &json!("Europe/Berlin"))
    );
    assert_eq!(policies["plan"]["mode"], "all");
    assert_eq!(policies["plan"]["members"][1]["name"], "day");
    assert_eq!(policies["signup"]["members"][1]["key"], "email_domain");
}

#[test]
fn health_check_and_dashboard_are_served() {
    let server = Server::start();
    let health = server.get("/healthz");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'self'; "));
    assert!(page.body.starts_with("<!doctype html>") && page.body.ends_with("</html>\n"));
}

#[test]
fn the_content_type_does_not_matter() {
    let server = Server::start();
    let body = br#"{"policy":"api","key":"ann"}"#;
    for kind in ["application/x-www-form-urlencoded", "text/plain", "application/json", "x/y"] {
        assert_eq!(server.send("POST", "/v1/check", &[("Content-Type", kind)], body).status, 200);
    }
}

#[test]
fn a_connection_can_be_reused() {
    let server = Server::start();
    let body = r#"{"policy":"login","key":"ann"}"#;
    let request = |close: &str| {
        let length = body.len();
        format!(
            "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{close}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let both = request("") + &request("Connection: close\r\n");
    let replies = server.raw(both.as_bytes());
    assert!(
        replies.contains(r#""remaining":4"#) && replies.contains(r#""remaining":3"#),
        "{replies}"
    );
}
