//! `./dev bench engines`: every engine side by side in one run, through the library, and rate-limiter-flexible on the
//! same servers.
//!
//! Rounds alternate between the engines, so that noise affects all; figures are medians, and a ratio is the median of the
//! rounds' ratios. `QUICK=1` only shows that it works. `ONLY=bloat` shows what ten million decisions (`DECISIONS=n`) leave
//! in PostgreSQL. `ENGINES=redis,full` measures only engines whose name has one of the words, `SCENARIOS=one` only
//! scenarios whose title has.

mod bloat;
mod contender;
mod load;
mod peers;
mod table;

use std::sync::Arc;
use std::time::Duration;

use contender::{Contender, MEMCACHED, Node, POSTGRES, REDIS};
use load::{KEYS_MAX, MANY_KEYS, Scenario, Until};
use table::{Row, find};
use tidegate_bench::is_quick;
use tidegate_bench::report::{Figure, Report, Table};

/// How long and how much is measured.
pub(crate) struct Scale {
    rounds: usize,
    round: Duration,
    pub(crate) keys: usize,
    pub(crate) decisions: usize,
}

impl Scale {
    fn from_environment() -> Self {
        let decisions = std::env::var("DECISIONS").ok().and_then(|count| count.parse().ok());
        let decisions = |default| decisions.unwrap_or(default);
        if is_quick() {
            let (rounds, round) = (1, Duration::from_millis(50));
            return Self { rounds, round, keys: 1_000, decisions: decisions(20_000) };
        }
        let (rounds, round) = (5, Duration::from_millis(1000));
        Self { rounds, round, keys: KEYS_MAX, decisions: decisions(10_000_000) }
    }
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (runtime, scale) = (runtime.expect("a runtime"), Scale::from_environment());
    let mut report = Report::new("engines");
    if std::env::var("ONLY").is_ok_and(|only| only == "bloat") {
        return runtime.block_on(bloat::measure(&scale, &mut report));
    }
    runtime.block_on(measure(&scale, &mut report));
}

/// An engine and the nodes that ask it.
struct Measured {
    contender: Contender,
    nodes: Vec<Arc<Node>>,
}

async fn measure(scale: &Scale, report: &mut Report) {
    let mut engines = Vec::new();
    for contender in contender::all().into_iter().filter(|it| is_asked_for("ENGINES", it.name)) {
        let nodes: Vec<_> = (0..2).map(|_| Arc::new(contender.node())).collect();
        load::fill(&nodes[0], scale.keys).await;
        engines.push(Measured { contender, nodes });
    }
    let scenarios = Scenario::all(scale.keys);
    for scenario in scenarios.into_iter().filter(|it| is_asked_for("SCENARIOS", it.title)) {
        let rows = rows(&engines, scenario, scale).await;
        report.add(&table::of_scenario(scenario, &rows, REDIS));
        if scenario.id == MANY_KEYS {
            report.add(&beside_peers(&rows));
        }
    }
}

/// Whether the name has one of the words of a variable, or there is none.
fn is_asked_for(variable: &str, name: &str) -> bool {
    let (words, name) = (std::env::var(variable), name.to_lowercase());
    words.map_or(true, |words| words.to_lowercase().split(',').any(|word| name.contains(word)))
}

/// The rounds of a scenario, alternating between the engines and, where many ask for many keys, the peers on them.
async fn rows(engines: &[Measured], scenario: Scenario, scale: &Scale) -> Vec<Row> {
    let mut ours: Vec<_> = engines.iter().map(|engine| Row::new(engine.contender.name)).collect();
    let on_peers =
        |engine: &&Measured| [REDIS, POSTGRES, MEMCACHED].contains(&engine.contender.name);
    let beside: Vec<_> =
        engines.iter().filter(on_peers).filter(|_| scenario.id == MANY_KEYS).collect();
    let mut peers: Vec<_> =
        beside.iter().map(|engine| Row::new(peer_name(engine.contender.name))).collect();
    for round in 0..=scale.rounds {
        for (Measured { contender, nodes }, row) in engines.iter().zip(&mut ours) {
            let figures = load::round(contender, nodes, scenario, Until::After(scale.round)).await;
            // The first round is a warm-up.
            row.rounds.extend((round > 0).then_some(figures));
        }
        for (engine, row) in beside.iter().zip(&mut peers) {
            let figures = peers::round(&engine.contender, scale.keys, scale.round);
            row.rounds.extend((round > 0).then_some(figures));
        }
    }
    ours.extend(peers);
    ours
}

fn peer_name(engine: &str) -> String {
    format!("rate-limiter-flexible on {engine}")
}

fn beside_peers(rows: &[Row]) -> Table {
    let title = "rate-limiter-flexible on the same server";
    let mut table = Table::new("peers", title, ["ratio of decisions", "ratio of our CPU"]);
    for engine in [POSTGRES, MEMCACHED, REDIS] {
        if let (Some(ours), Some(peer)) = (find(rows, engine), find(rows, &peer_name(engine))) {
            let rates = Figure::ratio(&ours.rounds(|it| it.rate), &peer.rounds(|it| it.rate));
            let cpu = |row: &Row| row.rounds(|it| it.own_us);
            table.row(engine, [rates.into(), Figure::saving(&cpu(ours), &cpu(peer)).into()]);
        }
    }
    table
}
