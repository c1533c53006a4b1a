//! Runs the loop at a small scale, with a real Fastify app: tests that it closes, not how fast it is.

mod support;

use std::process::{Command, Stdio};

use serde_json::Value;

use support::{root, tidegate};

/// The full limit of the sidecar's file.
const FULL: u64 = 440;

#[test]
fn the_limit_follows_the_database_down_and_up_again() {
    let folder = std::env::temp_dir().join(format!("loop-test-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let picture = folder.join("loop.svg");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_overload-demo"));
    demo.env("QUICK", "1").args(["loop", "--json"]).arg("--tidegate").arg(tidegate());
    demo.arg("--example").arg(root().join("examples/loop")).arg("--svg").arg(&picture);
    let output = demo.stdout(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let drawn = std::fs::read_to_string(&picture);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |run: &str, name: &str| report[run][name].as_f64().expect(name);

    for run in ["with_loop", "sidecar_killed", "limit_alone", "places_alone"] {
        assert!(number(run, "goodput_per_s") > 0.0, "{run}: {report:#}");
        assert!(number(run, "refused") > 0.0, "{run}: {report:#}");
        // The others were refused before they reached the handler.
        let seconds = report[run]["good_by_second"].as_array().unwrap().len() as f64;
        let sent = number(run, "requests_per_s") * seconds;
        assert!(number(run, "reached_app") < sent, "{run}: {report:#}");
    }
    assert_eq!(number("direct", "refused"), 0.0, "{report:#}");
    let limits = report["limit_alone"]["limit_by_second"].as_array().unwrap();
    let lowest = limits.iter().filter_map(Value::as_u64).min().unwrap();
    assert!(lowest < FULL, "the limit never fell: {limits:?}");
    assert!(report["recovered"].as_u64().unwrap() > lowest, "{report:#}");
    let drawn = drawn.unwrap();
    assert_eq!(
        drawn.matches("class=\"line c0\"").count(),
        3,
        "the legend and both charts: {drawn}"
    );
}
