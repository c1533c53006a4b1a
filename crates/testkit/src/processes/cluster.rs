//! A Redis Cluster: masters, replicas and failovers.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use super::cluster_view::{Member, members, owner};
use super::server::RedisServer;
use super::slot_move::SlotMove;
use super::{AGREEMENT_DEADLINE, wait_for, wait_until};

/// The number of slots of a Redis Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// Five seconds. redis-cli requires nodes that know no others, and has checked that by then.
const POLLS_BEFORE_MEET: u32 = 1000;

#[derive(Clone, Copy, Debug)]
pub struct ClusterShape {
    pub masters: usize,
    pub replicas_each: usize,
}

/// The servers of one cluster.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Three masters, each with a replica.
    pub fn start() -> Self {
        Self::start_with(ClusterShape { masters: 3, replicas_each: 1 })
    }

    /// Returns when every node knows all others and every slot, and every replica has copied its master.
    pub fn start_with(shape: ClusterShape) -> Self {
        let count = shape.masters * (1 + shape.replicas_each);
        let nodes =
            (0..count).map(|_| RedisServer::builder().cluster_mode().start()).collect::<Vec<_>>();
        let creating = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(nodes.iter().map(RedisServer::address))
            .args(["--cluster-replicas", &shape.replicas_each.to_string(), "--cluster-yes"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli: `./dev test` installs it");
        let cluster = Self { nodes };
        cluster.wait_until_created(creating);
        cluster.wait_until_well();
        cluster
    }

    /// Repeats `CLUSTER MEET` every few seconds: a node that answers the first one too late is forgotten, and redis-cli
    /// would wait for it forever.
    fn wait_until_created(&self, mut creating: Child) {
        let mut polls = 0;
        let status = wait_for("redis-cli to make a cluster", AGREEMENT_DEADLINE, || {
            polls += 1;
            if polls % POLLS_BEFORE_MEET == 0 {
                for node in &self.nodes[1..] {
                    self.nodes[0].command(&[
                        "CLUSTER",
                        "MEET",
                        "127.0.0.1",
                        &node.port().to_string(),
                    ]);
                }
            }
            creating.try_wait().expect("a child")
        });
        let mut output = String::new();
        let _ = creating.stdout.take().map(|mut out| out.read_to_string(&mut output));
        assert!(status.success(), "redis-cli cannot make a cluster:\n{output}");
    }

    /// The URL for the store, with all nodes, running or not.
    pub fn url(&self) -> String {
        let addresses = self.nodes.iter().map(RedisServer::address).collect::<Vec<_>>();
        format!("redis+cluster://{}", addresses.join(","))
    }

    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The masters that serve slots, as a running node reports them.
    pub fn masters(&self) -> Vec<&RedisServer> {
        let view = self.view();
        let masters = view.iter().filter(|member| member.is_master() && !member.slots.is_empty());
        masters.map(|member| self.node(member.port)).collect()
    }

    pub fn master_of_slot(&self, slot: u16) -> &RedisServer {
        let port = owner(&self.view(), slot);
        self.node(port.unwrap_or_else(|| panic!("slot {slot} has no master")))
    }

    /// The running replicas of a master.
    pub fn replicas_of(&self, master: &RedisServer) -> Vec<&RedisServer> {
        let id = Self::id_of(master);
        let view = self.view();
        let replicas = view.iter().filter(|member| member.master_id == id && member.is_alive());
        replicas.map(|member| self.node(member.port)).collect()
    }

    /// The id of a node in the cluster. A restart keeps it.
    pub fn id_of(node: &RedisServer) -> String {
        node.command(&["CLUSTER", "MYID"]).text()
    }

    pub fn slot_of(&self, key: &str) -> u16 {
        self.reachable_node().command(&["CLUSTER", "KEYSLOT", key]).text().parse().unwrap()
    }

    /// Kills the master of a slot, waits until all other nodes agree on the new master, and returns that.
    /// `restart` starts the old master again, as a replica.
    pub fn failover(&self, slot: u16) -> &RedisServer {
        let old = self.master_of_slot(slot);
        old.kill();
        let port = wait_for("the replica to take over", AGREEMENT_DEADLINE, || {
            let ports = self.views().iter().map(|view| owner(view, slot)).collect::<Vec<_>>();
            let first = (*ports.first()?)?;
            (first != old.port() && ports.iter().all(|port| *port == Some(first))).then_some(first)
        });
        self.wait_until_ok();
        self.node(port)
    }

    /// Moves a slot step by step, so that a test can check the states in between.
    pub fn slot_move(&self, slot: u16, to: &RedisServer) -> SlotMove<'_> {
        SlotMove::new(self.nodes(), slot, self.master_of_slot(slot), self.node(to.port()))
    }

    /// Waits until every running node reports `cluster_state:ok`.
    pub fn wait_until_ok(&self) {
        wait_until("every node to report cluster_state:ok", AGREEMENT_DEADLINE, || {
            self.nodes
                .iter()
                .filter_map(|node| node.try_command(&["CLUSTER", "INFO"]).ok())
                .all(|info| info.field("cluster_state").is_some_and(|state| state == "ok"))
        });
    }

    /// Waits until all nodes run and serve, and all replicas have copied their masters.
    pub fn wait_until_well(&self) {
        wait_until("every node to see all others healthy", AGREEMENT_DEADLINE, || {
            let views = self.views();
            views.len() == self.nodes.len() && views.iter().all(|view| self.is_well(view))
        });
        self.wait_until_ok();
        wait_until("every replica to have its copy", AGREEMENT_DEADLINE, || {
            let masters = self.masters();
            let is_master = |node: &RedisServer| masters.iter().any(|it| it.port() == node.port());
            self.nodes.iter().all(|node| is_master(node) || node.is_copy())
        });
    }

    fn is_well(&self, view: &[Member]) -> bool {
        let covered: u32 = view
            .iter()
            .flat_map(|member| &member.slots)
            .map(|(first, last)| u32::from(last - first) + 1)
            .sum();
        view.len() == self.nodes.len()
            && view.iter().all(|member| member.is_alive() && member.has_role())
            && covered == u32::from(SLOTS)
    }

    fn reachable_node(&self) -> &RedisServer {
        self.nodes.iter().find(|node| node.try_command(&["PING"]).is_ok()).expect("no node answers")
    }

    fn node(&self, port: u16) -> &RedisServer {
        self.nodes.iter().find(|node| node.port() == port).expect("a node of this cluster")
    }

    fn view(&self) -> Vec<Member> {
        members(&self.reachable_node().command(&["CLUSTER", "NODES"]).text())
    }

    /// The cluster state as each running node reports it.
    fn views(&self) -> Vec<Vec<Member>> {
        let replies =
            self.nodes.iter().filter_map(|node| node.try_command(&["CLUSTER", "NODES"]).ok());
        replies.map(|reply| members(&reply.text())).collect()
    }
}
