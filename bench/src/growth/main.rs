//! `./dev bench growth`: how the cost of a check grows with keys, policies, nodes, connections and shards.
//!
//! One curve per file: a table, of which `bench/page.py` makes a picture too. `ONLY=keys` measures one curve; `QUICK=1`
//! only shows that it works.

mod connections;
mod keys;
mod nodes;
mod policies;
mod shards;

use tidegate_bench::report::{Report, Table, number};
use tidegate_bench::{RaisedPriority, is_quick, memory};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const TIDEGATE: &str = "target/dist/tidegate";

const CURVES: [(&str, fn() -> Table); 5] = [
    ("keys", keys::measure),
    ("policies", policies::measure),
    ("nodes", nodes::measure),
    ("connections", connections::measure),
    ("shards", shards::measure),
];

fn main() {
    RaisedPriority::warn();
    let mut report = Report::new("growth");
    let only = std::env::var("ONLY").ok();
    for (name, measure) in CURVES {
        if only.as_ref().is_none_or(|only| only == name) {
            report.add(&measure());
        }
    }
}

/// All points of a curve, or the first two.
fn points(all: &[usize]) -> &[usize] {
    if is_quick() { &all[..2] } else { all }
}

/// The name of a row.
fn size(size: usize) -> String {
    number(size as f64, 0)
}
