//! `./dev bench core`, third part: the embedded limiter beside three peers as libraries, in one run. A program of its own,
//! so that `bench-core` stays as it is: each further call changes what is inlined.
//!
//! Rounds alternate between all four. Figures are medians, and a ratio is the median of the rounds' ratios.

mod peer;

use std::hint::black_box;
use std::num::NonZeroU32;

use governor::{Quota, RateLimiter};
use tidegate::Limiter;
use tidegate_bench::keys::{Order, key};
use tidegate_bench::rates::{A_MILLION, ROUNDS, by_threads, rate};
use tidegate_bench::report::{Cell, Figure, Report, Table};
use tidegate_bench::{RaisedPriority, memory};

use self::peer::{Limitador, Throttlecrab};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    RaisedPriority::warn();
    // First, before a peer has anything left to free.
    let bytes = bytes_per_key();
    let columns = [
        "tidegate",
        "governor",
        "ratio to governor",
        "throttlecrab",
        "ratio to throttlecrab",
        "limitador",
        "ratio to limitador",
    ];
    let mut table = Table::new("libraries", "M/s", columns);
    let rows = [
        ("one hot key", 1, Order::Uniform),
        ("100k keys, uniform", 100_000, Order::Uniform),
        ("1M keys, zipf", 1_000_000, Order::Zipf),
    ];
    for (name, keys, order) in rows {
        for threads in [1, 2] {
            let [ours, peers @ ..] = &mops(keys, order, threads);
            let peers = peers
                .iter()
                .flat_map(|peer| [Figure::more("", peer).into(), Figure::ratio(ours, peer).into()]);
            let ours: Cell = Figure::more("", ours).into();
            table.row(by_threads(name, threads), [ours].into_iter().chain(peers));
        }
    }
    let [ours, peers @ ..] = bytes.map(|bytes| [bytes]);
    let peers = peers
        .iter()
        .flat_map(|peer| [Figure::less("", peer).into(), Figure::saving(&ours, peer).into()]);
    let first: Cell = Figure::less("", &ours).into();
    table.row("bytes per key at 1 M keys", [first].into_iter().chain(peers));
    Report::new("peers").add(&table);
}

/// Million checks a second in each round: ours, governor's, throttlecrab's and limitador's.
fn mops(keys: usize, order: Order, threads: usize) -> [Vec<f64>; 4] {
    let asked: Vec<Vec<String>> = (0..threads).map(|seed| order.keys(keys, seed as u64)).collect();
    let (ours, governor) = (A_MILLION.limiter(), A_MILLION.governor());
    let (throttlecrab, limitador) = (Throttlecrab::new(A_MILLION), Limitador::new(keys));
    // One place from which each is called, as in most programs, also for the keys that exist before the measurement.
    let checks: [&(dyn Fn(&[String]) + Sync); 4] = [
        &|keys| keys.iter().for_each(|key| _ = black_box(ours.check(key).allowed())),
        &|keys| keys.iter().for_each(|key| _ = black_box(governor.check_key(key).is_ok())),
        &|keys| keys.iter().for_each(|key| _ = black_box(throttlecrab.check(key))),
        &|keys| keys.iter().for_each(|key| _ = black_box(limitador.check(key))),
    ];
    let all: Vec<String> = (0..keys).map(key).collect();
    checks.iter().for_each(|check| check(&all));
    let mut figures = [const { vec![] }; 4];
    for _ in 0..ROUNDS {
        let raised = RaisedPriority::raise(None);
        for (check, mops) in checks.iter().zip(&mut figures) {
            mops.push(rate(&asked, check));
        }
        drop(raised);
        std::thread::sleep(RaisedPriority::REST);
    }
    figures
}

/// In the same order; all with limits per hour, so that every key keeps a state.
fn bytes_per_key() -> [f64; 4] {
    let units = NonZeroU32::new(100).expect("not 0");
    [
        memory::per_key(|keys| {
            let limiter = Limiter::new("100/h").expect("a valid limit");
            black_box(limiter.check_many(keys));
            limiter
        }),
        memory::per_key(|keys| {
            let limiter = RateLimiter::keyed(Quota::per_hour(units));
            keys.iter().for_each(|key| _ = black_box(limiter.check_key_n(key, NonZeroU32::MIN)));
            limiter
        }),
        memory::per_key(|keys| {
            let limiter = Throttlecrab::per_hour(units);
            keys.iter().for_each(|key| _ = black_box(limiter.check(key)));
            limiter
        }),
        memory::per_key(|keys| {
            let limiter = Limitador::new(keys.len());
            keys.iter().for_each(|key| _ = black_box(limiter.check(key)));
            limiter
        }),
    ]
}
