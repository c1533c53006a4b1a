//! `./dev bench proxy`: a site reached directly, through nginx and through tidegate, in one run.
//!
//! The proxies run on the first processor, the site and the load on the others; rounds alternate, so that a noisy minute
//! hits all alike. Figures are medians, and a ratio is the median of the rounds' ratios. With `QUICK=1` it only shows
//! that all works.

mod contender;
mod load;
mod site;

use std::time::Duration;

use contender::{Contender, Kind};
use load::Load;
use tidegate_bench::{apart, median};

/// How large a page is.
const PAGES: [usize; 2] = [200, 16 << 10];
/// How many clients ask at once, where throughput is measured.
const CLIENTS: usize = 50;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["site", port] => site::run(port.parse().expect("a port")),
        ["apart"] => measure(),
        _ => apart(),
    }
}

fn measure() {
    let (rounds, round) = match std::env::var_os("QUICK") {
        Some(_) => (1, Duration::from_millis(200)),
        None => (5, Duration::from_secs(1)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let site = Contender::start(Kind::Site, None);
        let port = site.port();
        let behind = |kind| Contender::start(kind, Some(port));
        let proxies = [Kind::Nginx, Kind::Tidegate, Kind::Limited].map(behind);
        let all: Vec<&Contender> = [&site].into_iter().chain(&proxies).collect();
        for page in PAGES {
            latency(&all, page, rounds, round).await;
            throughput(&all, page, rounds, round).await;
        }
    });
}

/// One client that asks again as soon as it was answered: nothing waits for anything else.
async fn latency(all: &[&Contender], page: usize, rounds: usize, round: Duration) {
    let mut rows = vec![Vec::new(); all.len()];
    let mut added = vec![Vec::new(); all.len()];
    for turn in 0..=rounds {
        let mut direct = 0.0;
        for (index, contender) in all.iter().enumerate() {
            let load = Load::closed(contender.port(), page, 1, round).await;
            let (p50, p99) = (load.at(0.5), load.at(0.99));
            direct = if index == 0 { p50 } else { direct };
            // The first is to get warm.
            if turn > 0 {
                rows[index].push((p50, p99));
                added[index].push(p50 - direct);
            }
        }
    }
    println!(
        "\n## One client, {page} bytes\n\n| | p50, µs | p99, µs | added at p50, µs |\n|---|--:|--:|--:|"
    );
    for (index, contender) in all.iter().enumerate() {
        let of = |pick: fn(&(f64, f64)) -> f64| {
            median(&rows[index].iter().map(pick).collect::<Vec<_>>())
        };
        let (p50, p99, added) = (of(|row| row.0), of(|row| row.1), median(&added[index]));
        println!("| {} | {p50:.0} | {p99:.0} | {added:.0} |", contender.name());
    }
}

async fn throughput(all: &[&Contender], page: usize, rounds: usize, round: Duration) {
    let mut rows = vec![Vec::new(); all.len()];
    for turn in 0..=rounds {
        for (contender, row) in all.iter().zip(&mut rows) {
            let before = contender.cpu_s();
            let load = Load::closed(contender.port(), page, CLIENTS, round).await;
            let cpu_us = (contender.cpu_s() - before) / load.count() as f64 * 1e6;
            if turn > 0 {
                row.push((load.rate(), cpu_us, load.at(0.99)));
            }
        }
    }
    println!(
        "\n## {CLIENTS} clients, {page} bytes\n\n| | requests/s | CPU per request, µs | p99, µs | beside nginx |\n\
         |---|--:|--:|--:|--:|"
    );
    let nginx = all.iter().position(|it| it.kind() == Kind::Nginx).expect("nginx");
    for (index, contender) in all.iter().enumerate() {
        let of = |pick: fn(&(f64, f64, f64)) -> f64| {
            median(&rows[index].iter().map(pick).collect::<Vec<_>>())
        };
        let pairs = rows[index].iter().zip(&rows[nginx]);
        let ratio = median(&pairs.map(|(ours, theirs)| ours.0 / theirs.0).collect::<Vec<_>>());
        let (rate, cpu, p99) = (of(|row| row.0), of(|row| row.1), of(|row| row.2));
        println!("| {} | {rate:.0} | {cpu:.1} | {p99:.0} | {ratio:.2} |", contender.name());
    }
}
