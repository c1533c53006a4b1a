//! How many nodes share a Redis: counted by their announcements, and remembered while Redis is gone.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Coordination, Engine, Source};
use tidegate_redis::RedisStore;
use tokio::time::{Instant, sleep};

use crate::support::{LONG_TIMEOUT, store};
use tidegate_testkit::processes::{RedisCluster, RedisServer};

/// Until each of them knows of so many.
async fn until_known(stores: &[Arc<RedisStore>], count: u32) {
    let start = Instant::now();
    while !stores.iter().all(|store| store.nodes() == NonZeroU32::new(count)) {
        let known: Vec<_> = stores.iter().map(|store| store.nodes()).collect();
        assert!(start.elapsed() < LONG_TIMEOUT, "{known:?}, and not {count}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nodes_are_counted_until_they_are_gone_and_share_limits_while_redis_is() {
    let server = RedisServer::builder().shiftable_clock().start();
    let mut stores: Vec<_> = (0..4).map(|_| store(server.url(), LONG_TIMEOUT)).collect();
    until_known(&stores, 4).await;
    assert!(server.command(&["PTTL", "tg:{nodes}"]).text().parse::<i64>().unwrap() > 0);
    stores.pop();
    server.shift_clock_us(16_000_000);
    until_known(&stores, 3).await;

    let engine = Engine::builder().store(stores[0].clone());
    let engine = engine.policy("api", "fixed-window 30/3650day").build().unwrap();
    server.kill();
    let answer = async {
        loop {
            let answer = engine.check("api", "k").await.unwrap();
            if answer.source == Source::Local {
                return answer.decision.limit();
            }
        }
    };
    assert_eq!(tokio::time::timeout(LONG_TIMEOUT, answer).await, Ok(10));
}

#[tokio::test]
async fn nodes_of_a_cluster_are_counted_too() {
    let cluster = RedisCluster::start();
    let stores: Vec<_> = (0..2).map(|_| store(cluster.url(), LONG_TIMEOUT)).collect();
    until_known(&stores, 2).await;
}
