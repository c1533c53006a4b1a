//! `tidegate cost`: known sums, and input without one.

use serde_json::Value;

use crate::support::{Folder, run};

const GOLDEN: [&str; 16] = [
    "--peak-rps",
    "30000",
    "--current",
    "db.r6g.8xlarge",
    "--pods-before",
    "50",
    "--pods-after",
    "30",
    "--pod-cost",
    "150",
    "--egress-saved",
    "3600",
    "--hours-saved",
    "10",
    "--hourly",
    "250",
];

fn cost(args: &[&str]) -> Value {
    let output = run(&[&["cost", "--json"], args].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

#[test]
fn fifty_thousand_requests_need_an_8xlarge() {
    let report = cost(&["--peak-rps", "50000", "--bot-pct", "0.4", "--current", "db.r6g.8xlarge"]);
    assert_eq!(report["needed_rps"], 19_500);
    assert_eq!(report["recommended"]["name"], "db.r6g.8xlarge");
    assert_eq!((&report["monthly_savings"], &report["roi"]), (&0.into(), &Value::Null));
}

#[test]
fn current_db_is_another_name_for_current() {
    let with = |name| cost(&["--peak-rps", "30000", name, "db.r6g.16xlarge"]);
    assert_eq!(with("--current-db"), with("--current"));
    assert_ne!(with("--current-db"), cost(&["--peak-rps", "30000"]));
    assert!(run(&["cost", "--help"]).stdout.contains("[alias: --current-db]"));
}

#[test]
fn all_savings_together_are_143760_a_year() {
    let report = cost(&GOLDEN);
    assert_eq!(report["recommended"]["name"], "db.r6g.4xlarge");
    assert_eq!(report["monthly_savings"], 11_980);
    assert_eq!(report["annual_savings"], 143_760);
    let roi = |args: &[&str]| cost(&[&GOLDEN, args].concat())["roi"].as_f64();
    assert!((roi(&[]).unwrap() - 143_760.0 / 6912.0).abs() < 1e-9);
    assert!((roi(&["--limiter-cost", "1000"]).unwrap() - 143.76).abs() < 1e-9);
    assert_eq!(roi(&["--limiter-cost", "0"]), None);
}

#[test]
fn a_load_that_fits_no_instance_is_reported() {
    let output = run(&["cost", "--peak-rps", "1000000"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stdout.contains("nothing fits: db.r6g.16xlarge"), "{}", output.stdout);
    assert!(!output.stdout.contains("what is there fits"), "{}", output.stdout);
    assert_eq!(cost(&["--peak-rps", "1000000"])["recommended"], Value::Null);
}

#[test]
fn prices_can_be_given() {
    let folder = Folder::new();
    let list = folder.write("prices.yaml", "- { name: tiny, monthly: 9.99, rps: 500 }\n");
    let report = cost(&["--peak-rps", "1000", "--pricing", &list]);
    assert_eq!(report["current"]["monthly"], 9.99);
    assert_eq!(report["recommended"]["name"], "tiny");
}

#[test]
fn invalid_arguments_are_explained() {
    let folder = Folder::new();
    let empty = folder.write("empty.yaml", "[]");
    for (args, code, part) in [
        (&["--bot-pct", "40"][..], 64, "a part from 0 to 1"),
        (&["--efficiency=-1"], 64, "--efficiency"),
        (&["--efficiency", "nan"], 64, "a part from 0 to 1"),
        (&["--peak-rps", "0"], 64, "--peak-rps"),
        (&["--pod-cost", "lots"], 64, "expected dollars"),
        (&["--pods-before", "50"], 64, "--pods-after"),
        (&["--hours-saved", "10"], 64, "--hourly"),
        (&["--current", "db.r6g.8xlrge"], 64, "did you mean `db.r6g.8xlarge`?"),
        (&["--current", "mainframe"], 64, "expected one of db.r6g.4xlarge"),
        (&["--pricing", "/nowhere.yaml"], 1, "/nowhere.yaml"),
        (&["--pricing", &empty], 1, "is empty"),
    ] {
        let output = run(&[&["cost"], args].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{args:?}");
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}

#[test]
fn a_number_that_cannot_be_read_is_answered_with_the_one_to_write() {
    for (args, expected) in [
        (
            &["cost", "--peak-rps", "50,000"][..],
            "'--peak-rps <N>': expected a whole number: write 50000",
        ),
        (&["cost", "--pods-before", "5k", "--pods-after", "1", "--pod-cost", "1"], "write 5000"),
        (&["simulate", "boundary", "--limit", "100/min"], "write --limit 100 --window 1min"),
        (&["simulate", "sync-lag", "--limit", "5/s"], "write --limit 5 --window 1s"),
        (&["simulate", "race", "--limit", "100/min"], "without a period: write 100"),
        (&["simulate", "boundary", "--limit", "many"], "expected a whole number like 100"),
    ] {
        let output = run(args);
        assert_eq!(output.code, Some(64), "{args:?}");
        assert!(output.stderr.contains(expected), "{args:?}: {}", output.stderr);
        assert!(!output.stderr.contains("invalid digit"), "{args:?}: {}", output.stderr);
    }
}
