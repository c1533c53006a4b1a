//! `./dev bench proxy`: a site reached directly, through nginx and through tidegate, in one run.
//!
//! The proxies run on the first processor, the site and the load on the others; rounds alternate, so that noise affects
//! all alike. Figures are medians, and a ratio is the median of the rounds' ratios. `QUICK=1` only shows that everything
//! works.

mod contender;
mod load;
mod site;

use std::time::Duration;

use contender::{Contender, Kind};
use load::Load;
use tidegate_bench::{median, rerun_off_first_processor};

/// Page sizes in bytes.
const PAGES: [usize; 2] = [200, 16 << 10];
/// Concurrent clients of the throughput measurement.
const CLIENTS: usize = 50;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["site", port] => site::run(port.parse().expect("a port")),
        ["measure"] => measure(),
        _ => rerun_off_first_processor(),
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

/// One client that sends the next request as soon as it has the answer, so that no request queues.
async fn latency(all: &[&Contender], page: usize, rounds: usize, round: Duration) {
    let mut rows = vec![Vec::new(); all.len()];
    let mut added = vec![Vec::new(); all.len()];
    for turn in 0..=rounds {
        let mut direct = 0.0;
        for (index, contender) in all.iter().enumerate() {
            let load = Load::closed(contender.port(), page, 1, round).await;
            let (p50, p99) = (load.at(0.5), load.at(0.99));
            direct = if index == 0 { p50 } else { direct };
            // The first round is a warm-up.
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
