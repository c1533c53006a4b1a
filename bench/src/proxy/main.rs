//! `./dev bench proxy`: a site reached directly, through nginx and through tidegate, in one run.
//!
//! The proxies run on the first processor, the site and the load on the others; rounds alternate, so that noise affects
//! all alike. Figures are medians, and a ratio is the median of the rounds' ratios. `QUICK=1` only shows that everything
//! works.

mod contender;
mod load;

use std::time::Duration;

use contender::{Contender, Kind};
use load::Load;
use tidegate_bench::report::{Figure, Report, Table};
use tidegate_bench::{is_quick, rerun_off_first_processor, site};

/// Page sizes in bytes.
const PAGES: [(usize, &str); 2] = [(200, "200 bytes"), (16 << 10, "16 KiB")];
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
    let (rounds, round) = match is_quick() {
        true => (1, Duration::from_millis(200)),
        false => (5, Duration::from_secs(1)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let site = Contender::start(Kind::Site, None);
        let port = site.port();
        let behind = |kind| Contender::start(kind, Some(port));
        let proxies = [Kind::Nginx, Kind::Tidegate, Kind::Limited].map(behind);
        let all: Vec<&Contender> = [&site].into_iter().chain(&proxies).collect();
        let mut latencies =
            Table::new("one", "one client", ["p50", "p99", "added at p50", "beside nginx"]);
        let columns = ["requests/s", "CPU per request", "p99", "ratio to nginx"];
        let mut rates = Table::new("many", format!("{CLIENTS} clients"), columns);
        for page in PAGES {
            latency(&mut latencies, &all, page, rounds, round).await;
            throughput(&mut rates, &all, page, rounds, round).await;
        }
        let mut report = Report::new("proxy");
        report.add(&latencies);
        report.add(&rates);
    });
}

/// One client that sends the next request as soon as it has the answer, so that no request queues.
async fn latency(
    table: &mut Table,
    all: &[&Contender],
    (page, size): (usize, &str),
    rounds: usize,
    round: Duration,
) {
    // Of each contender: p50, p99, and what it adds to the first.
    let mut rows = vec![[const { Vec::new() }; 3]; all.len()];
    for turn in 0..=rounds {
        let mut direct = 0.0;
        for (index, (contender, [p50s, p99s, added])) in all.iter().zip(&mut rows).enumerate() {
            let load = Load::closed(contender.port(), page, 1, round).await;
            let (p50, p99) = (load.at(0.5), load.at(0.99));
            direct = if index == 0 { p50 } else { direct };
            // The first round is a warm-up.
            if turn > 0 {
                p50s.push(p50);
                p99s.push(p99);
                added.push(p50 - direct);
            }
        }
    }
    let nginx = &rows[nginx(all)];
    for (contender, [p50, p99, added]) in all.iter().zip(&rows) {
        let is_proxy = contender.kind() != Kind::Site;
        let beside = Figure::cost_ratio(p50, &nginx[0]);
        let cells = [
            Figure::less("µs", p50).into(),
            Figure::less("µs", p99).into(),
            is_proxy.then(|| Figure::less("µs", added)).into(),
            judged(beside, contender).into(),
        ];
        table.row(format!("{size}, {}", contender.name()), cells);
    }
}

async fn throughput(
    table: &mut Table,
    all: &[&Contender],
    (page, size): (usize, &str),
    rounds: usize,
    round: Duration,
) {
    // Of each contender: requests a second, CPU per request, and p99.
    let mut rows = vec![[const { Vec::new() }; 3]; all.len()];
    for turn in 0..=rounds {
        for (contender, [rates, cpu_us, p99_us]) in all.iter().zip(&mut rows) {
            let before = contender.cpu_s();
            let load = Load::closed(contender.port(), page, CLIENTS, round).await;
            if turn > 0 {
                rates.push(load.rate());
                cpu_us.push((contender.cpu_s() - before) / load.count() as f64 * 1e6);
                p99_us.push(load.at(0.99));
            }
        }
    }
    let nginx = &rows[nginx(all)];
    for (contender, [rates, cpu_us, p99_us]) in all.iter().zip(&rows) {
        let cells = [
            Figure::more("", rates).into(),
            Figure::less("µs", cpu_us).into(),
            Figure::less("µs", p99_us).into(),
            judged(Figure::ratio(rates, &nginx[0]), contender).into(),
        ];
        table.row(format!("{size}, {}", contender.name()), cells);
    }
}

/// Only ours are better or worse.
fn judged(figure: Figure, contender: &Contender) -> Figure {
    match contender.kind() {
        Kind::Site | Kind::Nginx => figure.unjudged(),
        Kind::Tidegate | Kind::Limited => figure,
    }
}

fn nginx(all: &[&Contender]) -> usize {
    all.iter().position(|it| it.kind() == Kind::Nginx).expect("nginx")
}
