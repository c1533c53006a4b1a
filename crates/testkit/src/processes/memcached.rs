//! One memcached server: start, kill, restart.

use std::net::TcpStream;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::child::Process;
use super::scratch::{PrivateDir, free_port};
use super::{DEADLINE, wait_until};

/// A `memcached` process on a loopback port. Dropping it ends it.
#[derive(Debug)]
pub struct MemcachedServer {
    process: Mutex<Process>,
    host: String,
    port: u16,
    arguments: Vec<String>,
    dir: PrivateDir,
}

impl MemcachedServer {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further arguments, like `-m 1`.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1", free_port(), arguments)
    }

    /// A server at a loopback address and port that are free.
    pub fn start_at(host: &str, port: u16, arguments: &[&str]) -> Self {
        let dir = PrivateDir::new();
        let mut arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        arguments.extend(["-l".to_owned(), host.to_owned()]);
        let process = Mutex::new(launch(&dir, port, &arguments));
        let server = Self { process, host: host.to_owned(), port, arguments, dir };
        server.wait_until_ready();
        server
    }

    /// The URL for the store.
    pub fn url(&self) -> String {
        format!("memcached://{}", self.address())
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Sends SIGKILL. The data are lost.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the server if it still runs, and starts it again on the same port, empty.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        *process = launch(&self.dir, self.port, &self.arguments);
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

    /// The CPU time since its start.
    pub fn cpu_seconds(&self) -> f64 {
        self.process().cpu_seconds()
    }

    fn wait_until_ready(&self) {
        wait_until("memcached to listen", DEADLINE, || {
            assert!(!self.process().has_ended(), "it has ended:\n{}", self.process().log());
            TcpStream::connect(self.address()).is_ok()
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(dir: &PrivateDir, port: u16, arguments: &Vec<String>) -> Process {
    let set_up = |command: &mut Command| {
        // The user counts only for root, which memcached does not want to be.
        command.args(["-u", "nobody", "-p", &port.to_string()]).args(arguments);
    };
    Process::start("memcached", set_up, &dir.file("memcached.log"))
}
