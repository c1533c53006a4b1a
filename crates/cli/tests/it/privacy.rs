//! `store.hash_keys`: no readable identifier leaves the process. Each test shows that it does without the key.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::processes::{DEADLINE, PostgresServer, RedisServer, wait_until};
use crate::proxy_support::Origin;
use crate::rls_grpc::client;
use crate::support::{Folder, Server, run, tidegate};

const USER: &str = "canary-user@example.com";
const CLIENT: &str = "203.0.113.77";
const PATH: &str = "/canary-path";
const REQUEST: &str = "canary-request-7";
const SECRET: &str = "00112233445566778899aabbccddeeff";

const RULES: &str = "
client_ip: { trusted_proxies: [127.0.0.0/8] }
policies:
  login: { algorithm: sliding-log, limit: 2/h }
  api: { limit: 2/h }
  windows: { algorithm: sliding-window, limit: 2/h }
  jobs: { algorithm: concurrency, limit: 1, ttl: 1h }
  queue: { algorithm: leaky-bucket, limit: 1/h, max_wait: 0s }
  signup: { all: [{ name: ip, key: ip, limit: 2/h }, { name: user, key: user, limit: 2/h }] }
  web: { limit: 1/h }
  pages:
    key: url
    algorithm: sliding-window
    limit: 240/min
    adaptive: { source: latency, ramp: { min_value: 300ms, max_value: 18s, max_rate: 240/min, min_rate: 4/min } }
routes:
  - { match: { path: \"/canary*\" }, policy: web, key: [client_ip, path] }
";

/// Everything that can be shown.
const SHOWN: &str = "dashboard: { keys: shown }\nlogs: { keys: shown }\n";

/// A server that was asked by someone who must not be recognised.
struct Asked {
    server: Server,
    folder: Folder,
}

impl Asked {
    /// With these options of the store; `more` are further lines of the file.
    fn start(store: &str, more: &str) -> Self {
        let folder = Folder::new();
        let secret = folder.write("secret", SECRET);
        let store = store
            .replace("SECRET", &secret)
            .replace("FOLDER", folder.path("").trim_end_matches('/'));
        let config = folder.write("tidegate.yaml", format!("store: {store}\n{more}{RULES}"));
        let mut command = tidegate(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
        command.stderr(fs::File::create(folder.path("log")).unwrap());
        let asked = Self { server: Server::launched(&mut command), folder };
        asked.ask();
        asked
    }

    fn post(&self, path: &str, body: &str) {
        let reply = self.server.post(path, &body.replace("USER", USER).replace("CLIENT", CLIENT));
        assert!(reply.status < 300, "{path} {body}: {reply:?}");
    }

    fn ask(&self) {
        for policy in ["login", "api", "windows"] {
            for _ in 0..4 {
                self.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"USER"}}"#));
            }
        }
        for _ in 0..4 {
            self.post("/v1/check", r#"{"policy":"signup","keys":{"ip":"CLIENT","user":"USER"}}"#);
            self.post("/v1/acquire", r#"{"policy":"jobs","key":"USER"}"#);
            self.post("/v1/reserve", r#"{"policy":"queue","key":"USER"}"#);
            let headers = [
                ("X-Forwarded-Uri", PATH),
                ("X-Forwarded-Method", "GET"),
                ("X-Forwarded-For", CLIENT),
                ("X-Request-Id", REQUEST),
            ];
            self.server.send("GET", "/v1/auth", &headers, b"");
        }
        let together = r#"{"checks":[{"policy":"api","key":"USER"},{"policy":"web","key":"CLIENT"}],"atomic":true}"#;
        self.post("/v1/check/batch", together);
        for _ in 0..50 {
            let slow = format!(r#"{{"target":"web","latency_ms":9000,"url":"{PATH}"}}"#);
            self.post("/v1/observe", &slow);
        }
        let set = self.server.send(
            "PUT",
            &format!("/v1/overrides/api/{USER}"),
            &[],
            br#"{"block":true}"#,
        );
        assert!(set.status < 300, "{set:?}");
    }

    /// What a watcher of the dashboard gets first.
    fn feed(&self) -> String {
        let mut stream = self.server.connect();
        write!(stream, "GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.find(|line| line.starts_with("data: ")).unwrap()
    }

    /// Whether the state in the feed, which is made once a second, names who was refused by a policy.
    fn feed_has_refusal_of(&self, policy: &str) -> bool {
        let (feed, counts) = (self.feed(), format!(r#""{policy}":{{"allowed":"#));
        let top = feed.rsplit_once(&counts).and_then(|(_, rest)| rest.split_once(r#""top":["#));
        top.is_some_and(|(_, top)| top.starts_with('{'))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path("log")).unwrap()
    }

    /// Until the line about the last refusal is written.
    fn wait_for_log(&self) {
        let web = || self.log().matches(r#""policy":"web""#).count() >= 3;
        wait_until("refusals are logged", DEADLINE, web);
    }

    /// Everything that people and programs can read of it, by name.
    fn outputs(&self) -> Vec<(&'static str, String)> {
        wait_until("the feed has the last refusal", DEADLINE, || self.feed_has_refusal_of("web"));
        let slow = || self.server.get("/v1/status").body.contains(r#""binding":""#);
        wait_until("a slow path has its limit reduced", DEADLINE, slow);
        self.wait_for_log();
        let get = |path: &str| self.server.get(path).body;
        vec![
            ("log", self.log()),
            ("metrics", get("/metrics")),
            ("feed", self.feed()),
            ("status", get("/v1/status")),
            ("overrides", get("/v1/overrides")),
            ("policies", get("/v1/policies")),
        ]
    }
}

/// Every key of a Redis, with its value.
fn contents(redis: &RedisServer) -> String {
    let keys = redis.command(&["KEYS", "*"]).text();
    let value = |key: &str| match redis.command(&["TYPE", key]).text().as_str() {
        "string" => redis.command(&["GET", key]).text(),
        "list" => redis.command(&["LRANGE", key, "0", "-1"]).text(),
        "hash" => redis.command(&["HGETALL", key]).text(),
        "zset" => redis.command(&["ZRANGE", key, "0", "-1"]).text(),
        "set" => redis.command(&["SMEMBERS", key]).text(),
        other => panic!("a {other} at {key}"),
    };
    let entries: Vec<_> = keys.lines().map(|key| format!("{key}\n{}", value(key))).collect();
    entries.join("\n")
}

/// Which of the canaries a text has.
fn readable(text: &str) -> Vec<&'static str> {
    [USER, CLIENT, PATH, REQUEST].into_iter().filter(|canary| text.contains(canary)).collect()
}

#[test]
fn no_identifier_leaves_the_process_and_without_the_key_all_of_them_do() {
    let redis = RedisServer::start();
    let store = format!(
        "{{ url: '{}', deadline: 5s, hash_keys: true, hash_key_file: SECRET }}",
        redis.url()
    );
    let hidden = Asked::start(&store, "");
    let stored = contents(&redis);
    assert!(stored.lines().count() > 10, "{stored}");
    assert_eq!(readable(&stored), [""; 0], "{stored}");
    for (name, text) in hidden.outputs() {
        assert_eq!(readable(&text), [""; 0], "{name}: {text}");
    }
    // The limits and the override hold all the same.
    assert_eq!(hidden.server.remaining("login", USER), 0);
    let blocked = format!(r#"{{"policy":"api","key":"{USER}"}}"#);
    assert_eq!(
        hidden.server.post("/v1/check", &blocked).json()["retry_after_ms"],
        serde_json::Value::Null
    );

    // A reload does not show what a restart would.
    let config = hidden.folder.path("tidegate.yaml");
    let text = fs::read_to_string(&config).unwrap().replace("hash_keys: true", "hash_keys: false");
    fs::write(&config, format!("{SHOWN}{text}")).unwrap();
    hidden.server.signal("HUP");
    let reloaded = r#"tidegate_config_reload_total{result="ok"}"#;
    wait_until("it is reloaded", DEADLINE, || hidden.server.metric(reloaded) >= Some(1.0));
    hidden.ask();
    for (name, text) in hidden.outputs() {
        assert_eq!(readable(&text), [""; 0], "{name} after a reload: {text}");
    }

    // The control: the same questions, with everything shown.
    redis.command(&["FLUSHALL"]);
    let store = format!("{{ url: '{}', deadline: 5s }}", redis.url());
    let shown = Asked::start(&store, SHOWN);
    assert_eq!(readable(&contents(&redis)), [USER, CLIENT, PATH]);
    for (name, text) in shown.outputs() {
        let expected: &[&str] = match name {
            "log" => &[USER, CLIENT, PATH, REQUEST],
            "feed" => &[USER, CLIENT, PATH],
            "metrics" | "status" => &[PATH],
            "overrides" => &[USER],
            _ => &[],
        };
        assert_eq!(readable(&text), expected, "{name}: {text}");
    }
}

#[test]
fn a_snapshot_holds_no_identifier_and_without_the_key_its_overrides_do() {
    for (options, expected) in
        [(", hash_keys: true, hash_key_file: SECRET", vec![]), ("", vec![USER])]
    {
        let store = format!("{{ snapshot: FOLDER/counters{options} }}");
        let mut asked = Asked::start(&store, "");
        assert!(asked.server.stop("TERM").success());
        let bytes = fs::read(asked.folder.path("counters")).unwrap();
        assert_eq!(readable(&String::from_utf8_lossy(&bytes)), expected, "{options}");
    }
}

const RLS_RULES: &str = "
domain: edge
descriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 2 } }]
";

/// Asks Envoy's service four times for a user.
const RLS_CLIENT: &str = "
import sys, grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
asked = rls_pb2.RateLimitRequest(domain='edge')
asked.descriptors.add().entries.add(key='user', value=sys.argv[2])
stub = rls_pb2_grpc.RateLimitServiceStub(grpc.insecure_channel(sys.argv[1]))
codes = [stub.ShouldRateLimit(asked, timeout=10).overall_code for _ in range(4)]
assert codes == [1, 1, 2, 2], codes
";

/// A server with every door, which refused someone at each but HTTP: its log, metrics and feed.
fn outputs_of_other_doors(store: &str, more: &str) -> [(&'static str, String); 3] {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let store = store.replace("SECRET", &folder.write("secret", SECRET));
    let rules = folder.write("rules.yaml", RLS_RULES);
    let doors =
        "listen: { http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }";
    let text =
        format!("{doors}\nproxy: {{ upstream: {} }}\nstore: {store}\n{more}{RULES}", origin.url());
    let config = folder.write("tidegate.yaml", text);
    let mut command = tidegate(&["serve", "-c", &config, "--envoy-config", &rules]);
    command.stdout(Stdio::piped()).stderr(fs::File::create(folder.path("log")).unwrap());
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let mut server = Server::of(command.spawn().unwrap(), nowhere, String::new());
    let after = |line: &str, text: &str| {
        let (_, rest) = line.split_once(text)?;
        Some(rest.split([' ', ':']).take(2).collect::<Vec<_>>().join(":"))
    };
    let mut proxy = None;
    let mut lines = BufReader::new(server.stdout()).lines().map_while(Result::ok);
    while proxy.is_none() {
        let line = lines.next().expect("it starts");
        if let Some(found) = after(&line, "listens on http://") {
            server.addr = found.parse().unwrap();
        }
        if let Some(found) = after(&line, "Redis protocol on ") {
            server.resp = Some(found.parse().unwrap());
        }
        server.grpc = after(&line, "gRPC on ").or_else(|| server.grpc.take());
        proxy = after(&line, "requests on from http://").map(|it| it.parse().unwrap());
    }

    let asked = Command::new(client("python"))
        .args(["-c", RLS_CLIENT, server.grpc.as_deref().unwrap(), USER])
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    for _ in 0..4 {
        let reply = server.resp_line(&format!("TG.CHECK login {USER}"));
        assert!(!reply.starts_with('-'), "{reply}");
    }
    let api = std::mem::replace(&mut server.addr, proxy.unwrap());
    let headers = [("X-Forwarded-For", CLIENT), ("X-Request-Id", REQUEST)];
    for status in [200, 429, 429] {
        assert_eq!(server.send("GET", PATH, &headers, b"").status, status);
    }
    server.addr = api;

    let log = || fs::read_to_string(folder.path("log")).unwrap();
    for policy in ["edge/user", "login", "web"] {
        let refused = format!(r#""policy":"{policy}""#);
        wait_until(policy, DEADLINE, || log().matches(&refused).count() >= 2);
    }
    let asked = Asked { server, folder };
    wait_until("the feed has the last refusal", DEADLINE, || asked.feed_has_refusal_of("web"));
    [("log", asked.log()), ("metrics", asked.server.get("/metrics").body), ("feed", asked.feed())]
}

#[test]
fn no_identifier_leaves_by_the_other_doors_or_into_another_engine() {
    let postgres = PostgresServer::start();
    let stored = || postgres.sql("SELECT key, encode(data, 'escape') FROM tidegate.items");
    let url = postgres.url();
    let store =
        format!("{{ url: '{url}', deadline: 10s, hash_keys: true, hash_key_file: SECRET }}");
    for (name, text) in outputs_of_other_doors(&store, "") {
        assert_eq!(readable(&text), [""; 0], "{name}: {text}");
    }
    let hashed = stored();
    assert!(hashed.lines().count() >= 3, "{hashed}");
    assert_eq!(readable(&hashed), [""; 0], "{hashed}");

    // The control.
    let store = format!("{{ url: '{url}', deadline: 10s }}");
    for (name, text) in outputs_of_other_doors(&store, SHOWN) {
        let expected: &[&str] = match name {
            "log" => &[USER, CLIENT, PATH, REQUEST],
            "feed" => &[USER, CLIENT, PATH],
            _ => &[PATH],
        };
        assert_eq!(readable(&text), expected, "{name}: {text}");
    }
    assert_eq!(readable(&stored()), [USER, CLIENT, PATH]);
}

/// What a node reports of a tenant, in a fleet of two.
fn reported_tenant(options: &str) -> String {
    const SHARE: &str = "
policies:
  total: { limit: 1000/s, key: global }
  shared: { share: { of: total, by: tenant } }
";
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let options = options.replace("SECRET", &folder.write("secret", SECRET));
    let text =
        format!("store: {{ url: '{}', deadline: 5s, nodes: 2{options} }}{SHARE}", redis.url());
    let server = Server::with_config(&folder, &text);
    let body = format!(r#"{{"policy":"shared","keys":{{"tenant":"{CLIENT}"}}}}"#);
    let mut found = None;
    wait_until("a tenant is reported", DEADLINE, || {
        assert_eq!(server.post("/v1/check", &body).status, 200);
        let stored = contents(&redis);
        assert_eq!(readable(&stored).is_empty(), !options.is_empty(), "{stored}");
        // A reading is `tick left.units,fingerprint.units.weight`, all but the tick hexadecimal.
        let words = stored.split([' ', '\n', ',', '"']);
        let readings = words.map(|word| word.split('.').collect::<Vec<_>>());
        let mut tenants = readings.filter(|parts| {
            parts.len() == 3 && parts.iter().all(|part| u64::from_str_radix(part, 16).is_ok())
        });
        found = tenants.next().map(|parts| parts[0].to_owned());
        found.is_some()
    });
    found.expect("a tenant")
}

#[test]
fn what_nodes_tell_each_other_of_tenants_is_hashed_with_the_secret() {
    let (keyed, unkeyed) = (", hash_keys: true, hash_key_file: SECRET", "");
    assert_eq!(reported_tenant(keyed), reported_tenant(keyed));
    // Without the secret, the hash of an address is the same for everyone, who could try out all of them.
    assert_eq!(reported_tenant(unkeyed), reported_tenant(unkeyed));
    assert_ne!(reported_tenant(keyed), reported_tenant(unkeyed));
}

#[test]
fn one_client_has_one_hash_on_every_node_and_after_a_restart() {
    let redis = RedisServer::start();
    let hash = |options: &str| {
        let asked =
            Asked::start(&format!("{{ url: '{}', deadline: 5s{options} }}", redis.url()), "");
        asked.wait_for_log();
        let log = asked.log();
        let line =
            log.lines().find(|line| line.contains(r#""policy":"login""#)).expect("a refusal");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        redis.command(&["FLUSHALL"]);
        line["key"].as_str().unwrap().to_owned()
    };
    let keyed = ", hash_keys: true, hash_key_file: SECRET";
    let label_only = ", hash_key_file: SECRET";
    assert_eq!(hash(keyed), hash(label_only));
    assert_eq!(hash(label_only), hash(label_only));
    // The control: without a secret every start has its own.
    assert_ne!(hash(""), hash(""));
}

#[test]
fn nodes_with_one_secret_count_together_and_follow_each_other_s_overrides() {
    let redis = RedisServer::start();
    let store = format!(
        "{{ url: '{}', deadline: 5s, hash_keys: true, hash_key_file: SECRET }}",
        redis.url()
    );
    let first = Asked::start(&store, "");
    let folder = Folder::new();
    let start = |secret: &str| {
        let secret = folder.write("secret", secret);
        let text = format!("store: {}\n{RULES}", store.replace("SECRET", &secret));
        let config = folder.write("tidegate.yaml", text);
        Server::start_with(&["serve", "-c", &config, "--listen", "127.0.0.1:0"])
    };
    let second = start(SECRET);
    assert_eq!(second.remaining("login", USER), 0);
    let body = format!(r#"{{"policy":"api","key":"{USER}"}}"#);
    let is_blocked = || second.post("/v1/check", &body).json()["retry_after_ms"].is_null();
    wait_until("the override holds there", DEADLINE, is_blocked);
    let path = format!("/v1/overrides/api/{USER}");
    let found = second.get(&path).json();
    assert_eq!((&found["block"], found["key"].as_str().unwrap().len()), (&true.into(), 33));
    // By the hash that the listing shows, or by the key.
    let by_hash = format!("/v1/overrides/api/%23{}", &found["key"].as_str().unwrap()[1..]);
    assert_eq!(second.send("DELETE", &by_hash, &[], b"").status, 204);
    assert_eq!(first.server.get(&path).status, 404);
    // The control: another secret is another client.
    assert_eq!(start("ffeeddccbbaa99887766554433221100").remaining("login", USER), 2);
}

#[test]
fn overrides_from_before_keys_were_hashed_are_named_and_can_be_removed() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let secret = folder.write("secret", SECRET);
    let config = |options: &str| {
        let store = format!("store: {{ url: '{}', deadline: 5s{options} }}\n", redis.url());
        let all = "{ all: [{ name: second, limit: 5/s }, { name: day, limit: 9/day }] }";
        let policies = format!("policies: {{ api: 5/h, plan: {all} }}\n");
        folder.write("tidegate.yaml", format!("{store}{policies}"))
    };
    let set = |server: &Server, path: &str, body: &str| {
        let set = server.send("PUT", &format!("/v1/overrides/{path}"), &[], body.as_bytes());
        assert_eq!(set.status, 204, "{set:?}");
    };
    let before = Server::start_with(&["serve", "-c", &config(""), "--listen", "127.0.0.1:0"]);
    set(&before, &format!("api/{USER}"), r#"{"block":true}"#);
    set(&before, &format!("plan/{USER}"), r#"{"limit_name":"day","limit":"2/day"}"#);
    set(&before, "api/10.0.0.0%2F8", r#"{"block":true}"#);
    drop(before);

    let config = config(&format!(", hash_keys: true, hash_key_file: {secret}"));
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &config, "--listen", "127.0.0.1:0"], &log);
    let warned = |count: u32| {
        let log = fs::read_to_string(&log).unwrap();
        let lines = log.lines().filter(|line| line.contains("were set without `store.hash_keys`"));
        let counts = lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        counts.filter(|line| line["count"] == count).count()
    };
    wait_until("the log says how many there are", DEADLINE, || warned(2) == 1);
    let doctor = || run(&["doctor", "-c", &config]).stdout;
    let found = doctor();
    assert!(found.contains("2 were set without store.hash_keys"), "{found}");
    set(&server, "api/new@example.com", r#"{"block":true}"#);

    let path = format!("/v1/overrides/api/{USER}");
    assert_eq!(server.get(&path).json()["block"], true);
    // One that holds does not hide the other from who removes it.
    set(&server, &format!("api/{USER}"), r#"{"block":true}"#);
    assert_eq!(server.send("DELETE", &path, &[], b"").status, 204);
    assert_eq!(server.get(&path).status, 404);
    wait_until("the log has the new count", DEADLINE, || warned(1) == 1);
    let of_limit = format!("/v1/overrides/plan/{USER}?limit_name=day");
    assert_eq!(server.get(&of_limit).status, 200);
    assert_eq!(server.send("DELETE", &of_limit, &[], b"").status, 204);
    assert_eq!(server.send("DELETE", &of_limit, &[], b"").status, 404);

    assert_eq!(readable(&contents(&redis)), [""; 0]);
    let left = server.get("/v1/overrides").json();
    assert_eq!(left["overrides"].as_array().map(Vec::len), Some(2), "{left}");
    let found = doctor();
    assert!(!found.contains("store.hash_keys"), "{found}");
    assert_eq!(warned(2), 1, "once, and not each second");
}

#[test]
fn a_secret_that_is_none_is_an_error_that_says_what_to_write() {
    let folder = Folder::new();
    for (secret, expected) in [
        (Some("hunter2"), "expected 32 hexadecimal digits, as `openssl rand -hex 16` prints them"),
        (Some(""), "it is empty"),
        (None, "cannot read"),
    ] {
        let file = folder.path("none");
        let file = secret.map_or(file, |secret| folder.write("secret", secret));
        let text = format!(
            "store: {{ hash_keys: true, hash_key_file: {file} }}\npolicies: {{ api: 5/h }}"
        );
        let config = folder.write("tidegate.yaml", text);
        let output = run(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
        assert_eq!(output.code, Some(1));
        let stderr = output.stderr;
        assert!(stderr.contains("store.hash_key_file: ") && stderr.contains(expected), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn a_reload_with_a_secret_that_no_server_would_start_with_is_refused() {
    let folder = Folder::new();
    let policies = "policies: { api: 5/h }\n";
    let config = folder.write("tidegate.yaml", policies);
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &config, "--listen", "127.0.0.1:0"], &log);
    let reload = |secret: &str, expected: &str| {
        let secret = folder.write("secret", secret);
        let store = format!("store: {{ hash_keys: true, hash_key_file: {secret} }}\n");
        folder.write("tidegate.yaml", format!("{store}{policies}"));
        server.signal("HUP");
        let is_logged = || fs::read_to_string(&log).unwrap().contains(expected);
        wait_until(expected, DEADLINE, is_logged);
    };
    reload("hunter2", "expected 32 hexadecimal digits");
    assert!(server.metric("tidegate_config_reload_total{result=\"error\"}") >= Some(1.0));
    reload(SECRET, r#""field":"store.hash_keys""#);
}

/// Whoever wants both gets neither by accident.
#[test]
fn a_file_that_hashes_and_shows_keys_is_refused() {
    let folder = Folder::new();
    let secret = folder.write("secret", SECRET);
    for section in ["dashboard", "logs"] {
        let text = format!(
            "store: {{ hash_keys: true, hash_key_file: {secret} }}\n{section}: {{ keys: shown }}\n{RULES}"
        );
        let config = folder.write("tidegate.yaml", text);
        for command in
            [&["validate", &config][..], &["serve", "-c", &config, "--listen", "127.0.0.1:0"]]
        {
            let printed = run(command);
            let expected = format!("{section}.keys: `store.hash_keys` hides all keys");
            assert_eq!(printed.code, Some(1), "{command:?}: {}", printed.stderr);
            assert!((printed.stdout + &printed.stderr).contains(&expected), "{command:?}");
        }
    }
}

/// Without `hash_keys` identifiers are readable, and the odd ones are hashed under the secret of the file: two servers with
/// the same file count one together, and one with the built-in secret counts it by itself.
#[test]
fn odd_identifiers_are_hashed_under_the_secret_of_the_file() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let secret = folder.write("secret", "000102030405060708090a0b0c0d0e0f\n");
    let start = |more: &str| {
        let store = format!("store: {{ url: \"{}\", deadline: 10s{more} }}\n", redis.url());
        Server::with_config(&Folder::new(), &format!("{store}policies: {{ api: 5/h }}\n"))
    };
    let with_file = format!(", hash_key_file: {secret}");
    let servers = [start(&with_file), start(&with_file), start("")];
    for (key, left) in [("ann", [4, 3, 2]), ("naïve ann", [4, 3, 4])] {
        let ask = |server: &Server| {
            let body = format!(r#"{{"policy":"api","key":"{key}"}}"#);
            server.post("/v1/check", &body).json()["remaining"].as_u64().unwrap()
        };
        let seen: Vec<u64> = servers.iter().map(ask).collect();
        assert_eq!(seen, left, "{key}");
    }
}
