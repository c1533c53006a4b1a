//! Eight processes × 2,000 concurrent requests on one key at limit K admit exactly K: every algorithm, on one Redis
//! and on a cluster.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tidegate::{Clock, Engine, OnStoreError, Policy, SystemClock};
use tidegate_redis::{RedisOptions, RedisStore};

use tidegate_testkit::processes::{RedisCluster, RedisServer};

const PROCESSES: usize = 8;
const REQUESTS: usize = 2_000;
const K: usize = 777;

/// Each has room for exactly `K`, and gains nothing while the test runs.
const LIMITS: [&str; 9] = [
    "777/3650day",
    "1/day burst 777",
    "token-bucket 7/30day capacity 777",
    "fixed-window 777/3650day",
    "sliding-window 777/30day",
    "sliding-log 777/3650day",
    "quota 777/3650day",
    "quota 777/month",
    "concurrency 777 lease 1h",
];

/// The tightest of several is the one that counts, whatever its kind.
const MIXES: [[&str; 3]; 2] = [
    ["777/3650day", "sliding-log 5000/day", "fixed-window 5000/3650day"],
    ["5000/3650day", "sliding-log 777/3650day", "sliding-window 5000/day"],
];

fn policies() -> Vec<(String, Policy)> {
    let policy = |text: &str| Policy::all().limit("", text.parse::<tidegate::Limit>().unwrap());
    let one = LIMITS.iter().enumerate().map(|(n, text)| (format!("one-{n}"), policy(text)));
    let mix = |texts: &[&str; 3]| {
        let member =
            |policy: Policy, (n, text): (usize, &&str)| policy.limit(format!("m{n}"), *text);
        texts.iter().enumerate().fold(Policy::all(), member)
    };
    let many = MIXES.iter().enumerate().map(|(n, texts)| (format!("many-{n}"), mix(texts)));
    one.chain(many).collect()
}

/// One of the eight: for each line `policy key` it makes all its requests at once, and says how many were admitted.
#[test]
#[ignore = "started by the other tests, as a process of its own"]
fn worker() {
    let url = std::env::var("TIDEGATE_TEST_URL").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let deadline = Duration::from_secs(10);
        let options = RedisOptions { deadline, ..RedisOptions::new(url) };
        let engine = policies().into_iter().fold(
            Engine::builder().store(RedisStore::new(options).unwrap()),
            |engine, (name, policy)| engine.policy(name, policy.on_store_error(OnStoreError::DENY)),
        );
        let engine = engine.build().unwrap();
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let (policy, key) = line.split_once(' ').unwrap();
            println!("admitted {}", admitted(&engine, policy, key).await);
        }
    });
}

async fn admitted(engine: &Engine, policy: &str, key: &str) -> usize {
    // All are under way before the first is waited for; permits are held until all are decided.
    let replies: Vec<_> = (0..REQUESTS).map(|_| engine.acquire(policy, key)).collect();
    let mut held = Vec::new();
    for reply in replies {
        let acquired = reply.await.unwrap();
        assert_ne!(acquired.answer.source, tidegate::Source::FailClosed, "{policy}");
        held.extend(acquired.permit);
    }
    let count = held.len();
    // Whoever drops a permit gives its place to somebody else.
    held.into_iter().for_each(std::mem::forget);
    count
}

struct Worker {
    child: Child,
    asks: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Worker {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exactly_k::worker", "--ignored", "--nocapture"])
            .env("TIDEGATE_TEST_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (asks, says) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, asks, says: BufReader::new(says) }
    }

    fn ask(&mut self, policy: &str, key: &str) {
        writeln!(self.asks, "{policy} {key}").unwrap();
    }

    fn admitted(&mut self) -> usize {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "the worker has ended");
            if let Some((_, count)) = line.trim().split_once("admitted ") {
                return count.parse().unwrap();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn exactly_k(url: &str) {
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| Worker::start(url)).collect();
    let mut run = |policy: &str, key: &str| -> usize {
        for worker in &mut workers {
            worker.ask(policy, key);
        }
        workers.iter_mut().map(Worker::admitted).sum()
    };
    for (policy, _) in policies() {
        // A month may end meanwhile, and then another K is due: that is no mistake, and does not happen twice.
        let day = || SystemClock.now().as_micros() / 86_400_000_000;
        let today = day();
        let mut count = run(&policy, "first");
        if day() != today {
            count = run(&policy, "second");
        }
        assert_eq!(count, K, "{policy}");
    }
}

#[test]
fn processes_on_one_redis_admit_exactly_k() {
    exactly_k(&RedisServer::start().url());
}

#[test]
fn processes_on_one_valkey_admit_exactly_k() {
    exactly_k(&RedisServer::builder().valkey().start().url());
}

#[test]
fn processes_on_a_cluster_admit_exactly_k() {
    exactly_k(&RedisCluster::start().url());
}
