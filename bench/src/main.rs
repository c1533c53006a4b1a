//! `./dev bench core`: the embedded limiter beside governor, in one run.
//!
//! Each row is measured in rounds that alternate between the two, so that a noisy minute hits both; the
//! figures are medians, and the ratio is the median of the rounds' ratios.

mod keys;
mod memory;

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tidegate::Limiter;

use keys::{Order, key_strings};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(120);
/// How many keys a `check_many` call gets.
const BATCH: usize = 256;

/// Limits that admit everything, and limits that refuse everything after the first.
#[derive(Clone, Copy)]
enum Load {
    Admit,
    Refuse,
}

fn main() {
    println!("| {:<26} | threads | tidegate | governor | ratio | check_many | ratio |", "Mops/s, median");
    println!("|{}|--:|--:|--:|--:|--:|--:|", "-".repeat(28));
    let rows: [(&str, usize, Order, Load); 4] = [
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
    println!();
    println!("Bytes per key at 1 M keys, as the allocator counts: tidegate {:.1}, governor {:.1}", memory::per_key(tidegate_keys), memory::per_key(governor_keys));
}

fn row(name: &str, keys: usize, order: Order, load: Load, threads: usize) {
    let keys = key_strings(keys);
    let picks: Vec<Vec<u32>> = (0..threads).map(|seed| order.picks(keys.len(), seed as u64)).collect();
    let ours = ours(load);
    let theirs = governor(load);
    let one = |key: &String| { black_box(ours.check(key).allowed()); };
    let peer = |key: &String| { black_box(theirs.check_key(key).is_ok()); };
    // Every key exists before the clock runs.
    keys.iter().for_each(one);
    keys.iter().for_each(peer);
    let (mut ours_mops, mut theirs_mops, mut many_mops) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        ours_mops.push(rate(&picks, |pick| one(&keys[pick as usize])));
        theirs_mops.push(rate(&picks, |pick| peer(&keys[pick as usize])));
        many_mops.push(rate_many(&picks, &keys, |batch| { black_box(ours.check_many(batch)); }));
    }
    let ratio = |a: &[f64]| median(a.iter().zip(&theirs_mops).map(|(a, b)| a / b).collect());
    let (ratio_one, ratio_many) = (ratio(&ours_mops), ratio(&many_mops));
    println!("| {name:<26} | {threads} | {:.1} | {:.1} | {ratio_one:.2} | {:.1} | {ratio_many:.2} |", median(ours_mops), median(theirs_mops.clone()), median(many_mops));
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
    keys.iter().for_each(|key| { black_box(limiter.check(key).allowed()); });
    limiter
}

fn governor_keys(keys: &[String]) -> DefaultKeyedRateLimiter<String> {
    let limiter = RateLimiter::keyed(Quota::per_hour(NonZeroU32::new(100).expect("not 0")));
    keys.iter().for_each(|key| { black_box(limiter.check_key(key).is_ok()); });
    limiter
}

/// Million calls a second over all threads.
fn rate(picks: &[Vec<u32>], call: impl Fn(u32) + Sync) -> f64 {
    timed(picks, |picks| { picks.iter().for_each(|pick| call(*pick)); picks.len() })
}

fn rate_many(picks: &[Vec<u32>], keys: &[String], call: impl Fn(&[&str]) + Sync) -> f64 {
    timed(picks, |picks| {
        let mut batch = Vec::with_capacity(BATCH);
        for picks in picks.chunks(BATCH) {
            batch.clear();
            batch.extend(picks.iter().map(|pick| keys[*pick as usize].as_str()));
            call(&batch);
        }
        picks.len()
    })
}

fn timed(picks: &[Vec<u32>], work: impl Fn(&[u32]) -> usize + Sync) -> f64 {
    let start = Barrier::new(picks.len());
    let mops = |picks: &Vec<u32>| {
        start.wait();
        let (begun, mut done) = (Instant::now(), 0);
        for picks in picks.chunks(4096).cycle() {
            done += work(picks);
            if begun.elapsed() >= ROUND {
                break;
            }
        }
        done as f64 / begun.elapsed().as_secs_f64() / 1e6
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = picks.iter().map(|picks| scope.spawn(|| mops(picks))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
