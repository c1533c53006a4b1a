//! Proxies that limit each client address, in front of one small site.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_bench::load::Load;
use tidegate_bench::report::{Figure, Report, Table};
use tidegate_bench::{RaisedPriority, median};

use crate::contender::{Contender, Kind, Limit};
use crate::load;

const COLUMNS: [&str; 6] = [
    "requests/s",
    "requests/s, ratio",
    "CPU per request, µs",
    "CPU, ratio",
    "p99 at the same rate, ms",
    "p99, ratio",
];

/// The figures of one proxy, one per round.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    p99_ms: Vec<f64>,
}

pub(crate) async fn measure(report: &mut Report, site: u16, rounds: usize, round: Duration) {
    for (id, title, limit) in [
        ("proxies-admit", "every request is admitted", Limit::AdmitsAll),
        ("proxies-refuse", "nearly every request is refused", Limit::RefusesNearlyAll),
    ] {
        let all = Kind::ALL.map(|kind| Contender::start(kind, limit, site));
        for contender in &all {
            load::ready(contender.port).await;
        }
        let mut figures = all.each_ref().map(|_| Rounds::default());
        throughput(&all, &mut figures, limit, rounds, round).await;
        let rate = half_of_the_slowest(&figures);
        latency(&all, &mut figures, rate, rounds, round).await;
        report.add(&table(id, &format!("50 clients, {title}"), &all, &figures));
        println!("p99 at {rate:.0} requests/s, half of what the slowest answers\n");
    }
}

/// Each client sends the next request as soon as it has the answer.
async fn throughput(
    all: &[Contender],
    figures: &mut [Rounds],
    limit: Limit,
    rounds: usize,
    round: Duration,
) {
    for turn in 0..=rounds {
        for (contender, figures) in all.iter().zip(&mut *figures) {
            let (visitors, refused) = load::visitors(contender.port).await;
            let before = contender.process.on_cpu_s();
            let load = Load::closed(visitors, round).await;
            let cpu_s = contender.process.on_cpu_s() - before;
            // In the first round, the warm-up, everybody's first request is admitted.
            if turn > 0 {
                let refused = refused.load(Ordering::Relaxed) as f64 / load.count() as f64;
                let is_expected = match limit {
                    Limit::AdmitsAll => refused == 0.0,
                    Limit::RefusesNearlyAll => refused > 0.99,
                };
                assert!(
                    is_expected,
                    "{} refused {refused} of {}",
                    contender.kind.name(),
                    load.count()
                );
                figures.rates.push(load.rate());
                figures.cpu_us.push(cpu_s / load.count() as f64 * 1e6);
            }
        }
    }
}

fn half_of_the_slowest(figures: &[Rounds]) -> f64 {
    figures.iter().map(|rounds| median(&rounds.rates)).fold(f64::INFINITY, f64::min) / 2.0
}

/// With real-time priority, and in short rounds, so that stalls of the machine affect some rounds and not the median.
async fn latency(
    all: &[Contender],
    figures: &mut [Rounds],
    rate: f64,
    rounds: usize,
    round: Duration,
) {
    for _ in 0..rounds * 4 {
        for (contender, figures) in all.iter().zip(&mut *figures) {
            let (visitors, _) = load::visitors(contender.port).await;
            let raised = RaisedPriority::raise(Some(&contender.process));
            figures.p99_ms.push(Load::paced(visitors, rate, round / 4).await.at(0.99) / 1e3);
            drop(raised);
            tokio::time::sleep(RaisedPriority::REST).await;
        }
    }
}

/// A ratio says how many times better tidegate, the first row, is.
fn table(id: &'static str, title: &str, all: &[Contender], figures: &[Rounds]) -> Table {
    let mut table = Table::new(id, title, COLUMNS);
    let ours = &figures[0];
    for (contender, theirs) in all.iter().zip(figures) {
        let beside = |ratio: Figure| (contender.kind != Kind::Tidegate).then_some(ratio);
        table.row(
            contender.kind.name(),
            [
                Figure::more("", &theirs.rates).into(),
                beside(Figure::ratio(&ours.rates, &theirs.rates)).into(),
                Figure::less("", &theirs.cpu_us).into(),
                beside(Figure::saving(&ours.cpu_us, &theirs.cpu_us)).into(),
                Figure::less("", &theirs.p99_ms).into(),
                beside(Figure::saving(&ours.p99_ms, &theirs.p99_ms)).into(),
            ],
        );
    }
    table
}
