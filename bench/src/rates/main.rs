//! `./dev bench core`, second part: checks of one hot key from one of several places in a program. The compiler then calls
//! a function that computes the whole answer. A program of its own, since each further call changes what is inlined.

use std::hint::black_box;

use governor::DefaultKeyedRateLimiter;
use tidegate::{Decision, Limiter};
use tidegate_bench::RaisedPriority;
use tidegate_bench::keys::key;
use tidegate_bench::rates::{self, ROUNDS, by_threads, rate};
use tidegate_bench::report::{Figure, Report, Table};

#[inline(never)]
fn called(limiter: &Limiter, key: &str) -> Decision {
    limiter.check(key)
}

#[inline(never)]
fn governor_called(limiter: &DefaultKeyedRateLimiter<String>, key: &String) -> bool {
    limiter.check_key(key).is_ok()
}

fn main() {
    let columns = ["tidegate", "governor", "ratio"];
    let mut table = Table::new("called", "hot key, called, M/s", columns);
    for threads in [1, 2] {
        add_rows(&mut table, threads);
    }
    Report::new("rates").add(&table);
}

/// All rates in turn in each round, so that noise affects all of them.
fn add_rows(table: &mut Table, threads: usize) {
    let limiters = rates::ALL.map(|rate| (rate.limiter(), rate.governor()));
    let asked = vec![vec![key(0); 1 << 12]; threads];
    let mut figures = vec![(vec![], vec![]); limiters.len()];
    for _ in 0..ROUNDS {
        for ((ours, theirs), (ours_mops, theirs_mops)) in limiters.iter().zip(&mut figures) {
            let raised = RaisedPriority::raise(None);
            ours_mops.push(rate(&asked, |keys| {
                keys.iter().for_each(|key| _ = black_box(called(ours, key)));
            }));
            theirs_mops.push(rate(&asked, |keys| {
                keys.iter().for_each(|key| _ = black_box(governor_called(theirs, key)));
            }));
            drop(raised);
            std::thread::sleep(RaisedPriority::REST);
        }
    }
    for (rate, (ours, theirs)) in rates::ALL.into_iter().zip(figures) {
        let ratio = Figure::ratio(&ours, &theirs).into();
        let cells = [Figure::more("", &ours).into(), Figure::more("", &theirs).into(), ratio];
        table.row(by_threads(rate, threads), cells);
    }
}
