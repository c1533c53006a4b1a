//! One child process and its log. The process does not outlive the test.

use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// The clock ticks of `/proc/PID/stat`: Linux reports 100 per second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// The fields of `/proc/PID/stat` after the name: user and kernel time, and then those of its ended children.
const OWN_FIELDS: Range<usize> = 11..13;
const TREE_FIELDS: Range<usize> = 11..15;

/// Log lines that a failed test prints per process: enough for a start and a failover.
const LOG_LINES_SHOWN: usize = 30;

/// A process that is killed with SIGKILL and reaped when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program and appends its stdout and stderr to `log`.
    pub(super) fn start(program: &str, set_up: impl FnOnce(&mut Command), log: &Path) -> Self {
        Self::start_as(None, program, set_up, log)
    }

    /// The same as another user and group.
    pub(super) fn start_as(
        owner: Option<(u32, u32)>,
        program: &str,
        set_up: impl FnOnce(&mut Command),
        log: &Path,
    ) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = killed_with_parent(owner, program);
        set_up(&mut command);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = spawn(command).unwrap_or_else(|error| {
            panic!("cannot start {program}: {error}; `./dev test` installs what the tests need")
        });
        Self { child, log: log.to_owned() }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines = log.lines().collect::<Vec<_>>();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
    }

    /// Sends SIGKILL, which also ends a paused process, and reaps it. Its port is free afterwards.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal, `STOP` or `CONT`.
    pub(super) fn signal(&mut self, name: &str) {
        // After the process was reaped, its process id may have been reused.
        assert!(!self.has_ended(), "signal {name} for a process that has ended");
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// The CPU time of all threads so far, user and kernel.
    pub(super) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.pid()).unwrap()
    }

    /// The same with all processes that it has started, those that have ended too.
    pub(super) fn tree_cpu_seconds(&self) -> f64 {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children = children.split_whitespace().filter_map(|pid| cpu_seconds(pid.parse().ok()?));
        cpu_seconds_of(pid, TREE_FIELDS).unwrap() + children.sum::<f64>()
    }
}

/// The CPU time of a process; `None` if it has ended.
fn cpu_seconds(pid: u32) -> Option<f64> {
    cpu_seconds_of(pid, OWN_FIELDS)
}

/// The sum of some fields of `/proc/PID/stat`, counted after the name.
fn cpu_seconds_of(pid: u32, fields: Range<usize>) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may contain blanks.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(fields.start).take(fields.len());
    let ticks = fields.map(|n| n.parse::<u32>().unwrap());
    Some(f64::from(ticks.sum::<u32>()) / TICKS_PER_SECOND)
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("process {} in a test that has failed:\n{}", self.pid(), self.end_of_log());
        }
    }
}

/// A killed test runs no destructors. If `setpriv` is installed, the kernel kills the child when the test ends.
fn killed_with_parent(owner: Option<(u32, u32)>, program: &str) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let has_setpriv =
        || Command::new("setpriv").arg("--version").output().is_ok_and(|run| run.status.success());
    if !is_installed(program) || !SETPRIV.get_or_init(has_setpriv) {
        let mut command = Command::new(program);
        if let Some((user, group)) = owner {
            command.uid(user).gid(group);
        }
        return command;
    }
    // If the parent ended before `setpriv` ran, the child has another parent now, and exits.
    let unless_orphaned = r#"[ "$PPID" = "$0" ] && exec "$@""#;
    let mut command = Command::new("setpriv");
    if let Some((user, group)) = owner {
        command.args([
            format!("--reuid={user}"),
            format!("--regid={group}"),
            "--clear-groups".into(),
        ]);
    }
    command.args(["--pdeathsig", "KILL", "sh", "-c", unless_orphaned, &id().to_string(), program]);
    command
}

/// Checked before `setpriv` runs, because its error message would only be in the log.
fn is_installed(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

type SpawnRequest = (Command, Sender<io::Result<Child>>);

/// Starts every child from one thread that never ends. The kernel sends the signal when the *thread* that started the
/// child ends, so a server shared by several tests would be killed with the first of them.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<SpawnRequest>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (requests, queue) = channel::<SpawnRequest>();
        thread::spawn(move || {
            for (mut command, reply) in queue {
                let _ = reply.send(command.spawn());
            }
        });
        requests
    });
    let (reply, answer) = channel();
    spawner.send((command, reply)).unwrap();
    answer.recv().unwrap()
}
