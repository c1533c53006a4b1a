//! `deploy/redis-sentinel`: one primary, two replicas and three sentinels, all real and with these files.

use std::process::Command;

use crate::deploy::ran;
use crate::deploy_docker::{composed_server, composed_store};
use crate::processes::{AGREEMENT_DEADLINE, wait_until};
use crate::programs::{Program, free_port, root};
use crate::support::{Folder, Server, run};

const PASSWORDS: [(&str, &str); 2] =
    [("REDIS_PASSWORD", "hunter2"), ("REDIS_ADMIN_PASSWORD", "hunter3")];

/// A Redis or a sentinel, as its script starts it on its own port and in its own folder.
struct Process {
    program: Program,
    folder: Folder,
    port: u16,
}

impl Process {
    fn redis(primary: Option<&str>) -> Self {
        let (folder, port) = (Folder::new(), free_port());
        let program = start_redis(&folder, port, primary);
        let redis = Self { program, folder, port };
        wait_until("Redis answers", AGREEMENT_DEADLINE, || redis.cli(&["PING"]) == "PONG");
        redis
    }

    fn sentinel(primary: &str) -> Self {
        let (folder, port) = (Folder::new(), free_port());
        let mut command = Command::new(root().join("deploy/redis-sentinel/start-sentinel.sh"));
        command.envs(PASSWORDS).envs([("PRIMARY", primary), ("ANNOUNCE", "127.0.0.1")]);
        command.env("DATA", folder.path("")).args(["--port", &port.to_string()]);
        let program = Program::start(&mut command, &folder);
        Self { program, folder, port }
    }

    fn address(&self) -> String {
        format!("127.0.0.1 {}", self.port)
    }

    /// What the administrator gets for a command.
    fn cli(&self, words: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &self.port.to_string(), "--user", "admin"]).env("REDISCLI_AUTH", "hunter3");
        ran(cli.args(words)).map_or_else(|output| output, |output| output.trim().to_owned())
    }

    /// What a sentinel says, without a login.
    fn ask(&self, words: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        ran(cli.args(["-p", &self.port.to_string()]).args(words)).unwrap_or_default()
    }
}

fn start_redis(folder: &Folder, port: u16, primary: Option<&str>) -> Program {
    let mut command = Command::new(root().join("deploy/redis-sentinel/start.sh"));
    command.envs(PASSWORDS).envs([("RUN", folder.path("")), ("DATA", folder.path(""))]);
    command.env("ANNOUNCE", "127.0.0.1").envs(primary.map(|primary| ("REPLICA_OF", primary)));
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    Program::start(&mut command, folder)
}

struct Group {
    // Dropped first, so that they start no failover.
    sentinels: Vec<Process>,
    servers: Vec<Process>,
}

impl Group {
    fn start() -> Self {
        let primary = Process::redis(None);
        let address = primary.address();
        let replicas = [(); 2].map(|()| Process::redis(Some(&address)));
        let sentinels = (0..3).map(|_| Process::sentinel(&address)).collect();
        let group = Self { sentinels, servers: [primary].into_iter().chain(replicas).collect() };
        group.wait_until_well();
        group
    }

    fn wait_until_well(&self) {
        wait_until("the sentinels to see all", AGREEMENT_DEADLINE, || {
            self.sentinels.iter().all(|sentinel| {
                let seen = sentinel.ask(&["SENTINEL", "MASTER", "mymaster"]);
                seen.contains("num-slaves\n2\n")
                    && seen.contains("num-other-sentinels\n2\n")
                    && seen.contains("flags\nmaster\n")
            })
        });
        // Until then the primary refuses writes.
        wait_until("the replicas to have their copy", AGREEMENT_DEADLINE, || {
            let is_copy = |server: &Process| {
                server.cli(&["INFO", "replication"]).contains("master_link_status:up")
            };
            self.servers[1..].iter().all(is_copy)
        });
    }

    /// The store of Compose, at these sentinels.
    fn store(&self) -> String {
        let mut store = composed_store("redis-sentinel");
        for (number, sentinel) in (1..).zip(&self.sentinels) {
            let address = format!("sentinel-{number}:26379");
            assert!(store.contains(&address), "{store}");
            store = store.replace(&address, &format!("127.0.0.1:{}", sentinel.port));
        }
        store
    }
}

fn until_stored(server: &Server) {
    wait_until("the server counts in its store", AGREEMENT_DEADLINE, || {
        // A lease would answer without Redis, a peek of this policy never does.
        let reply = server.post("/v1/check", r#"{"policy":"login","key":"probe","cost":0}"#);
        reply.status == 200 && reply.json()["source"] == "store"
    });
}

#[test]
fn servers_with_these_files_share_one_limit_through_a_failover() {
    let group = Group::start();
    let servers = [(); 2].map(|()| composed_server("redis-sentinel", &group.store()));
    servers.iter().for_each(until_stored);
    let check = |server: &Server| {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#).json()["allowed"] == true
    };
    assert_eq!((0..12).filter(|turn| check(&servers[turn % 2])).count(), 5);
    let old = &group.servers[0];
    let is_copied = || old.cli(&["WAIT", "2", "1000"]) == "2";
    wait_until("both replicas to have it", AGREEMENT_DEADLINE, is_copied);
    old.program.signal("KILL");
    wait_until("a replica to take over", AGREEMENT_DEADLINE, || {
        group.servers[1..].iter().any(|server| server.cli(&["ROLE"]).starts_with("master"))
    });
    servers.iter().for_each(until_stored);
    assert!(!check(&servers[0]), "the replica knew what was spent");
    // The old primary comes back as a replica of the new one, and stays so: it is in its own configuration.
    let _again = start_redis(&old.folder, old.port, None);
    wait_until("the old primary to follow", AGREEMENT_DEADLINE, || {
        old.cli(&["ROLE"]).starts_with("slave")
    });
    let config = std::fs::read_to_string(old.folder.path("redis.conf")).unwrap();
    assert!(config.contains("replicaof 127.0.0.1 "), "{config}");
}

#[test]
fn the_doctor_finds_no_fault_with_these_files() {
    let group = Group::start();
    let output = run(&["doctor", "--store", &group.store()]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("ok sentinel"), "{}", output.stdout);
    assert!(!output.stdout.contains("hunter"), "{}", output.stdout);
}
