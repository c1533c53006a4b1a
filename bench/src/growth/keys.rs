//! Keys of one limiter: time per check, and memory. Beside it, what one load from as much memory takes.

use std::hint::black_box;
use std::time::Instant;

use tidegate::{Limiter, MemoryStore};
use tidegate_bench::keys::Order;
use tidegate_bench::rates::{ROUNDS, rate};
use tidegate_bench::report::{Figure, Table};
use tidegate_bench::{RaisedPriority, memory, own_resident_mb};

use crate::{points, size};

const KEYS: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Checks before their keys come again. The same for all sizes, so that reading them costs the same; and so many that no
/// cache holds what they need of ten million keys.
const CHECKS: usize = 1 << 22;
const PARTS: usize = 4;
const LINE: usize = 64;
/// So slow that every key keeps a state, with a burst that no run uses up.
const LIMIT: &str = "100/h burst 1000000";
/// More than ten million keys need; the default, 256 MiB, holds about six million.
const MAX_BYTES: usize = 2 << 30;

struct Size {
    keys: usize,
    limiter: Limiter,
    bytes_per_key: f64,
    resident_mb: f64,
    /// In parts, which take turns: a measurement of ten million keys takes about a part, and begins with keys whose states
    /// are in no cache.
    asked: Vec<[Vec<String>; 1]>,
    lines: Vec<Line>,
}

/// A cache line with the place of the next one.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(usize);

pub fn measure() -> Table {
    let sizes: Vec<Size> = points(&KEYS).iter().map(|keys| Size::new(*keys)).collect();
    let mut figures = vec![[const { vec![] }; 3]; sizes.len()];
    for round in 0..ROUNDS {
        for (Size { limiter, asked, lines, .. }, [one, many, load]) in
            sizes.iter().zip(&mut figures)
        {
            let raised = RaisedPriority::raise(None);
            let check = |key: &String| _ = black_box(limiter.check(key).allowed());
            let part = |turn: usize| &asked[turn % asked.len()];
            let (first, second) = (part(2 * round), part(2 * round + 1));
            one.push(1e3 / rate(first, |keys| keys.iter().for_each(check)));
            many.push(1e3 / rate(second, |keys| _ = black_box(limiter.check_many(keys))));
            load.push(load_ns(lines));
            drop(raised);
            std::thread::sleep(RaisedPriority::REST);
        }
    }
    let drawn = ["check, ns", "check_many, ns", "one load from as much memory, ns"];
    let columns = drawn.into_iter().chain(["bytes per key", "resident, MB"]);
    let mut table =
        Table::new("keys", "keys", columns).drawn("Time per check by number of keys, ns", &drawn);
    for (of, [one, many, load]) in sizes.iter().zip(&figures) {
        let cells = [
            Figure::less("", one).into(),
            Figure::less("", many).into(),
            Figure::neither("", load).into(),
            Figure::less("", &[of.bytes_per_key]).into(),
            Figure::less("", &[of.resident_mb]).into(),
        ];
        table.row(size(of.keys), cells);
    }
    table
}

impl Size {
    fn new(keys: usize) -> Self {
        let ((limiter, resident_mb), bytes_per_key) = memory::filled(keys, |keys| {
            let (before, store) = (own_resident_mb(), MemoryStore::with_max_bytes(MAX_BYTES));
            let limiter = Limiter::builder(LIMIT).store(store).build().expect("a valid limit");
            keys.chunks(LINE).for_each(|keys| _ = black_box(limiter.check_many(keys)));
            (limiter, own_resident_mb() - before)
        });
        let part = |seed: usize| [Order::Uniform.draw(keys, seed as u64, CHECKS / PARTS)];
        let asked = (0..PARTS).map(part).collect();
        let lines = cycle((keys as f64 * bytes_per_key) as usize / LINE);
        Self { keys, limiter, bytes_per_key, resident_mb, asked, lines }
    }
}

/// So many lines, in one cycle through all of them in a random order.
fn cycle(count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = (0..count).map(Line).collect();
    let mut random = 1_u64;
    for last in (1..count).rev() {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        // Never the last itself, so that there is only one cycle (Sattolo).
        lines.swap(last, (random >> 32) as usize % last);
    }
    lines
}

/// Nanoseconds for a load whose address is known only after the last one.
fn load_ns(lines: &[Line]) -> f64 {
    const LOADS: usize = 1 << 20;
    let (start, mut at) = (Instant::now(), 0);
    for _ in 0..LOADS {
        at = lines[at].0;
    }
    black_box(at);
    start.elapsed().as_secs_f64() * 1e9 / LOADS as f64
}
