//! Eight servers on one store admit one limit together, whatever the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::engines::{quorum, serve, wait_for_store};
use crate::processes::{MemcachedServer, PostgresServer, RedisCluster, RedisSentinel, RedisServer};
use crate::support::{Folder, Server};

const SERVERS: usize = 8;
/// Requests under way at each server.
const CLIENTS_EACH: usize = 2;
const K: u64 = 400;

/// Neither gains anything while a test runs. A failure of the store is no refusal, and ends the test.
pub(crate) const POLICIES: &str = "policies:\n  \
    strict: { limit: 400/3650day, on_store_error: deny }\n  \
    leased: { algorithm: fixed-window, limit: 400/3650day, lease: true, on_store_error: deny }\n";

/// A client has seen enough when it is refused this often in a row: by then leases of other servers have been spent by
/// their own clients.
const REFUSALS: usize = 25;

/// Starts eight servers on the store behind a URL. Their clients ask until everybody is refused, for a strict policy and
/// for one with leases.
pub(crate) fn eight_servers_admit_exactly(url: &str) {
    eight_started_servers_admit_exactly(|folder| serve(folder, url, POLICIES));
}

/// The same for servers that are started another way, with [`POLICIES`].
pub(crate) fn eight_started_servers_admit_exactly(start: impl Fn(&Folder) -> Server) {
    let fleet = Fleet::start(start);
    assert_eq!(fleet.admitted("strict"), K, "strict");
    let leased = fleet.admitted("leased");
    assert!((K * 9 / 10..=K).contains(&leased), "leased: {leased} of {K}");
}

struct Fleet {
    servers: Vec<Server>,
    _folders: Vec<Folder>,
}

impl Fleet {
    fn start(start: impl Fn(&Folder) -> Server) -> Self {
        let folders: Vec<_> = (0..SERVERS).map(|_| Folder::new()).collect();
        let servers: Vec<_> = folders.iter().map(start).collect();
        for server in &servers {
            wait_for_store(server, "strict");
        }
        Self { servers, _folders: folders }
    }

    /// How many all clients were admitted together.
    fn admitted(&self, policy: &str) -> u64 {
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for server in self.servers.iter().flat_map(|server| [server; CLIENTS_EACH]) {
                let admitted = &admitted;
                scope.spawn(move || admitted.fetch_add(client(server, policy), Ordering::SeqCst));
            }
        });
        admitted.into_inner()
    }
}

/// Asks one server until it refuses for good.
fn client(server: &Server, policy: &str) -> u64 {
    let question = format!(r#"{{"policy":"{policy}","key":"everybody"}}"#);
    let (mut admitted, mut refusals) = (0, 0);
    while refusals < REFUSALS {
        let reply = server.post("/v1/check", &question);
        assert_ne!(reply.status, 503, "{policy}: {}", reply.body);
        if reply.json()["allowed"] == true {
            (admitted, refusals) = (admitted + 1, 0);
        } else {
            refusals += 1;
        }
    }
    admitted
}

#[test]
fn eight_servers_on_one_redis_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&RedisServer::start().url());
}

#[test]
fn eight_servers_on_one_valkey_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&RedisServer::builder().valkey().start().url());
}

#[test]
fn eight_servers_on_a_redis_cluster_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&RedisCluster::start().url());
}

#[test]
fn eight_servers_behind_sentinels_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&RedisSentinel::start().url());
}

#[test]
fn eight_servers_on_postgresql_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&PostgresServer::start().url());
}

#[test]
fn eight_servers_on_one_memcached_admit_exactly_the_limit() {
    eight_servers_admit_exactly(&MemcachedServer::start().url());
}

#[test]
fn eight_servers_on_three_memcacheds_admit_exactly_the_limit() {
    let servers = [(); 3].map(|()| MemcachedServer::start());
    let addresses = servers.each_ref().map(MemcachedServer::address).join(",");
    eight_servers_admit_exactly(&format!("memcached://{addresses}"));
}

#[test]
fn eight_servers_on_a_quorum_admit_exactly_the_limit() {
    let (_servers, url) = quorum();
    eight_servers_admit_exactly(&url);
}

/// The control: servers that share nothing are told apart from those that share a limit.
#[test]
fn eight_servers_that_share_nothing_admit_the_limit_each() {
    let fleet = Fleet::start(|folder| serve(folder, "memory:", POLICIES));
    assert_eq!(fleet.admitted("strict"), K * SERVERS as u64);
}
