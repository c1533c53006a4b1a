//! `tidegate simulate`: reports as text, JSON and charts, and invalid arguments.

use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, run};

const ALL: [&str; 5] = ["boundary", "sync-lag", "race", "clock-skew", "algorithms"];

fn json(args: &[&str]) -> Value {
    let output = run(&[&["simulate"], args, &["--json"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

fn admitted(report: &Value) -> Vec<u64> {
    let ways = report["ways"].as_array().unwrap();
    ways.iter().map(|way| way["admitted"].as_u64().unwrap()).collect()
}

#[test]
fn the_edge_of_a_fixed_window_admits_twice_the_limit() {
    let late = json(&["boundary", "--position", "99%"]);
    assert_eq!((&late["gap_us"], &late["algorithms"][0]["in_gap"]), (&10_000.into(), &40.into()));
    let minute = json(&["boundary", "--limit", "100", "--window", "1min", "--position", "50%"]);
    let fixed = &minute["algorithms"][0];
    assert_eq!((&fixed["algorithm"], &fixed["in_gap"]), (&"fixed-window".into(), &200.into()));
    assert_eq!(minute["gap_us"], 30_000_000);
}

#[test]
fn naive_caching_admits_what_the_formula_says() {
    for (interval, naive) in [("0s", 60), ("400ms", 108), ("1s", 180)] {
        let report = json(&["sync-lag", "--interval", interval]);
        assert_eq!(admitted(&report)[..2], [naive, 60], "{interval}");
        assert!(admitted(&report)[2] <= 60, "{interval}");
    }
    let ten = ["sync-lag", "--nodes", "10", "--limit", "100", "--window", "5s", "--interval", "5s"];
    assert_eq!(admitted(&json(&ten))[..2], [1000, 100]);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    for what in ["race", "clock-skew", "algorithms"] {
        let print = |seed| run(&["simulate", what, "--json", "--seed", seed]).stdout;
        assert_eq!(print("7"), print("7"), "{what}");
        let but_seed = |text: String| text.replace("\"seed\": 7", "").replace("\"seed\": 8", "");
        assert_ne!(but_seed(print("7")), but_seed(print("8")), "{what}");
    }
}

#[test]
fn every_chart_is_well_formed_and_has_a_title() {
    let folder = Folder::new();
    for what in ALL {
        let file = folder.path(&format!("{what}.svg"));
        let output = run(&["simulate", what, "--svg", &file]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{what}");
        let parse =
            "import sys, xml.dom.minidom as m; print(m.parse(sys.argv[1]).documentElement.tagName)";
        let parsed = Command::new("python3").args(["-c", parse, &file]).output().unwrap();
        let why = String::from_utf8_lossy(&parsed.stderr);
        assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), "svg", "{what}: {why}");
        // The text report begins with the title of the chart.
        let svg = std::fs::read_to_string(&file).unwrap();
        let (_, title) = svg.split_once("aria-label=\"").unwrap();
        let (title, _) = title.split_once('"').unwrap();
        assert!(output.stdout.starts_with(title), "{title} in {}", output.stdout);
        assert!(svg.contains("prefers-color-scheme:dark"), "{what}");
    }
}

#[test]
fn errors_name_the_option_and_the_reason() {
    for (args, code, part) in [
        (&["boundary", "--limit", "0"][..], 64, "--limit: expected 1 to 10000"),
        (&["boundary", "--limit", "-1"], 64, "unexpected argument"),
        (&["boundary", "--window", "25h"], 64, "--window: expected 1ms to 24h"),
        (&["boundary", "--window", "1"], 64, "whole milliseconds"),
        (&["boundary", "--position", "100%"], 64, "--position: expected 0% to 99.9%"),
        (&["boundary", "--position", "many"], 64, "a percentage like 85%"),
        (&["boundary", "--svg", "/nowhere/at/all.svg"], 1, "cannot write /nowhere/at/all.svg"),
        (&["sync-lag", "--nodes", "101"], 64, "--nodes: expected 1 to 100"),
        (&["sync-lag", "--nodes", "100", "--limit", "301"], 64, "--limit: expected at most 30000"),
        (&["sync-lag", "--interval", "2day"], 64, "--interval: expected 0s to 24h"),
        (&["race", "--runs", "0"], 64, "--runs: expected 1 to 10000"),
        (&["race", "--limit", "10000"], 64, "--runs: expected at most 24 "),
        (&["clock-skew", "--nodes", "1"], 64, "--nodes: expected 2 to 50"),
        (&["clock-skew", "--skew", "soon"], 64, "whole milliseconds"),
        (&["algorithms", "--demand", "0"], 64, "--demand: expected 0.001 to 100"),
        (&["algorithms", "--demand", "lots"], 64, "a multiple like 2 or 1.5"),
        (&["algorithms", "--limit", "10000"], 64, "at most 20000 requests"),
        (&["magic"], 64, "unrecognized subcommand"),
    ] {
        let output = run(&[&["simulate"], args].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{args:?}");
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}
