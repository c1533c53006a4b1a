//! Commands print everything or fail. A reader that closes the pipe early is not an error.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::support::{Folder, tidegate};

/// Commands with long output that need no server.
const COMMANDS: [&[&str]; 8] = [
    &["bench", "--door", "embedded", "--requests", "100", "--warm-up", "0s"],
    &["completions", "bash"],
    &["config", "example"],
    &["config", "schema"],
    &["cost", "--json"],
    &["man"],
    &["simulate", "algorithms", "--json"],
    &["simulate", "fleet", "--nodes", "2", "--duration", "1s"],
];

/// The exit code and the stderr of each command.
fn printed_to(out: impl Fn() -> Stdio) -> Vec<(String, Option<i32>, String)> {
    let folder = Folder::new();
    let text =
        r#"[{"limit":{"algorithm":"gcra","limit":2,"period_us":1000000},"steps":[{"now_us":1}]}]"#;
    let cases = folder.write("cases.json", text);
    let config = folder.write("tidegate.yaml", "policies: { api: sliding-window 5/s }");
    let log = folder.write("access.log", "");
    let more: [&[&str]; 4] = [
        &["vectors", &cases],
        &["validate", "--json", &config],
        &["replay", &log, "-c", &config, "--policy", "api"],
        &["doctor", "--store", "memory:"],
    ];
    let run = |args: &&[&str]| {
        let mut command = tidegate(args);
        let ran = command.stdout(out()).stderr(Stdio::piped()).output().unwrap();
        (args.join(" "), ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    COMMANDS.iter().chain(&more).map(run).collect()
}

#[test]
fn a_full_disk_is_an_error() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    for (command, code, printed) in printed_to(full) {
        assert_eq!(code, Some(1), "{command}: {printed}");
        assert!(
            printed.contains("cannot write to standard output: No space left"),
            "{command}: {printed}"
        );
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    // The reading end is closed at once.
    let closed = || std::io::pipe().unwrap().1.into();
    for (command, code, printed) in printed_to(closed) {
        assert_eq!((code, printed.as_str()), (Some(0), ""), "{command}");
    }
}
