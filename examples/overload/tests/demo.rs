//! Runs the demo at a small scale: tests that it works, not how fast it is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

const DEADLINE: Duration = Duration::from_secs(60);

/// The binary in `TIDEGATE`, or the debug build of the workspace.
fn tidegate() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/tidegate");
    std::env::var_os("TIDEGATE").map_or_else(built, PathBuf::from)
}

fn demo() -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_overload-demo"));
    demo.env("QUICK", "1").arg("--json").arg("--tidegate").arg(tidegate());
    demo.arg("--config").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tidegate.yaml"));
    demo
}

fn folder(demo: &Child) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-overload-{}", demo.id()))
}

#[test]
fn the_demo_measures_an_app_with_and_without_tidegate() {
    let demo = demo().stdout(Stdio::piped()).spawn().unwrap();
    let folder = folder(&demo);
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |run: &str, name: &str| report[run][name].as_f64().expect(name);
    for run in ["best", "unloaded", "unloaded_behind", "behind", "cap_alone"] {
        assert!(figure(run, "goodput_per_s") > 0.0, "{run}: {report:#}");
    }
    // How many of these are answered in time depends on the speed of the machine.
    assert!(figure("direct", "requests_per_s") > 0.0, "{report:#}");
    assert_eq!(report["direct"]["refused"], 0, "{report:#}");
    assert!(!folder.exists(), "{} is left behind", folder.display());
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let mut demo = demo().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let folder = folder(&demo);
    let stderr = BufReader::new(demo.stderr.take().unwrap());
    let is_loading = stderr.lines().map_while(Result::ok).any(|line| line.contains("can carry"));
    assert!(is_loading, "{:?}", demo.wait());
    let lock = std::fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    let server = Path::new("/proc").join(lock.lines().next().unwrap());
    assert!(server.exists());

    Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    let start = Instant::now();
    let status = loop {
        match demo.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() < DEADLINE => sleep(Duration::from_millis(10)),
            None => panic!("the demo does not stop"),
        }
    };
    assert_eq!(status.code(), Some(130));
    assert!(!server.exists(), "PostgreSQL is left behind");
    assert!(!folder.exists(), "{} is left behind", folder.display());
}
