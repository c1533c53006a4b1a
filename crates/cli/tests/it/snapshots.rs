//! The memory store over a restart: what was spent stays spent, and a file that cannot be used is kept.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::processes::{DEADLINE, wait_until};
use crate::support::{Folder, Server, run, tidegate};

const POLICIES: &str = "\
policies:
  login: { algorithm: sliding-log, limit: 5/h }
  api: { limit: 5/h }
  jobs: { algorithm: concurrency, limit: 1, ttl: 1h }
";

/// A folder with a configuration, its snapshot and its log.
struct Place(Folder);

impl Place {
    fn new(store: &str) -> Self {
        let place = Self(Folder::new());
        place.configure(store, POLICIES);
        place
    }

    /// `store` beside the snapshot.
    fn configure(&self, store: &str, policies: &str) {
        let snapshot = self.0.path("counters");
        let text = format!("store: {{ snapshot: {snapshot}{store} }}\n{policies}");
        self.0.write("tidegate.yaml", text);
    }

    fn start(&self) -> Server {
        let args = ["serve", "-c", &self.0.path("tidegate.yaml"), "--listen", "127.0.0.1:0"];
        Server::start_logged(&args, &self.0.path("log"))
    }

    /// The first log line with a message that begins so.
    fn logged(&self, message: &str) -> Option<Value> {
        let log = fs::read_to_string(self.0.path("log")).unwrap();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"].as_str().is_some_and(|it| it.starts_with(message)))
    }
}

fn spend(server: &Server) {
    for policy in ["login", "api"] {
        let body = format!(r#"{{"policy":"{policy}","key":"ann","cost":5}}"#);
        assert_eq!(server.post("/v1/check", &body).json()["allowed"], true);
    }
}

fn left(server: &Server) -> [u64; 2] {
    ["login", "api"].map(|policy| server.remaining(policy, "ann"))
}

#[test]
fn what_was_spent_is_still_spent_after_a_restart() {
    let place = Place::new("");
    for signal in ["TERM", "INT"] {
        let mut server = place.start();
        if signal == "TERM" {
            assert_eq!(left(&server), [5, 5], "a first start is empty");
            spend(&server);
            assert_eq!(
                server.post("/v1/acquire", r#"{"policy":"jobs","key":"ann"}"#).json()["allowed"],
                true
            );
            let set = server.send("PUT", "/v1/overrides/api/mallory", &[], br#"{"block":true}"#);
            assert!(set.status < 300, "{set:?}");
        }
        assert!(server.stop(signal).success());
        let mode = fs::metadata(place.0.path("counters")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let server = place.start();
    assert_eq!(left(&server), [0, 0]);
    let restored = place.logged("counters restored").expect("a line about it");
    assert_eq!(restored["keys"], 3, "{restored}");
    let jobs = server.post("/v1/acquire", r#"{"policy":"jobs","key":"ann"}"#);
    assert_eq!(jobs.json()["allowed"], false, "the place is still held");
    let blocked = server.post("/v1/check", r#"{"policy":"api","key":"mallory"}"#);
    assert_eq!(blocked.json()["allowed"], false, "overrides are restored");
    // The control: without a snapshot the same restart forgets.
    let mut forgetful = Server::start();
    assert_eq!(
        forgetful.post("/v1/check", r#"{"policy":"login","key":"ann","cost":5}"#).json()["allowed"],
        true
    );
    assert!(forgetful.stop("TERM").success());
    assert_eq!(Server::start().remaining("login", "ann"), 5);
}

#[test]
fn a_killed_server_forgets_at_most_the_interval() {
    let place = Place::new(", every: 1s");
    let mut server = place.start();
    spend(&server);
    let written = || server.metric("tidegate_snapshots_total{result=\"ok\"}").unwrap();
    let before = written();
    wait_until("two more snapshots", DEADLINE, || written() >= before + 2.0);
    assert!(server.metric("tidegate_snapshot_timestamp_seconds").unwrap() > 1.6e9);
    // Spent after the last snapshot, perhaps: it may or may not survive.
    server.post("/v1/check", r#"{"policy":"login","key":"late"}"#);
    assert!(!server.stop("KILL").success());
    let server = place.start();
    assert_eq!(left(&server), [0, 0]);
    assert!(server.remaining("login", "late") >= 4);
}

#[test]
fn a_changed_limit_is_in_force_over_what_was_spent() {
    let place = Place::new("");
    let mut server = place.start();
    spend(&server);
    assert!(server.stop("TERM").success());
    place.configure(
        "",
        &POLICIES.replace(
            "login: { algorithm: sliding-log, limit: 5/h }",
            "login: { algorithm: sliding-log, limit: 8/h }",
        ),
    );
    assert_eq!(place.start().remaining("login", "ann"), 3);
}

#[test]
fn a_file_that_cannot_be_used_is_kept_and_the_server_starts_empty() {
    let place = Place::new("");
    let mut server = place.start();
    spend(&server);
    assert!(server.stop("TERM").success());
    let mut bytes = fs::read(place.0.path("counters")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(place.0.path("counters"), &bytes).unwrap();
    let mut server = place.start();
    assert_eq!(left(&server), [5, 5]);
    let line = place.logged("the snapshot cannot be used").expect("a line about it");
    assert_eq!(line["level"], "ERROR");
    assert_eq!(line["error"], "snapshot is damaged: its contents do not match their checksum");
    assert_eq!(line["kept_as"], place.0.path("counters.bad"));
    assert_eq!(fs::read(place.0.path("counters.bad")).unwrap(), bytes, "nothing is lost");
    assert_eq!(server.metric("tidegate_snapshots_total{result=\"unreadable\"}"), Some(1.0));
    spend(&server);
    assert!(server.stop("TERM").success());
    assert_eq!(left(&place.start()), [0, 0], "the next one is whole again");
}

#[test]
fn a_place_that_cannot_be_used_is_an_error_at_the_start_that_names_it() {
    let folder = Folder::new();
    let start = |store: &str| {
        let text = format!("store: {store}\npolicies: {{ api: 5/h }}");
        let config = folder.write("bad.yaml", text);
        let output = run(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        output.stderr
    };
    let missing = folder.path("missing/counters");
    for (store, expected) in [
        (
            format!("{{ snapshot: {missing} }}"),
            format!("cannot write {missing}.lock: No such file"),
        ),
        ("{ snapshot: /proc/counters }".into(), "cannot write /proc/counters.lock: ".into()),
        (format!("{{ snapshot: {} }}", folder.path("")), "expected a file, as in".into()),
        ("{ snapshot: /tmp }".into(), "/tmp is not a file".into()),
    ] {
        let stderr = start(&store);
        assert!(stderr.contains(&expected), "{store}: {stderr}");
    }
    let url = folder.write("url", "redis://127.0.0.1:1");
    let stderr = start(&format!("{{ url_file: {url}, snapshot: {} }}", folder.path("c")));
    assert!(stderr.contains("only for the memory store"), "{stderr}");
    let place = Place::new("");
    let _running = place.start();
    let args = ["serve", "-c", &place.0.path("tidegate.yaml"), "--listen", "127.0.0.1:0"];
    let stderr = run(&args).stderr;
    assert!(stderr.contains("is in use by another process"), "{stderr}");
    let file = place.0.path("counters");
    assert!(
        stderr.contains(&format!("tidegate: store.snapshot: {file} ")),
        "names the key: {stderr}"
    );
    assert!(!stderr.contains("bad-ask"), "{stderr}");
}

#[test]
fn a_disk_that_fails_is_logged_and_counted_and_checks_go_on() {
    let place = Place::new(", every: 1s");
    let server = place.start();
    wait_until("a snapshot", DEADLINE, || fs::exists(place.0.path("counters")).unwrap());
    fs::create_dir(place.0.path("counters.tmp")).unwrap();
    let failed = || server.metric("tidegate_snapshots_total{result=\"error\"}").unwrap();
    wait_until("a failed snapshot", DEADLINE, || failed() >= 1.0);
    assert!(place.logged("the snapshot was not written").is_some());
    spend(&server);
    fs::remove_dir(place.0.path("counters.tmp")).unwrap();
    let written = || server.metric("tidegate_snapshots_total{result=\"ok\"}").unwrap();
    let before = written();
    wait_until("it recovers", DEADLINE, || written() > before);
}

#[test]
fn a_flood_stays_under_the_cap_and_the_blocked_stay_blocked() {
    let folder = Folder::new();
    let text = "store: { max_bytes: 1MiB }\npolicies: { api: { limit: 100/h } }";
    let config = folder.write("tidegate.yaml", text);
    let mut command = tidegate(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
    let server = Server::launched(command.stderr(std::process::Stdio::null()));
    for key in 0..50 {
        let body = format!(r#"{{"policy":"api","key":"blocked-{key}","cost":100}}"#);
        assert_eq!(server.post("/v1/check", &body).json()["allowed"], true);
    }
    for batch in 0..60 {
        let check = |key: u32| format!(r#"{{"policy":"api","key":"flood-{batch}-{key}"}}"#);
        let checks: Vec<_> = (0..1000).map(check).collect();
        let body = format!(r#"{{"checks":[{}]}}"#, checks.join(","));
        assert_eq!(server.post("/v1/check/batch", &body).status, 200);
    }
    assert!(server.metric("tidegate_memory_bytes").unwrap() <= 1_048_576.0);
    assert!(server.metric("tidegate_keys_given_up_total").unwrap() > 10_000.0);
    for key in 0..50 {
        assert_eq!(server.remaining("api", &format!("blocked-{key}")), 0, "{key}");
    }
}
