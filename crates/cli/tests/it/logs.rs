//! Log lines about decisions: rate-limited, without keys, and without delaying a decision.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;

use serde_json::Value;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::{Folder, Server, tidegate};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A server that logs to a file.
struct Logged {
    server: Server,
    path: std::path::PathBuf,
}

impl Logged {
    fn start(name: &str, args: &[&str]) -> Self {
        let file = format!("tidegate-log-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut command = tidegate(&args);
        command.stderr(File::create(&path).unwrap());
        Self { server: Server::launched(&mut command), path }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// All events with a message.
    fn events(&self, message: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|event| event["message"] == message).collect()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[test]
fn a_flood_of_refusals_is_a_few_lines_without_a_key() {
    let log = Logged::start("flood", &[]);
    let one = r#"{"policy":"login","key":"canary\n{}"}"#;
    let batch = format!(r#"{{"checks":[{}]}}"#, vec![one; 1000].join(","));
    assert_eq!(log.server.post("/v1/check/batch", &batch).status, 200);
    wait_until("refusals are logged", DEADLINE, || log.events("refused").len() >= 20);
    let refused = log.events("refused");
    assert!(refused.len() < 100, "{}", refused.len());
    let first = &refused[0];
    assert_eq!((&first["level"], &first["policy"]), (&"INFO".into(), &"login".into()));
    assert!(first["retry_after_ms"].as_u64().unwrap() > 3_000_000, "{first}");
    assert_eq!(first["key"].as_str().unwrap().len(), 16, "{first}");
    assert_eq!(first["key"], refused[1]["key"], "one caller");
    assert!(!log.text().contains("canary"), "{}", log.text());
    let dropped = "tidegate_log_lines_dropped_total{event=\"refused\"}";
    let dropped = log.server.metric(dropped).unwrap();
    assert!(dropped > 800.0, "{dropped}");
    assert!(refused.iter().all(|line| line["lines_dropped"].is_u64()), "{refused:?}");
}

#[test]
fn a_full_queue_is_logged_like_any_refusal() {
    let folder = Folder::new();
    let text = "policies: { queue: { algorithm: leaky-bucket, limit: 1/h, max_wait: 1s } }";
    let config = folder.write("tidegate.yaml", text);
    let log = Logged::start("queue", &["-c", &config]);
    for _ in 0..3 {
        log.server.post("/v1/reserve", r#"{"policy":"queue","key":"ann"}"#);
    }
    wait_until("refusals are logged", DEADLINE, || log.events("refused").len() == 2);
    let event = &log.events("refused")[0];
    assert_eq!((&event["level"], &event["policy"]), (&"INFO".into(), &"queue".into()), "{event}");
    assert!(event["retry_after_ms"].as_u64().unwrap() > 3_000_000, "{event}");
}

const ROUTES: &str = r#"
client_ip: { trusted_proxies: [127.0.0.0/8] }
policies:
  plan: { all: [{ name: second, limit: 1000/s }, { name: day, algorithm: fixed-window, limit: 1/day }] }
  search: { algorithm: sliding-log, limit: 1/h }
routes:
  - { match: { path: "/search" }, policy: search, key: [client_ip, path] }
  - { match: { path: "/api/*", method: GET }, policy: plan }
"#;

/// Two policies, each of which refuses the second request of a client.
fn refused_on_two_routes(log: &Logged) -> Vec<Value> {
    for (path, client) in [("/api/a?token=canary", "192.0.2.7"), ("/search", "192.0.2.7")] {
        for _ in 0..2 {
            let headers = [
                ("X-Forwarded-Uri", path),
                ("X-Forwarded-Method", "GET"),
                ("X-Forwarded-For", client),
            ];
            log.server.send("GET", "/v1/auth", &headers, b"");
        }
    }
    wait_until("refusals are logged", DEADLINE, || log.events("refused").len() == 2);
    log.events("refused")
}

#[test]
fn a_refusal_says_which_request_limit_and_client() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", ROUTES);
    let log = Logged::start("route", &["-c", &config]);
    let refused = refused_on_two_routes(&log);
    let fields = ["policy", "limit", "method", "path", "route"];
    let of = |line: &Value| fields.map(|field| line[field].as_str().unwrap().to_owned());
    assert_eq!(of(&refused[0]), ["plan", "day", "GET", "/api/a", "GET /api/*"]);
    assert_eq!(of(&refused[1]), ["search", "search", "GET", "/search", "/search"]);
    // One client has one name under every policy, also where the key has more parts.
    assert_eq!(refused[0]["client"].as_str().unwrap().len(), 16, "{}", refused[0]);
    assert_eq!(refused[0]["client"], refused[1]["client"]);
    assert_eq!(refused[0]["client"], refused[0]["key"]);
    assert_ne!(refused[1]["client"], refused[1]["key"]);
    assert!(!log.text().contains("192.0.2.7") && !log.text().contains("canary"), "{}", log.text());
}

#[test]
fn keys_and_clients_are_readable_if_the_operator_wants_it() {
    let folder = Folder::new();
    let shown = format!("logs: {{ keys: shown }}\n{ROUTES}");
    let config = folder.write("tidegate.yaml", &shown);
    let log = Logged::start("shown", &["-c", &config]);
    let refused = refused_on_two_routes(&log);
    assert_eq!(
        (&refused[0]["key"], &refused[0]["client"]),
        (&"192.0.2.7".into(), &"192.0.2.7".into())
    );
    assert!(refused[1]["key"].as_str().unwrap().contains("/search"), "{}", refused[1]);
    // A reload hides them again.
    folder.write("tidegate.yaml", ROUTES);
    log.server.signal("HUP");
    let reloaded = r#"tidegate_config_reload_total{result="ok"}"#;
    wait_until("it is reloaded", DEADLINE, || log.server.metric(reloaded) >= Some(1.0));
    log.server.post("/v1/check", r#"{"policy":"search","key":"hidden"}"#);
    log.server.post("/v1/check", r#"{"policy":"search","key":"hidden"}"#);
    wait_until("the refusal is logged", DEADLINE, || log.events("refused").len() == 3);
    assert_eq!(log.events("refused")[2]["key"].as_str().unwrap().len(), 16);
}

/// A key that would begin a line of its own, move the cursor or fill the disk, in every way to send one.
#[test]
fn no_shown_key_can_forge_a_line() {
    let folder = Folder::new();
    let config =
        "logs: { keys: shown }\npolicies: { few: { algorithm: sliding-log, limit: 1/day } }\n";
    let config = folder.write("tidegate.yaml", config);
    let any = "127.0.0.1:0";
    let log = Logged::start("forged", &["-c", &config, "--resp", any]);
    let forged = r#"{"level":"ERROR","message":"forged"}"#;
    let keys = [
        format!("a\r\n{forged}\r\n"),
        format!("b\u{1b}[2J\u{7}\u{8}\0{forged}"),
        format!("c\u{2028}\u{85}\n{forged}"),
        format!("d{}", "\n".repeat(900)),
        "é".repeat(500),
    ];
    let mut lines = 0;
    for key in &keys {
        for _ in 0..2 {
            let body = serde_json::json!({ "policy": "few", "key": key }).to_string();
            assert_eq!(log.server.post("/v1/check", &body).status, 200, "{body}");
        }
        lines += 1;
        wait_until("the refusal is logged", DEADLINE, || log.events("refused").len() == lines);
    }
    let mut raw = TcpStream::connect(log.server.resp_addr()).unwrap();
    let command = b"*3\r\n$8\r\nTG.CHECK\r\n$3\r\nfew\r\n$6\r\n\xff\xfe\r\n\x9bK\r\n";
    raw.write_all(&command.repeat(2)).unwrap();
    wait_until("the refusal is logged", DEADLINE, || log.events("refused").len() == lines + 1);
    let text = log.text();
    // Every line is one object, and none of them was sent by a client.
    let read = |line: &str| {
        serde_json::from_str::<Value>(line).map_err(|error| format!("{error}: {line}"))
    };
    let events = text.lines().map(read).collect::<Result<Vec<_>, _>>().unwrap();
    assert!(events.iter().all(|event| event["message"] != "forged"), "{text}");
    let is_control = |it: char| it.is_control() || matches!(it, '\u{2028}' | '\u{2029}');
    for event in log.events("refused") {
        let key = event["key"].as_str().unwrap();
        assert!(key.chars().count() <= 65 && !key.contains(is_control), "{key:?}");
    }
    assert!(text.contains(r"a\\r\\n"), "escaped: {text}");
}

#[test]
fn a_log_line_has_the_trace_id_of_its_request() {
    let log = Logged::start("trace", &[]);
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    for _ in 0..7 {
        let body = br#"{"policy":"login","key":"ann"}"#;
        log.server.send("POST", "/v1/check", &[("traceparent", &parent)], body);
    }
    wait_until("refusals are logged", DEADLINE, || log.events("refused").len() == 2);
    for event in log.events("refused") {
        assert_eq!(event["span"]["trace_id"], TRACE, "{event}");
    }
}

#[test]
fn decisions_without_the_store_are_logged() {
    let redis = RedisServer::start();
    let url = redis.url();
    let log = Logged::start("store", &["--store", &url]);
    redis.kill();
    wait_until("the failure is logged", DEADLINE, || {
        log.server.post("/v1/check", r#"{"policy":"api","key":"canary"}"#);
        !log.events("decided without the store").is_empty()
    });
    let event = &log.events("decided without the store")[0];
    let (level, decided_by) = (&event["level"], &event["decided_by"]);
    assert_eq!((level, decided_by), (&"WARN".into(), &"local".into()), "{event}");
    assert!(event["store_error"].is_string() && event["allowed"] == true, "{event}");
    // The cause stays in the lines once checks only learn that the breaker is open.
    let why = format!("unreachable: {}: Connection refused", redis.address());
    wait_until("a line while the breaker is open has the cause", DEADLINE, || {
        log.server.post("/v1/check", r#"{"policy":"api","key":"canary"}"#);
        let lines = log.events("decided without the store");
        let late = lines.iter().rfind(|line| line["store_error"] == "breaker-open");
        late.is_some_and(|line| line["cause"].as_str().is_some_and(|it| it.starts_with(&why)))
    });
    assert!(!log.text().contains("canary"));
}

#[test]
fn a_store_outage_is_logged_once_at_its_begin_and_once_at_its_end() {
    let redis = RedisServer::builder().password("sesame").start();
    redis.kill();
    let folder = Folder::new();
    let text = "policies: { api: 5/s, login: { limit: 5/h, on_store_error: deny } }";
    let config = folder.write("tidegate.yaml", text);
    let log = Logged::start("absent", &["-c", &config, "--store", &redis.url()]);
    let events = |start: &str| {
        let text = log.text();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_it =
            |event: &Value| event["message"].as_str().unwrap_or_default().starts_with(start);
        lines.filter(is_it).collect::<Vec<Value>>()
    };
    let (away, back) = ("the store does not serve", "the store serves again");
    // Before the first request.
    wait_until("the outage is logged", DEADLINE, || !events(away).is_empty());
    let event = &events(away)[0];
    assert_eq!(event["level"], "WARN");
    assert_eq!(event["store"], "store");
    assert_eq!(event["url"], format!("redis://{}", redis.address()));
    assert!(event["error"].as_str().unwrap().contains(": "), "{event}");
    let decide = ["policies_local", "policies_allow", "policies_deny"].map(|name| &event[name]);
    assert_eq!(decide, [&"api".into(), &Value::Null, &"login".into()], "{event}");
    assert!(event["message"].as_str().unwrap().contains("on_store_error"), "{event}");
    redis.restart();
    wait_until("it is back", DEADLINE, || !events(back).is_empty());
    assert_eq!((events(away).len(), events(back).len()), (1, 1), "{}", log.text());
    assert!(events(back)[0]["outage_s"].is_u64(), "{}", events(back)[0]);
    // An outage while the server runs is logged in the same way.
    redis.kill();
    wait_until("the second outage is logged", DEADLINE, || events(away).len() == 2);
    assert!(!log.text().contains("sesame"), "{}", log.text());
}

#[test]
fn a_healthy_store_is_not_logged() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    // With a long deadline, because the machine may be slow.
    let store = format!("store: {{ url: \"{}\", deadline: 5s, breaker: false }}\n", redis.url());
    let config = folder.write("tidegate.yaml", store + "policies: { api: 5/s }");
    let mut log = Logged::start("present", &["-c", &config]);
    let asked = r#"{"policy":"api","key":"ann"}"#;
    assert_eq!(log.server.post("/v1/check", asked).json()["source"], "store");
    assert_eq!(log.server.stop("TERM").code(), Some(0));
    assert!(!log.text().contains("the store"), "{}", log.text());
}

/// Causes enough refusals to fill any log buffer, and expects an answer to every request.
fn keeps_serving(server: &Server) {
    for _ in 0..50 {
        let reply = server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#);
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

#[test]
fn a_full_log_disk_loses_lines_and_delays_no_decision() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = Server::launched(command.stderr(full));
    keeps_serving(&server);
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn an_unread_log_pipe_loses_lines_and_delays_no_decision() {
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    let (_unread, mut pipe) = std::io::pipe().unwrap();
    // The pipe is full, so that even the first line does not fit.
    pipe.write_all(&vec![b' '; 64 << 10]).unwrap();
    let mut server = Server::launched(command.stderr(pipe));
    keeps_serving(&server);
    assert_eq!(server.stop("TERM").code(), Some(0));
}
