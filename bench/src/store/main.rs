//! `./dev bench store`: the server over Redis, beside limitador's library over the same Redis, in one run. Then both in
//! memory.
//!
//! The server, Redis and the load share two processors, and nothing is bound to one of them: a decision costs what all
//! three take. Rounds alternate, so that noise affects all alike. Figures are medians, and a ratio is the median of the
//! rounds' ratios. `QUICK=1` only shows that everything works.

mod contender;
mod limitador;
mod load;

use std::time::Duration;

use contender::{Contender, Kind};
use load::Wire;
use tidegate_bench::load::Load;
use tidegate_bench::report::{Cell, Figure, Report, Table};
use tidegate_bench::{is_quick, own_cpu_s, rerun_on_two_processors};
use tidegate_testkit::processes::RedisServer;

const COLUMNS: [&str; 9] = [
    "requests/s",
    "requests/s, ratio",
    "p50, ms",
    "p99, ms",
    "server, µs per decision",
    "Redis, µs per decision",
    "load, µs per decision",
    "all, µs per decision",
    "all, ratio",
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["limitador", storage, redis, http, grpc] => {
            let ports = [http, grpc].map(|port| port.parse().expect("a port"));
            limitador::run(storage, redis, ports);
        }
        ["measure"] => measure(),
        _ => rerun_on_two_processors(),
    }
}

fn measure() {
    let (rounds, round) = match is_quick() {
        true => (1, Duration::from_millis(300)),
        false => (3, Duration::from_millis(1500)),
    };
    let redis = RedisServer::start();
    let start = |kind| Contender::start(kind, &redis.url());
    let mut report = Report::new("store");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let over_redis = Kind::OVER_REDIS.map(start);
        for wire in Wire::ALL {
            let [id, title] = wire.names();
            let rows = rows(&over_redis, &redis, wire, (rounds, round)).await;
            report.add(&table(Table::new(id, title, COLUMNS), &rows));
        }
        let [ours, ..] = &over_redis;
        let without = ours.without_redis();
        assert_eq!(without, 0, "tidegate made decisions without Redis: these figures are void");
        drop(over_redis);
        let in_memory = Kind::IN_MEMORY.map(start);
        for wire in Wire::ENVOY_AND_HTTP {
            let [id, title] = wire.names();
            let rows = rows(&in_memory, &redis, wire, (rounds, round)).await;
            let id = format!("memory-{id}");
            report.add(&table(Table::new(id, format!("{title}, in memory"), COLUMNS), &rows));
        }
    });
}

/// How long limitador's cached storage may take to tell Redis what it has counted.
const CACHE_FLUSH: Duration = Duration::from_millis(1500);

/// The rounds of all contenders that speak a protocol.
async fn rows<'a>(
    contenders: &'a [Contender],
    redis: &RedisServer,
    wire: Wire,
    (rounds, round): (usize, Duration),
) -> Vec<(&'a Contender, Vec<Round>)> {
    let able = contenders.iter().filter(|contender| wire.is_spoken_by(contender));
    let mut rows: Vec<(&Contender, Vec<Round>)> = able.map(|it| (it, vec![])).collect();
    for turn in 0..=rounds {
        for (contender, row) in &mut rows {
            let figures = Round::of(contender, redis, wire, round).await;
            // The first round is a warm-up, in which keys appear.
            if turn > 0 {
                row.push(figures);
            }
            if contender.kind == Kind::LimitadorCached {
                // Otherwise the next server would pay for it.
                tokio::time::sleep(CACHE_FLUSH).await;
            }
        }
    }
    rows
}

/// One round of one server. CPU times are in microseconds per decision.
struct Round {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    server_us: f64,
    redis_us: f64,
    load_us: f64,
}

impl Round {
    async fn of(contender: &Contender, redis: &RedisServer, wire: Wire, span: Duration) -> Self {
        let clients = load::clients(contender, wire).await;
        let cpu_s = || [contender.process.cpu_s(), redis.cpu_seconds(), own_cpu_s()];
        let before = cpu_s();
        let load = Load::closed(clients, span).await;
        let after = cpu_s();
        let us = |who: usize| (after[who] - before[who]) / load.count() as f64 * 1e6;
        Self {
            rate: load.rate(),
            p50_ms: load.at(0.5) / 1e3,
            p99_ms: load.at(0.99) / 1e3,
            server_us: us(0),
            redis_us: us(1),
            load_us: us(2),
        }
    }

    fn all_us(&self) -> f64 {
        self.server_us + self.redis_us + self.load_us
    }
}

/// Tidegate is the first row.
fn table(mut table: Table, rows: &[(&Contender, Vec<Round>)]) -> Table {
    let of = |rounds: &[Round], figure: fn(&Round) -> f64| -> Vec<f64> {
        rounds.iter().map(figure).collect()
    };
    let rate = |rounds: &[Round]| of(rounds, |round| round.rate);
    let ours = &rows[0].1;
    for (contender, rounds) in rows {
        let less = |figure| Cell::from(Figure::less("", &of(rounds, figure)));
        let is_peer = !contender.kind.is_tidegate();
        let ratio = is_peer.then(|| Figure::ratio(&rate(ours), &rate(rounds)));
        let costs = [ours, rounds].map(|rounds| of(rounds, Round::all_us));
        let saving = is_peer.then(|| Figure::saving(&costs[0], &costs[1]));
        table.row(
            contender.kind.name(),
            [
                Figure::more("", &rate(rounds)).into(),
                ratio.into(),
                less(|round| round.p50_ms),
                less(|round| round.p99_ms),
                less(|round| round.server_us),
                less(|round| round.redis_us),
                less(|round| round.load_us),
                less(Round::all_us),
                saving.into(),
            ],
        );
    }
    table
}
