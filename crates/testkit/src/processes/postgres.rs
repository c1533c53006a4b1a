//! One PostgreSQL server: start, statements, pause, kill, restart.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::child::Process;
use super::scratch::{PrivateDir, free_port};
use super::{DEADLINE, wait_until};

const USER: &str = "tidegate";

/// A PostgreSQL server on a loopback port, with its own directory. Dropping it removes both.
#[derive(Debug)]
pub struct PostgresServer {
    // Dropped before `dir`: the process ends before its directory is removed.
    process: Mutex<Process>,
    host: String,
    port: u16,
    programs: PathBuf,
    /// Who runs it, if the test runs as root, which PostgreSQL refuses.
    owner: Option<(u32, u32)>,
    settings: Vec<String>,
    dir: PrivateDir,
}

impl PostgresServer {
    /// A server as it is installed, but without `fsync`: a crash of the machine is not tested.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further settings, like `max_connections=20`.
    pub fn start_with(settings: &[&str]) -> Self {
        Self::start_at("127.0.0.1", free_port(), settings)
    }

    /// A server at a loopback address and port that are free.
    pub fn start_at(host: &str, port: u16, settings: &[&str]) -> Self {
        let (dir, programs) = (PrivateDir::new(), programs());
        let owner = unprivileged();
        if let Some((user, group)) = owner {
            chown(dir.path(), Some(user), Some(group)).unwrap();
        }
        let data = dir.file("data");
        let mut command = as_owner(owner, &programs.join("initdb"));
        command.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
        command.arg(format!("--username={USER}")).arg("-D").arg(&data).current_dir(dir.path());
        let made = command.output().unwrap_or_else(|error| {
            panic!("cannot start initdb: {error}; `./dev test` installs what the tests need")
        });
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let defaults = ["fsync=off", "unix_socket_directories="];
        let mut settings: Vec<_> =
            defaults.iter().chain(settings).map(ToString::to_string).collect();
        settings.push(format!("listen_addresses={host}"));
        fs::write(data.join("pg_hba.conf"), "host all all 127.0.0.0/8 trust\n").unwrap();
        let process = Mutex::new(launch(owner, &programs, &dir, port, &settings));
        let server = Self { process, host: host.to_owned(), port, programs, owner, settings, dir };
        server.wait_until_ready();
        server
    }

    /// The URL for the store.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@{}/postgres", self.address())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What `psql` prints for a statement: rows of values with `|` between them.
    pub fn sql(&self, statement: &str) -> String {
        self.try_sql(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Like `sql`, for a server that may be stopped.
    pub fn try_sql(&self, statement: &str) -> Result<String, String> {
        let output = self.psql(statement).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The command that runs a statement with `psql`.
    pub fn psql(&self, statement: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        command.env("PGCONNECT_TIMEOUT", "5").arg("--dbname").arg(self.url());
        command.args(["--command", statement]);
        command
    }

    /// Sends SIGKILL to the server, whose processes then end: like a crash.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Kills the server if it still runs, and starts it again on the same port with the same data.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        // The processes of connections end a moment after the server.
        let pid_file = self.dir.file("data/postmaster.pid");
        wait_until("the port to be free again", DEADLINE, || {
            std::net::TcpListener::bind(self.address()).is_ok()
        });
        let _ = fs::remove_file(pid_file);
        *process = launch(self.owner, &self.programs, &self.dir, self.port, &self.settings);
        drop(process);
        self.wait_until_ready();
    }

    /// The CPU time of the server and all its connections since its start, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.process().tree_cpu_seconds()
    }

    fn wait_until_ready(&self) {
        wait_until("PostgreSQL to answer", DEADLINE, || {
            assert!(!self.process().has_ended(), "it has ended:\n{}", self.process().log());
            self.try_sql("SELECT 1").is_ok()
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn launch(
    owner: Option<(u32, u32)>,
    programs: &Path,
    dir: &PrivateDir,
    port: u16,
    settings: &Vec<String>,
) -> Process {
    let program = programs.join("postgres");
    let set_up = |command: &mut Command| {
        command.current_dir(dir.path()).arg("-D").arg(dir.file("data"));
        command.args(["-p", &port.to_string()]);
        for setting in settings {
            command.args(["-c", setting]);
        }
    };
    Process::start_as(owner, &program.to_string_lossy(), set_up, &dir.file("postgres.log"))
}

/// Debian installs each version in a folder of its own, outside PATH: the newest counts.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let newest = folders.filter(|folder| folder.join("postgres").is_file()).max();
    newest.expect("PostgreSQL is not installed: `./dev test` installs what the tests need")
}

/// The user `nobody`, if this process runs as root.
fn unprivileged() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    is_root.then_some((65_534, 65_534))
}

fn as_owner(owner: Option<(u32, u32)>, program: &Path) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}
