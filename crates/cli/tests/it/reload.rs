//! Reloads of the configuration while the server runs.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::Command;

use serde_json::Value;

use crate::processes::{DEADLINE, wait_for, wait_until};
use crate::support::{Folder, Server, run};

fn start(file: &str) -> Server {
    Server::start_with(&["serve", "-c", file, "--listen", "127.0.0.1:0"])
}

/// The limit of a policy; `None` if there is no such policy.
fn limit_of(server: &Server, policy: &str) -> Option<u64> {
    let policies: Value = server.get("/v1/policies").json();
    policies[policy]["limit"].as_u64()
}

fn check(server: &Server, policy: &str) -> bool {
    let body = format!(r#"{{"policy":"{policy}","key":"ann"}}"#);
    server.post("/v1/check", &body).json()["allowed"].as_bool().unwrap()
}

#[test]
fn a_reload_keeps_counters_and_changes_the_rest() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: fixed-window 3/day, old: 1/s }\n");
    let server = start(&file);
    assert!(check(&server, "api") && check(&server, "api"));
    folder.write("t.yaml", "policies: { api: fixed-window 4/day, new: 1/s }\n");
    wait_until("the new file is in force", DEADLINE, || limit_of(&server, "api") == Some(4));
    assert_eq!((limit_of(&server, "old"), limit_of(&server, "new")), (None, Some(1)));
    assert!(check(&server, "api") && check(&server, "api"));
    assert!(!check(&server, "api"), "the usage is kept");
}

/// GCRA and token buckets store a time: 5/h, all used, is one hour ahead, and so it is with 10/h.
#[test]
fn usage_carries_over_to_a_new_rate_and_a_new_algorithm_starts_empty() {
    let folder = Folder::new();
    let policies = |paced: &str, other: &str| {
        format!(
            "policies:\n  gcra: {paced}/h\n  \
             bucket: {{ algorithm: token-bucket, capacity: {paced}, refill: {paced}/h }}\n  other: {other} 5/h\n"
        )
    };
    let file = folder.write("t.yaml", policies("5", "gcra"));
    let server = start(&file);
    for policy in ["gcra", "bucket", "other"] {
        assert!((0..5).all(|_| check(&server, policy)) && !check(&server, policy), "{policy}");
    }
    folder.write("t.yaml", policies("10", "sliding-log"));
    wait_until("the new file is in force", DEADLINE, || limit_of(&server, "gcra") == Some(10));
    assert!(check(&server, "other"));
    for policy in ["gcra", "bucket"] {
        assert!(!check(&server, policy), "{policy}");
        server.post("/v1/reset", &format!(r#"{{"policy":"{policy}","key":"ann"}}"#));
        assert!((0..10).all(|_| check(&server, policy)), "{policy}");
    }
}

#[test]
fn a_bad_file_is_refused_as_a_whole_and_logged() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/day }\n");
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    folder.write("t.yaml", "policies: { api: 5/day, web: 1/m }\nmode: x\n");
    let output = |part: &str| fs::read_to_string(&log).unwrap().contains(part);
    wait_until("the file is refused", DEADLINE, || {
        output("t.yaml:2:7: mode: unknown `x`: expected one of enforce, shadow")
            && output("the old configuration stays in force")
    });
    assert_eq!((limit_of(&server, "api"), limit_of(&server, "web")), (Some(3), None));
    assert_eq!(server.metric("tidegate_config_refused"), Some(1.0));
    folder.write("t.yaml", "policies: { api: 5/day }\nkey_prefix: other\n");
    wait_until("the next file is accepted", DEADLINE, || limit_of(&server, "api") == Some(5));
    wait_until("the reload is accepted", DEADLINE, || {
        server.metric("tidegate_config_refused") == Some(0.0)
    });
    wait_until("the other changes are logged", DEADLINE, || {
        output("needs a restart to take effect") && output("key_prefix")
    });
}

#[test]
fn sighup_reloads_the_file_at_once() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/day }\n");
    let server = start(&file);
    folder.write("t.yaml", "policies: { api: 7/day }\n");
    server.signal("HUP");
    wait_until("the new file is in force", DEADLINE, || limit_of(&server, "api") == Some(7));
    // SIGHUP without a configuration file does not stop the server.
    let demo = Server::start();
    demo.signal("HUP");
    assert_eq!(demo.get("/healthz").status, 200);
}

/// As a kubelet does it: a new folder, to which the link `..data` is switched atomically.
#[test]
fn a_configmap_update_is_noticed() {
    let folder = Folder::new();
    fs::create_dir(folder.path("..1")).unwrap();
    fs::create_dir(folder.path("..2")).unwrap();
    folder.write("..1/t.yaml", "policies: { api: 3/day }\n");
    folder.write("..2/t.yaml", "policies: { api: 9/day }\n");
    symlink("..1", folder.path("..data")).unwrap();
    symlink("..data/t.yaml", folder.path("t.yaml")).unwrap();
    let server = start(&folder.path("t.yaml"));
    assert_eq!(limit_of(&server, "api"), Some(3));
    symlink("..2", folder.path("..data_tmp")).unwrap();
    fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
    wait_until("the new file is in force", DEADLINE, || limit_of(&server, "api") == Some(9));
}

/// An unreadable file is logged once, and other files are still watched.
#[test]
fn an_unreadable_file_is_logged_once_and_hides_no_other_change() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/day }\n");
    let rules = folder.write("rules/a.yaml", "domain: edge\n");
    let (log, folder_of_rules) = (folder.path("log"), folder.path("rules"));
    let args = ["serve", "-c", &file, "--listen", "127.0.0.1:0", "--envoy-config"];
    let server = Server::start_logged(&[&args[..], &[&folder_of_rules]].concat(), &log);
    let output = |part: &str| fs::read_to_string(&log).unwrap().contains(part);
    let refused = || server.metric("tidegate_config_refused") == Some(1.0);
    let refusals = || server.metric(r#"tidegate_config_reload_total{result="error"}"#);

    symlink("/nowhere/note", folder.path("rules/note")).unwrap();
    folder.write("t.yaml", "policies: { api: 4/day }\n");
    wait_until("a dangling link that is not a rule file is ignored", DEADLINE, || {
        limit_of(&server, "api") == Some(4)
    });
    symlink("/nowhere/b.yaml", folder.path("rules/b.yaml")).unwrap();
    wait_until("a missing file is logged", DEADLINE, || {
        refused() && output("rules/b.yaml: cannot be read: No such file or directory")
    });
    fs::remove_file(folder.path("rules/b.yaml")).unwrap();
    wait_until("the reload is accepted", DEADLINE, || !refused());
    assert_eq!(refusals(), Some(1.0), "refused once");

    fs::rename(&rules, folder.path("a.yaml")).unwrap();
    wait_until("a folder without files is logged", DEADLINE, || {
        refused() && output("no *.yaml or *.yml file in this folder or below it")
    });
    fs::rename(folder.path("a.yaml"), &rules).unwrap();
    wait_until("the reload is accepted again", DEADLINE, || !refused());

    fs::rename(&file, folder.path("old.yaml")).unwrap();
    wait_until("a removed file is refused", DEADLINE, refused);
    assert_eq!((limit_of(&server, "api"), refusals()), (Some(4), Some(3.0)));
}

#[test]
fn the_server_does_not_start_with_a_bad_file() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/fortnight }\n");
    for args in [&["serve", "-c", &file][..], &["-c", &file]] {
        let output = run(args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
        assert!(output.stderr.contains(&format!("{file}:1:18: policies.api")), "{}", output.stderr);
    }
}

#[test]
fn a_hanging_file_does_not_delay_the_shutdown() {
    /// Opening fails at once if there is no reader.
    const NONBLOCK: i32 = 0o4000;
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/day }\ndrain: 0s\n");
    let mut server = start(&file);
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    // The pipe is open and sends nothing, like a file system that hangs.
    let held = wait_for("the file is read again", DEADLINE, || {
        fs::OpenOptions::new().write(true).custom_flags(NONBLOCK).open(&file).ok()
    });
    assert_eq!(server.stop("TERM").code(), Some(0));
    drop(held);
}

#[test]
fn a_reload_names_the_policies_that_it_removes_and_so_do_later_checks_of_them() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 3/day, old: 1/s, older: 1/s }\n");
    let log = folder.path("log");
    let any = "127.0.0.1:0";
    let server =
        Server::start_logged(&["serve", "-c", &file, "--listen", any, "--resp", any], &log);
    assert!(check(&server, "old"));
    let asked =
        |policy: &str| server.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"ann"}}"#));
    folder.write("t.yaml", "policies: { api: 4/day }\n");
    wait_until("the new file is in force", DEADLINE, || limit_of(&server, "api") == Some(4));
    let lines = || {
        let log = fs::read_to_string(&log).unwrap();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_it =
            |line: &Value| line["message"].as_str().unwrap().contains("has removed policies");
        lines.filter(is_it).collect::<Vec<_>>()
    };
    wait_until("it is logged", DEADLINE, || lines().len() == 1);
    assert_eq!(
        (&lines()[0]["level"], &lines()[0]["policies"]),
        (&"WARN".into(), &"old, older".into())
    );
    let gone = asked("old");
    assert_eq!((gone.status, &gone.json()["type"]), (404, &"urn:tidegate:unknown-policy".into()));
    let detail = gone.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("no policy is called `old`: the reload at 2"), "{detail}");
    assert!(detail.contains("Z removed it; GET /v1/policies"), "{detail}");
    let resp = server.resp_line("TG.CHECK older ann");
    assert!(resp.starts_with("-ERR no policy is called `older`: the reload at 2"), "{resp}");
    // One that was never there, and one that came back.
    let never = asked("never").json()["detail"].to_string();
    assert!(!never.contains("reload"), "{never}");
    folder.write("t.yaml", "policies: { api: 5/day, old: 1/s }\n");
    wait_until("the third file is in force", DEADLINE, || limit_of(&server, "api") == Some(5));
    assert!(check(&server, "old"));
    assert!(asked("older").json()["detail"].to_string().contains("the reload at 2"));
    assert_eq!(lines().len(), 1, "nothing was removed");
}
