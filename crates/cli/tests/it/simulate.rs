//! `tidegate simulate fleet`: reproducible runs, and the results that they must show.

use serde_json::Value;

use crate::support::run;

fn fleet(args: &[&str]) -> Vec<Value> {
    let output = run(&[&["simulate", "fleet", "--json"], args].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
    serde_json::from_str(&output.stdout).expect(&output.stdout)
}

fn of<'a>(rows: &'a [Value], way: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["way"] == way)
}

#[test]
fn leases_use_the_whole_limit_and_never_exceed_it() {
    for limit in [
        "1000/s burst 1000",
        "token-bucket 100/s capacity 200",
        "sliding-log 1000/s",
        "sliding-window 1000/s",
        "fixed-window 1000/s",
        "quota 1000/s rolling",
    ] {
        let rows = fleet(&["--limit", limit, "--nodes", "1,4,64,512,1000", "--duration", "20s"]);
        assert_eq!(rows.len(), 15);
        for row in of(&rows, "lease") {
            assert_eq!(row["overshoot"], 0, "{limit}: {row}");
            assert!(row["utilisation"].as_f64().unwrap() >= 0.95, "{limit}: {row}");
        }
        for row in of(&rows, "strict") {
            assert_eq!((&row["overshoot"], &row["calls"]), (&0.into(), &row["offered"]), "{limit}");
        }
        // The control: the overshoot of nodes that do not share their counts.
        let mut several = of(&rows, "naive").filter(|row| row["nodes"] != 1);
        assert!(several.all(|row| row["overshoot"].as_u64() > Some(0)), "{limit}");
    }
}

#[test]
fn a_bad_network_and_crashes_lose_units_and_admit_none() {
    let rows = fleet(&[
        "--nodes",
        "1,16,200",
        "--loss",
        "0.1",
        "--kills",
        "500",
        "--latency",
        "20ms",
        "--keys",
        "3",
        "--demand",
        "4",
        "--limit",
        "100/s burst 50",
        "--duration",
        "20s",
    ]);
    for row in of(&rows, "lease") {
        assert_eq!(row["overshoot"], 0, "{row}");
        assert!(row["units_lost"].as_u64() > Some(0), "{row}");
    }
}

#[test]
fn a_hot_key_calls_the_store_once_per_hundred_admissions() {
    let rows = fleet(&["--nodes", "1", "--duration", "20s"]);
    let calls = of(&rows, "lease").next().unwrap()["calls_per_admission"].as_f64().unwrap();
    assert!(calls <= 0.0125, "{calls}");
}

#[test]
fn the_same_seed_prints_the_same_run() {
    let print = |seed: &str| {
        let args = ["simulate", "fleet", "--nodes", "16", "--duration", "5s", "--kills", "3"];
        run(&[&args[..], &["--seed", seed]].concat()).stdout
    };
    let first = print("7");
    assert_eq!(first, print("7"));
    assert_ne!(first, print("8"));
    // The same on every machine.
    assert!(
        first.starts_with("1000/s burst 1000 on 1 key, 2 × the demand, 1ms each way"),
        "{first}"
    );
    assert_eq!(first.lines().count(), 6, "{first}");
}

#[test]
fn invalid_arguments_are_explained() {
    for (args, code, part) in [
        (&["--limit", "concurrency 5"][..], 64, "concurrency cannot be leased"),
        (&["--limit", "10/s burst 1"], 64, "burst 1 cannot be leased"),
        (&["--limit", "frob"], 64, "frob"),
        (&["--limit", "1000000/s", "--duration", "24h"], 64, "100000000 checks"),
        (&["--nodes", "100000", "--keys", "10000", "--limit", "2/min"], 64, "--nodes × --keys"),
        (&["--nodes", "0"], 64, "--nodes"),
        (&["--demand", "0"], 64, "a multiple like 2.0"),
        (&["--demand=-1"], 64, "a multiple like 2.0"),
        (&["--demand", "1e3"], 64, "a multiple like 2.0"),
        (&["--loss", "1"], 64, "a part like 0.01"),
        (&["--loss", "nan"], 64, "a part like 0.01"),
        (&["--latency", "0s"], 64, "a duration like"),
        (&["--duration", "9"], 64, "a duration like"),
    ] {
        let output = run(&[&["simulate", "fleet"], args].concat());
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(code), ""),
            "{args:?}: {}",
            output.stderr
        );
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
    assert_eq!(run(&["simulate"]).code, Some(64));
}
