//! One child process that does not outlive the test, with its log.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// The kernel counts a process's time in these, on every architecture that Linux runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// Of each process, when a test fails: enough for a start, a failover and what came before.
const LOG_LINES_SHOWN: usize = 30;

/// Killed with SIGKILL and waited for when dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the program with both of its outputs appended to `log`.
    pub(super) fn start(program: &str, set_up: impl FnOnce(&mut Command), log: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = dying_with_us(program);
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

    /// SIGKILL, also if it is paused. Its port is free afterwards.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// `STOP` or `CONT`.
    pub(super) fn signal(&mut self, name: &str) {
        // Waited for already, its number may be somebody else's by now.
        assert!(!self.has_ended(), "signal {name} for a process that has ended");
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Processor time so far, of all its threads, in user and kernel.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The name, second, is in brackets and may contain blanks; user and kernel time are 14th and 15th.
        let (_, after_name) = stat.rsplit_once(')').unwrap();
        let ticks: u32 =
            after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u32>().unwrap()).sum();
        f64::from(ticks) / TICKS_PER_SECOND
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("process {} in a test that has failed:\n{}", self.pid(), self.end_of_log());
        }
    }
}

/// A test that is itself killed drops nothing: where `setpriv` exists, the kernel kills the child then.
fn dying_with_us(program: &str) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let there =
        || Command::new("setpriv").arg("--version").output().is_ok_and(|run| run.status.success());
    if !is_installed(program) || !SETPRIV.get_or_init(there) {
        return Command::new(program);
    }
    // We may have died before the kernel was told: then the child has another parent by now, and ends.
    let if_we_live = r#"[ "$PPID" = "$0" ] && exec "$@""#;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "sh", "-c", if_we_live, &id().to_string(), program]);
    command
}

/// Asked before `setpriv` is, whose complaint would only be in the log.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

type Order = (Command, Sender<io::Result<Child>>);

/// Starts every child from one thread that never ends. The kernel takes the death of the *thread* that
/// started a child for its parent's, so that a server shared by several tests would die with the first.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, queue) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in queue {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = channel();
    spawner.send((command, reply)).unwrap();
    answer.recv().unwrap()
}
