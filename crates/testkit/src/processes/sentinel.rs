//! One primary and two replicas, watched by three sentinels.

use super::builder::RedisBuilder;
use super::server::RedisServer;
use super::{AGREEMENT_DEADLINE, wait_for, wait_until};

const NAME: &str = "mymaster";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// A failover takes a second or two: half a second of silence is enough for two of three sentinels. The same
/// primary is not failed over again within twice the failover timeout.
const RULES: [(&str, &str); 2] = [("down-after-milliseconds", "500"), ("failover-timeout", "2000")];

#[derive(Debug)]
pub struct RedisSentinel {
    // Dropped before `servers`: the sentinels would start a failover while the servers are dropped.
    sentinels: Vec<RedisServer>,
    servers: Vec<RedisServer>,
}

/// A replaced primary, and the new one.
#[derive(Clone, Copy, Debug)]
pub struct Replaced<'a> {
    pub old: &'a RedisServer,
    pub new: &'a RedisServer,
}

impl RedisSentinel {
    /// Returns when the sentinels know each other and both replicas.
    pub fn start() -> Self {
        let mut servers = vec![RedisServer::start()];
        for _ in 0..REPLICAS {
            servers.push(RedisServer::builder().replica_of(&servers[0]).start());
        }
        let sentinels = (0..SENTINELS).map(|_| watch(servers[0].port())).collect();
        let group = Self { sentinels, servers };
        group.wait_until_well();
        group
    }

    /// The URL for the store.
    pub fn url(&self) -> String {
        let addresses = self.sentinels.iter().map(RedisServer::address).collect::<Vec<_>>();
        format!("redis+sentinel://{}/{NAME}", addresses.join(","))
    }

    /// Primary and replicas, in the order of their start. A failover changes the roles, not the order.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The primary that all running sentinels agree on.
    pub fn master(&self) -> &RedisServer {
        wait_for("the sentinels to agree", AGREEMENT_DEADLINE, || self.agreed_master())
    }

    /// Kills the primary and waits until a replica is the primary and all sentinels report it.
    pub fn failover(&self) -> Replaced<'_> {
        self.replace(RedisServer::kill)
    }

    /// Pauses the primary and waits until it is replaced. It is still paused on return; after `old.resume()` it is a
    /// zombie, which accepts writes as a primary until the sentinels demote it.
    pub fn pause_until_replaced(&self) -> Replaced<'_> {
        self.replace(RedisServer::pause)
    }

    /// Replaces the primary and resumes it: it still acts as a primary, because the sentinels have not demoted it yet.
    pub fn zombie(&self) -> Replaced<'_> {
        let replaced = self.pause_until_replaced();
        replaced.old.resume();
        replaced
    }

    /// Waits until every sentinel sees the primary, both replicas and the other sentinels.
    pub fn wait_until_well(&self) {
        wait_until("the sentinels to see all", AGREEMENT_DEADLINE, || {
            self.sentinels.iter().all(sees_all) && self.agreed_master().is_some()
        });
        wait_until("the replicas to have their copy", AGREEMENT_DEADLINE, || {
            let master = self.master();
            let mut others = self.servers.iter().filter(|server| server.port() != master.port());
            others.all(RedisServer::is_copy)
        });
    }

    fn replace(&self, fault: impl Fn(&RedisServer)) -> Replaced<'_> {
        let old = self.master();
        fault(old);
        let new = wait_for("a replica to take over", AGREEMENT_DEADLINE, || {
            let master = self.agreed_master()?;
            let serves = master.try_info("role").is_some_and(|role| role == "master");
            (master.port() != old.port() && serves).then_some(master)
        });
        Replaced { old, new }
    }

    fn agreed_master(&self) -> Option<&RedisServer> {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
        let replies = self.sentinels.iter().filter_map(|sentinel| sentinel.try_command(&ask).ok());
        let replies = replies.map(|reply| reply.text()).collect::<Vec<_>>();
        let first = replies.first()?;
        let (_, port) = first.split_once('\n')?;
        let agreed = self.servers.iter().find(|server| server.port().to_string() == port)?;
        replies.iter().all(|other| other == first).then_some(agreed)
    }
}

fn watch(port: u16) -> RedisServer {
    let quorum = SENTINELS / 2 + 1;
    let monitor = format!("monitor {NAME} 127.0.0.1 {port} {quorum}");
    let sentinel = RedisServer::builder().sentinel_mode().config("sentinel", &monitor);
    let rule = |builder: RedisBuilder, (name, value): &(&str, &str)| {
        builder.config("sentinel", &format!("{name} {NAME} {value}"))
    };
    RULES.iter().fold(sentinel, rule).start()
}

fn sees_all(sentinel: &RedisServer) -> bool {
    let Ok(reply) = sentinel.try_command(&["SENTINEL", "MASTER", NAME]) else { return false };
    let reply = reply.text();
    let words = reply.lines().collect::<Vec<_>>();
    let is = |name: &str, value: &str| words.chunks(2).any(|pair| pair == [name, value]);
    is("flags", "master")
        && is("num-slaves", &REPLICAS.to_string())
        && is("num-other-sentinels", &(SENTINELS - 1).to_string())
}
