//! Limits that follow the load, at every door of the real binary.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use serde_json::{Value, json};

use crate::probe::Probe;
use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Server};
use crate::tls::Authority;

/// A policy that follows a probe, fast enough for a test: a reading takes effect in the next second.
fn search(more: &str) -> String {
    format!(
        "{{ algorithm: fixed-window, limit: 1000/day, adaptive: {{ source: {{ probe: PROBE }}, ramp: pressure, \
         smoothing: {{ close: 100ms, open: 5s }}, hysteresis: none{more} }} }}"
    )
}

fn start(folder: &Folder, policies: &str, probe: &Probe) -> Server {
    let config = folder.write("t.yaml", config(policies, probe));
    let doors = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
    Server::start_with(&[&["serve", "-c", &config], &doors[..]].concat())
}

fn config(policies: &str, probe: &Probe) -> String {
    let url = format!("\"{}\"", probe.url("/pressure"));
    format!("policies: {{ {} }}\n", policies.replace("PROBE", &url))
}

/// The limit in the answer to a check of a key.
fn limit_for(server: &Server, policy: &str, key: &str) -> u64 {
    let body = format!(r#"{{"policy":"{policy}","key":"{key}","cost":0}}"#);
    server.post("/v1/peek", &body).json()["limit"].as_u64().unwrap()
}

fn limit_of(server: &Server, policy: &str) -> u64 {
    limit_for(server, policy, "user-42")
}

/// The limit in the answer of the Redis protocol.
fn resp_limit(server: &Server) -> u64 {
    u64::try_from(server.cell_reply("TG.PEEK search user-42")[1]).unwrap()
}

fn wait_for_limit(server: &Server, policy: &str, limit: u64) {
    let what = format!("the limit of {policy} becomes {limit}");
    wait_until(&what, DEADLINE, || limit_of(server, policy) == limit);
}

/// The first adaptive limit of `/v1/status`.
fn status(server: &Server) -> Value {
    server.get("/v1/status").json()["adaptive"][0].clone()
}

#[test]
fn pressure_reduces_a_limit_at_every_door_and_it_rises_slowly() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.0));
    let server = start(&folder, &format!("search: {}", search("")), &probe);
    assert_eq!(limit_of(&server, "search"), 1000);
    probe.set_pressure(0.5);
    wait_for_limit(&server, "search", 500);
    let reply = server.post("/v1/check", r#"{"policy":"search","key":"user-42"}"#);
    assert_eq!(reply.header("x-ratelimit-limit"), Some("500"));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""search";q=500;w=86400"#));
    assert_eq!(reply.json()["remaining"], 499);
    assert_eq!(server.cell_reply("TG.CHECK search user-42")[1..3], [500, 498]);
    let entries =
        json!([{"key": "policy", "value": "search"}, {"key": "user", "value": "user-42"}]);
    let question = json!({"domain": "tidegate", "descriptors": [{"entries": entries}]});
    let answer = server.post("/json", &question.to_string()).json();
    assert_eq!(answer["statuses"][0]["currentLimit"]["requestsPerUnit"], 500, "{answer}");
    assert_eq!(server.metric(r#"rate_limit_effective_limit{policy="search"}"#), Some(500.0));
    let pressure = server.metric(r#"rate_limit_pressure_factor{target="search"}"#).unwrap();
    assert!((0.499..=0.5).contains(&pressure), "{pressure}");
    let shown = server.get("/v1/policies").json()["search"].clone();
    assert_eq!((&shown["limit"], &shown["effective"]), (&json!(1000), &json!(500)));
    assert_eq!(status(&server)["binding"], "probe");
    probe.set_pressure(0.0);
    wait_until("it opens", DEADLINE, || limit_of(&server, "search") > 500);
    assert!(limit_of(&server, "search") < 1000, "not at once");
}

#[test]
fn a_missing_probe_raises_no_limit_and_a_failing_one_reduces_it() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.5));
    let server = start(&folder, &format!("search: {}", search("")), &probe);
    wait_for_limit(&server, "search", 500);
    probe.set_answer(404, "who?");
    wait_until("the signal is stale", DEADLINE, || status(&server)["stale"] == true);
    assert_eq!(limit_of(&server, "search"), 500);
    probe.set_answer(503, "");
    wait_for_limit(&server, "search", 200); // a failed probe counts as 0.8
    probe.set_pressure(0.9);
    wait_for_limit(&server, "search", 100);
    drop(probe);
    wait_until("the signal is stale again", DEADLINE, || status(&server)["stale"] == true);
    assert_eq!(limit_of(&server, "search"), 100, "a failing probe raised the limit");
}

#[test]
fn a_limit_follows_how_long_a_health_check_takes() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.0));
    probe.set_answer(200, "ok");
    let timed = "probe: PROBE, measure: latency, healthy: 500ms, overloaded: 1s, timeout: 30s";
    let policy = search("").replace("probe: PROBE", timed);
    let file = folder.write("t.yaml", config(&format!("search: {policy}"), &probe));
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let failing = || server.metric(r#"tidegate_signal_failing{target="search",signal="probe"}"#);
    let pressure = || server.metric(r#"rate_limit_pressure_factor{target="search"}"#);
    wait_until("the health check is fast", DEADLINE, || status(&server)["stale"] == false);
    assert_eq!((limit_of(&server, "search"), failing()), (1000, Some(0.0)));
    probe.set_latency(Duration::from_millis(750));
    wait_until("half the way is half the pressure", DEADLINE, || pressure() > Some(0.45));
    assert!(limit_of(&server, "search") < 560);
    // A failure counts as 0.8, however fast it is.
    probe.set_latency(Duration::ZERO);
    probe.set_answer(503, "");
    wait_for_limit(&server, "search", 200);
    assert_eq!(failing(), Some(1.0));
    let logged = std::fs::read_to_string(&log).unwrap();
    let line = logged.lines().find(|line| line.contains("load probe failed"));
    assert!(line.is_some_and(|line| line.contains("search/probe")), "{logged}");
    probe.set_answer(200, "ok");
    probe.set_latency(Duration::from_millis(1100));
    wait_for_limit(&server, "search", 1);
    assert_eq!(failing(), Some(0.0));
}

#[test]
fn a_health_check_that_hangs_is_not_taken_for_a_fast_one() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.0));
    probe.set_answer(200, "ok");
    let timed = "probe: PROBE, measure: latency, healthy: 500ms, overloaded: 1s, timeout: 5s";
    let policy = search("").replace("probe: PROBE", timed);
    let server = start(&folder, &format!("search: {policy}"), &probe);
    wait_until("the health check is fast", DEADLINE, || status(&server)["stale"] == false);
    assert_eq!(limit_of(&server, "search"), 1000);
    // Longer than the timeout, which counts as 0.8: the limit is never 1 for it.
    probe.set_latency(Duration::from_secs(6));
    wait_for_limit(&server, "search", 1);
}

#[test]
fn sources_are_asked_over_tls_with_a_token_that_a_reload_reads_again() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let probe = Probe::over_tls(0.0, &authority.sign(&folder, "probe", "probe"));
    // A pressure, and the answer of a query.
    probe.set_answer(200, r#"{"pressure":0.5,"data":{"result":[1,"75"]}}"#);
    probe.set_token("first-secret");
    let (ca, token) =
        (folder.write("ca.pem", authority.0.pem()), folder.write("token", "first-secret\n"));
    let policy = |source: &str, more: &str| {
        let quick = "smoothing: none, hysteresis: none";
        format!(
            "{{ algorithm: fixed-window, limit: 1000/day, adaptive: {{ source: {{ {source} }}, {quick}{more} }} }}"
        )
    };
    let (url, files) =
        (probe.https_url("/pressure"), format!("ca_file: {ca}, token_file: {token}"));
    let policies = [
        ("probed", policy(&format!("probe: '{url}', {files}"), "")),
        (
            "queried",
            policy(
                &format!("prometheus: '{}', query: up, every: 1s, {files}", probe.https_url("")),
                ", ramp: { min_value: 50, max_value: 100, min_rate: 0.2 }",
            ),
        ),
        // Controls: neither the authority nor the token is a matter of course.
        ("untrusted", policy(&format!("probe: '{url}', token_file: {token}"), "")),
        ("nameless", policy(&format!("probe: '{url}', ca_file: {ca}"), "")),
    ];
    let policies = policies.map(|(name, policy)| format!("{name}: {policy}")).join(", ");
    let text = |more: &str| format!("policies: {{ {policies}{more} }}\n");
    let file = folder.write("t.yaml", text(""));
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let failing = |policy: &str, signal: &str| {
        let labels = format!(r#"target="{policy}",signal="{signal}""#);
        server.metric(&format!("tidegate_signal_failing{{{labels}}}")) == Some(1.0)
    };
    wait_for_limit(&server, "probed", 500);
    wait_for_limit(&server, "queried", 600);
    wait_until("the controls fail", DEADLINE, || {
        failing("untrusted", "probe") && failing("nameless", "probe")
    });
    assert!(!failing("probed", "probe") && !failing("queried", "prometheus"));
    probe.set_token("second-secret");
    wait_until("the old token is refused", DEADLINE, || failing("probed", "probe"));
    folder.write("token", "second-secret");
    folder.write("t.yaml", text(", other: 1/s"));
    let has_next = || server.get("/v1/policies").json().get("other").is_some();
    wait_until("the reload is in force", DEADLINE, has_next);
    probe.set_answer(200, r#"{"pressure":0.7}"#);
    wait_for_limit(&server, "probed", 300);
    assert!(!failing("probed", "probe"));
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("probed/probe") && logged.contains("status 401"), "{logged}");
    assert!(logged.contains("untrusted/probe"), "{logged}");
    assert!(logged.contains("UnknownIssuer: name the certificate of the authority"), "{logged}");
    assert!(!logged.contains("-secret"), "{logged}");
}

#[test]
fn a_failing_probe_logs_each_new_cause_with_its_remedy() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    // As `openssl req -x509` makes it: a server with the certificate of an authority.
    let ca = folder.write("ca.pem", authority.0.pem());
    let key = folder.write("ca.key", authority.0.key().serialize_pem());
    let [plain, own] = [Probe::with_pressure(0.0), Probe::over_tls(0.0, &[ca.clone(), key])];
    plain.set_answer(503, "");
    let url = own.https_url("/pressure");
    let policies = format!("search: {}, own: {}", search(""), search("").replace("PROBE", "OWN"));
    let text = config(&policies, &plain).replace("OWN", &format!("'{url}', ca_file: {ca}"));
    let (file, log) = (folder.write("t.yaml", text), folder.path("log"));
    let _server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let has_line = |parts: &[&str]| {
        let logged = std::fs::read_to_string(&log).unwrap();
        logged.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    };
    wait_until("the first cause", DEADLINE, || has_line(&["search/probe", "status 503"]));
    plain.set_answer(404, "");
    wait_until("the next cause", DEADLINE, || has_line(&["search/probe", "status 404"]));
    let parts = ["own/probe", "CaUsedAsEndEntity", "-addext basicConstraints=critical,CA:FALSE"];
    wait_until("the remedy", DEADLINE, || has_line(&parts));
}

#[test]
fn a_health_check_over_tls_succeeds_without_a_close_notify_unless_it_is_cut() {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let probe = Probe::over_tls(0.0, &authority.sign(&folder, "probe", "probe"));
    let ca = folder.write("ca.pem", authority.0.pem());
    let (url, scale) = (probe.https_url("/healthz"), "healthy: 5s, overloaded: 10s");
    let sources = [
        ("timed", format!("probe: '{url}', measure: latency, {scale}, ca_file: {ca}")),
        ("read", format!("probe: '{url}', ca_file: {ca}")),
    ];
    let policies = sources
        .map(|(name, source)| format!("{name}: {}", search("").replace("probe: PROBE", &source)));
    let file = folder.write("t.yaml", format!("policies: {{ {} }}\n", policies.join(", ")));
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let failing = || {
        ["timed", "read"].map(|policy| {
            let labels = format!(r#"target="{policy}",signal="probe""#);
            server.metric(&format!("tidegate_signal_failing{{{labels}}}")) == Some(1.0)
        })
    };
    for (answer, expected) in [
        ("HTTP/1.1 200 x\r\nContent-Length: 50\r\n\r\n0.251", [true, true]),
        ("HTTP/1.1 200 x\r\nContent-Length: 5\r\n\r\n0.251", [false, false]),
        // As HTTP/1.0 servers answer: who needs the bytes cannot know whether they are all.
        ("HTTP/1.0 200 x\r\n\r\n0.251", [false, true]),
        ("HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n0.251\r\n", [true, true]),
    ] {
        probe.set_raw_answer(answer);
        wait_until(&format!("{expected:?} after {answer}"), DEADLINE, || failing() == expected);
    }
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains("without sending TLS close_notify"), "{logged}");
}

#[test]
fn a_report_that_no_limit_follows_is_warned_of_once_with_the_nearest_target() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies:\n  api: { limit: 9/s, adaptive: { source: { observe: db } } }\n  \
         plan: { all: [{ name: rate, limit: 9/s, adaptive: { source: { pool: cache } } }, { name: day, limit: 9/day }] }\n  \
         asked: { limit: 9/s, adaptive: { source: { probe: 'http://127.0.0.1:9/', target: dbb } } }\n  \
         fixed: 9/s\n",
    );
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let shown = server.get("/v1/policies").json();
    assert_eq!(shown["api"]["targets"], json!(["db"]));
    assert_eq!(shown["plan"]["members"][0]["targets"], json!(["cache"]));
    for without in [&shown["plan"]["members"][1], &shown["asked"], &shown["fixed"]] {
        assert_eq!(without.get("targets"), None, "{without}");
    }
    let one = |target: &str| json!({"target": target, "latency_ms": 5});
    for target in ["db", "cache", "dbb", "dbb", "dbb"] {
        assert_eq!(server.post("/v1/observe", &one(target).to_string()).status, 204);
    }
    let batch = json!({"observations": [one("dbb"), one("chache")]}).to_string();
    assert_eq!(server.post("/v1/observe/batch", &batch).status, 204);
    let lines = || {
        let logged = std::fs::read_to_string(&log).unwrap();
        let lines = logged.lines().filter(|line| line.contains("no limit follows"));
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    wait_until("both are logged", DEADLINE, || lines().len() >= 2);
    let named: Vec<_> =
        lines().iter().map(|it| json!([it["target_name"], it["nearest"]])).collect();
    assert_eq!(named, [json!(["dbb", "db"]), json!(["chache", "cache"])]);
}

#[test]
fn in_shadow_mode_the_limit_is_only_reported() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.5));
    let server = start(&folder, &format!("search: {}", search(", mode: shadow")), &probe);
    wait_until("the limit is computed", DEADLINE, || status(&server)["effective"] == 500);
    assert_eq!((limit_of(&server, "search"), &status(&server)["mode"]), (1000, &json!("shadow")));
    assert_eq!(server.metric(r#"rate_limit_effective_limit{policy="search"}"#), Some(1000.0));
    let shown = server.get("/v1/policies").json()["search"].clone();
    assert_eq!((&shown["effective"], &shown["adaptive"]), (&json!(500), &json!("shadow")));
}

#[test]
fn a_pressure_set_by_an_operator_wins_until_it_is_removed() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.0));
    let server = start(&folder, &format!("search: {}", search(", floor: 150")), &probe);
    let put = |pressure: &str| {
        let body = format!(r#"{{"pressure":{pressure}}}"#);
        assert_eq!(server.send("PUT", "/v1/pressure/search", &[], body.as_bytes()).status, 204);
    };
    put("0.7");
    assert_eq!(limit_of(&server, "search"), 300, "at once");
    let target = server.get("/v1/pressure").json()["targets"]["search"].clone();
    assert_eq!(server.get("/v1/pressure/search").json(), target);
    let unknown = server.get("/v1/pressure/serach");
    assert_eq!(
        (unknown.status, &unknown.json()["type"]),
        (404, &"urn:tidegate:unknown-target".into())
    );
    for (name, advice) in [("serach", "limits follow: search"), ("db", "limits follow: search")] {
        let path = format!("/v1/pressure/{name}");
        let unfollowed = server.send("PUT", &path, &[], br#"{"pressure":0.5}"#);
        let problem = unfollowed.json();
        assert_eq!(
            (unfollowed.status, &problem["type"]),
            (404, &"urn:tidegate:unknown-target".into())
        );
        assert!(problem["detail"].as_str().unwrap().ends_with(advice), "{problem}");
        assert_eq!(server.get("/v1/pressure").json()["targets"][name], Value::Null, "{name}");
        assert_eq!(server.send("DELETE", &path, &[], b"").status, 204, "nothing is set");
    }
    assert_eq!((&target["pressure"], &target["fixed"]), (&json!(0.7), &json!(0.7)));
    assert_eq!(status(&server)["binding"], "operator");
    put("1");
    assert_eq!(limit_of(&server, "search"), 150, "the floor stays");
    assert_eq!(server.send("DELETE", "/v1/pressure/search", &[], b"").status, 204);
    wait_until("the limit follows the probe", DEADLINE, || {
        status(&server)["binding"] != "operator"
    });
    assert_eq!(server.get("/v1/pressure").json()["targets"]["search"]["fixed"], Value::Null);
}

#[test]
fn a_url_is_limited_by_its_own_response_time() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies:\n  pages:\n    key: url\n    algorithm: sliding-window\n    limit: 240/min\n    \
         adaptive: { source: latency, ramp: { min_value: 300ms, max_value: 18s, max_rate: 240/min, min_rate: 4/min } }\n\
         client_ip: { trusted_proxies: [127.0.0.0/8] }\n",
    );
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    for (url, latency_ms) in [("/report", 9150), ("/slow", 60_000), ("/", 12)] {
        let body = json!({"target": "web", "url": url, "latency_ms": latency_ms}).to_string();
        assert_eq!(server.post("/v1/observe", &body).status, 204);
    }
    wait_until("it follows", DEADLINE, || limit_for(&server, "pages", "/report") == 122);
    assert_eq!(limit_for(&server, "pages", "/slow"), 4);
    assert_eq!(limit_for(&server, "pages", "/"), 240);
    assert_eq!(limit_for(&server, "pages", "/never"), 240);
    let seen = [("x-forwarded-uri", "/report?page=2"), ("x-forwarded-host", "example.org")];
    let reply = server.send("GET", "/v1/auth/pages", &seen, b"");
    assert_eq!(reply.header("x-ratelimit-limit"), Some("122"));
    assert_eq!(server.metric(r#"request_count_by_url{url="/report"}"#), Some(1.0));
    assert_eq!(server.metric(r#"request_resp_avg_by_url{url="/report"}"#), Some(9150.0));
    assert_eq!(server.metric(r#"rate_limit_effective_limit{policy="pages"}"#), Some(4.0));
    let p99_s = server.metric(r#"downstream_latency_p99{target="web"}"#).unwrap();
    assert!((60.0..76.0).contains(&p99_s), "{p99_s}");
    let half = br#"{"pressure":0.5}"#;
    assert_eq!(server.send("PUT", "/v1/pressure/all", &[], half).status, 204);
    let limits = || ["/report", "/slow", "/never"].map(|url| limit_for(&server, "pages", url));
    assert_eq!(limits(), [122; 3], "an operator's pressure applies to all URLs at once");
    assert_eq!(
        (status(&server)["binding"].as_str(), &status(&server)["effective"]),
        (Some("operator"), &json!(122))
    );
    assert_eq!(server.send("DELETE", "/v1/pressure/all", &[], b"").status, 204);
    assert_eq!(limits(), [122, 4, 240], "each URL has its own limit again");
}

#[test]
fn made_up_paths_do_not_switch_limits_per_url_off() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies: { pages: { key: url, algorithm: sliding-window, limit: 240/min, \
         adaptive: { source: latency, ramp: latency } } }\n",
    );
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    let report = |url: &str, latency_ms: u64, last: bool| {
        let body = json!({"target": "web", "url": url, "latency_ms": latency_ms}).to_string();
        let (length, connection) = (body.len(), if last { "close" } else { "keep-alive" });
        format!(
            "POST /v1/observe HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
    };
    for hundred in 0..102 {
        let path = |number| format!("/made-up/{hundred}/{number}");
        let paths = (0..100).map(|number| report(&path(number), 1, number == 99));
        let reply = server.raw(paths.collect::<String>().as_bytes());
        assert_eq!(reply.matches("HTTP/1.1 204").count(), 100, "{reply}");
    }
    let slow: String = (0..5).map(|number| report("/slow", 9150, number == 4)).collect();
    let slow = server.raw(slow.as_bytes());
    assert_eq!(slow.matches("HTTP/1.1 204").count(), 5, "{slow}");
    wait_until("it follows", DEADLINE, || limit_for(&server, "pages", "/slow") == 122);
    assert_eq!(limit_for(&server, "pages", "/made-up/1/1"), 240);
}

#[test]
fn a_queue_in_front_of_a_target_reduces_its_limit() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies:\n  db: { algorithm: fixed-window, limit: 1000/day, adaptive: { source: { latency: db } } }\n",
    );
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    wait_until("the queue reduces the limit", DEADLINE, || {
        for _ in 0..10 {
            let body = r#"{"target":"db","queue_ms":600}"#;
            assert_eq!(server.post("/v1/observe", body).status, 204);
        }
        limit_of(&server, "db") < 300
    });
    assert!(limit_of(&server, "db") >= 50, "a twentieth is left");
}

#[test]
fn all_other_sources_are_read() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.0));
    probe.set_answer(
        200,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"75"]}]}}"#,
    );
    let quick = "smoothing: none, hysteresis: none";
    let policy = |source: &str| {
        format!("{{ algorithm: fixed-window, limit: 1000/day, adaptive: {{ {source}, {quick} }} }}")
    };
    let asked = probe.url("");
    let policies = [
        ("fixed", policy("source: { fixed: 0.3 }")),
        ("pool", policy("source: { pool: db }")),
        (
            "queue",
            policy(&format!(
                "source: {{ prometheus: \"{asked}\", query: 'sum(queue)', every: 1s }}, \
                 ramp: {{ min_value: 50, max_value: 100, min_rate: 0.2 }}"
            )),
        ),
    ];
    let policies: Vec<_> = policies.iter().map(|(name, it)| format!("{name}: {it}")).collect();
    let server = start(&folder, &policies.join(", "), &probe);
    wait_for_limit(&server, "fixed", 700);
    wait_for_limit(&server, "queue", 600); // half the way from all to a fifth
    wait_until("the pool's saturation is applied", DEADLINE, || {
        let body = r#"{"target":"db","saturation":0.75}"#;
        assert_eq!(server.post("/v1/observe", body).status, 204);
        limit_of(&server, "pool") == 250
    });
}

#[test]
fn a_refusal_under_pressure_can_have_its_own_status() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies:\n  tight: { algorithm: fixed-window, limit: 9/day, adaptive: { source: { fixed: 1 }, shed_status: 503 } }\n  \
         plain: { algorithm: fixed-window, limit: 1/day, adaptive: { source: { fixed: 0 }, shed_status: 503 } }\n",
    );
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    wait_for_limit(&server, "tight", 1);
    for (policy, path, statuses) in [
        ("tight", "/v1/auth/tight", [200, 503]),
        ("tight", "/v1/auth/tight?deny_status=403", [403, 403]),
        ("plain", "/v1/auth/plain", [200, 429]),
    ] {
        let replies = statuses.map(|_| server.get(path));
        assert_eq!(replies.each_ref().map(|reply| reply.status), statuses, "{path}");
        let is = if policy == "tight" { "503" } else { "429" };
        assert_eq!(replies[1].header("x-tidegate-status"), Some(is), "{path}");
    }
}

#[test]
fn a_reload_keeps_the_state_of_adaptive_limits() {
    let (folder, probe) = (Folder::new(), Probe::with_pressure(0.5));
    let server = start(&folder, &format!("search: {}", search("")), &probe);
    wait_for_limit(&server, "search", 500);
    let next = format!("other: 1/s, search: {}", search("").replace("1000/day", "2000/day"));
    folder.write("t.yaml", config(&next, &probe));
    let has_next = || server.get("/v1/policies").json().get("other").is_some();
    wait_until("the new file is in force", DEADLINE, has_next);
    assert!([500, 1000].contains(&limit_of(&server, "search")), "never whole");
    wait_for_limit(&server, "search", 1000);
    folder.write("t.yaml", "policies: { search: { algorithm: fixed-window, limit: 2000/day } }\n");
    wait_for_limit(&server, "search", 2000);
    assert_eq!(server.get("/v1/status").json()["adaptive"], json!([]));
}

#[test]
fn servers_on_one_redis_agree_on_adaptive_limits() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let probes = [Probe::with_pressure(0.2), Probe::with_pressure(0.6), Probe::with_pressure(0.7)];
    let serve = |(index, probe): (usize, &Probe)| {
        let text = config(&format!("search: {}", search("")), probe);
        let store =
            format!("store: {{ url: \"{}\", deadline: 5s, breaker: false }}\n", redis.url());
        let file = folder.write(&format!("{index}.yaml"), &(store + &text));
        let doors = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
        Server::start_with(&[&["serve", "-c", &file], &doors[..]].concat())
    };
    let servers: Vec<_> = probes.iter().enumerate().map(serve).collect();
    let mut agreed = BTreeMap::<u64, (usize, u64)>::new();
    let mut compared = 0;
    wait_until("all have the limit of the majority", DEADLINE, || {
        let mut limits = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let status = status(server);
            let Some(tick) = status["agreed"].as_u64() else { return false };
            let limit = status["effective"].as_u64().unwrap();
            let (first, agreed_limit) = *agreed.entry(tick).or_insert((index, limit));
            assert_eq!(agreed_limit, limit, "two limits in one tick");
            compared += usize::from(first != index);
            limits.push(limit);
        }
        // The first server alone would have 800.
        compared > 0 && limits.iter().all(|limit| (300..=401).contains(limit))
    });
    // Every door of every server reports the agreed limit.
    for server in &servers {
        wait_until("the doors report the agreed limit", DEADLINE, || {
            let before = status(server)["agreed"].clone();
            let effective = status(server)["effective"].as_u64().unwrap();
            let [http, resp] = [limit_of(server, "search"), resp_limit(server)];
            // The limit may change between two ticks.
            before == status(server)["agreed"] && [http, resp] == [effective; 2]
        });
    }
}

#[test]
fn the_proxy_measures_forwarded_requests() {
    let folder = Folder::new();
    let origin = Origin::start(|request| async move {
        if request.uri().path() == "/slow" {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Response::new(Body::empty())
    });
    let more = "policies:\n  pages: { key: url, algorithm: sliding-window, limit: 240/min, adaptive: \
                { source: latency, ramp: { min_value: 1s, max_value: 1500ms, min_rate: 4/min } } }\n\
                routes: [{ policy: pages }]\n";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    let limit = |path: &str| {
        let reply = proxy.server.get(path);
        assert_eq!(reply.status, 200);
        reply.header("x-ratelimit-limit").unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(limit("/slow?page=1"), 240);
    let effective = || proxy.metric(r#"rate_limit_effective_limit{policy="pages"}"#);
    wait_until("it follows", DEADLINE, || effective() == Some(4.0));
    // On a slow machine the limit may be rising again already.
    assert!(limit("/slow?page=2") < 240);
    assert_eq!(limit("/"), 240);
    assert_eq!(proxy.metric(r#"request_count_by_url{url="/slow"}"#), Some(2.0));
}
