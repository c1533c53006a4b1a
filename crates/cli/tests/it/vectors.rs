//! `tidegate vectors`: the golden cases, differences and errors.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{CommandOutput, run, tidegate};

pub(crate) fn golden() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert!(files.len() >= 9, "vector files are missing");
    files
}

pub(crate) fn replay(files: &[String], more: &[&str]) -> CommandOutput {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    run(&[&["vectors"], &files[..], more].concat())
}

/// Writes cases to a file, and replays them.
fn replay_cases(name: &str, cases: &Value) -> CommandOutput {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("vectors-{name}.json"));
    std::fs::write(&path, cases.to_string()).unwrap();
    replay(&[path.to_str().unwrap().to_owned()], &[])
}

#[test]
fn every_golden_case_passes() {
    for file in golden() {
        let cases: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let output = replay(std::slice::from_ref(&file), &["--store", "memory:"]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{file}");
        let mut lines = output.stdout.lines();
        for case in cases.as_array().unwrap() {
            for (step, expected) in case["expect"].as_array().unwrap().iter().enumerate() {
                let line: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
                let mut wanted = expected.clone();
                wanted["case"] = case["name"].clone();
                wanted["step"] = json!(step);
                assert_eq!(line, wanted, "{file}");
            }
        }
        assert_eq!(lines.next(), None, "{file}");
    }
}

#[test]
fn a_line_has_case_and_step_first_and_then_the_answer() {
    let limit = json!({"algorithm": "gcra", "limit": 1, "period_us": 1_000_000});
    let shaper =
        json!({"algorithm": "leaky-bucket", "limit": 2, "period_us": 1_000_000, "capacity": 1});
    let steps = json!([{"now_us": 1_700_000_000_000_000_u64}]);
    let output = replay_cases(
        "order",
        &json!([
            {"name": "one", "limit": limit, "steps": steps},
            {"name": "two", "all": [limit], "steps": steps},
            {"limit": shaper, "steps": steps},
        ]),
    );
    let expected = concat!(
        r#"{"case":"one","step":0,"allowed":true,"limit":1,"remaining":0,"retry_after_us":0,"reset_after_us":1000000}"#,
        "\n",
        r#"{"case":"two","step":0,"allowed":true,"binding":0,"decision":{"allowed":true,"limit":1,"remaining":0,"retry_after_us":0,"reset_after_us":1000000}}"#,
        "\n",
        r#"{"case":"[2]","step":0,"accepted":true,"delay_us":0,"retry_after_us":0}"#,
        "\n",
    );
    assert_eq!(output.stdout, expected);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_difference_is_named_and_exits_with_1() {
    let text =
        std::fs::read(golden().iter().find(|file| file.ends_with("/gcra.json")).unwrap()).unwrap();
    let mut cases: Value = serde_json::from_slice(&text).unwrap();
    cases[2]["expect"][5]["remaining"] = json!(4711);
    let output = replay_cases("doctored", &cases);
    assert_eq!(output.code, Some(1));
    for part in
        [cases[2]["name"].as_str().unwrap(), "step 5", r#""remaining":4711"#, "got {", "1 of "]
    {
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
    assert_eq!(output.stderr.lines().count(), 2, "{}", output.stderr);
}

#[test]
fn every_limit_can_be_written() {
    let day = 86_400_000_000_u64;
    for limit in [
        json!({"algorithm": "gcra", "limit": 3, "period_us": 1000}),
        json!({"algorithm": "token-bucket", "limit": 3, "period_us": 1000, "capacity": 7}),
        json!({"algorithm": "fixed-window", "limit": 3, "period_us": 1000}),
        json!({"algorithm": "sliding-window", "limit": 3, "period_us": 1000}),
        json!({"algorithm": "sliding-log", "limit": 3, "period_us": 1000}),
        json!({"algorithm": "quota", "limit": 3, "cadence": "calendar-day"}),
        json!({"algorithm": "quota", "limit": 3, "cadence": "calendar-week", "utc_offset_minutes": -90}),
        json!({"algorithm": "quota", "limit": 3, "cadence": "calendar-month", "time_zone": "Europe/Berlin"}),
        json!({"algorithm": "quota", "limit": 3, "cadence": "fixed", "period_us": day}),
        json!({"algorithm": "quota", "limit": 3, "cadence": "rolling", "period_us": day, "buckets": 24}),
    ] {
        let steps = json!([{"now_us": 0}, {"now_us": 0, "cost": 3}]);
        let output =
            replay_cases("limits", &json!([{"name": "x", "limit": limit, "steps": steps}]));
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{limit}");
        assert_eq!(output.stdout.lines().count(), 2, "{limit}");
    }
}

/// Expects an error with this text for an invalid case. Every error names the file.
fn refuses(case: &Value, part: &str) {
    let output = replay_cases("refused", &json!([case]));
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{case}");
    for part in ["vectors-refused.json", "case x", part] {
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}

#[test]
fn errors_name_file_case_and_field() {
    let good = || json!({"algorithm": "gcra", "limit": 3, "period_us": 1000});
    let with = |field: &str, value: Value| {
        let mut limit = good();
        limit[field] = value;
        json!({"name": "x", "limit": limit, "steps": []})
    };
    refuses(&with("algorithm", json!("frob")), "`algorithm`: `frob` is unknown");
    refuses(&with("brust", json!(3)), "brust");
    refuses(&with("limit", json!(0)), "limit is 0");
    refuses(&with("limit", json!(-1)), "`limit.limit`");
    refuses(&with("burst", json!("3")), "`limit.burst`");
    refuses(&with("period_us", json!(null)), "`period_us` is missing");
    refuses(
        &json!({"name": "x", "limit": {"algorithm": "quota", "limit": 1}, "steps": []}),
        "cadence",
    );
    refuses(
        &json!({"name": "x", "limit": {"algorithm": "quota", "limit": 1, "cadence": "calendar-day", "time_zone": "Mars"}, "steps": []}),
        "time_zone",
    );
    refuses(
        &json!({"name": "x", "limit": {"algorithm": "leaky-bucket", "limit": 1, "period_us": 1}, "steps": []}),
        "max_wait_us",
    );
    refuses(
        &json!({"name": "x", "all": [good(), {"algorithm": "leaky-bucket", "limit": 1}], "steps": []}),
        "all[1]: `algorithm`",
    );
    refuses(&json!({"name": "x", "all": [], "steps": []}), "`all`");
    refuses(&json!({"name": "x", "steps": []}), "exactly one");
    refuses(&json!({"name": "x", "limit": good(), "any": [good()], "steps": []}), "exactly one");
    refuses(&json!({"name": "x", "limit": good()}), "steps");
    refuses(
        &json!({"name": "x", "limit": good(), "steps": [{"now_us": 0, "cost": -1}]}),
        "`steps[0].cost`",
    );
    refuses(&json!({"name": "x", "limit": good(), "steps": [{"cost": 1}]}), "now_us");
    refuses(
        &json!({"name": "x", "limit": good(), "steps": [{"now_us": 0}], "expect": []}),
        "expect",
    );
    refuses(&json!({"name": "x", "limit": good(), "steps": [], "frob": 1}), "frob");
}

#[test]
fn other_errors_exit_with_1_and_usage_errors_with_64() {
    for (args, code, part) in [
        (&["vectors", "/nowhere.json"][..], 1, "/nowhere.json"),
        (&["vectors", env!("CARGO_MANIFEST_PATH")], 1, "list of cases"),
        (&["vectors", "x.json", "--store", "frob://user:secret@host"], 1, "`frob:…` is unknown"),
        (&["vectors", "x.json", "--store", "redis://u:secret@127.0.0.1:1"], 1, "does not answer"),
        (&["vectors"], 64, "FILE"),
    ] {
        let output = run(args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{args:?}");
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
        assert!(!output.stderr.contains("secret"), "{}", output.stderr);
    }
}

#[test]
fn a_closed_pipe_exits_normally() {
    let files = golden();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut child = tidegate(&[&["vectors"], &files[..]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with(r#"{"case":"all-0","step":0,"#), "{first}");
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
