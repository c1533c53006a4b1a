//! The promises of every store, kept by Redis, one server and a cluster, and by Valkey.

use std::sync::Arc;

use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::{ClusterShape, RedisCluster, RedisServer};
use tidegate_testkit::store_behaviours;

use crate::support::LONG_TIMEOUT;

/// A store that goes by the caller's time.
fn replaying(url: String) -> Arc<RedisStore> {
    let options = RedisOptions { deadline: LONG_TIMEOUT, replays: true, ..RedisOptions::new(url) };
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
