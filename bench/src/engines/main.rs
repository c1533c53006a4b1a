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
use load::{KEYS_MAX, LEASED, MANY_KEYS, Scenario, Until};
use table::{Row, find, short, thousands};

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
        if std::env::var("QUICK").is_ok() {
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
    if std::env::var("ONLY").is_ok_and(|only| only == "bloat") {
        return runtime.block_on(bloat::measure(&scale));
    }
    runtime.block_on(measure(&scale));
}

/// An engine and the nodes that ask it.
struct Measured {
    contender: Contender,
    nodes: Vec<Arc<Node>>,
}

async fn measure(scale: &Scale) {
    let mut engines = Vec::new();
    for contender in contender::all().into_iter().filter(|it| is_asked_for("ENGINES", it.name)) {
        let nodes: Vec<_> = (0..2).map(|_| Arc::new(contender.node())).collect();
        load::fill(&nodes[0], scale.keys).await;
        engines.push(Measured { contender, nodes });
    }
    let scenarios = Scenario::all(scale.keys);
    for scenario in scenarios.into_iter().filter(|it| is_asked_for("SCENARIOS", it.title)) {
        let rows = rows(&engines, scenario, scale).await;
        table::print(scenario.title, &rows, REDIS);
        match scenario.title {
            MANY_KEYS => print_ratios(&rows),
            LEASED => print_least(&rows),
            _ => {}
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
        engines.iter().filter(on_peers).filter(|_| scenario.title == MANY_KEYS).collect();
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

fn print_ratios(rows: &[Row]) {
    println!();
    for engine in [POSTGRES, MEMCACHED, REDIS] {
        if let (Some(ours), Some(peer)) = (find(rows, engine), find(rows, &peer_name(engine))) {
            let ratio = short(ours.ratio(peer));
            println!("- {engine}: {ratio} × rate-limiter-flexible on the same server");
        }
    }
}

fn print_least(rows: &[Row]) {
    let rate = |row: &Row| row.median(|it| it.rate);
    let least = rows.iter().min_by(|a, b| rate(a).total_cmp(&rate(b))).expect("an engine");
    println!("\n- Slowest with leases: {}, {} decisions/s", least.name, thousands(rate(least)));
}
