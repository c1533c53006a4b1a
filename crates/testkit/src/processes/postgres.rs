//! One PostgreSQL server: start, statements, kill, restart, promote.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::child::Process;
use super::postgres_builder::PostgresBuilder;
use super::scratch::PrivateDir;
use super::tls::TlsFiles;
use super::{AGREEMENT_DEADLINE, DEADLINE, wait_until};

/// A PostgreSQL server on a loopback port, with its own directory. Dropping it removes both.
#[derive(Debug)]
pub struct PostgresServer {
    // Dropped before `setup`: the process ends before its directory is removed.
    process: Mutex<Process>,
    setup: Setup,
}

/// What a restart does not change.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) programs: PathBuf,
    /// Who runs it, if the test runs as root, which PostgreSQL refuses.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) settings: Vec<String>,
    pub(super) data: PathBuf,
    pub(super) tls_files: Option<TlsFiles>,
    pub(super) dir: PrivateDir,
}

impl Setup {
    fn launch(&self) -> Process {
        let program = self.programs.join("postgres");
        let set_up = |command: &mut Command| {
            command.current_dir(self.dir.path()).arg("-D").arg(&self.data);
            command.args(["-p", &self.port.to_string()]);
            for setting in &self.settings {
                command.args(["-c", setting]);
            }
        };
        let log = self.dir.file("postgres.log");
        Process::start_as(self.owner, &program.to_string_lossy(), set_up, &log)
    }
}

impl PostgresServer {
    /// A server as it is installed, but without `fsync`: a crash of the machine is not tested.
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    pub(super) fn start_as(setup: Setup) -> Self {
        let server = Self { process: Mutex::new(setup.launch()), setup };
        server.wait_until_ready();
        server
    }

    /// The URL for the store.
    pub fn url(&self) -> String {
        format!("postgres://{}@{}/postgres", self.setup.user, self.address())
    }

    pub fn port(&self) -> u16 {
        self.setup.port
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.setup.host, self.setup.port)
    }

    /// The files that a client needs; only with `tls`.
    pub fn tls_files(&self) -> &TlsFiles {
        self.setup.tls_files.as_ref().expect("the server was built without TLS")
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
        let mut command = Command::new(self.setup.programs.join("psql"));
        command.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        command.env("PGCONNECT_TIMEOUT", "5").arg("--dbname").arg(self.url());
        command.args(["--command", statement]);
        command
    }

    /// Sends SIGKILL to the server, whose processes then end: like a crash.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Sends SIGSTOP. Like a server that hangs, it accepts new connections and answers nothing.
    pub fn pause(&self) {
        self.process().signal("STOP");
    }

    /// Kills the server if it still runs, and starts it again on the same port with the same data.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill();
        // The processes of connections end a moment after the server. Until then they hold its port, or its shared
        // memory, without which no other server starts on the same data.
        wait_until("every process of the server to end", DEADLINE, || {
            std::net::TcpListener::bind(self.address()).is_ok() && !is_in_use(&self.setup.data)
        });
        let _ = fs::remove_file(self.setup.data.join("postmaster.pid"));
        *process = self.setup.launch();
        drop(process);
        self.wait_until_ready();
    }

    /// Stops the server as its administrator would: connections are ended, and everything is written. `restart` starts
    /// it again.
    pub fn stop(&self) {
        self.pg_ctl(&["stop", "-m", "fast"]);
        wait_until("PostgreSQL to end", DEADLINE, || self.process().has_ended());
    }

    /// Makes a primary of a standby.
    pub fn promote(&self) {
        self.pg_ctl(&["promote"]);
        wait_until("the standby to accept writes", AGREEMENT_DEADLINE, || {
            self.try_sql("SELECT pg_is_in_recovery()").is_ok_and(|is_standby| is_standby == "f")
        });
    }

    /// Makes the server a standby from its next start on.
    pub fn demote(&self) {
        fs::write(self.setup.data.join("standby.signal"), "").unwrap();
    }

    /// Lets who shows a certificate with this name in as that user; `pg_hba.conf` names the map.
    pub fn allow_certificate(&self, map: &str, name: &str, user: &str) {
        fs::write(self.setup.data.join("pg_ident.conf"), format!("{map} {name} {user}\n")).unwrap();
        self.sql("SELECT pg_reload_conf()");
    }

    /// Makes a folder that belongs to the server.
    pub fn own(&self, folder: &Path) {
        fs::create_dir(folder).unwrap();
        if let Some((user, group)) = self.setup.owner {
            chown(folder, Some(user), Some(group)).unwrap();
        }
    }

    /// Sets what is read again while the server runs.
    pub fn set(&self, name: &str, value: &str) {
        self.sql(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.sql("SELECT pg_reload_conf()");
        wait_until("the setting to hold", DEADLINE, || self.sql(&format!("SHOW {name}")) == value);
    }

    fn pg_ctl(&self, words: &[&str]) {
        let mut command = as_owner(self.setup.owner, &self.setup.programs.join("pg_ctl"));
        command.args(words).arg("-D").arg(&self.setup.data).current_dir(self.setup.dir.path());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stdout));
    }

    /// The CPU time of the server and all its connections since its start, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        self.process().tree_cpu_seconds()
    }

    fn wait_until_ready(&self) {
        wait_until("PostgreSQL to answer", AGREEMENT_DEADLINE, || {
            assert!(!self.process().has_ended(), "it has ended:\n{}", self.process().log());
            self.try_sql("SELECT 1").is_ok()
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process works in this folder, as every process of a PostgreSQL server does in its data.
fn is_in_use(data: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut folders =
        processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    folders.any(|folder| folder == data)
}

/// Debian installs each version in a folder of its own, outside PATH: the newest counts.
pub(super) fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let newest = folders.filter(|folder| folder.join("postgres").is_file()).max();
    newest.expect("PostgreSQL is not installed: `./dev test` installs what the tests need")
}

/// The user `nobody`, if this process runs as root.
pub(super) fn unprivileged() -> Option<(u32, u32)> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    is_root.then_some((65_534, 65_534))
}

pub(super) fn as_owner(owner: Option<(u32, u32)>, program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}
