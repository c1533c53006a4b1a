//! Shards of a Redis Cluster, on the same cores as the client: three masters, and keys on one, two or all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::Engine;
use tidegate_bench::keys::key;
use tidegate_bench::report::{Figure, Table};
use tidegate_bench::{is_quick, own_cpu_s};
use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::{ClusterShape, RedisCluster};

use crate::size;

const SHARDS: [usize; 3] = [1, 2, 3];
const SLOTS: usize = 16_384;
const KEYS: usize = 8_192;
const TASKS: usize = 256;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1500);

pub fn measure() -> Table {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let engine = runtime.block_on(async { engine(&cluster) });
    let keys = keys_by_slot(&cluster);
    let mut figures = [const { [const { vec![] }; 2] }; SHARDS.len()];
    // The first round is a warm-up.
    for round in 0..=if is_quick() { 1 } else { ROUNDS } {
        for (shards, [rates, cpu_us]) in SHARDS.iter().zip(&mut figures) {
            // The masters have equal parts of the slots, in their order.
            let on_these = |(slot, _): &&(usize, String)| *slot < SLOTS * shards / SHARDS.len();
            let keys = keys.iter().filter(on_these).map(|(_, key)| key.clone()).collect();
            let (rate, us) = runtime.block_on(ask(&engine, keys));
            if round > 0 {
                rates.push(rate / 1e3);
                cpu_us.push(us);
            }
        }
    }
    let columns = ["thousand checks/s", "client's CPU per check, µs"];
    let mut table = Table::new("shards", "shards", columns)
        .drawn("Thousand checks a second by number of shards", &columns[..1]);
    for (shards, [rates, cpu_us]) in SHARDS.iter().zip(&figures) {
        table.row(size(*shards), [Figure::more("", rates).into(), Figure::less("", cpu_us).into()]);
    }
    table
}

fn engine(cluster: &RedisCluster) -> Engine {
    let options =
        RedisOptions { deadline: Duration::from_secs(5), ..RedisOptions::new(cluster.url()) };
    let store = RedisStore::new(options).expect("a URL");
    let engine = Engine::builder().store(store).policy("api", "1000000/s burst 4000000000");
    engine.build().expect("a valid policy")
}

fn keys_by_slot(cluster: &RedisCluster) -> Vec<(usize, String)> {
    let with_slot = |key: String| {
        let tag = format!("{{{}:{key}}}", key.len());
        (cluster.slot_of(&tag).into(), key)
    };
    (0..KEYS).map(key).map(with_slot).collect()
}

/// Checks a second for one round, and CPU microseconds of this process per check.
async fn ask(engine: &Engine, keys: Vec<String>) -> (f64, f64) {
    let keys = Arc::new(keys);
    let (count, start, cpu_s) = (Arc::new(AtomicU64::new(0)), Instant::now(), own_cpu_s());
    let task = |task: usize| {
        let (engine, keys, count) = (engine.clone(), keys.clone(), count.clone());
        tokio::spawn(async move {
            // Every task has its own part of the keys.
            for key in keys.iter().skip(task).step_by(TASKS).cycle() {
                engine.check("api", key).await.expect("an answer");
                count.fetch_add(1, Ordering::Relaxed);
                if start.elapsed() > ROUND {
                    break;
                }
            }
        })
    };
    for task in (0..TASKS).map(task).collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    let checks = count.load(Ordering::Relaxed) as f64;
    (checks / start.elapsed().as_secs_f64(), (own_cpu_s() - cpu_s) * 1e6 / checks)
}
