//! One Redis server: start, commands, pause, kill, restart.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::builder::RedisBuilder;
use super::child::Process;
use super::resp::Reply;
use super::scratch::free_port;
use super::setup::Setup;
use super::tls::TlsFiles;
use super::{DEADLINE, wait_for, wait_until};

/// How many ports are tried if other processes take them first.
const PORT_TRIES: usize = 10;

/// A `redis-server` process on a loopback port, with its own directory. Dropping it removes both.
#[derive(Debug)]
pub struct RedisServer {
    // Dropped before `setup`: the process ends before its directory is removed.
    process: Mutex<Process>,
    port: u16,
    setup: Setup,
}

impl RedisServer {
    /// A server with defaults: no password, no TLS, no persistence.
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    pub(super) fn start_as(setup: Setup) -> Self {
        for _ in 0..PORT_TRIES {
            let port = free_port();
            setup.configure(port);
            if let Some(process) = setup.started() {
                let server = Self { process: Mutex::new(process), port, setup };
                server.wait_for_copy();
                return server;
            }
        }
        panic!("other processes took the port, {PORT_TRIES} times")
    }

    /// Only after the first start: a restarted replica may have been promoted, or have lost its primary.
    fn wait_for_copy(&self) {
        wait_until("the replica to have its copy", DEADLINE, || {
            !self.setup.is_replica || self.is_copy()
        });
    }

    /// The URL for the store, with the password of the user `default` if it has one.
    pub fn url(&self) -> String {
        let user = self.password().map_or(String::new(), |password| format!(":{password}@"));
        self.url_with(&user)
    }

    /// The URL for a user of `RedisBuilder::user`.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url_with(&format!("{user}:{password}@"))
    }

    fn url_with(&self, user: &str) -> String {
        let scheme = if self.setup.tls_files.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{user}127.0.0.1:{}", self.port)
    }

    /// The URL of the Unix socket.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub fn socket(&self) -> PathBuf {
        self.setup.socket()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn password(&self) -> Option<&str> {
        self.setup.password.as_deref()
    }

    /// The files that a client needs; only with `tls` or `mutual_tls`.
    pub fn tls_files(&self) -> &TlsFiles {
        self.setup.tls_files.as_ref().expect("the server was built without TLS")
    }

    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        self.process().log()
    }

    /// Sends one command over the Unix socket. An error of the server is a reply.
    pub fn command(&self, args: &[&str]) -> Reply {
        self.try_command(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// Like `command`, for a server that may be stopped or paused.
    pub fn try_command(&self, args: &[&str]) -> io::Result<Reply> {
        self.setup.command(args)
    }

    /// One field of `INFO`.
    pub fn info(&self, field: &str) -> String {
        self.try_info(field).unwrap_or_else(|| panic!("INFO has no {field}, or no answer"))
    }

    /// Like `info`, for polling: the server may be stopped, or close the connection because it is being demoted.
    pub fn try_info(&self, field: &str) -> Option<String> {
        self.try_command(&["INFO", "everything"]).ok()?.field(field)
    }

    /// Whether it is a replica that is connected to its primary and has copied it.
    pub fn is_copy(&self) -> bool {
        self.try_info("master_link_status").is_some_and(|status| status == "up")
    }

    /// The output of `redis-cli` with these arguments.
    pub fn cli(&self, args: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.arg("-s").arg(self.socket()).args(args);
        if let Some(password) = self.password() {
            cli.env("REDISCLI_AUTH", password);
        }
        let output = cli.output().expect("redis-cli: `./dev test` installs it");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Sends SIGKILL. The data in memory are lost.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the server if it still runs, and starts it again on the same port in the same directory.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        *process = wait_for("the port to be free again", DEADLINE, || self.setup.started());
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

    /// Sets its wall clock ahead of the system's, or behind if negative; only with `shiftable_clock`.
    pub fn shift_clock_us(&self, us: i64) {
        let clock =
            self.setup.clock.as_ref().expect("the server was built without shiftable_clock");
        clock.shift_us(us);
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
