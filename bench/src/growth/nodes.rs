//! Nodes that share one limit with leases, in virtual time: what is admitted, and round trips to the store. It runs
//! `tidegate simulate fleet`, whose leases are those of production.

use std::process::Command;

use serde_json::Value;

use tidegate_bench::report::{Cell, Figure, Table};

use crate::{TIDEGATE, points, size};

const NODES: [usize; 7] = [1, 3, 10, 30, 100, 300, 1_000];

pub fn measure() -> Table {
    let sizes: Vec<String> = points(&NODES).iter().map(usize::to_string).collect();
    let output = Command::new(TIDEGATE)
        .args([
            "simulate",
            "fleet",
            "--limit",
            "10000/s burst 10000",
            "--json",
            "--nodes",
            &sizes.join(","),
        ])
        .output()
        .unwrap_or_else(|error| panic!("{TIDEGATE}: {error}"));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a report");
    let of = |way: &str, field: &str| -> Vec<f64> {
        let rows = rows.iter().filter(|row| row["way"] == way);
        rows.map(|row| row[field].as_f64().expect("a number")).collect()
    };
    let (admitted, overshoot) = (of("lease", "utilisation"), of("lease", "overshoot"));
    let (leased, strict) =
        (of("lease", "calls_per_admission"), of("strict", "calls_per_admission"));
    let drawn = ["admitted, % of the limit", "round trips per 100 admissions"];
    let columns = drawn.into_iter().chain(["… without leases", "admitted too much"]);
    let mut table = Table::new("nodes", "nodes", columns).drawn("One limit for many nodes", &drawn);
    for (index, nodes) in points(&NODES).iter().enumerate() {
        let percent = |figures: &[f64]| -> Cell {
            Figure::neither("", &[100.0 * figures[index]]).decimals(1).into()
        };
        let overshoot = Figure::less("", &[overshoot[index]]).decimals(0).into();
        table
            .row(size(*nodes), [percent(&admitted), percent(&leased), percent(&strict), overshoot]);
    }
    table
}
