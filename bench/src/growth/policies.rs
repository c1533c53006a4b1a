//! Policies of one engine, by name and through a kept handle. The number of keys stays the same: it is shared by all of
//! them, so that only the number of policies grows.

use std::hint::black_box;

use tidegate::Engine;
use tidegate::engine::PolicyHandle;
use tidegate_bench::RaisedPriority;
use tidegate_bench::keys::key;
use tidegate_bench::rates::{ROUNDS, rate};
use tidegate_bench::report::{Figure, Table};

use crate::{points, size};

const POLICIES: [usize; 5] = [1, 10, 100, 1_000, 10_000];
const KEYS: usize = 10_000;
const PLENTY: &str = "1000000/s burst 4000000000";

struct Asked {
    name: String,
    handle: PolicyHandle,
    key: String,
}

pub fn measure() -> Table {
    let sizes: Vec<(Engine, [Vec<Asked>; 1])> =
        points(&POLICIES).iter().map(|count| engine(*count)).collect();
    let mut figures = vec![[const { vec![] }; 2]; sizes.len()];
    for _ in 0..ROUNDS {
        for ((engine, asked), [by_name, by_handle]) in sizes.iter().zip(&mut figures) {
            let raised = RaisedPriority::raise(None);
            by_name.push(
                1e3 / rate(asked, |asked| {
                    for Asked { name, key, .. } in asked {
                        _ = black_box(engine.check(name, key).now().is_ok());
                    }
                }),
            );
            by_handle.push(
                1e3 / rate(asked, |asked| {
                    for Asked { handle, key, .. } in asked {
                        _ = black_box(handle.check(key).now().is_ok());
                    }
                }),
            );
            drop(raised);
            std::thread::sleep(RaisedPriority::REST);
        }
    }
    let columns = ["engine.check(name, key), ns", "handle.check(key), ns"];
    let mut table = Table::new("policies", "policies", columns)
        .drawn("Time per check by number of policies, ns", &columns);
    for (count, [by_name, by_handle]) in POLICIES.iter().zip(&figures) {
        let cells = [Figure::less("", by_name).into(), Figure::less("", by_handle).into()];
        table.row(size(*count), cells);
    }
    table
}

/// An engine with so many policies, and the checks: every key once, each at one of the policies, in a scattered order.
fn engine(policies: usize) -> (Engine, [Vec<Asked>; 1]) {
    let name = |number: usize| format!("policy-{number:05}");
    let builder =
        (0..policies).fold(Engine::builder(), |engine, number| engine.policy(name(number), PLENTY));
    let engine = builder.build().expect("valid policies");
    let asked = |turn: usize| {
        // 7,919 is a prime: every key is asked for once.
        let number = turn * 7_919 % KEYS;
        let name = name(number % policies);
        let handle = engine.policy(&name).expect("a policy");
        Asked { name, handle, key: key(number) }
    };
    let asked = [(0..KEYS).map(asked).collect()];
    (engine, asked)
}
