//! `./dev bench redis`: checks through Redis beside the minimum cost of a check through Redis, in one run.
//!
//! The peer is one `EVALSHA` per check of a minimal GCRA script (`bare.lua`), driven by `redis-benchmark`. Rounds
//! alternate, so that noise affects both; figures are medians, and a ratio is the median of the rounds' ratios.
//! `ONLY=library` runs only the comparison with the redis crate, `ONLY=worst` only the worst case of each script.

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
use tidegate_redis::{RedisOptions, RedisStore};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1500);
const CLIENTS: usize = 50;
const KEYS: usize = 100_000;
const IDLE_CHECKS: usize = 2_000;
/// A rate that no run uses up.
const PLENTY: &str = "1000000/s burst 4000000000";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    if std::env::var("ONLY").is_ok_and(|only| only == "library") {
        return runtime.block_on(library::compare());
    }
    let server = Server::start();
    if std::env::var("ONLY").is_ok_and(|only| only == "worst") {
        return runtime.block_on(worst_case::measure(&server));
    }
    let bare = server.cli(&["SCRIPT", "LOAD", include_str!("bare.lua")]);
    runtime.block_on(async {
        throughput(&server, &bare).await;
        idle(&server, &bare).await;
        leased(&server).await;
        blocked(&server).await;
        algorithms(&server).await;
        worst_case::measure(&server).await;
        library::compare().await;
    });
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
    let (count, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let spawn = |task: usize| {
        let (check, count) = (check.clone(), count.clone());
        tokio::spawn(async move {
            let mut number = task << 32;
            while start.elapsed() < ROUND {
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

/// Decisions per second through a store.
async fn hammer(store: &Arc<impl Store + 'static>, tasks: usize) -> f64 {
    let (scope, limit) = (Scope::named("api", ""), PLENTY.parse().expect("a limit"));
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

/// Operations per second through `redis-benchmark`, with one `EVALSHA` per check at pipeline 1.
fn bare_rate(server: &Server, bare: &str) -> f64 {
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port.to_string(), "-c", &CLIENTS.to_string(), "-P", "1", "-q"])
        .args(["-n", "100000", "-r", &KEYS.to_string(), "--csv"])
        .args(["EVALSHA", bare, "1", "bare-000000__rand_int__", "1", "4000000000", "1"])
        .output()
        .expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().last().and_then(|line| line.rsplit("\",\"").nth(6));
    rate.and_then(|rate| rate.trim_matches('"').parse().ok()).expect("a rate")
}

async fn throughput(server: &Server, bare: &str) {
    println!("## Many checks at once\n");
    println!("| | decisions/s | Redis' CPU per decision, µs | decisions per call |");
    println!("|---|--:|--:|--:|");
    let store = Arc::new(store(server.url()));
    let tasks = [CLIENTS, 256];
    let mut rows = vec![vec![]; tasks.len() + 1];
    for _ in 0..ROUNDS {
        let before = server.cpu();
        let rate = bare_rate(server, bare);
        rows[0].push((rate, (server.cpu() - before) / 100_000.0 * 1e6, 1.0));
        for (row, tasks) in tasks.iter().enumerate() {
            server.cli(&["CONFIG", "RESETSTAT"]);
            let (before, start) = (server.cpu(), Instant::now());
            let rate = hammer(&store, *tasks).await;
            let decisions = rate * start.elapsed().as_secs_f64();
            let cpu = (server.cpu() - before) / decisions * 1e6;
            rows[row + 1].push((rate, cpu, decisions / server.scripts().0.max(1.0)));
        }
    }
    let names = [
        "one EVALSHA per check, 50 clients, pipeline 1",
        "tidegate, 50 tasks",
        "tidegate, 256 tasks",
    ];
    for (name, row) in names.iter().zip(&rows) {
        let (rate, cpu, batch) = (part(row, |it| it.0), part(row, |it| it.1), part(row, |it| it.2));
        println!("| {name} | {rate:.0} | {cpu:.1} | {batch:.1} |");
    }
    for (name, row) in names.iter().zip(&rows).skip(1) {
        let rate = median(row.iter().zip(&rows[0]).map(|(a, b)| a.0 / b.0).collect());
        let cpu = median(row.iter().zip(&rows[0]).map(|(a, b)| b.1 / a.1).collect());
        println!(
            "\n{name}: {rate:.2} × the decisions per second, {cpu:.2} × per second of Redis' CPU"
        );
    }
}

async fn idle(server: &Server, bare: &str) {
    println!("\n## One check at a time\n");
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let store = store(server.url());
    let (scope, limit) = (Scope::named("idle", ""), PLENTY.parse().expect("a limit"));
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..ROUNDS + 1 {
        let (mut a, mut b) = (vec![], vec![]);
        for number in 0..IDLE_CHECKS {
            let key = key(number);
            let start = Instant::now();
            let mut cmd = redis::cmd("EVALSHA");
            cmd.arg(bare).arg(1).arg(&key).arg(1).arg(4_000_000_000_u64).arg(1);
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
    println!("| µs | p50 | p99 |\n|---|--:|--:|");
    for (name, rows) in [("bare EVALSHA, same client library", &theirs), ("tidegate", &ours)] {
        println!("| {name} | {:.0} | {:.0} |", part(rows, |it| it.0), part(rows, |it| it.1));
    }
    let ratio = median(ours.iter().zip(&theirs).map(|(a, b)| a.0 / b.0).collect());
    println!("\nAt the median {ratio:.2} × the bare round trip");
}

async fn leased(server: &Server) {
    println!("\n## A leased hot key, one task\n");
    let leases = Leases::around(store(server.url()));
    let (scope, limit) = (Scope::named("leased", ""), "100000000/s".parse().expect("a limit"));
    let mut rates = vec![];
    for _ in 0..ROUNDS {
        let (mut count, start) = (0_u64, Instant::now());
        while start.elapsed() < ROUND {
            for _ in 0..256 {
                check(&leases, &scope, &limit, "hot").await;
            }
            count += 256;
            tokio::task::yield_now().await;
        }
        rates.push(count as f64 / start.elapsed().as_secs_f64());
    }
    let stats = leases.stats();
    println!(
        "{:.2} M decisions/s; {} requests for {} decisions",
        median(rates) / 1e6,
        stats.requests,
        stats.decided
    );
}

async fn blocked(server: &Server) {
    println!("\n## A blocked key, remembered\n");
    let store = DenyCache::new(store(server.url()));
    let (scope, limit) = (Scope::named("blocked", ""), "1/h".parse().expect("a limit"));
    check(&store, &scope, &limit, "hot").await;
    check(&store, &scope, &limit, "hot").await;
    server.cli(&["CONFIG", "RESETSTAT"]);
    let (mut count, start) = (0_u64, Instant::now());
    while start.elapsed() < 4 * ROUND {
        for _ in 0..256 {
            check(&store, &scope, &limit, "hot").await;
        }
        count += 256;
        tokio::task::yield_now().await;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.2} M refusals/s; {:.2} calls to Redis a second",
        count as f64 / seconds / 1e6,
        server.scripts().0 / seconds
    );
}

async fn algorithms(server: &Server) {
    println!("\n## Each algorithm, one check at a time\n");
    println!("| limit | p50, µs | p99, µs | script, µs | MEMORY USAGE, bytes | units counted |");
    println!("|---|--:|--:|--:|--:|--:|");
    let store = store(server.url());
    for text in [
        "1000000/s burst 4000000000",
        "300000/7s burst 1000000000",
        "token-bucket 1000000/s capacity 4000000000",
        "fixed-window 1000000/h",
        "sliding-window 1000000/h",
        "sliding-log 100000/h",
        "quota 1000000/month",
        "concurrency 100000 lease 1h",
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
        let name = server.cli(&["--scan", "--pattern", &format!("tg:*{}*", key(7))]);
        let bytes =
            server.cli(&["MEMORY", "USAGE", name.lines().next().unwrap_or(""), "SAMPLES", "0"]);
        println!(
            "| `{text}` | {:.0} | {:.0} | {:.1} | {bytes} | {} |",
            at(&times, 0.5),
            at(&times, 0.99),
            us / calls.max(1.0),
            IDLE_CHECKS + 1,
        );
        server.cli(&["FLUSHALL"]);
    }
}

fn part<T>(rows: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(rows.iter().map(of).collect())
}

fn median(figures: Vec<f64>) -> f64 {
    at(&figures, 0.5)
}

fn at(figures: &[f64], quantile: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * quantile).round() as usize]
}
