//! `deploy/redis-cluster`: six real nodes with these files, made a cluster by its script.

use std::process::Command;

use crate::deploy::ran;
use crate::deploy_docker::{composed_server, composed_store};
use crate::processes::{AGREEMENT_DEADLINE, wait_until};
use crate::programs::{Program, free_port, root};
use crate::support::{Folder, Server, run};

const PASSWORDS: [(&str, &str); 2] =
    [("REDIS_PASSWORD", "hunter2"), ("REDIS_ADMIN_PASSWORD", "hunter3")];

/// One node, as `start.sh` starts it on its own port and in its own folder.
struct Node {
    program: Program,
    _folder: Folder,
    port: u16,
}

impl Node {
    fn start() -> Self {
        let (folder, port) = (Folder::new(), free_port());
        let mut command = Command::new(root().join("deploy/redis-cluster/start.sh"));
        command.envs(PASSWORDS).envs([("RUN", folder.path("")), ("DATA", folder.path(""))]);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        let program = Program::start(&mut command, &folder);
        let node = Self { program, _folder: folder, port };
        wait_until("Redis answers", AGREEMENT_DEADLINE, || node.cli(&["PING"]) == "PONG");
        node
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What the administrator gets for a command.
    fn cli(&self, words: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.port.to_string(), "--user", "admin"]).env("REDISCLI_AUTH", "hunter3");
        ran(cli.args(words)).map_or_else(|output| output, |output| output.trim().to_owned())
    }
}

struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    fn start() -> Self {
        let nodes: Vec<_> = (0..6).map(|_| Node::start()).collect();
        let cluster = Self { nodes };
        cluster.create();
        cluster.wait_until_well();
        cluster
    }

    fn create(&self) {
        let mut create = Command::new(root().join("deploy/redis-cluster/create.sh"));
        create.envs(PASSWORDS).args(self.nodes.iter().map(Node::address));
        ran(&mut create).unwrap();
    }

    fn wait_until_well(&self) {
        wait_until("the nodes to agree", AGREEMENT_DEADLINE, || {
            self.nodes.iter().all(|node| {
                let info = node.cli(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6")
            })
        });
        wait_until("the replicas to have their copy", AGREEMENT_DEADLINE, || {
            let copies = self.nodes.iter().filter(|node| {
                node.cli(&["INFO", "replication"]).contains("master_link_status:up")
            });
            copies.count() == 3
        });
    }

    /// The store of Compose, at these nodes.
    fn store(&self) -> String {
        let mut store = composed_store("redis-cluster");
        for (number, node) in (1..).zip(&self.nodes[..3]) {
            let address = format!("172.30.7.1{number}:6379");
            assert!(store.contains(&address), "{store}");
            store = store.replace(&address, &node.address());
        }
        store
    }
}

/// Whether keys of all nodes are counted in Redis.
fn is_stored(server: &Server) -> bool {
    (0..30).all(|key| {
        let question = format!(r#"{{"policy":"api","key":"key-{key}"}}"#);
        server.post("/v1/peek", &question).json()["source"] == "store"
    })
}

#[test]
fn servers_with_these_files_share_one_limit_and_survive_the_loss_of_a_node() {
    let cluster = Cluster::start();
    // Made once: a second run changes nothing.
    cluster.create();
    let servers = [(); 2].map(|()| composed_server("redis-cluster", &cluster.store()));
    for server in &servers {
        wait_until("every node to answer", AGREEMENT_DEADLINE, || is_stored(server));
    }
    let check = |server: &Server| {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#).json()["allowed"] == true
    };
    assert_eq!((0..12).filter(|turn| check(&servers[turn % 2])).count(), 5);
    let primary = cluster.nodes.iter().find(|node| node.cli(&["ROLE"]).starts_with("master"));
    primary.unwrap().program.signal("KILL");
    wait_until("a replica to take over", AGREEMENT_DEADLINE, || servers.iter().all(is_stored));
}

#[test]
fn the_doctor_finds_no_fault_with_these_files() {
    let cluster = Cluster::start();
    // Who may look at everything.
    let store = cluster.store().replace("tidegate:hunter2@", "admin:hunter3@");
    let output = run(&["doctor", "--store", &store]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("ok cluster-copies"), "{}", output.stdout);
    assert!(!output.stdout.contains("hunter"), "{}", output.stdout);
}
