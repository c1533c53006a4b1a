//! The promises of every store, kept by Redis, one server, a cluster and behind sentinels, and by Valkey.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::{ClusterShape, RedisCluster, RedisSentinel, RedisServer};
use tidegate_testkit::store_behaviours;

use crate::support::LONG_TIMEOUT;

/// A store that goes by the caller's time.
fn replaying(url: String) -> Arc<RedisStore> {
    // Each test has keys of its own, where servers are shared.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let key_prefix = format!("behaviours-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let deadline = LONG_TIMEOUT;
    let options = RedisOptions { key_prefix, deadline, replays: true, ..RedisOptions::new(url) };
    Arc::new(RedisStore::new(options).unwrap())
}

mod one_server {
    use super::*;

    store_behaviours!({
        let server = RedisServer::start();
        let store = replaying(server.url());
        (server, move |_| store.clone())
    });
}

mod valkey {
    use super::*;

    store_behaviours!({
        let server = RedisServer::builder().valkey().start();
        let store = replaying(server.url());
        (server, move |_| store.clone())
    });
}

mod cluster {
    use super::*;

    store_behaviours!({
        let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
        let store = replaying(cluster.url());
        (cluster, move |_| store.clone())
    });
}

mod sentinel {
    use super::*;

    /// Six processes take a while to agree, so all tests share them.
    static GROUP: LazyLock<RedisSentinel> = LazyLock::new(RedisSentinel::start);

    store_behaviours!({
        let store = replaying(GROUP.url());
        ((), move |_| store.clone())
    });
}
