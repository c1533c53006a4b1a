//! Imitations of DynamoDB: start, pause, kill, restart.

use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::child::Process;
use super::scratch::{PrivateDir, free_port};
use super::{AGREEMENT_DEADLINE, wait_for, wait_until};

/// Where `./dev clients` installs them.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients");

/// Which imitation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Imitation {
    /// Python: transactions and expiry, everything in memory. Takes any credentials.
    Moto,
    /// The same, and each request has to be signed by its one user, who may do what this policy allows.
    MotoWithPolicy(String),
    /// Node: no transactions and no expiry; what was written survives a restart.
    Dynalite,
}

/// An imitation of DynamoDB on a loopback port. Dropping it ends it.
#[derive(Debug)]
pub struct DynamoDbServer {
    // Dropped before `dir`.
    process: Mutex<Process>,
    imitation: Imitation,
    host: String,
    port: u16,
    dir: PrivateDir,
}

impl DynamoDbServer {
    pub fn start(imitation: Imitation) -> Self {
        Self::start_at("127.0.0.1", free_port(), imitation)
    }

    /// A server at a loopback address and port that are free.
    pub fn start_at(host: &str, port: u16, imitation: Imitation) -> Self {
        let dir = PrivateDir::new();
        let process = Mutex::new(launch(&dir, host, port, &imitation));
        let server = Self { process, imitation, host: host.to_owned(), port, dir };
        server.wait_until_ready();
        server
    }

    /// The URL of a table for the store.
    pub fn url(&self, table: &str) -> String {
        Self::url_at(table, &self.address())
    }

    /// The same through somebody in between.
    pub fn url_at(table: &str, address: &str) -> String {
        format!("dynamodb://{table}?region=us-east-1&endpoint=http://{address}")
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The key and the secret of the user whose policy was given.
    pub fn user(&self) -> (String, String) {
        wait_for("moto to print its user's key", AGREEMENT_DEADLINE, || {
            let log = self.process().log();
            let line = log.lines().find_map(|line| line.strip_prefix("key "))?;
            line.split_once(' ').map(|(key, secret)| (key.to_owned(), secret.to_owned()))
        })
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the server if it still runs, and starts it again on the same port.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        *process = launch(&self.dir, &self.host, self.port, &self.imitation);
        drop(process);
        self.wait_until_ready();
    }

    /// Sends SIGSTOP. Like a server that hangs, it accepts connections and answers nothing.
    pub fn pause(&self) {
        self.process().signal("STOP");
    }

    pub fn resume(&self) {
        self.process().signal("CONT");
    }

    fn wait_until_ready(&self) {
        wait_until("the imitation of DynamoDB to listen", AGREEMENT_DEADLINE, || {
            assert!(!self.process().has_ended(), "it has ended:\n{}", self.process().log());
            TcpStream::connect(self.address()).is_ok()
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(dir: &PrivateDir, host: &str, port: u16, imitation: &Imitation) -> Process {
    let (port, log) = (port.to_string(), dir.file("dynamodb.log"));
    let moto = |policy: Option<&String>| {
        let set_up = |command: &mut Command| {
            command.args(["-c", include_str!("moto_server.py"), host, &port]).args(policy);
        };
        Process::start(&format!("{CLIENTS}/dynamodb/bin/python"), set_up, &log)
    };
    match imitation {
        Imitation::Moto => moto(None),
        Imitation::MotoWithPolicy(policy) => moto(Some(policy)),
        Imitation::Dynalite => {
            let set_up = |command: &mut Command| {
                command.arg(format!("{CLIENTS}/dynalite/node_modules/dynalite/cli.js"));
                command.args(["--host", host, "--port", &port, "--createTableMs", "0", "--path"]);
                command.arg(dir.file("data"));
            };
            Process::start("node", set_up, &log)
        }
    }
}
