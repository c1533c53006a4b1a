//! `./dev bench server`: the doors beside the minimum cost of such a door, and beside throttlecrab-server, in one run.
//!
//! The floors are this program in another process: it parses frames and writes a fixed answer. All servers run on one
//! processor and the load on the others; rounds alternate, so that noise affects all alike. Figures are medians, and a
//! ratio is the median of the rounds' ratios. `QUICK=1` only shows that everything works; `ONLY=http` measures one door;
//! `BEFORE=PROGRAM` adds another build of tidegate.

mod contender;
mod floor;
mod load;
mod table;

use std::time::Duration;

use contender::{Contender, Kind};
use load::Wire;
use table::Figures;
use tidegate_bench::load::Load;
use tidegate_bench::report::{Cell, Figure, Report, Table};
use tidegate_bench::{RaisedPriority, is_quick, rerun_off_first_processor};

const WIRES: [Wire; 5] = [Wire::Resp(1), Wire::Resp(16), Wire::Resp(64), Wire::Http, Wire::Grpc];

/// The number and length of the rounds, and the number of keys.
struct Effort {
    rounds: usize,
    round: Duration,
    keys: usize,
}

impl Effort {
    fn from_env() -> Self {
        match is_quick() {
            true => Self { rounds: 1, round: Duration::from_millis(300), keys: 50_000 },
            false => Self { rounds: 2, round: Duration::from_millis(1500), keys: 1_000_000 },
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["floor", wire, port] => floor::run(wire, port.parse().expect("a port")),
        ["measure"] => measure(&Effort::from_env()),
        _ => rerun_off_first_processor(),
    }
}

fn measure(effort: &Effort) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let contenders: Vec<Contender> =
            Contender::all().into_iter().map(Contender::start).collect();
        RaisedPriority::warn();
        let only = std::env::var("ONLY").ok();
        let is_wanted = |wire: &Wire| only.as_ref().is_none_or(|only| wire.door() == only);
        let (mut report, mut doors) = (Report::new("server"), table::of_doors());
        for wire in WIRES.into_iter().filter(is_wanted) {
            throughput(&mut report, &mut doors, &contenders, wire, effort).await;
        }
        report.add(&doors);
        drop(contenders);
        if only.is_none() {
            report.add(&memory(effort).await);
        }
    });
}

async fn throughput(
    report: &mut Report,
    doors: &mut Table,
    contenders: &[Contender],
    wire: Wire,
    effort: &Effort,
) {
    let able: Vec<&Contender> = contenders.iter().filter(|it| it.port(wire).is_some()).collect();
    let mut rows = vec![Figures::default(); able.len()];
    for round in 0..=effort.rounds {
        for (contender, row) in able.iter().zip(&mut rows) {
            let clients = load::clients(contender, wire).await;
            let before = contender.process().cpu_s();
            let load = Load::closed(clients, effort.round).await;
            let cpu_us = (contender.process().cpu_s() - before) / load.count() as f64 * 1e6;
            // The first round is a warm-up.
            if round > 0 {
                row.add(load.rate(), load.at(0.5), load.at(0.99), cpu_us);
            }
        }
    }
    // In a pipeline requests wait for the whole batch, so latency at half of the load means nothing.
    if !matches!(wire, Wire::Resp(2..)) {
        latency_at_half_load(&able, wire, &mut rows, effort).await;
    }
    report.add(&table::of_door(wire, &able, &rows));
    table::add_door(doors, wire, &able, &rows);
}

/// Latency at half of the throughput of each server, with real-time priority. In short rounds, so that occasional stalls
/// of the machine, some milliseconds each, affect some rounds and not the median.
async fn latency_at_half_load(
    able: &[&Contender],
    wire: Wire,
    rows: &mut [Figures],
    effort: &Effort,
) {
    for _ in 0..effort.rounds * 4 {
        for (contender, row) in able.iter().zip(&mut *rows) {
            let half = row.rate() / 2.0;
            let clients = load::clients(contender, wire).await;
            let raised = RaisedPriority::raise(Some(contender.process()));
            row.half_us.push(Load::paced(clients, half, effort.round / 4).await.at(0.99));
            drop(raised);
            tokio::time::sleep(RaisedPriority::REST).await;
        }
    }
}

/// Memory of new processes: at rest, and with a million keys.
async fn memory(effort: &Effort) -> Table {
    let mut table = Table::new("memory", "memory, MB", ["at rest", "with a million keys"]);
    for kind in Contender::all() {
        let contender = Contender::start(kind);
        let resident = || Figure::less("", &[contender.process().resident_mb()]);
        let idle = resident();
        let is_floor = matches!(kind, Kind::Floor(_));
        let full = match contender.port(Wire::Resp(64)).filter(|_| !is_floor) {
            Some(_) => {
                load::fill(&contender, effort.keys).await;
                resident().into()
            }
            None => Cell::Empty,
        };
        table.row(kind.name(), [idle.into(), full]);
    }
    table
}
