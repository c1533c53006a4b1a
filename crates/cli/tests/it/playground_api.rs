//! `/v1/playground`: the same numbers as on the command line, with bounds on every input.

use std::{fs, thread};

use serde_json::{Value, json};

use crate::support::{Folder, Reply, Server, run};

fn ask(server: &Server, what: &str, body: &Value) -> Reply {
    server.send("POST", &format!("/v1/playground/{what}"), &[], body.to_string().as_bytes())
}

fn answer(server: &Server, what: &str, body: &Value) -> Value {
    let reply = ask(server, what, body);
    assert_eq!(reply.status, 200, "{what} {body}: {}", reply.body);
    reply.json()
}

fn of<'a>(rows: &'a Value, name: &str, value: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row[name] == value).unwrap()
}

/// The most memory that a server has held so far.
fn peak_mib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn the_api_returns_the_golden_numbers() {
    let server = Server::start();
    let lag = answer(&server, "sync-lag", &json!({"nodes":3,"limit":60,"interval_ms":400}));
    assert_eq!(of(&lag["ways"], "way", "naive")["admitted"], 108);
    assert_eq!(of(&lag["ways"], "way", "atomic")["admitted"], 60);
    assert_eq!(of(&lag["ways"], "way", "leases")["admitted"], 60);
    let edge = answer(&server, "boundary", &json!({"limit":20,"position_permille":850}));
    assert_eq!(of(&edge["algorithms"], "algorithm", "fixed-window")["in_gap"], 40);
    assert_eq!(of(&edge["algorithms"], "algorithm", "sliding-log")["in_gap"], 20);
    let race = answer(&server, "race", &json!({"nodes":3}));
    assert_eq!(race["ways"][0]["over_limit_worst"], 2);
    assert_eq!(race["ways"][1]["over_limit_worst"], 0);
    let spike = answer(&server, "overload", &json!({"scenario":"spike"}));
    let goodput = |name| of(&spike["controllers"], "controller", name)["goodput"].as_f64().unwrap();
    assert!(goodput("default + cap 32") > 380.0 && goodput("none") < 40.0, "{spike}");
}

/// An experiment, its request body, and the same arguments on the command line.
type Pair = (&'static str, &'static str, &'static [&'static str]);

const PAIRS: [Pair; 5] = [
    (
        "boundary",
        r#"{"limit":50,"window_ms":60000,"position_permille":990}"#,
        &["--limit", "50", "--window", "1min", "--position", "99%"],
    ),
    (
        "sync-lag",
        r#"{"nodes":7,"limit":31,"window_ms":5000,"interval_ms":1234,"seed":9}"#,
        &["--nodes", "7", "--limit", "31", "--window", "5s", "--interval", "1234ms", "--seed", "9"],
    ),
    (
        "race",
        r#"{"nodes":8,"limit":10,"runs":50,"seed":2}"#,
        &["--nodes", "8", "--limit", "10", "--runs", "50", "--seed", "2"],
    ),
    (
        "clock-skew",
        r#"{"nodes":4,"limit":20,"skew_ms":300,"windows":3,"seed":5}"#,
        &["--nodes", "4", "--limit", "20", "--skew", "300ms", "--windows", "3", "--seed", "5"],
    ),
    (
        "algorithms",
        r#"{"limit":40,"windows":5,"demand_milli":2500,"clump":3,"seed":7}"#,
        &["--limit", "40", "--windows", "5", "--demand", "2.5", "--clump", "3", "--seed", "7"],
    ),
];

#[test]
fn the_api_and_the_command_line_return_the_same_numbers() {
    let server = Server::start();
    for (what, sent, args) in PAIRS {
        let output = run(&[&["simulate", what, "--json"], args].concat());
        assert_eq!(output.code, Some(0), "{what}: {}", output.stderr);
        let printed: Value = serde_json::from_str(&output.stdout).unwrap();
        let answered = answer(&server, what, &serde_json::from_str(sent).unwrap());
        assert_eq!(answered, printed, "{what}");
        assert_eq!(answer(&server, what, &serde_json::from_str(sent).unwrap()), printed, "{what}");
    }
}

#[test]
fn the_overload_api_matches_the_command_line_and_adds_a_time_series() {
    let server = Server::start();
    let args = ["simulate", "overload", "--scenario", "burst", "--seeds", "2", "--json"];
    let printed: Value = serde_json::from_str(&run(&args).stdout).unwrap();
    let mut answered = answer(&server, "overload", &json!({"scenario":"burst","seeds":2}));
    let rows = answered["controllers"].as_array_mut().unwrap();
    for row in &mut *rows {
        let course = row.as_object_mut().unwrap().remove("course").unwrap();
        assert_eq!(course.as_array().unwrap().len(), 55, "{row}");
    }
    let block = &printed["scenarios"][0];
    assert_eq!(answered["controllers"], block["controllers"]);
    assert_eq!(answered["possible"], block["possible"]);
}

/// The experiment, its request body, the field in the error, and a part of its detail.
const BAD: [(&str, &str, &str, &str); 22] = [
    ("boundary", r#"{"limit":0}"#, "limit", "1 to 10000"),
    ("boundary", r#"{"limit":10001}"#, "limit", "1 to 10000"),
    ("boundary", r#"{"position_permille":1000}"#, "position_permille", "0 to 999"),
    ("boundary", r#"{"seed":1}"#, "seed", "unknown field"),
    ("sync-lag", r#"{"nodes":101}"#, "nodes", "1 to 100"),
    ("sync-lag", r#"{"nodes":-1}"#, "nodes", "1 to 100"),
    ("sync-lag", r#"{"nodes":"3"}"#, "nodes", "1 to 100"),
    ("sync-lag", r#"{"nodes":1e300}"#, "nodes", "1 to 100"),
    ("sync-lag", r#"{"nodes":100,"limit":10000}"#, "limit", "at most 30000"),
    ("sync-lag", r#"{"window_ms":86400001}"#, "window_ms", "1 to 86400000"),
    ("sync-lag", r#"{"node":3}"#, "node", "unknown field"),
    ("race", r#"{"runs":10000,"limit":10000}"#, "runs", "at most 24"),
    ("clock-skew", r#"{"nodes":1}"#, "nodes", "2 to 50"),
    ("clock-skew", r#"{"windows":100,"limit":1000}"#, "windows", "at most 6"),
    ("algorithms", r#"{"clump":1001}"#, "clump", "1 to 1000"),
    ("algorithms", r#"{"demand_milli":100000}"#, "demand_milli", "at most 20000"),
    ("overload", r#"{"scenario":"flood"}"#, "scenario", "one of spike, "),
    ("overload", r#"{"scenario":"soak"}"#, "scenario", "one of spike, "),
    ("overload", r#"{"seeds":4}"#, "seeds", "1 to 3"),
    ("overload", r#"{"limit":2001}"#, "limit", "1 to 2000"),
    ("race", "[]", "", "expected an object"),
    ("race", "{", "", "EOF"),
];

fn problem(server: &Server, what: &str, sent: &str) -> (Value, Value) {
    let path = format!("/v1/playground/{what}");
    let reply = server.send("POST", &path, &[], sent.as_bytes());
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{what} {sent}");
    let problem = reply.json();
    assert_eq!(problem["status"], reply.status, "{what} {sent}");
    (problem["field"].clone(), problem["detail"].clone())
}

#[test]
fn bad_input_names_the_field_and_what_is_allowed() {
    let server = Server::start();
    for (what, sent, field, part) in BAD {
        let (blamed, detail) = problem(&server, what, sent);
        assert_eq!(blamed.as_str().unwrap_or_default(), field, "{what} {sent}: {detail}");
        assert!(detail.as_str().unwrap().contains(part), "{what} {sent}: {detail}");
    }
}

#[test]
fn the_listed_ranges_are_enforced() {
    let server = Server::start();
    let listed = server.get("/v1/playground").json();
    let experiments = listed["experiments"].as_object().unwrap();
    assert_eq!(experiments.len(), 6);
    for (what, experiment) in experiments {
        // The defaults are valid, and an empty body means the defaults.
        let usual: serde_json::Map<String, Value> = experiment["knobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|knob| (knob["field"].as_str().unwrap().to_owned(), knob["default"].clone()))
            .collect();
        let path = format!("/v1/playground/{what}");
        let nothing = server.send("POST", &path, &[], b"").json();
        assert_eq!(answer(&server, what, &Value::Object(usual)), nothing, "{what}");
        for knob in experiment["knobs"].as_array().unwrap() {
            let (field, most) = (knob["field"].as_str().unwrap(), knob["max"].as_u64().unwrap());
            let reply = ask(&server, what, &json!({ field: most + 1 }));
            assert_eq!((reply.status, &reply.json()["field"]), (400, &json!(field)), "{what}");
        }
    }
}

fn log() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/access.log");
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_pasted_policy_decides_as_in_a_file() {
    let server = Server::start();
    let folder = crate::support::Folder::new();
    let file = folder.write("log", log());
    for text in [
        "5/min burst 2",
        "limit: 5/min\nburst: 2",
        "{ algorithm: sliding-log, limit: 3/min, key: path }",
        "{ algorithm: leaky-bucket, limit: 1/s, max_wait: 2s }",
    ] {
        let indented = text.replace('\n', "\n    ");
        let yaml = format!("policies:\n  tried:\n    {indented}\n");
        let config = folder.write("tidegate.yaml", yaml);
        let output = run(&["replay", &file, "-c", &config, "--policy", "tried", "--json"]);
        let mut printed: Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
        printed.as_object_mut().unwrap().remove("log");
        let body = json!({"log": log(), "policy_text": text});
        let replayed = answer(&server, "replay", &body);
        assert_eq!(replayed, printed, "{text}");
        assert!(replayed["policies"][0]["denied"].as_u64().unwrap() > 0, "{text}");
    }
}

#[test]
fn a_replay_of_a_configured_policy_charges_nothing() {
    let server = Server::start();
    let line = |n: u32| {
        let time = format!("2026-10-10T13:55:36.{n:02}Z");
        json!({"time": time, "client_ip": "192.0.2.7", "method": "GET", "path": "/"}).to_string()
    };
    let log = (0..30).map(line).collect::<Vec<_>>().join("\n");
    let replayed = answer(&server, "replay", &json!({"log": log, "policy": "api"}));
    // 100/min and 20 at once.
    assert_eq!(replayed["policies"][0]["admitted"], 20, "{replayed}");
    assert_eq!(replayed["policies"][0]["keys"][0]["key"], "192.0.2.7");
    let steps = replayed["timeline"]["steps"].as_array().unwrap();
    assert_eq!(steps, &[json!({"admitted": 20, "denied": 10})]);
    let left = server.post("/v1/peek", r#"{"policy":"api","key":"192.0.2.7","cost":0}"#).json();
    assert_eq!(left["remaining"], 20);
}

#[test]
fn invalid_replay_requests_are_explained() {
    let (server, nine) = (Server::start(), ["query:b"; 9].join("|"));
    for (body, status, field, part) in [
        (json!({"log": log()}), 400, "policy", "no routes"),
        (
            json!({"log": log(), "policy": "apj"}),
            404,
            "policy",
            "GET /v1/policies lists all policies",
        ),
        (json!({"log": log(), "policy": "report"}), 400, "policy", "concurrency"),
        (json!({"log": log(), "policy": "signup"}), 400, "policy", "counts by `ip`"),
        (json!({"log": log(), "policy": "api", "policy_text": "1/s"}), 400, "policy_text", "both"),
        (json!({"log": log(), "policy_text": " "}), 400, "policy_text", "empty"),
        (json!({"log": log(), "policy_text": "limit: ["}), 400, "policy_text", "line 1"),
        (
            json!({"log": log(), "policy_text": "limit: 5/min\nbrust: 2"}),
            400,
            "policy_text",
            "line 2, column 1: unknown key `brust`, did you mean `burst`?",
        ),
        (json!({"log": log(), "policy_text": "limit: ${PATH}"}), 400, "policy_text", "not set"),
        (json!({"log": log(), "policy_text": "x".repeat(20_000)}), 400, "policy_text", "longer"),
        (json!({"log": "no\nlog", "policy": "api"}), 400, "log", "line 1: "),
        (json!({"log": log(), "policy": "api", "top": 0}), 400, "top", "1 to 100"),
        (json!({"log": log(), "policy": "api", "key": ["nonsense"]}), 400, "key", "nonsense"),
        (json!({"log": log(), "policy": "api", "key": vec!["path"; 9]}), 400, "key", "at most 8"),
        (
            json!({"log": log(), "policy": "api", "key": [nine]}),
            400,
            "key",
            "too many alternatives in a key part: expected at most 8",
        ),
        (
            json!({"log": log(), "policy_text": format!("limit: 1/s\nkey: {nine}")}),
            400,
            "policy_text",
            "line 2, column 6: key: too many alternatives in a key part",
        ),
        (json!({"policy": "api"}), 400, "log", "missing"),
        (
            json!({"log": log(), "policy": "10/min"}),
            404,
            "policy",
            "a limit goes into `policy_text`",
        ),
        (json!({"log": log(), "policy_text": "api"}), 400, "policy_text", "send it as `policy`"),
        (
            json!({"log": log(), "policy": ["api"]}),
            400,
            "policy",
            "one policy: send a request for each",
        ),
        (json!({"log": log(), "policies": ["api"]}), 400, "policies", "send a request for each"),
        (
            json!({"log": log(), "policy_text": "policies: { a: 5/s, b: 6/s }"}),
            400,
            "policy_text",
            "has several policies: expected one",
        ),
        (json!({"log": log(), "policy": "api", "key": 7}), 400, "key", r#"or "client_ip,path""#),
        (
            json!({"log": "x".repeat(1 << 20), "policy": "api"}),
            413,
            "",
            "or read all of it with `tidegate replay LOG`",
        ),
    ] {
        let reply = ask(&server, "replay", &body);
        let problem = reply.json();
        let found = (reply.status, problem["field"].as_str().unwrap_or_default());
        assert_eq!(found, (status, field), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(part), "{problem}");
    }
}

#[test]
fn a_key_is_a_list_or_text_as_on_the_command_line() {
    let server = Server::start();
    let by = |key: Value| {
        let body = json!({"log": log(), "policy_text": "5/min burst 1", "key": key});
        answer(&server, "replay", &body)
    };
    assert_eq!(by(json!("client_ip, path")), by(json!(["client_ip", "path"])));
    assert_ne!(by(json!("path")), by(json!("client_ip")));
}

#[test]
fn a_log_of_the_maximum_size_is_replayed() {
    let server = Server::start();
    let line = "192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 512\n";
    let log = line.repeat(12_000);
    let replayed = answer(&server, "replay", &json!({"log": log, "policy_text": "10/s"}));
    assert_eq!(replayed["policies"][0]["requests"], 12_000);
}

/// Each route may match against every line.
#[test]
fn a_log_is_shorter_where_more_routes_read_it() {
    let folder = Folder::new();
    let route = "  - { match: { path: '/never/*/here' }, policy: api }\n";
    let routes = route.repeat(2000) + "  - { policy: api }\n";
    let file = folder.write("t.yaml", format!("policies: {{ api: 1/s }}\nroutes:\n{routes}"));
    let server = Server::start_with(&["serve", "-c", &file, "--listen", "127.0.0.1:0"]);
    let line = "192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 512\n";
    let refused = ask(&server, "replay", &json!({"log": line.repeat(10_000)}));
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("log")));
    assert!(refused.body.contains("is too long for this many routes"), "{}", refused.body);
    let replayed = answer(&server, "replay", &json!({"log": line.repeat(10)}));
    assert_eq!(replayed["policies"][0]["requests"], 10);
}

/// Each limit keeps its slots for every client, and reads them for every line.
#[test]
fn a_replay_takes_little_memory_however_wide_its_limits_are() {
    let server = Server::start();
    let line = |client: u32| {
        let client = std::net::Ipv4Addr::from(client);
        format!("{client} - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    let policy = |limits: u32| {
        let limit = |n| {
            let limit = 100 + n;
            format!(
                "  - {{ name: l{n}, algorithm: sliding-window, limit: {limit}/1000s, buckets: 1000 }}\n"
            )
        };
        "all:\n".to_owned() + &(0..limits).map(limit).collect::<String>()
    };
    let log: String = (0..12_000).map(line).collect();
    let refused = ask(&server, "replay", &json!({"log": log, "policy_text": policy(16)}));
    assert_eq!((refused.status, &refused.json()["field"]), (400, &json!("log")), "{refused:?}");
    assert!(refused.body.contains("this many routes, key parts and limits"), "{}", refused.body);
    let before = peak_mib(&server);
    answer(&server, "replay", &json!({"log": log, "policy_text": policy(2)}));
    // Without a cap these counters take 190 MiB.
    let grown = peak_mib(&server).saturating_sub(before);
    assert!(grown < 100, "{grown} MiB");
}

#[test]
fn few_simulations_run_at_once_and_checks_are_not_delayed() {
    let server = Server::start();
    let body = json!({"seeds": 3}).to_string();
    let refused = || {
        let statuses: Vec<Reply> = thread::scope(|scope| {
            let send = || server.send("POST", "/v1/playground/overload", &[], body.as_bytes());
            let all: Vec<_> = (0..16).map(|_| scope.spawn(send)).collect();
            let check = server.post("/v1/check", r#"{"policy":"api","key":"k","cost":0}"#);
            assert_eq!(check.status, 200);
            all.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(statuses.iter().all(|reply| [200, 503].contains(&reply.status)));
        statuses.into_iter().find(|reply| reply.status == 503)
    };
    // On a slow machine the requests may arrive one by one, but not in every attempt.
    let refused = (0..20).find_map(|_| refused());
    let refused = refused.expect("sixteen at once, and none was refused");
    assert_eq!(refused.json()["type"], "urn:tidegate:overloaded");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds >= 1);
}
