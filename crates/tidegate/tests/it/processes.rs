//! Real Redis processes for tests: started on loopback, faulted on demand, gone when dropped.
//!
//! Nothing here knows the library, so that other crates include it with `#[path]`. The paths below are
//! written out because a file that is included so would otherwise look for them beside itself.
#![allow(
    dead_code,
    unused_imports,
    reason = "each crate that includes this uses its own part of it"
)]

use std::time::{Duration, Instant};

#[path = "processes/builder.rs"]
mod builder;
#[path = "processes/child.rs"]
mod child;
#[path = "processes/clock.rs"]
mod clock;
#[path = "processes/cluster.rs"]
mod cluster;
#[path = "processes/cluster_view.rs"]
mod cluster_view;
#[path = "processes/faults.rs"]
mod faults;
#[path = "processes/place.rs"]
mod place;
#[path = "processes/proxy.rs"]
mod proxy;
#[path = "processes/proxy_line.rs"]
mod proxy_line;
#[path = "processes/resp.rs"]
mod resp;
#[path = "processes/sentinel.rs"]
mod sentinel;
#[path = "processes/server.rs"]
mod server;
#[path = "processes/setup.rs"]
mod setup;
#[path = "processes/slot_move.rs"]
mod slot_move;
#[path = "processes/tls.rs"]
mod tls;

pub(crate) use builder::RedisBuilder;
pub(crate) use cluster::{ClusterShape, RedisCluster};
pub(crate) use faults::{Faults, Way};
pub(crate) use proxy::FaultProxy;
pub(crate) use resp::Reply;
pub(crate) use sentinel::{RedisSentinel, Replaced};
pub(crate) use server::RedisServer;
pub(crate) use slot_move::SlotMove;
pub(crate) use tls::TlsFiles;

/// For one process to do as it was told. Generous: it only passes when something is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// For several processes to agree: a cluster that forms, a failover.
pub(crate) const AGREEMENT_DEADLINE: Duration = Duration::from_mins(1);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// Polls until there is a value; panics with `what` was expected once the deadline has passed.
#[allow(clippy::disallowed_methods, reason = "the deadline of a test is real time")]
pub(crate) fn wait_for<T>(
    what: &str,
    deadline: Duration,
    mut poll: impl FnMut() -> Option<T>,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(start.elapsed() < deadline, "{what}: not within {deadline:?}");
        std::thread::sleep(POLL_EVERY);
    }
}

/// Polls until it is so; panics with `what` was expected once the deadline has passed.
pub(crate) fn wait_until(what: &str, deadline: Duration, mut is_so: impl FnMut() -> bool) {
    wait_for(what, deadline, || is_so().then_some(()));
}
