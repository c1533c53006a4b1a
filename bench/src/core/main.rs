//! `./dev bench core`: the embedded limiter beside governor, in one run.
//!
//! Each row is measured in rounds that alternate between the two, so that noise affects both, with a higher priority than
//! other programs; the figures are medians, and the ratio is the median of the rounds' ratios.

mod keys;
mod memory;

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tidegate::Limiter;
use tidegate_bench::{RaisedPriority, median};

use keys::{Order, key};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(120);
/// Keys per `check_many` call.
const BATCH: usize = 64;

/// Limits that admit everything, and limits that refuse everything after the first.
#[derive(Clone, Copy)]
enum Load {
    Admit,
    Refuse,
}

fn main() {
    RaisedPriority::warn();
    println!("| Mops/s, median | threads | tidegate | governor | ratio | check_many | ratio |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let rows = [
        ("hot key", 1, Order::Uniform, Load::Admit),
        ("hot key, refused", 1, Order::Uniform, Load::Refuse),
        ("100k keys, uniform", 100_000, Order::Uniform, Load::Admit),
        ("1M keys, zipf", 1_000_000, Order::Zipf, Load::Admit),
    ];
    for (name, keys, order, load) in rows {
        for threads in [1, 2] {
            row(name, keys, order, load, threads);
        }
    }
    let (ours, theirs) = (memory::per_key(tidegate_keys), memory::per_key(governor_keys));
    println!(
        "\nBytes per key at 1 M keys, as the allocator counts: tidegate {ours:.1}, governor {theirs:.1}"
    );
}

fn row(name: &str, keys: usize, order: Order, load: Load, threads: usize) {
    let asked: Vec<Vec<String>> = (0..threads).map(|seed| order.keys(keys, seed as u64)).collect();
    let (ours, theirs) = (ours(load), governor(load));
    let one = |key: &String| _ = black_box(ours.check(key).allowed());
    let peer = |key: &String| _ = black_box(theirs.check_key(key).is_ok());
    // Every key exists before the measurement. Created with other functions than the measured ones: those are then called
    // from one place, as in most programs, so that the compiler decides on inlining as it would there.
    (0..keys).map(key).for_each(|key| {
        black_box(ours.check_many(&[&key]));
        _ = black_box(theirs.check_key_n(&key, NonZeroU32::MIN));
    });
    let (mut ours_mops, mut theirs_mops, mut many_mops) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let raised = RaisedPriority::raise(None);
        ours_mops.push(rate(&asked, |keys| keys.iter().for_each(one)));
        theirs_mops.push(rate(&asked, |keys| keys.iter().for_each(peer)));
        many_mops.push(rate(&asked, |keys| _ = black_box(ours.check_many(keys))));
        drop(raised);
        std::thread::sleep(RaisedPriority::REST);
    }
    let ratio =
        |a: &[f64]| median(&a.iter().zip(&theirs_mops).map(|(a, b)| a / b).collect::<Vec<_>>());
    let (ratio_one, ratio_many) = (ratio(&ours_mops), ratio(&many_mops));
    let (ours, theirs, many) = (median(&ours_mops), median(&theirs_mops), median(&many_mops));
    println!(
        "| {name:<18} | {threads} | {ours:.1} | {theirs:.1} | {ratio_one:.2} | {many:.1} | {ratio_many:.2} |"
    );
}

fn ours(load: Load) -> Limiter {
    let text = match load {
        // A burst that no run uses up.
        Load::Admit => "1000000/s burst 4294967295",
        Load::Refuse => "1/h",
    };
    Limiter::new(text).expect("a valid limit")
}

fn governor(load: Load) -> DefaultKeyedRateLimiter<String> {
    RateLimiter::keyed(match load {
        Load::Admit => Quota::per_second(NonZeroU32::new(1_000_000).expect("not 0"))
            .allow_burst(NonZeroU32::MAX),
        Load::Refuse => Quota::per_hour(NonZeroU32::MIN),
    })
}

fn tidegate_keys(keys: &[String]) -> Limiter {
    // An hour per unit: every key keeps a state.
    let limiter = Limiter::new("100/h").expect("a valid limit");
    keys.iter().for_each(|key| _ = black_box(limiter.check(key).allowed()));
    limiter
}

fn governor_keys(keys: &[String]) -> DefaultKeyedRateLimiter<String> {
    let limiter = RateLimiter::keyed(Quota::per_hour(NonZeroU32::new(100).expect("not 0")));
    keys.iter().for_each(|key| _ = black_box(limiter.check_key(key).is_ok()));
    limiter
}

/// Million checks a second over all threads, each with its own keys, in batches.
fn rate(asked: &[Vec<String>], check: impl Fn(&[String]) + Sync) -> f64 {
    let start = Barrier::new(asked.len());
    let mops = |keys: &Vec<String>| {
        start.wait();
        let (begun, mut done) = (Instant::now(), 0);
        for batch in keys.chunks(BATCH).cycle() {
            check(batch);
            done += batch.len();
            // The clock is not read for every batch.
            if done % (BATCH * 16) == 0 && begun.elapsed() >= ROUND {
                break;
            }
        }
        done as f64 / begun.elapsed().as_secs_f64() / 1e6
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = asked.iter().map(|keys| scope.spawn(|| mops(keys))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}
