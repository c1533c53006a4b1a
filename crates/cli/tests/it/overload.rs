//! `tidegate simulate overload`: requirements of the default controller, with controls that fail them.

use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, run};

fn overload(args: &[&str]) -> Value {
    let output = run(&[&["simulate", "overload", "--json"], args].concat());
    assert_eq!(output.code, Some(0), "{args:?}: {}", output.stderr);
    // On a slow machine stderr shows the progress.
    assert!(
        output.stderr.lines().all(|line| line.ends_with(" runs")),
        "{args:?}: {}",
        output.stderr
    );
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

/// One controller in each scenario: the scenario, the possible result, and the actual one.
fn each<'a>(
    report: &'a Value,
    controller: &'a str,
) -> impl Iterator<Item = (&'a str, f64, &'a Value)> {
    report["scenarios"].as_array().unwrap().iter().map(move |block| {
        let mut rows = block["controllers"].as_array().unwrap().iter();
        let row = rows.find(|row| row["controller"] == controller).expect(controller);
        (block["scenario"].as_str().unwrap(), block["possible"].as_f64().unwrap(), row)
    })
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// Twenty seeds at full length: the figures of the guide.
#[test]
fn the_default_keeps_an_overloaded_server_useful_and_the_others_do_not() {
    let report = overload(&["--scenario", "spike,slow-db,delay-2s,harsh,healthy"]);
    for (scenario, possible, row) in each(&report, "default + cap 32") {
        if scenario == "healthy" {
            continue;
        }
        assert!(number(row, "goodput") >= 0.98 * possible, "{scenario}: {row}");
        let p99_ms = if scenario == "slow-db" { 700.0 } else { 235.0 };
        assert!(number(row, "p99_ms") <= p99_ms, "{scenario}: {row}");
        assert!(number(row, "cv_5s") <= 0.05, "{scenario}: {row}");
        // The rate per second is random, with a relative deviation of one over the root of the served requests.
        assert!(number(row, "cv_1s") <= 1.1 / possible.sqrt(), "{scenario}: {row}");
        assert!(number(row, "settling_s") <= 2.0, "{scenario}: {row}");
    }
    // The controls: the same measures detect controllers that collapse, waste capacity or oscillate.
    for (scenario, possible, row) in each(&report, "none").filter(|it| it.0 != "healthy") {
        assert!(number(row, "goodput") < 0.1 * possible, "{scenario}: {row}");
    }
    for (scenario, possible, row) in each(&report, "raw 1−CPU").filter(|it| it.0 != "healthy") {
        assert!(number(row, "goodput") < 0.7 * possible, "{scenario}: {row}");
        assert!(number(row, "cv_1s") > 0.3, "{scenario}: {row}");
    }
    let (_, _, fixed) = each(&report, "static 360").find(|it| it.0 == "harsh").unwrap();
    assert!(number(fixed, "goodput") < 40.0, "{fixed}");
}

#[test]
fn nothing_is_refused_without_overload() {
    let report = overload(&["--scenario", "healthy"]);
    for controller in ["default + cap 32", "default + gradient", "default + classes"] {
        let (_, _, row) = each(&report, controller).next().unwrap();
        assert_eq!((number(row, "refused"), number(row, "false_rejects")), (0.0, 0.0), "{row}");
    }
    // The control: a controller that follows CPU usage halves the limit at half of the CPU.
    let (_, _, row) = each(&report, "pressure + EMA").next().unwrap();
    assert!(number(row, "false_rejects") > 0.0, "{row}");
}

#[test]
fn late_missing_and_invalid_readings_do_no_harm() {
    let scenarios = "twice,delay-5s,ramp,burst,outage,nan,bots";
    let report = overload(&["--seeds", "5", "--scenario", scenarios]);
    for controller in ["default + cap 32", "default + gradient"] {
        for (scenario, possible, row) in each(&report, controller) {
            assert!(number(row, "goodput") >= 0.97 * possible, "{scenario}: {row}");
            assert!(number(row, "p99_ms") <= 240.0, "{scenario}: {row}");
        }
    }
    let people = |controller| {
        let (_, _, row) = each(&report, controller).find(|it| it.0 == "bots").unwrap();
        number(row, "people")
    };
    assert!(people("default + classes") > 190.0, "of 200: {}", people("default + classes"));
    assert!(people("default + cap 32") < 100.0, "without priorities people are not preferred");
}

#[test]
fn half_an_hour_of_overload_causes_no_drift() {
    let report = overload(&["--seeds", "1", "--scenario", "soak"]);
    for controller in ["default + cap 32", "default + gradient"] {
        let (_, possible, row) = each(&report, controller).next().unwrap();
        assert!(number(row, "goodput") >= 0.98 * possible, "{row}");
        assert!(number(row, "cv_5s") <= 0.05, "{row}");
    }
}

#[test]
fn the_same_seed_prints_the_same_run_and_another_seed_another() {
    let print = |seed| {
        run(&["simulate", "overload", "--scenario", "burst", "--seeds", "2", "--seed", seed]).stdout
    };
    assert_eq!(print("7"), print("7"));
    assert_ne!(print("7").replace("seed 7", ""), print("8").replace("seed 8", ""));
    // Neighbouring seeds are independent: one run is not the other, shifted by a step.
    let goodput = |seed: &str| {
        let report = overload(&["--scenario", "healthy", "--seeds", "1", "--seed", seed]);
        number(each(&report, "none").next().unwrap().2, "goodput")
    };
    let goodputs = ["1", "2", "3", "4"].map(goodput);
    let [least, most] = [f64::min, f64::max].map(|of| goodputs.into_iter().reduce(of).unwrap());
    assert!(most - least > 1.0, "{goodputs:?}");
}

#[test]
fn the_chart_is_well_formed() {
    let folder = Folder::new();
    let file = folder.path("overload.svg");
    let output =
        run(&["simulate", "overload", "--scenario", "burst", "--seeds", "1", "--svg", &file]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let parse =
        "import sys, xml.dom.minidom as m; print(m.parse(sys.argv[1]).documentElement.tagName)";
    let parsed = Command::new("python3").args(["-c", parse, &file]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&parsed.stdout).trim(), "svg");
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.contains("default + cap 32") && svg.contains("at best"), "{svg}");
}

#[test]
fn errors_name_the_option_and_the_reason() {
    for (args, part) in [
        (&["--scenario", "flood"][..], "--scenario: expected one of spike, slow-db"),
        (&["--seeds", "0"], "--seeds: expected 1 to 1000"),
        (&["--limit", "0"], "--limit: expected 1 to 100000"),
        (&["--seed", "x"], "invalid value 'x'"),
    ] {
        let output = run(&[&["simulate", "overload"], args].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(64), ""), "{args:?}");
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}
