//! Runs the demo at a small scale: tests that it works, not how fast it is.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use support::{root, tidegate};

const DEADLINE: Duration = Duration::from_secs(60);

fn demo() -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_overload-demo"));
    demo.env("QUICK", "1").arg("--json").arg("--tidegate").arg(tidegate());
    demo.arg("--envoy").arg(root().join("target/clients/envoy/bin/envoy"));
    demo.arg("--example").arg(root().join("examples/overload"));
    demo
}

fn folder(demo: &Child) -> PathBuf {
    std::env::temp_dir().join(format!("tidegate-overload-{}", demo.id()))
}

#[test]
fn the_demo_measures_an_app_without_and_with_tidegate_and_its_peers() {
    let demo = demo().stdout(Stdio::piped()).spawn().unwrap();
    let folder = folder(&demo);
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |run: &str, name: &str| report[run][name].as_f64().expect(name);
    for run in ["best", "unloaded", "unloaded_behind", "behind", "cap_alone"] {
        assert!(figure(run, "goodput_per_s") > 0.0, "{run}: {report:#}");
    }
    for run in ["one_limit", "shares", "shares_of_more"] {
        for crowd in ["people", "bots"] {
            let goodput = report[run][crowd]["goodput_per_s"].as_f64();
            assert!(goodput.is_some_and(|it| it > 0.0), "{crowd} with {run}: {report:#}");
        }
    }
    for peer in ["envoy", "envoy_capped", "nginx_small_burst", "nginx_large_burst"] {
        for load in ["unloaded", "overloaded"] {
            let goodput = report["peers"][peer][load]["goodput_per_s"].as_f64();
            assert!(goodput.is_some_and(|it| it > 0.0), "{load} through {peer}: {report:#}");
        }
    }
    // The app itself refuses nothing: these passed the peers.
    let refused =
        |peer: &str, load: &str| report["peers"][peer][load]["refused"].as_u64().expect(peer);
    assert!(refused("nginx_small_burst", "overloaded") > 0, "{report:#}");
    for peer in ["envoy", "envoy_capped"] {
        let refused = refused(peer, "unloaded") + refused(peer, "overloaded");
        let blocked = report["peers"][peer]["gradient"]["rq_blocked"].as_u64();
        assert!(refused > 0, "{peer}: {report:#}");
        assert!(blocked.is_some_and(|it| it >= refused), "{peer}: {report:#}");
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

#[test]
fn a_missing_peer_is_named_with_how_to_install_it() {
    for (option, said) in [
        ("--envoy", "Envoy is not installed as /missing: ./dev clients\n"),
        ("--nginx", "nginx is not installed as /missing: apt-get install nginx\n"),
    ] {
        let output = demo().args([option, "/missing"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    }
}
