//! Real Redis, PostgreSQL and memcached processes and imitations of DynamoDB for tests: started on loopback, faulted on demand, gone when dropped.
#![allow(missing_docs, reason = "helpers of tests, named for what they do")]

use std::time::{Duration, Instant};

mod builder;
mod child;
mod clock;
mod cluster;
mod cluster_view;
mod dynamodb;
mod faults;
mod memcached;
mod postgres;
mod postgres_builder;
mod proxy;
mod proxy_line;
mod resp;
mod scratch;
mod sentinel;
mod server;
mod setup;
mod slot_move;
mod small_disk;
mod tls;

pub use builder::RedisBuilder;
pub use cluster::{ClusterShape, RedisCluster};
pub use dynamodb::{DynamoDbServer, Imitation};
pub use faults::{Faults, Way};
pub use memcached::MemcachedServer;
pub use postgres::PostgresServer;
pub use postgres_builder::PostgresBuilder;
pub use proxy::FaultProxy;
pub use resp::Reply;
pub use scratch::free_port;
pub use sentinel::{RedisSentinel, Replaced};
pub use server::RedisServer;
pub use slot_move::SlotMove;
pub use small_disk::SmallDisk;
pub use tls::TlsFiles;

/// How long one process may take for a step. Generous: only a failure takes this long.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How long several processes may take to agree, as when a cluster forms or fails over.
pub const AGREEMENT_DEADLINE: Duration = Duration::from_mins(1);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// Polls until there is a value. After the deadline it panics with `what`, the expectation.
#[allow(clippy::disallowed_methods, reason = "the deadline of a test is real time")]
pub fn wait_for<T>(what: &str, deadline: Duration, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(start.elapsed() < deadline, "{what}: not within {deadline:?}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// Polls until the condition holds. After the deadline it panics with `what`, the expectation.
pub fn wait_until(what: &str, deadline: Duration, mut is_so: impl FnMut() -> bool) {
    wait_for(what, deadline, || is_so().then_some(()));
}
