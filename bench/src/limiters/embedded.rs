//! The embedded limiter beside limiters in memory of other languages, each in one thread. Languages differ: what a
//! limiter costs in one says little about what it would cost in another.

use std::hint::black_box;
use std::process::Command;

use serde_json::Value;
use tidegate::Limiter;
use tidegate_bench::keys::{Order, key};
use tidegate_bench::killed_with_parent;
use tidegate_bench::memory;
use tidegate_bench::rates::{A_MILLION, rate};
use tidegate_bench::report::{Figure, Report, Table};

/// Where `./dev bench limiters` installs them with the pinned packages.
const NODE: &str = "target/peers/limiters/peer.mjs";
const PYTHON: &str = "target/peers/limits/bin/python";
const PYTHON_SCRIPT: &str = "bench/src/limiters/peer/peer.py";

const KEYS: usize = 100_000;
const COLUMNS: [&str; 6] = [
    "one hot key, checks/s",
    "hot key, ratio",
    "100,000 keys, checks/s",
    "100,000 keys, ratio",
    "bytes per key",
    "bytes, ratio",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Library {
    Tidegate,
    /// The name of its package.
    Node(&'static str),
    Python,
}

impl Library {
    const ALL: [Self; 4] = [
        Self::Tidegate,
        Self::Node("rate-limiter-flexible"),
        Self::Node("express-rate-limit"),
        Self::Python,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate, Rust",
            Self::Node("rate-limiter-flexible") => "rate-limiter-flexible in memory, Node",
            Self::Node(_) => "express-rate-limit's memory store, Node",
            Self::Python => "`limits` in memory, fixed window, Python",
        }
    }

    /// Checks per second over so many keys, and bytes per key.
    fn round(self, keys: usize, milliseconds: u64) -> [f64; 2] {
        let numbers = [keys.to_string(), milliseconds.to_string()];
        match self {
            Self::Tidegate => ours(keys),
            Self::Node(library) => {
                let mut command = killed_with_parent("node");
                theirs(command.args(["--expose-gc", NODE, library]).args(numbers))
            }
            Self::Python => theirs(killed_with_parent(PYTHON).arg(PYTHON_SCRIPT).args(numbers)),
        }
    }
}

fn ours(keys: usize) -> [f64; 2] {
    let (_, bytes) = memory::filled(keys, |keys| {
        let limiter = Limiter::new("100/h").expect("a valid limit");
        black_box(limiter.check_many(keys));
        limiter
    });
    let (limiter, asked) = (A_MILLION.limiter(), [Order::Uniform.keys(keys, 0)]);
    let check = |keys: &[String]| keys.iter().for_each(|key| _ = black_box(limiter.check(key)));
    // Every key exists before it is measured.
    check(&(0..keys).map(key).collect::<Vec<_>>());
    [rate(&asked, check) * 1e6, bytes]
}

fn theirs(command: &mut Command) -> [f64; 2] {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let field = |name: &str| reply[name].as_f64().unwrap_or_else(|| panic!("no {name}: {reply}"));
    [field("rate"), field("bytes_per_key")]
}

/// Rounds alternate. A ratio says how many times better tidegate, the first row, is.
pub(crate) fn measure(report: &mut Report, rounds: usize, milliseconds: u64) {
    let mut figures = Library::ALL.map(|_| [const { Vec::new() }; 3]);
    for _ in 0..rounds {
        for (library, [hot, many, bytes]) in Library::ALL.iter().zip(&mut figures) {
            // The bytes of a single key are lost among those of the language.
            let [checks, _] = library.round(1, milliseconds);
            hot.push(checks);
            let [checks, held] = library.round(KEYS, milliseconds);
            many.push(checks);
            bytes.push(held);
        }
    }
    let mut table = Table::new("embedded", "in memory, one thread", COLUMNS);
    let [our_hot, our_many, our_bytes] = &figures[0];
    for (library, [hot, many, bytes]) in Library::ALL.iter().zip(&figures) {
        let beside = |ratio: Figure| (*library != Library::Tidegate).then_some(ratio);
        table.row(
            library.name(),
            [
                Figure::more("", hot).into(),
                beside(Figure::ratio(our_hot, hot)).into(),
                Figure::more("", many).into(),
                beside(Figure::ratio(our_many, many)).into(),
                Figure::less("", bytes).into(),
                beside(Figure::saving(our_bytes, bytes)).into(),
            ],
        );
    }
    report.add(&table);
}
