//! `./dev bench redis`: checks through Redis beside the minimum cost of a check through Redis, in one run.
//!
//! The peer is one `EVALSHA` per check of a minimal GCRA script (`bare.lua`), driven by `redis-benchmark`. Rounds
//! alternate, so that noise affects both; figures are medians, and a ratio is the median of the rounds' ratios.
//! `ONLY=many` runs only the first table, `ONLY=library` the comparison with the redis crate, and `ONLY=worst` the worst
//! case of each script.

mod library;
mod server;
mod worst_case;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use server::Server;
use tidegate::{
    Clock, DenyCache, KeyedLimit, Leases, Limit, Mode, Op, Scope, Store, StoreReply, StoreRequest,
    SystemClock,
};
use tidegate_bench::is_quick;
use tidegate_bench::report::{Figure, Report, Table};
use tidegate_redis::{RedisOptions, RedisStore};
use tokio::runtime::Runtime;

const ROUNDS: usize = 3;
const CLIENTS: usize = 50;
const KEYS: usize = 100_000;
const IDLE_CHECKS: usize = 2_000;
/// A policy with a limit that no run uses up. A key is kept for a minute or more after its last check, so that checks
/// find a state.
const LASTING: [&str; 2] = ["api", "1/min burst 1000000"];
/// The same for `bare.lua`: microseconds per unit, burst, cost.
const LASTING_BARE: [&str; 3] = ["60000000", "1000000", "1"];
/// The same with an interval that is no whole number of microseconds.
const FRACTION: [&str; 2] = ["fraction", "7/min burst 1000000"];

fn main() {
    let (runtime, mut report) = (threads(None), Report::new("redis"));
    if std::env::var("ONLY").is_ok_and(|only| only == "library") {
        return runtime.block_on(library::compare(&mut report));
    }
    let server = Server::start();
    if std::env::var("ONLY").is_ok_and(|only| only == "worst") {
        return runtime.block_on(worst_case::measure(&server, &mut report));
    }
    let bare = server.cli(&["SCRIPT", "LOAD", include_str!("bare.lua")]);
    report.add(&throughput(&server, &bare));
    if std::env::var("ONLY").is_ok_and(|only| only == "many") {
        return;
    }
    runtime.block_on(async {
        report.add(&idle(&server, &bare).await);
        let columns = ["M decisions/s", "decisions per call to Redis"];
        let mut table = Table::new("near", "answered without asking Redis", columns);
        leased(&mut table, &server).await;
        blocked(&mut table, &server).await;
        report.add(&table);
        report.add(&algorithms(&server).await);
        worst_case::measure(&server, &mut report).await;
        library::compare(&mut report).await;
    });
}

/// A runtime with so many threads for its tasks, or with one for each processor.
fn threads(count: Option<usize>) -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(count) = count {
        runtime.worker_threads(count);
    }
    runtime.enable_all().build().expect("a runtime")
}

/// How long a round is.
fn round() -> Duration {
    Duration::from_millis(if is_quick() { 50 } else { 1500 })
}

fn store(url: String) -> RedisStore {
    let deadline = Duration::from_secs(5);
    RedisStore::new(RedisOptions { deadline, ..RedisOptions::new(url) }).expect("a URL")
}

async fn check(store: &impl Store, scope: &Scope, limit: &Limit, key: &str) -> StoreReply {
    let limits = [KeyedLimit { scope, key: key.as_bytes(), limit }];
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    store.decide(&ask, SystemClock.now()).await.expect("an answer")
}

fn key(number: usize) -> String {
    format!("user-{number:019}")
}

/// A cheap pseudo-random sequence that spreads over the keys.
fn scatter(number: usize) -> usize {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

/// Decisions per second with `tasks` concurrent checks for one round. Each check gets its own number.
async fn rate<F>(tasks: usize, check: impl Fn(usize) -> F + Clone + Send + 'static) -> f64
where
    F: Future<Output = ()> + Send,
{
    let (count, start, round) = (Arc::new(AtomicU64::new(0)), Instant::now(), round());
    let spawn = |task: usize| {
        let (check, count) = (check.clone(), count.clone());
        tokio::spawn(async move {
            let mut number = task << 32;
            while start.elapsed() < round {
                number += 1;
                check(number).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    for task in (0..tasks).map(spawn).collect::<Vec<_>>() {
        task.await.expect("a task");
    }
    count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

/// Decisions per second through a store, under the limit of a policy.
async fn hammer(
    store: &Arc<impl Store + 'static>,
    tasks: usize,
    [policy, limit]: [&'static str; 2],
) -> f64 {
    let (scope, limit) = (Scope::named(policy, ""), limit.parse().expect("a limit"));
    let shared: Arc<(_, Scope, Limit)> = Arc::new((store.clone(), scope, limit));
    rate(tasks, move |number| {
        let shared = shared.clone();
        async move {
            let (store, scope, limit) = &*shared;
            check(&**store, scope, limit, &key(scatter(number) % KEYS)).await;
        }
    })
    .await
}

/// The number of decisions a round of redis-benchmark takes.
const BARE_COUNT: usize = 100_000;

/// Operations per second through `redis-benchmark`, with one `EVALSHA` per check at pipeline 1.
fn bare_rate(server: &Server, bare: &str, clients: usize) -> f64 {
    let count = if is_quick() { BARE_COUNT / 10 } else { BARE_COUNT };
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port.to_string(), "-c", &clients.to_string(), "-P", "1", "-q"])
        .args(["-n", &count.to_string(), "-r", &KEYS.to_string(), "--csv"])
        .args(["EVALSHA", bare, "1", "bare-0000000__rand_int__"])
        .args(LASTING_BARE)
        .output()
        .expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().last().and_then(|line| line.rsplit("\",\"").nth(6));
    rate.and_then(|rate| rate.trim_matches('"').parse().ok()).expect("a rate")
}

/// Decisions a second, Redis' processor time per decision in microseconds, and decisions per call.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    per_call: Vec<f64>,
}

/// `redis-benchmark` has one thread, and so has tidegate, but for the last row: that has one for each processor, as in a
/// server, and one of them shares its processor with Redis.
fn throughput(server: &Server, bare: &str) -> Table {
    let [one, all] = [Some(1), None].map(|count| {
        let runtime = threads(count);
        let store = Arc::new(runtime.block_on(async { store(server.url()) }));
        (runtime, store)
    });
    let columns =
        ["decisions/s", "ratio", "Redis' CPU per decision", "ratio of CPU", "decisions per call"];
    let mut table = Table::new("many", "many checks at once", columns);
    for clients in [CLIENTS, 256] {
        let mut rows = [(); 4].map(|()| Rounds::default());
        let ours = [(&one, LASTING), (&one, FRACTION), (&all, LASTING)].map(Some);
        // The first round is a warm-up: afterwards most keys exist.
        for round in 0..=ROUNDS {
            for (row, ours) in [None].into_iter().chain(ours).enumerate() {
                server.cli(&["CONFIG", "RESETSTAT"]);
                let (before, start) = (server.cpu(), Instant::now());
                let rate = match ours {
                    None => bare_rate(server, bare, clients),
                    Some(((runtime, store), limit)) => {
                        runtime.block_on(hammer(store, clients, limit))
                    }
                };
                let (took, cpu_s) = (start.elapsed(), server.cpu() - before);
                let calls = server.scripts().0.max(1.0);
                let decisions = ours.map_or(calls, |_| rate * took.as_secs_f64());
                if round > 0 {
                    rows[row].rates.push(rate);
                    rows[row].cpu_us.push(cpu_s / decisions * 1e6);
                    rows[row].per_call.push(decisions / calls);
                }
            }
        }
        let [peer, ..] = &rows;
        let names = [
            format!("one `EVALSHA` per check, {clients} clients"),
            format!("tidegate, {clients} tasks"),
            format!("tidegate, {clients} tasks, an interval with a fraction"),
            format!("tidegate, {clients} tasks, a thread for each processor"),
        ];
        for (index, (name, row)) in names.iter().zip(&rows).enumerate() {
            let cells = [
                Figure::more("", &row.rates).into(),
                (index > 0).then(|| Figure::ratio(&row.rates, &peer.rates)).into(),
                Figure::less("µs", &row.cpu_us).into(),
                (index > 0).then(|| Figure::saving(&row.cpu_us, &peer.cpu_us)).into(),
                Figure::neither("", &row.per_call).into(),
            ];
            table.row(name.as_str(), cells);
        }
    }
    table
}

async fn idle(server: &Server, bare: &str) -> Table {
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let store = store(server.url());
    let (scope, limit) = (Scope::named("idle", ""), LASTING[1].parse().expect("a limit"));
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..ROUNDS + 1 {
        let (mut a, mut b) = (vec![], vec![]);
        for number in 0..IDLE_CHECKS {
            let key = key(number);
            let start = Instant::now();
            let mut cmd = redis::cmd("EVALSHA");
            cmd.arg(bare).arg(1).arg(&key).arg(&LASTING_BARE[..]);
            let _: Vec<i64> = cmd.query_async(&mut connection).await.expect("a reply");
            b.push(start.elapsed().as_secs_f64() * 1e6);
            let start = Instant::now();
            check(&store, &scope, &limit, &key).await;
            a.push(start.elapsed().as_secs_f64() * 1e6);
        }
        if round > 0 {
            ours.push((median(a.clone()), at(&a, 0.99)));
            theirs.push((median(b.clone()), at(&b, 0.99)));
        }
    }
    let mut table = Table::new("one", "one check at a time", ["p50", "p99", "p50 / bare"]);
    let bare_p50 = rounds(&theirs, |it| it.0);
    let name = "bare `EVALSHA` through the same client library";
    for (name, rows) in [(name, &theirs), ("tidegate", &ours)] {
        let p50 = rounds(rows, |it| it.0);
        let cells = [
            Figure::less("µs", &p50).into(),
            Figure::less("µs", &rounds(rows, |it| it.1)).into(),
            (name == "tidegate").then(|| Figure::cost_ratio(&p50, &bare_p50)).into(),
        ];
        table.row(name, cells);
    }
    table
}

async fn leased(table: &mut Table, server: &Server) {
    let leases = Leases::around(store(server.url()));
    let (scope, limit) = (Scope::named("leased", ""), "100000000/s".parse().expect("a limit"));
    let mut rates = vec![];
    for _ in 0..ROUNDS {
        let (mut count, start) = (0_u64, Instant::now());
        while start.elapsed() < round() {
            for _ in 0..256 {
                check(&leases, &scope, &limit, "hot").await;
            }
            count += 256;
            tokio::task::yield_now().await;
        }
        rates.push(count as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    let stats = leases.stats();
    let per_call = stats.decided as f64 / stats.requests.max(1) as f64;
    let cells = [Figure::more("", &rates).into(), Figure::neither("", &[per_call]).into()];
    table.row("a leased hot key, one task", cells);
}

async fn blocked(table: &mut Table, server: &Server) {
    let store = DenyCache::new(store(server.url()));
    let (scope, limit) = (Scope::named("blocked", ""), "1/h".parse().expect("a limit"));
    check(&store, &scope, &limit, "hot").await;
    check(&store, &scope, &limit, "hot").await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let (mut count, start) = (0_u64, Instant::now());
    while start.elapsed() < 4 * round() {
        for _ in 0..256 {
            check(&store, &scope, &limit, "hot").await;
        }
        count += 256;
        tokio::task::yield_now().await;
    }
    let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
    let per_call = count as f64 / server.scripts().0.max(1.0);
    let cells = [Figure::more("", &[rate]).into(), Figure::neither("", &[per_call]).into()];
    table.row("a blocked key in the deny cache", cells);
}

const SLIDING_LOG: &str = "sliding log";
const CONCURRENCY: &str = "concurrency";

async fn algorithms(server: &Server) -> Table {
    let columns = ["p50", "p99", "in the script", "`MEMORY USAGE`"];
    let mut table = Table::new("algorithms", "one check at a time, through the library", columns);
    let store = store(server.url());
    for (name, text) in [
        ("GCRA, whole µs per unit", "1000000/s burst 4000000000"),
        ("GCRA, with a fraction", "300000/7s burst 1000000000"),
        ("token bucket", "token-bucket 1000000/s capacity 4000000000"),
        ("fixed window", "fixed-window 1000000/h"),
        ("sliding window, 10 slots", "sliding-window 1000000/h"),
        (SLIDING_LOG, "sliding-log 100000/h"),
        ("calendar quota", "quota 1000000/month"),
        (CONCURRENCY, "concurrency 100000 lease 1h"),
    ] {
        let (scope, limit) = (Scope::named("api", ""), text.parse().expect("a limit"));
        check(&store, &scope, &limit, &key(7)).await;
        server.cli(&["CONFIG", "RESETSTAT"]);
        let mut times = vec![];
        for _ in 0..IDLE_CHECKS {
            let start = Instant::now();
            check(&store, &scope, &limit, &key(7)).await;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let (calls, us) = server.scripts();
        let stored = server.cli(&["--scan", "--pattern", &format!("tg:*{}*", key(7))]);
        let bytes =
            server.cli(&["MEMORY", "USAGE", stored.lines().next().unwrap_or(""), "SAMPLES", "0"]);
        let (bytes, units): (f64, _) = (bytes.parse().expect("a size"), IDLE_CHECKS + 1);
        let memory = match name {
            SLIDING_LOG => Figure::less("bytes per admission", &[bytes / units as f64]),
            CONCURRENCY => Figure::less("bytes per holder", &[bytes / units as f64]),
            _ => Figure::less("bytes", &[bytes]).decimals(0),
        };
        let cells = [
            Figure::less("µs", &[at(&times, 0.5)]).into(),
            Figure::less("µs", &[at(&times, 0.99)]).into(),
            Figure::less("µs", &[us / calls.max(1.0)]).into(),
            memory.into(),
        ];
        table.row(name, cells);
        server.cli(&["FLUSHALL"]);
    }
    table
}

fn rounds<T>(rows: &[T], of: impl Fn(&T) -> f64) -> Vec<f64> {
    rows.iter().map(of).collect()
}

fn median(figures: Vec<f64>) -> f64 {
    at(&figures, 0.5)
}

fn at(figures: &[f64], quantile: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * quantile).round() as usize]
}
