//! The engines: a URL, the servers behind it, and whose CPU time counts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::{MemoryDriver, OpenStore, StoreDrivers, StoreOptions};
use tidegate::{Engine, Policy, Replicas};
use tidegate_memcached::MemcachedDriver;
use tidegate_postgres::PostgresDriver;
use tidegate_quorum::QuorumDriver;
use tidegate_redis::RedisDriver;
use tidegate_testkit::processes::{MemcachedServer, PostgresServer, RedisServer};

const STORES: StoreDrivers =
    StoreDrivers(&[&MemoryDriver, &RedisDriver, &PostgresDriver, &MemcachedDriver, &QuorumDriver]);

/// Strict checks over many keys. Each key has spent half of its burst before the first round, so that no counter
/// expires during the run, and none is exhausted.
pub(crate) const API: &str = "100/s burst 100000";
/// What each key spends before the first round.
pub(crate) const SPENT: u64 = 50_000;
/// Strict checks of one key: a burst that no run uses up, because a refusal would be answered by the deny cache.
pub(crate) const HOT: &str = "1000000/s burst 4000000000";
/// Leased checks of one key.
pub(crate) const LEASED: &str = "100000000/s";

/// Nothing may be answered by a fallback, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(10);

/// An engine that is measured.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    replicas: Option<Replicas>,
    /// Run as long as the contender.
    servers: Vec<Arc<dyn Server>>,
}

/// A process whose CPU time counts.
pub(crate) trait Server {
    fn cpu_s(&self) -> f64;
}

impl Server for RedisServer {
    fn cpu_s(&self) -> f64 {
        self.cpu_seconds()
    }
}

impl Server for PostgresServer {
    fn cpu_s(&self) -> f64 {
        self.cpu_seconds()
    }
}

impl Server for MemcachedServer {
    fn cpu_s(&self) -> f64 {
        self.cpu_seconds()
    }
}

/// All engines, with their servers started. A further one is a line here, and its driver in `STORES`.
pub(crate) fn all() -> Vec<Contender> {
    let postgres = || Arc::new(PostgresServer::builder().setting("fsync=on").start());
    let with = |server: &PostgresServer, durability: &str| {
        format!("{}?durability={durability}", server.url())
    };
    let (redis, primary) = (Arc::new(RedisServer::start()), Arc::new(RedisServer::start()));
    let replica = Arc::new(RedisServer::builder().replica_of(&primary).start());
    let memcached = Arc::new(MemcachedServer::start());
    let (full, asynchronous, unlogged) = (postgres(), postgres(), postgres());
    let quorum: [_; 3] = std::array::from_fn(|_| Arc::new(RedisServer::start()));
    let addresses = quorum.each_ref().map(|server| server.address()).join(",");
    let mut all = vec![
        Contender::new(MEMORY, "memory:".to_owned(), vec![]),
        Contender::new(REDIS, redis.url(), vec![redis]),
        Contender::new("Redis, `WAIT` for 1 replica", primary.url(), vec![primary, replica])
            .confirmed(),
        Contender::new(POSTGRES, with(&full, "full"), vec![full]),
        Contender::new("PostgreSQL, `async`", with(&asynchronous, "async"), vec![asynchronous]),
        Contender::new("PostgreSQL, `unlogged`", with(&unlogged, "unlogged"), vec![unlogged]),
        Contender::new(MEMCACHED, memcached.url(), vec![memcached]),
        Contender::new(
            "quorum of 3 Redis",
            format!("redis+quorum://{addresses}"),
            quorum.map(|server| server as Arc<dyn Server>).to_vec(),
        ),
    ];
    if Path::new("target/clients/valkey/bin/valkey-server").exists() {
        let valkey = Arc::new(RedisServer::builder().valkey().start());
        all.insert(2, Contender::new("Valkey", valkey.url(), vec![valkey]));
    }
    all
}

pub(crate) const MEMORY: &str = "memory";
pub(crate) const REDIS: &str = "Redis";
pub(crate) const POSTGRES: &str = "PostgreSQL, `full`";
pub(crate) const MEMCACHED: &str = "memcached";

impl Contender {
    pub(crate) fn new(name: &'static str, url: String, servers: Vec<Arc<dyn Server>>) -> Self {
        Self { name, url, replicas: None, servers }
    }

    /// Every charge is confirmed by a replica.
    fn confirmed(self) -> Self {
        let timeout = Duration::from_secs(10);
        Self { replicas: Some(Replicas { timeout, ..Replicas::default() }), ..self }
    }

    /// The CPU time of its servers so far.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.servers.iter().map(|server| server.cpu_s()).sum()
    }

    /// One more node that uses it.
    pub(crate) fn node(&self) -> Node {
        let options = StoreOptions { deadline: DEADLINE, breaker: None, ..StoreOptions::default() };
        let opened = STORES.open(&self.url, &options).expect("a store");
        let policy = |limit: &str| {
            let policy = Policy::all().limit("", limit);
            match self.replicas {
                Some(replicas) => policy.replicas(replicas),
                None => policy,
            }
        };
        let engine = Engine::builder()
            .store(opened.store.clone())
            .policy("api", policy(API))
            .policy("hot", policy(HOT))
            .policy("leased", policy(LEASED).lease(true))
            .build();
        Node { engine: engine.expect("valid policies"), opened }
    }
}

/// A process that shares the engine with others, as far as the engine can tell.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    opened: OpenStore,
}

impl Node {
    /// Decisions that were made again because another node had changed the key meanwhile.
    pub(crate) fn conflicts(&self) -> u64 {
        self.opened.report().network.map_or(0, |network| network.conflicts)
    }
}
