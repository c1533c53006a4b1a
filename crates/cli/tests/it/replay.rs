//! `tidegate replay`: what policies would have decided about logs.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{CommandOutput, Folder, run, tidegate};

const CONFIG: &str = r#"
policies:
  api: { limit: 1/min, burst: 2 }
  tried: { limit: 1/min, burst: 2, mode: shadow }
  queue: { algorithm: leaky-bucket, limit: 1/s, max_wait: 1s }
  busy: { algorithm: concurrency, limit: 5 }
  signup: { all: [{ name: ip, key: ip, limit: 3/h }, { name: mail, key: mail, limit: 3/h }] }
  agent: { limit: 1/min, key: "header:user-agent" }
  user: { limit: 1/min, key: "header:x-user" }
routes:
  - { match: { path: "/api/*" }, policy: api }
"#;

/// A log with one request of a client in each of these seconds.
fn log(client: &str, path: &str, seconds: std::ops::Range<u32>) -> String {
    let line = |second| {
        format!(
            "{client} - - [10/Oct/2026:13:55:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1 \"-\" \"x\"\n"
        )
    };
    seconds.map(line).collect()
}

fn replay(log: &str, args: &[&str]) -> CommandOutput {
    let folder = Folder::new();
    let (log, config) = (folder.write("access.log", log), folder.write("tidegate.yaml", CONFIG));
    run(&[&["replay", &log, "-c", &config], args].concat())
}

fn report(log: &str, args: &[&str]) -> Value {
    let output = replay(log, &[args, &["--json"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

#[test]
fn a_replay_uses_the_times_of_the_log() {
    // Five in one minute, and five more later: each time a burst of two, which the minutes in between refill.
    let first = log("192.0.2.7", "/api/a", 0..5);
    let report = report(&(first.clone() + &first.replace("13:55", "13:58")), &["--policy", "api"]);
    let api = &report["policies"][0];
    assert_eq!((&api["requests"], &api["admitted"]), (&10.into(), &4.into()));
    let key = &api["keys"][0];
    assert_eq!((&key["key"], &key["denied"]), (&"192.0.2.7".into(), &6.into()));
    assert_eq!(key["first"], "2026-10-10T13:55:02Z");
    assert_eq!(report["until"], "2026-10-10T13:58:04Z");
}

#[test]
fn routes_choose_the_policy_and_keys_the_client() {
    let two = log("192.0.2.7", "/api/a", 0..5) + &log("192.0.2.8", "/home", 0..3);
    let by_route = report(&two, &[]);
    assert_eq!(
        (&by_route["unlimited"], &by_route["policies"][0]["denied"]),
        (&3.into(), &3.into())
    );
    let all_clients = report(&two, &["--policy", "api"]);
    assert_eq!(all_clients["policies"][0]["keys_denied"], 2);
    let by_path = report(&two, &["--policy", "api", "--key", "path"]);
    assert_eq!(by_path["policies"][0]["keys"][1]["key"], "/home");
    let by_both = report(&two, &["--policy", "api", "--key", "client_ip,path", "--top", "1"]);
    let keys = by_both["policies"][0]["keys"].as_array().unwrap();
    assert_eq!((keys.len(), &keys[0]["key"]), (1, &"9:192.0.2.7,6:/api/a,".into()));
    let by_agent = report(&two, &["--policy", "agent"]);
    assert_eq!(by_agent["policies"][0]["keys"][0]["key"], "x");
}

#[test]
fn json_and_common_log_lines_can_be_mixed_and_piped() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let json = |second: u32| {
        format!(
            "{{\"ts\":17000000{second:02}.5,\"remote_ip\":\"192.0.2.7\",\"method\":\"GET\",\"uri\":\"/api/a\"}}\n"
        )
    };
    let lines: String = (0..5).map(json).collect();
    let lines = lines + &log("192.0.2.7", "/api/a", 0..5);
    let mut child = tidegate(&["replay", "-", "-c", &config, "--json"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let report: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(report["policies"][0]["admitted"], 4);
    assert_eq!((&report["unreadable"], report["notes"].as_array().unwrap().len()), (&0.into(), 0));
}

#[test]
fn shadow_denials_and_delays_are_reported() {
    let five = log("192.0.2.7", "/api/a", 0..1).repeat(5);
    assert_eq!(report(&five, &["--policy", "tried"])["policies"][0]["denied"], 3);
    // One is admitted at once and one after a second: the others would wait too long.
    assert_eq!(report(&five, &["--policy", "queue"])["policies"][0]["denied"], 3);
}

#[test]
fn unreadable_lines_are_counted_and_the_first_are_shown() {
    let good = log("192.0.2.7", "/api/a", 0..1);
    let bad = "nonsense\n".repeat(7) + &"x".repeat(70_000) + "\n\n";
    let report = report(&(good.clone() + &bad + &good), &["--policy", "api"]);
    assert_eq!((&report["lines"], &report["unreadable"]), (&11.into(), &9.into()));
    let shown = report["first_unreadable"].as_array().unwrap();
    assert_eq!((shown.len(), &shown[0]["line"]), (5, &2.into()));
    assert_eq!(shown[0]["reason"], "no client");
    let output = replay(&bad, &["--policy", "api"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("not one line"), "{}", output.stderr);
    assert!(output.stderr.contains("line 1: no client"), "{}", output.stderr);
}

#[test]
fn doubtful_input_is_reported_as_a_note() {
    let note = |log: &str, args: &[&str], part: &str| {
        let report = report(log, args);
        let notes: Vec<_> =
            report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
        assert!(notes.iter().any(|note| note.contains(part)), "{part} in {notes:?}");
    };
    let good = log("192.0.2.7", "/api/a", 0..3);
    note(&good, &["--policy", "api"], "whole seconds");
    note(&good, &["--policy", "user"], "3 requests should be counted or routed by headers");
    let mixed_up = good.clone() + &good.replace("13:55", "12:55");
    note(&mixed_up, &["--policy", "api"], "3 lines are more than a minute older");
}

#[test]
fn errors_are_explained() {
    let good = log("192.0.2.7", "/api/a", 0..1);
    for (args, code, part) in [
        (&["--policy", "apy"][..], 1, "no policy is called `apy`, did you mean `api`?"),
        (&["--policy", "busy"], 1, "a log does not say how long requests took"),
        (&["--policy", "signup"], 1, "a line of a log has the key parts of its request only"),
        (&["--policy", "api", "--key", "clientip"], 64, "did you mean `client_ip`?"),
        (&["--top", "-1"], 64, "unexpected argument"),
    ] {
        let output = replay(&good, args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{args:?}");
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", "policies: { api: 1/min }");
    let log = folder.write("access.log", &good);
    for (args, part) in [
        (
            ["replay", &log, "-c", &config],
            "has no routes: say with --policy which of its policies to ask: api",
        ),
        (["replay", "/nowhere.log", "-c", "/nowhere.yaml"], "/nowhere.yaml"),
    ] {
        let output = run(&args);
        assert_eq!(output.code, Some(1));
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
    let output = run(&["replay", "/nowhere.log", "-c", &config, "--policy", "api"]);
    assert!(output.stderr.contains("/nowhere.log: No such file"), "{}", output.stderr);
}

#[test]
fn a_compressed_log_is_refused_with_the_command_that_unpacks_it() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    for (start, unpacker) in [
        (&b"\x1f\x8b\x08\0 and so on"[..], "zcat"),
        (b"\x28\xb5\x2f\xfd and so on", "zstdcat"),
        (b"BZh91AY and so on", "bzcat"),
        (b"\xfd7zXZ\0 and so on", "xzcat"),
    ] {
        let log = folder.write("access.log.packed", start);
        let output = run(&["replay", &log, "-c", &config]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{unpacker}");
        let expected = format!("it is compressed: `{unpacker} LOG | tidegate replay -`");
        assert!(output.stderr.contains(&expected), "{}", output.stderr);
    }
    // The control: input that is shorter than every magic number is parsed as a log.
    assert_eq!(replay("\n", &["--policy", "api"]).code, Some(1));
    assert_eq!(replay("", &["--policy", "api"]).code, Some(0));
}

#[test]
fn limits_are_asked_inline_several_at_once_and_without_a_file() {
    let folder = Folder::new();
    let log = folder.write("access.log", log("192.0.2.7", "/", 0..5));
    let asked = ["--policy", "1/min burst 2", "--policy", "sliding-window 3/min", "--json"];
    let output = crate::support::tidegate(&[&["replay", &log], &asked[..]].concat())
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let policies = report["policies"].as_array().unwrap();
    let rows: Vec<_> =
        policies.iter().map(|it| (it["policy"].as_str(), it["denied"].as_u64())).collect();
    assert_eq!(rows, [(Some("1/min burst 2"), Some(3)), (Some("sliding-window 3/min"), Some(2))]);
    assert_eq!(report["unlimited"], 0);
    // A policy of the file beside a limit, and what is neither.
    let rows = replay(&fs_read(&log), &["--policy", "api", "--policy", "4/min", "--json"]);
    let rows: Value = serde_json::from_str(&rows.stdout).unwrap();
    let denied: Vec<_> =
        rows["policies"].as_array().unwrap().iter().map(|it| &it["denied"]).collect();
    assert_eq!(denied, [3, 1], "in the order of the command line");
    let twice = replay(&fs_read(&log), &["--policy", "4/min", "--policy", "4/min"]);
    assert!(twice.stderr.contains("`4/min` is given twice"), "{}", twice.stderr);
    for (typed, part) in
        [("4/fortnight", "unit `fortnight` is unknown"), ("nobody", "a limit like 100/min")]
    {
        let output = replay(&fs_read(&log), &["--policy", typed]);
        assert!(output.code != Some(0) && output.stderr.contains(part), "{}", output.stderr);
    }
}

fn fs_read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_report_says_how_fast_clients_were() {
    // One client with fifty requests in a minute, and nine with one each.
    let mut lines = log("192.0.2.200", "/api/a", 0..50);
    (1..10).for_each(|client| lines += &log(&format!("192.0.2.{client}"), "/home", 7..8));
    let rates = &report(&lines, &["--policy", "api"])["rates"];
    assert_eq!(rates["clients"], 10);
    assert_eq!((&rates["minute"]["p50"], &rates["minute"]["p90"]), (&1.into(), &1.into()));
    assert_eq!((&rates["minute"]["p99"], &rates["second"]["max"]), (&50.into(), &1.into()));
    let text = replay(&lines, &["--policy", "api"]).stdout;
    assert!(text.contains("10 clients:\nrequests of one client in its busiest"), "{text}");
}

/// A JSON line of a client with a plan.
fn planned(client: &str, plan: &str, second: u32) -> String {
    format!(
        "{{\"time\":\"2026-10-10T13:55:{second:02}.5Z\",\"client_ip\":\"{client}\",\"method\":\"GET\",\"path\":\"/api/a\",\
         \"headers\":{{\"X-Plan\":[\"{plan}\"]}}}}\n"
    )
}

#[test]
fn a_replay_says_how_often_each_plan_is_denied() {
    let free: String = (0..6).map(|second| planned("192.0.2.7", "free", second)).collect();
    let gold: String = (0..2).map(|second| planned("192.0.2.9", "gold", second)).collect();
    let log = free + &gold + &log("192.0.2.8", "/api/a", 10..12);
    let args = ["--policy", "fixed-window 1/h", "--policy", "fixed-window 5/h"];
    let plans = |more: &[&str]| -> Vec<Value> {
        let report = report(&log, &[&args[..], more].concat());
        let rows = report["policies"].as_array().unwrap().iter();
        rows.flat_map(|row| row["plans"].as_array().cloned().unwrap_or_default()).collect()
    };
    let row = |plan: &str, requests: u64, denied: u64, percent: f64| serde_json::json!({"plan": plan, "requests": requests, "admitted": requests - denied, "denied": denied, "denied_percent": percent});
    let expected = [
        row("free", 6, 5, 83.3),
        row("gold", 2, 1, 50.0),
        row("free", 6, 1, 16.7),
        row("gold", 2, 0, 0.0),
    ];
    assert_eq!(plans(&["--plan", "X-Plan"]), expected);
    assert_eq!(plans(&[]), [Value::Null; 0]);
    let text = replay(&log, &["--policy", "api", "--plan", "x-tier"]).stdout;
    assert!(
        text.contains("note: no request of the log has the header `x-tier` with a plan"),
        "{text}"
    );
}

#[test]
fn against_the_old_file_a_replay_says_what_changes_for_whom() {
    let folder = Folder::new();
    let config = |name: &str, limit: &str, web: &str| {
        let text = format!(
            "policies: {{ api: {limit}, web: {web} }}\nroutes:\n  - {{ match: {{ path: /api/* }}, policy: api }}\n  - {{ match: {{ path: /web }}, policy: web }}\n"
        );
        folder.write(name, text)
    };
    let (old, new) = (
        config("old.yaml", "fixed-window 5/h", "fixed-window 1/h"),
        config("new.yaml", "fixed-window 3/h", "fixed-window 3/h"),
    );
    let free: String = (0..6).map(|second| planned("192.0.2.7", "free", second)).collect();
    let gold: String = (0..2).map(|second| planned("192.0.2.9", "gold", second)).collect();
    let web = log("192.0.2.8", "/web", 10..14) + &log("192.0.2.8", "/", 20..25);
    let log = folder.write("access.log", free + &gold + &web + "nonsense\n");
    let args = ["replay", &log, "-c", &new, "--against", &old];
    let report = |more: &[&str]| run(&[&args[..], more].concat());
    let output = report(&["--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    let flips = |row: &Value| {
        ["requests", "newly_denied", "newly_admitted", "denied_by_both"]
            .map(|it| row[it].as_u64().unwrap())
    };
    assert_eq!((flips(&json), &json["flips"]), ([17, 2, 2, 2], &4.into()));
    assert_eq!(json["unreadable"], 1);
    let rows = |of: &str| -> Vec<_> {
        let rows = json[of].as_array().unwrap().iter();
        rows.map(|row| (row["name"].as_str().unwrap(), flips(row))).collect()
    };
    assert_eq!(rows("policies"), [("api", [8, 2, 0, 1]), ("web", [4, 0, 2, 1])]);
    assert_eq!(rows("plans"), [("free", [6, 2, 0, 1]), ("gold", [2, 0, 0, 0])]);
    assert_eq!(json["plans"][0]["newly_denied_percent"], 33.3);
    let clients: Vec<_> = json["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["client"].as_str().unwrap())
        .collect();
    assert_eq!((clients, &json["clients_changed"]), (vec!["192.0.2.7", "192.0.2.8"], &2.into()));
    assert_eq!(json["clients"][0]["first"], "2026-10-10T13:55:03Z");
    let text = report(&[]).stdout;
    assert!(
        text.contains("4 requests are decided otherwise: 2 newly denied, 2 newly admitted"),
        "{text}"
    );
    assert!(text.contains("2 clients notice:") && text.contains("33.3 %"), "{text}");
}

#[test]
fn more_flips_than_allowed_fail() {
    let folder = Folder::new();
    let config = |name: &str, limit: &str| {
        folder.write(
            name,
            format!("policies: {{ api: fixed-window {limit} }}\nroutes: [{{ policy: api }}]\n"),
        )
    };
    let (old, new) = (config("old.yaml", "5/h"), config("new.yaml", "3/h"));
    let lines = log("192.0.2.7", "/", 0..9);
    let log = folder.write("access.log", &lines);
    let code = |more: &[&str]| {
        let output = run(&[&["replay", &log, "-c", &new], more].concat());
        (output.code, output.stderr)
    };
    assert_eq!(code(&["--against", &old, "--max-flips", "2"]).0, Some(0));
    let (failed, why) = code(&["--against", &old, "--max-flips", "1"]);
    assert_eq!(failed, Some(1));
    assert_eq!(why, "tidegate: 2 requests are decided otherwise: more than 1\n");
    assert_eq!(code(&["--against", &new, "--max-flips", "0"]).0, Some(0), "nothing changes");
    assert_eq!(code(&["--max-flips", "1"]).0, Some(64));
    let empty = folder.write("empty.log", "");
    let nothing = run(&["replay", &empty, "-c", &new, "--against", &old, "--max-flips", "0"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("has no lines"), "{}", nothing.stderr);
    // A log that is hardly read shows nothing.
    for (noise, expected) in [(9, Some(0)), (10, Some(1))] {
        let log = folder.write("noise.log", lines.clone() + &"?\n".repeat(noise));
        let args = ["replay", &log, "-c", &new, "--against", &old, "--max-flips", "2"];
        let output = run(&args);
        assert_eq!(output.code, expected, "{}", output.stderr);
        assert_eq!(run(&args[..6]).code, Some(0), "without --max-flips");
        if noise == 10 {
            let why = "has 19 lines, and 10 of them cannot be read: a check with --max-flips needs";
            assert!(output.stderr.contains(why), "{}", output.stderr);
            assert!(output.stderr.contains("\n  line 10: "), "{}", output.stderr);
        }
    }
    assert_eq!(code(&["--against", &old, "--policy", "api", "--policy", "1/s"]).0, Some(64));
    assert_eq!(code(&["--against", "/nowhere.yaml"]).0, Some(1));
}

/// What `--against` prints as JSON.
fn compared(folder: &Folder, log: &str, old: &str, new: &str) -> Value {
    let (old, new) = (folder.write("old.yaml", old), folder.write("new.yaml", new));
    let log = folder.write("access.log", log);
    let output = run(&["replay", &log, "-c", &new, "--against", &old, "--json"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{new}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

#[test]
fn what_one_file_does_not_replay_is_no_flip() {
    let folder = Folder::new();
    let doors = "listen: { proxy: 127.0.0.1:8000 }\nproxy: { upstream: http://127.0.0.1:3000 }\n";
    let file = |policy: &str| {
        format!(
            "{doors}policies: {{ api: {{ {policy} }}, other: fixed-window 2/h }}\n\
             routes: [{{ match: {{ path: /other }}, policy: other }}, {{ policy: api }}]\n"
        )
    };
    let window = file("algorithm: fixed-window, limit: 5/h");
    let busy = file("algorithm: concurrency, limit: 5");
    let lines = |path: &str| log("192.0.2.7", path, 0..40);
    for (old, new) in [(&window, &busy), (&busy, &window)] {
        let both = lines("/a") + &lines("/other");
        let report = compared(&folder, &both, old, new);
        assert_eq!(report["flips"], 0, "{report}");
        assert_eq!((&report["requests"], &report["denied_by_both"]), (&40.into(), &38.into()));
        assert_eq!(report["policies"].as_array().map(Vec::len), Some(1), "{report}");
        assert!(report["notes"].to_string().contains("40 requests were not replayed"), "{report}");
        // A check that decides nothing passes nothing.
        let log = folder.write("access.log", lines("/a"));
        let (old, new) = (folder.path("old.yaml"), folder.path("new.yaml"));
        let args = ["replay", &log, "-c", &new, "--against", &old, "--max-flips", "5"];
        let output = run(&args);
        assert_eq!(output.code, Some(1));
        assert!(output.stderr.contains("no request that both files decide"), "{}", output.stderr);
    }
}

#[test]
fn a_plan_that_no_request_has_is_noted_and_headers_may_be_spelt_as_in_routes() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", "policies: { api: 5/h }\nroutes: [{ policy: api }]\n");
    let line = r#"{"time":"2026-10-10T13:55:10Z","client_ip":"192.0.2.7","method":"GET","path":"/","headers":{"X-Tier":["gold"]}}"#;
    let log = folder.write("access.log", format!("{line}\n"));
    for against in [&[][..], &["--against", &file]] {
        let report = |plan: &str| -> Value {
            let args = ["replay", &log, "-c", &file, "--json", "--plan", plan];
            serde_json::from_str(&run(&[&args, against].concat()).stdout).unwrap()
        };
        for plan in ["x-tier", "header:X-Tier"] {
            let (found, noted) = (report(plan).to_string(), "no request of the log has the header");
            assert!(found.contains("gold") && !found.contains(noted), "{plan}: {found}");
        }
        let notes = report("header:x-wrong")["notes"].to_string();
        assert!(notes.contains("no request of the log has the header `x-wrong`"), "{notes}");
    }
}

#[test]
fn against_compares_what_callers_get_and_not_what_shadow_would_deny() {
    let folder = Folder::new();
    let log: String = (1..=20).map(|client| log(&format!("192.0.2.{client}"), "/", 0..5)).collect();
    let file = |top: &str, options: &str| {
        format!(
            "listen: {{ proxy: 127.0.0.1:8000 }}\nproxy: {{ upstream: http://127.0.0.1:3000 }}\n{top}\n\
             policies: {{ api: {{ {options} }} }}\nroutes: [{{ policy: api }}]\n"
        )
    };
    let window = "algorithm: fixed-window, limit: 3/h";
    let shaper = "algorithm: leaky-bucket, limit: 1/h, max_wait: 2h";
    for limit in [window, shaper] {
        let shadow = format!("{limit}, mode: shadow");
        for (old, new, denied, admitted) in [
            (file("", &shadow), file("", limit), 40, 0),
            (file("", limit), file("", &shadow), 0, 40),
            (file("mode: shadow", limit), file("", limit), 40, 0),
            (file("", &shadow), file("mode: shadow", limit), 0, 0),
        ] {
            let report = compared(&folder, &log, &old, &new);
            let flips = (&report["newly_denied"], &report["newly_admitted"]);
            assert_eq!(flips, (&denied.into(), &admitted.into()), "{old} {new}");
            let noted = "40 requests were denied in shadow by one of the files";
            assert!(report["notes"].to_string().contains(noted), "{report}");
        }
    }
    let part = |percent: &str| file("", &format!("{window}, enforce: {percent}"));
    let report = compared(&folder, &log, &part("10%"), &part("90%"));
    assert!((2..40).contains(&report["newly_denied"].as_u64().unwrap()), "{report}");
    // Without `--against`, the report says what the policy would deny.
    let (log, new) = (folder.path("access.log"), folder.write("new.yaml", part("10%")));
    let output = run(&["replay", &log, "-c", &new, "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["policies"][0]["denied"], 40);
}

#[test]
fn routes_to_leaky_buckets_are_replayed_and_those_to_concurrency_are_noted() {
    let folder = Folder::new();
    let config = folder.write(
        "proxy.yaml",
        "listen: { proxy: 127.0.0.1:8000 }
proxy: { upstream: http://127.0.0.1:3000 }
policies:
  queue: { algorithm: leaky-bucket, limit: 1/s, max_wait: 1s }
  busy: { algorithm: concurrency, limit: 5 }
routes: [{ match: { path: /api/* }, policy: queue }, { match: { path: /busy }, policy: busy }]
",
    );
    let lines = log("192.0.2.7", "/api/a", 0..1).repeat(5) + &log("192.0.2.7", "/busy", 0..3);
    let log = folder.write("access.log", &lines);
    let output = run(&["replay", &log, "-c", &config, "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&report["unreadable"], &report["unlimited"]), (&0.into(), &0.into()));
    let rows = report["policies"].as_array().unwrap();
    let rows: Vec<_> =
        rows.iter().map(|it| (&it["policy"], &it["requests"], &it["denied"])).collect();
    assert_eq!(rows, [(&"queue".into(), &5.into(), &3.into())]);
    let noted = "3 requests were not replayed: their policies limit concurrency";
    assert!(report["notes"].to_string().contains(noted), "{report}");
    let output = run(&["replay", &log, "-c", &config, "--against", &config]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("0 requests are decided otherwise"), "{}", output.stdout);
    assert!(output.stdout.contains(noted), "{}", output.stdout);
}

/// A JSON log has headers, and still no token that could be verified and no body.
#[test]
fn tokens_and_bodies_are_noted_however_many_headers_the_log_has() {
    let folder = Folder::new();
    let headers =
        r#""User-Agent":["x"],"Referer":["y"],"Accept":["*/*"],"Authorization":["Bearer z"]"#;
    let line = format!(
        "{{\"time\":\"2026-10-10T13:55:36.5Z\",\"client_ip\":\"192.0.2.7\",\"method\":\"GET\",\"path\":\"/\",\
         \"headers\":{{{headers}}}}}\n"
    );
    let log = folder.write("access.log", line.repeat(3));
    for (route, by_headers, by_contents) in [
        (r#"policy: { by: "jwt:plan", gold: api, else: api }"#, false, true),
        (r#"policy: api, key: "jwt:sub""#, false, true),
        (r#"policy: api, key: "json:/user""#, false, true),
        (r#"policy: api, key: "header:x-user""#, false, false),
        ("policy: api", false, false),
    ] {
        let text = format!(
            "jwt: {{ keys_file: /nowhere.pem, algorithms: RS256 }}\npolicies: {{ api: 5/s burst 1 }}\nroutes: [{{ {route} }}]\n"
        );
        let config = folder.write("t.yaml", text);
        let output = run(&["replay", &log, "-c", &config, "--json"]);
        let report: Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
        let notes = report["notes"].to_string();
        let contents = "3 requests should be counted or routed by tokens or bodies";
        assert_eq!(notes.contains(contents), by_contents, "{route}: {notes}");
        assert_eq!(notes.contains("headers or cookies"), by_headers, "{route}: {notes}");
    }
    // A log without headers is told apart.
    let plain =
        replay(&self::log("192.0.2.7", "/", 0..2), &["--policy", "1/s", "--key", "jwt:sub"]);
    assert!(
        plain.stdout.contains("2 requests should be counted or routed by tokens"),
        "{}",
        plain.stdout
    );
    assert!(!plain.stdout.contains("headers or cookies"), "{}", plain.stdout);
}

#[test]
fn a_log_that_is_not_sorted_is_noted_above_the_numbers() {
    let folder = Folder::new();
    let line = |minute| {
        format!("192.0.2.7 - - [10/Oct/2026:13:{minute}:36 +0000] \"GET / HTTP/1.1\" 200 512\n")
    };
    let log = folder.write("log", [line(55), line(50)].concat());
    let output = run(&["replay", &log, "--policy", "9/min burst 1"]);
    let note = output.stdout.find("note: 1 lines are more than a minute older");
    let table = output.stdout.find("policy").unwrap();
    assert!(note.is_some_and(|note| note < table), "{}", output.stdout);
    let sorted = folder.write("log", [line(50), line(55)].concat());
    let output = run(&["replay", &sorted, "--policy", "9/min burst 1"]);
    assert!(!output.stdout.contains("older"), "{}", output.stdout);
}

#[test]
fn the_name_of_a_header_or_a_log_field_is_answered_with_the_key_part() {
    let folder = Folder::new();
    let log = folder.write("log", "");
    for (typed, meant) in [
        ("user_agent", "header:user-agent"),
        ("User-Agent", "header:user-agent"),
        ("x_api_key", "header:x-api-key"),
        ("remote_addr", "client_ip"),
        ("client_ipp", "client_ip"),
    ] {
        let output = run(&["replay", &log, "--policy", "9/min", "--key", typed]);
        let expected = format!("did you mean `{meant}`?");
        assert!(output.stderr.contains(&expected), "{typed}: {}", output.stderr);
    }
}
