//! `deploy/redis`: a real Redis with these files. tidegate works with it, and its user has no other rights.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::deploy::{document, ran, text};
use crate::processes::{DEADLINE, wait_until};
use crate::programs::{Program, free_port, root};
use crate::support::{Folder, Server, run};

/// Redis as `start.sh` starts it, on its own port and in its own folder.
struct Redis {
    _program: Program,
    _folder: Folder,
    port: u16,
}

impl Redis {
    fn start() -> Self {
        let (folder, port) = (Folder::new(), free_port());
        let mut command = Command::new(root().join("deploy/redis/start.sh"));
        command
            .envs([("REDIS_PASSWORD", "hunter2"), ("REDIS_ADMIN_PASSWORD", "hunter3")])
            .envs([("RUN", folder.path("")), ("DATA", folder.path(""))])
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let program = Program::start(&mut command, &folder);
        let redis = Self { _program: program, _folder: folder, port };
        wait_until("Redis answers", DEADLINE, || {
            redis.cli("tidegate", "hunter2", &["PING"]) == "PONG"
        });
        redis
    }

    fn url(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    fn cli(&self, user: &str, password: &str, words: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args([
            "-p",
            &self.port.to_string(),
            "--user",
            user,
            "--pass",
            password,
            "--no-auth-warning",
        ]);
        ran(cli.args(words)).map_or_else(|output| output, |output| output.trim().to_owned())
    }
}

/// The findings of the doctor: severity and check of each.
fn found(url: &str) -> Vec<(String, String)> {
    let output = run(&["doctor", "--json", "--store", url]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    findings.iter().map(|it| (text(it, "severity"), text(it, "check"))).collect()
}

#[test]
fn the_doctor_finds_no_fault_with_these_files() {
    // The latency depends on this machine, not on the files.
    const OF_THE_MACHINE: [&str; 4] = ["round-trip", "script-time", "slowlog", "latency-events"];
    let redis = Redis::start();
    let as_admin = found(&redis.url("admin", "hunter3"));
    let wrong = |(severity, check): &&(String, String)| {
        ["warning", "fault"].contains(&severity.as_str())
            && !OF_THE_MACHINE.contains(&check.as_str())
    };
    assert_eq!(as_admin.iter().find(wrong), None);
    for check in ["permissions", "maxmemory", "eviction", "persistence", "exposure", "script"] {
        assert!(as_admin.contains(&("ok".to_owned(), check.to_owned())), "{check}: {as_admin:?}");
    }
    let as_tidegate = found(&redis.url("tidegate", "hunter2"));
    assert!(as_tidegate.contains(&("ok".to_owned(), "permissions".to_owned())), "{as_tidegate:?}");
    assert_eq!(as_tidegate.iter().find(wrong), None);
}

#[test]
fn the_user_has_the_rights_that_tidegate_needs() {
    let (redis, folder) = (Redis::start(), Folder::new());
    let config = format!(
        "store: {}
policies:
  api: {{ limit: 100/min, burst: 20 }}
  login: {{ algorithm: sliding-log, limit: 5/h }}
  window: {{ algorithm: sliding-window, limit: 5/h }}
  month: {{ algorithm: quota, limit: 5, every: month }}
  export: {{ algorithm: leaky-bucket, limit: 2/s, max_wait: 5s }}
  reports: {{ algorithm: concurrency, limit: 5 }}
  upload: {{ limit: 1000/s, burst: 1000, lease: true }}
  pages: {{ limit: 1000/s, adaptive: {{ source: {{ fixed: 0.4 }}, ramp: pressure }} }}
",
        redis.url("tidegate", "hunter2")
    );
    let server = Server::with_config(&folder, &config);
    wait_until("the store answers", DEADLINE, || server.get("/readyz?strict").status == 200);
    for policy in ["api", "login", "window", "month", "pages"] {
        let body = format!(r#"{{"policy":"{policy}","key":"ann"}}"#);
        assert_eq!(server.post("/v1/check", &body).json()["source"], "store", "{policy}");
    }
    wait_until("a lease decides", DEADLINE, || {
        let reply = server.post("/v1/check", r#"{"policy":"upload","key":"ann"}"#);
        reply.json()["source"] == "lease"
    });
    let reserved = server.post("/v1/reserve", r#"{"policy":"export","key":"ann"}"#).json();
    assert_eq!(reserved["accepted"], true, "{reserved}");
    let acquired = server.post("/v1/acquire", r#"{"policy":"reports","key":"ann"}"#);
    assert_eq!(acquired.status, 200, "{acquired:?}");
    for what in ["refund", "reset"] {
        let reply = server.post(&format!("/v1/{what}"), r#"{"policy":"login","key":"ann"}"#);
        assert_eq!(reply.status, 200, "{what}: {reply:?}");
    }
    let put = server.send("PUT", "/v1/overrides/api/partner", &[], br#"{"limit":"5000/min"}"#);
    assert!(put.status < 300, "{put:?}");
    let stored = server.get("/v1/overrides/api/partner");
    assert_eq!(stored.json()["limit"], "5000/min", "{stored:?}");
    for kind in ["denied", "other", "noscript"] {
        let series = format!("tidegate_store_errors_total{{kind=\"{kind}\"}}");
        assert_eq!(server.metric(&series), Some(0.0), "{kind}");
    }
}

#[test]
fn the_user_has_no_other_rights() {
    let redis = Redis::start();
    for words in [
        &["FLUSHALL"][..],
        &["FLUSHDB"],
        &["KEYS", "*"],
        &["SCAN", "0"],
        &["CONFIG", "SET", "maxmemory", "1"],
        &["CONFIG", "GET", "*"],
        &["SCRIPT", "FLUSH"],
        &["ACL", "LIST"],
        &["SHUTDOWN", "NOSAVE"],
        &["REPLICAOF", "127.0.0.1", "1"],
        &["GET", "another"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "another"],
        &["EVAL", "return redis.call('FLUSHALL')", "0"],
    ] {
        let output = redis.cli("tidegate", "hunter2", words);
        let is_refused = output.contains("NOPERM") || output.contains("can't run this command");
        assert!(is_refused || output.contains("can't access"), "{words:?}: {output}");
    }
    assert_eq!(redis.cli("tidegate", "hunter2", &["GET", "tg:x"]), "", "it may read its own keys");
    for user in ["tidegate", "default", "admin"] {
        assert!(redis.cli(user, "wrong", &["PING"]).contains("NOAUTH"), "{user}");
    }
    let mut anonymous = Command::new("redis-cli");
    let output = ran(anonymous.args(["-p", &redis.port.to_string(), "PING"])).unwrap();
    assert!(output.contains("NOAUTH"), "{output}");
    assert!(redis.cli("admin", "hunter3", &["CONFIG", "GET", "maxmemory"]).contains("268435456"));
}

/// Runs the health check of Compose with a password.
fn is_healthy(redis: &Redis, password: &str) -> bool {
    let compose = document("docker/compose.yaml");
    let words = compose["services"]["redis"]["healthcheck"]["test"].as_array().unwrap();
    let words: Vec<_> = words.iter().map(|word| word.as_str().unwrap()).collect();
    let ["CMD", program, args @ ..] = &words[..] else { panic!("{words:?}") };
    let mut asked = Command::new(program);
    asked.args(["-p", &redis.port.to_string()]).args(args).env("REDISCLI_AUTH", password);
    ran(&mut asked).is_ok()
}

#[test]
fn the_compose_health_check_detects_a_refused_login() {
    let redis = Redis::start();
    assert!(is_healthy(&redis, "hunter2"));
    // redis-cli alone exits with 0 after any answer.
    assert!(!is_healthy(&redis, "wrong"));
}

#[test]
fn the_rights_match_the_page() {
    let of = |line: &str| -> Vec<String> {
        let words = line.split([' ', '\'']).filter(|word| word.starts_with(['+', '~']));
        words.map(str::to_owned).collect()
    };
    let page = fs::read_to_string(root().join("docs/redis.md")).unwrap();
    let documented = page.lines().find(|line| line.starts_with("redis-cli ACL SETUSER")).unwrap();
    let list = text("redis/users.acl");
    let given = list.lines().find(|line| line.starts_with("user tidegate")).unwrap();
    assert!(of(documented).len() > 20);
    assert_eq!(of(documented), of(given));
}

#[test]
fn redis_does_not_start_without_passwords() {
    let folder = Folder::new();
    let mut command = Command::new(root().join("deploy/redis/start.sh"));
    command.env("RUN", folder.path("")).env_remove("REDIS_PASSWORD");
    assert!(ran(command.env("REDIS_ADMIN_PASSWORD", "x")).unwrap_err().contains("REDIS_PASSWORD"));
    // Nor with the unmodified list of users.
    let list = folder.write("users.acl", text("redis/users.acl"));
    let port = free_port().to_string();
    let refused = ran(Command::new("redis-server").args(["--port", &port, "--aclfile", &list]));
    assert!(refused.is_err(), "{refused:?}");
}
