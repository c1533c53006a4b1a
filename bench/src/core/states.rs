//! What is kept for a key beside a rate: how fast a window, a log and a permit are checked, and how many bytes they take.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Limiter, ManualClock, Permit};
use tidegate_bench::keys::{SplitMix, key};
use tidegate_bench::rates::{ROUNDS, rate};
use tidegate_bench::report::{Cell, Figure, Table};
use tidegate_bench::{RaisedPriority, memory};

const KEYS: usize = 100_000;

/// How often each key is asked for before the measurement: every log is full then.
const VISITS: usize = 101;

/// The stamps of the two logs below.
const LOGS: [u32; 2] = [5, 100];

/// Limits that admit whoever asks once a second, and keep as much as they can.
const STATES: [(&str, &str); 5] = [
    ("sliding window, 10 buckets", "sliding-window 100/min buckets 10"),
    ("sliding log, 5 stamps", "sliding-log 5/5s"),
    ("sliding log, 100 stamps", "sliding-log 100/100s"),
    ("fixed window", "fixed-window 100/min"),
    ("concurrency, acquire and release", "concurrency 5"),
];

/// A row per state.
pub fn table() -> Table {
    let columns = ["hot key", "100k keys, in turn", "bytes per key at 100k keys"];
    let mut table = Table::new("states", "M/s, 1 thread", columns);
    let mut logs = vec![];
    for (name, limit) in STATES {
        let (hot, _) = measured(limit, 1);
        let (cold, bytes) = measured(limit, KEYS);
        let speeds = [hot, cold].map(|mops| Figure::more("", &mops).into());
        table.row(name, speeds.into_iter().chain([Figure::less("", &[bytes]).into()]));
        if name.starts_with("sliding log") {
            logs.push(bytes);
        }
    }
    let per_stamp = (logs[1] - logs[0]) / f64::from(LOGS[1] - LOGS[0]);
    let cells = [Cell::Empty, Cell::Empty, Figure::less("", &[per_stamp]).into()];
    table.row("sliding log, each stamp beyond five", cells);
    table
}

/// Million checks a second, and bytes per key. The clock moves with the checks, so that each key is asked once a second,
/// also from one round to the next.
fn measured(limit: &str, count: usize) -> (Vec<f64>, f64) {
    let (clock, step) = (ManualClock::default(), Duration::from_secs(1) / count as u32);
    let (keys, turn) = (in_turn(count), AtomicUsize::new(0));
    let check_next = |limiter: &Limiter<ManualClock>| {
        let at = turn.load(Relaxed);
        turn.store(if at + 1 == count { 0 } else { at + 1 }, Relaxed);
        clock.advance(step);
        if limiter.limit().grants_permits() {
            black_box(limiter.acquire(&keys[at]).permit);
        } else {
            assert!(black_box(limiter.check(&keys[at]).allowed()), "{limit}");
        }
    };
    let fill = |_: &[String]| {
        let limiter = Limiter::builder(limit).clock(clock.clone()).build().expect("a valid limit");
        (0..VISITS * count).for_each(|_| check_next(&limiter));
        if limiter.limit().grants_permits() {
            // Each key has a holder while bytes are counted.
            keys.iter().for_each(|key| _ = limiter.acquire(key).permit.map(Permit::into_id));
        }
        limiter
    };
    let (limiter, bytes) = memory::filled(count, fill);
    let checks = [vec![(); 1 << 16]];
    let mut mops = vec![];
    for _ in 0..ROUNDS {
        let raised = RaisedPriority::raise(None);
        mops.push(rate(&checks, |batch| batch.iter().for_each(|()| check_next(&limiter))));
        drop(raised);
        std::thread::sleep(RaisedPriority::REST);
    }
    (mops, bytes)
}

/// All keys in an order that says nothing about where they are kept. The same in every run.
fn in_turn(count: usize) -> Vec<String> {
    let (mut keys, mut random) = ((0..count).map(key).collect::<Vec<_>>(), SplitMix(0));
    for last in (1..count).rev() {
        keys.swap(last, random.draw() as usize % (last + 1));
    }
    keys
}
