//! The golden vectors through Redis.

use std::sync::Arc;

use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::{ClusterShape, RedisCluster, RedisServer};
use tidegate_testkit::vectors;

use crate::support::PATIENT;

async fn every_vector_matches(url: String) {
    let options = RedisOptions { deadline: PATIENT, replays: true, ..RedisOptions::new(url) };
    vectors::every_vector_matches(Arc::new(RedisStore::new(options).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_golden_vector_matches_on_one_redis() {
    every_vector_matches(RedisServer::start().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_golden_vector_matches_on_a_cluster() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    every_vector_matches(cluster.url()).await;
}
