//! Starts a server, for the first time and again.

use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use super::child::Process;
use super::clock::ShiftableClock;
use super::resp::{Connection, Reply};
use super::scratch::PrivateDir;
use super::tls::TlsFiles;
use super::{DEADLINE, wait_for};

/// No snapshots and no append-only file: a restart loses all data. A replica is synchronised at once, not after five
/// seconds.
const BASE: &str = "\
save \"\"
appendonly no
repl-diskless-sync yes
repl-diskless-sync-delay 0
";

/// Files in the server's directory, which is its working directory.
const SOCKET: &str = "redis.sock";
const CONFIG: &str = "redis.conf";

/// What a restart does not change.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) lines: String,
    pub(super) password: Option<String>,
    pub(super) is_replica: bool,
    pub(super) is_sentinel: bool,
    pub(super) program: &'static str,
    pub(super) clock: Option<ShiftableClock>,
    pub(super) tls_files: Option<TlsFiles>,
    pub(super) dir: PrivateDir,
}

impl Setup {
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.file(SOCKET)
    }

    /// Writes the configuration of a server on this port.
    pub(super) fn configure(&self, port: u16) {
        let ports = match self.tls_files {
            None => format!("port {port}"),
            Some(_) => format!("port 0\ntls-port {port}"),
        };
        let base = if self.is_sentinel { "" } else { BASE };
        let config = format!("bind 127.0.0.1\n{ports}\nunixsocket {SOCKET}\n{base}{}", self.lines);
        fs::write(self.dir.file(CONFIG), config).unwrap();
    }

    /// Starts the server and waits until it answers. `None` if the port is in use; panics with its log if it ends for
    /// another reason.
    pub(super) fn started(&self) -> Option<Process> {
        let log = self.dir.file("redis.log");
        let _ = fs::remove_file(&log);
        let set_up = |command: &mut Command| {
            command.current_dir(self.dir.path()).arg(CONFIG);
            command.args(self.is_sentinel.then_some("--sentinel"));
            if let Some(clock) = &self.clock {
                clock.preload(command);
            }
        };
        let mut process = Process::start(self.program, set_up, &log);
        let is_up = wait_for("redis-server to answer", DEADLINE, || {
            if self.is_ready() {
                return Some(true);
            }
            process.has_ended().then_some(false)
        });
        if is_up {
            return Some(process);
        }
        let log = process.log();
        assert!(log.contains("Address already in use"), "redis-server has ended:\n{log}");
        None
    }

    pub(super) fn command(&self, args: &[&str]) -> io::Result<Reply> {
        let mut connection = Connection::open(&self.socket())?;
        if let Some(password) = &self.password {
            connection.command(&["AUTH", password])?;
        }
        connection.command(args)
    }

    fn is_ready(&self) -> bool {
        self.command(&["PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".to_owned()))
    }
}
