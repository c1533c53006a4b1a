//! The worst case of each script: µs of Redis per call, as its command statistics have it. A script cannot be
//! interrupted, so this is how long every other check waits.

use std::time::Duration;

use tidegate::{
    Coordination, KeyedLimit, Limit, Mode, Op, OverrideChange, OverrideStore, ReadingReport,
    Return, Scope, Store, StoreRequest, Timestamp,
};
use tidegate_bench::report::{Figure, Report, Table};
use tidegate_redis::{RedisOptions, RedisStore};

use crate::server::Server;

const NOW_US: u64 = 1_763_215_200_000_000;
const HOUR_US: u64 = 3_600_000_000;
const ROUNDS: usize = 5;
/// Elements that one command adds.
const CHUNK: u64 = 1000;

pub(crate) async fn measure(server: &Server, report: &mut Report) {
    let deadline = Duration::from_secs(20);
    let (replays, announces) = (true, false);
    let options = RedisOptions { replays, announces, deadline, ..RedisOptions::new(server.url()) };
    let store = RedisStore::new(options).expect("a URL");
    let table = Table::new("worst", "worst case of each script", ["µs of Redis per call"]);
    let mut bench = Bench { server, store, table };
    bench.plain().await;
    bench.windows().await;
    for units in [100_000, 1_000_000] {
        bench.log(units).await;
    }
    bench.permits(100_000).await;
    bench.tables().await;
    report.add(&bench.table);
}

struct Bench<'a> {
    server: &'a Server,
    store: RedisStore,
    table: Table,
}

impl Bench<'_> {
    /// The time of a script call, with the number of calls that were needed.
    async fn timed(&self, asked: impl Future<Output = ()>) -> (f64, f64) {
        self.server.cli(&["CONFIG", "RESETSTAT"]);
        asked.await;
        let (calls, us) = self.server.scripts();
        (us / calls.max(1.0), calls)
    }

    async fn ask(&self, limits: &[Limit], op: Op, cost: u64, now_us: u64) {
        let scopes: Vec<_> = (0..limits.len()).map(|n| Scope::named("p", &n.to_string())).collect();
        let keyed = limits.iter().zip(&scopes);
        let keyed: Vec<_> =
            keyed.map(|(limit, scope)| KeyedLimit { scope, key: b"k", limit }).collect();
        let ask = StoreRequest { mode: Mode::All, limits: &keyed, cost, op };
        self.store.decide(&ask, Timestamp::from_micros(now_us)).await.expect("an answer");
    }

    /// Of a call that can be repeated.
    async fn repeated(&mut self, what: &str, limits: &[Limit], op: Op, cost: u64, now_us: u64) {
        let mut us = Vec::new();
        for _ in 0..ROUNDS {
            us.push(self.timed(self.ask(limits, op, cost, now_us)).await.0);
        }
        self.row(what, &us);
    }

    async fn once(&mut self, what: &str, limits: &[Limit], op: Op, cost: u64, now_us: u64) {
        let us = self.timed(self.ask(limits, op, cost, now_us)).await.0;
        self.row(what, &[us]);
    }

    fn row(&mut self, what: impl Into<String>, us: &[f64]) {
        self.table.row(what, [Figure::less("", us).into()]);
    }

    async fn plain(&mut self) {
        let limit: Limit = "100/min".parse().expect("a limit");
        self.repeated("GCRA", &[limit.clone()], Op::Peek, 1, NOW_US).await;
        let sixteen = vec![limit; 16];
        self.repeated("16 GCRA limits in one check", &sixteen, Op::Take, 1, NOW_US).await;
    }

    async fn windows(&mut self) {
        let limit: Limit = "sliding-window 1000000000/s buckets 1000".parse().expect("a limit");
        let one = [limit.clone()];
        for slot in 0..1000 {
            self.ask(&one, Op::Take, 12_345, NOW_US + slot * 1000).await;
        }
        let now_us = NOW_US + 999_999;
        self.repeated("sliding window, 1,000 buckets: take", &one, Op::Take, 1, now_us).await;
        self.repeated("… of 1,000 buckets: refusal", &one, Op::Take, 999_999_999, now_us).await;
        self.repeated("… of 1,000 buckets: refund", &one, Op::Refund, 1000, now_us).await;
    }

    async fn log(&mut self, units: u64) {
        let limit: Limit = format!("sliding-log {units}/h").parse().expect("a limit");
        let limits = [limit];
        let at = |age_us| {
            let granted_at = Timestamp::from_micros(NOW_US - age_us);
            Op::GiveBack(Return { units: 1, granted_at, age: Duration::ZERO })
        };
        for (what, op, cost, now_us) in [
            ("refusal", Op::Take, 60_000, NOW_US),
            ("refund of 60,000", Op::Refund, 60_000, NOW_US),
            ("refund of all", Op::Refund, units, NOW_US),
            ("all expired", Op::Take, 1, NOW_US + 2 * HOUR_US),
            ("clock stepped back", Op::Take, 1, NOW_US - 2 * HOUR_US),
            ("return of a lease, 1,000 runs later", at(1000), 1, NOW_US),
            ("reset", Op::Reset, 0, NOW_US),
        ] {
            self.fill("tg:{1:k}:p:0:l", units, |n| {
                [(NOW_US - units + n).to_string(), (n + 1).to_string(), "1".to_owned()].to_vec()
            });
            self.once(&format!("log of {units}: {what}"), &limits, op, cost, now_us).await;
        }
    }

    async fn permits(&mut self, permits: u64) {
        let limit: Limit = format!("concurrency {permits} lease 1min").parse().expect("a limit");
        let limits = [limit];
        for (what, op, cost, now_us) in [
            ("refusal", Op::Take, 1, NOW_US - 1),
            ("refusal of half", Op::Take, permits / 2, NOW_US - 1),
            ("all expired", Op::Take, 1, NOW_US + permits),
            ("clock stepped back", Op::Take, 1, NOW_US - HOUR_US),
            ("reset", Op::Reset, 0, NOW_US - 1),
        ] {
            self.fill("tg:{1:k}:p:0:p", permits, |n| {
                [(NOW_US + n).to_string(), format!("{:016}:1", NOW_US - HOUR_US + n)].to_vec()
            });
            let used = format!("-{permits}");
            let next = format!("-{}", NOW_US + 1);
            self.server.cli(&["ZADD", "tg:{1:k}:p:0:p", &used, "used", &next, "next"]);
            self.once(&format!("{permits} permits: {what}"), &limits, op, cost, now_us).await;
        }
    }

    /// The scripts that no check waits for, but whose time all do.
    async fn tables(&mut self) {
        let now = Timestamp::from_micros(NOW_US);
        for n in 0..10_000 {
            let key = format!("user-{n:0145}");
            let (policy, text) = ("api", "5000/min burst 20");
            let set = OverrideChange::Set { policy, key: key.as_bytes(), text, life: None };
            self.store.change_override(&set, now).await.expect("an answer");
        }
        let load = async { self.store.overrides(0, now).await.map(drop).expect("a table") };
        let (us, pages) = self.timed(load).await;
        self.row(format!("10,000 overrides: one of {pages} pages"), &[us]);
        let report = async |node, second: u64| {
            let (scope, tick, reading) = ("db", Duration::from_secs(1), "v".repeat(400));
            let report = ReadingReport { scope, tick, node, reading: &reading };
            let at = Timestamp::from_micros(NOW_US + second * 1_000_000);
            self.store.report_reading(&report, at).await.map(drop).expect("an answer");
        };
        for node in 0..1000 {
            report(node, 0).await;
        }
        let (us, _) = self.timed(report(1, 1)).await;
        self.row("readings of 1,000 nodes, 400 bytes each", &[us]);
    }

    /// Fills a list or a sorted set.
    fn fill(&self, key: &str, count: u64, words: impl Fn(u64) -> Vec<String>) {
        self.server.cli(&["DEL", key]);
        let command = if key.ends_with('l') { "RPUSH" } else { "ZADD" };
        for from in (0..count).step_by(CHUNK as usize) {
            let all: Vec<_> = (from..count.min(from + CHUNK)).flat_map(&words).collect();
            let mut args = vec![command, key];
            args.extend(all.iter().map(String::as_str));
            self.server.cli(&args);
        }
    }
}
