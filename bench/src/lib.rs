//! Shared helpers of the benchmarks: processes, priorities, medians, tables, the wire.

pub mod keys;
pub mod load;
pub mod memory;
pub mod metrics;
pub mod rates;
pub mod report;
pub mod site;
pub mod wire;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs this program again with the argument `measure`, off the first processor, which is left to the servers. Not pinned
/// with a single processor or without `taskset`.
pub fn rerun_off_first_processor() -> ! {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => rerun_on("0"),
        count => rerun_on(&format!("1-{}", count - 1)),
    }
}

/// Runs this program again with the argument `measure` before its own: it and the servers that it starts share two
/// processors.
pub fn rerun_on_two_processors() -> ! {
    rerun_on("0,1")
}

fn rerun_on(processors: &str) -> ! {
    let me = std::env::current_exe().expect("this program");
    let args: Vec<_> =
        [OsString::from("measure")].into_iter().chain(std::env::args_os().skip(1)).collect();
    let _ = Command::new("taskset").args(["-c", processors]).arg(&me).args(&args).exec();
    panic!("{}", Command::new(me).args(&args).exec());
}

/// A command that runs on the first processor, if `taskset` is installed, and ends with this program. `taskset` execs
/// the program, so that the process id of the child is the program's.
pub fn pinned(program: &str) -> Command {
    if Command::new("taskset").arg("--version").output().is_err() {
        return killed_with_parent(program);
    }
    let mut command = killed_with_parent("taskset");
    command.args(["-c", "0", program]);
    command
}

/// A command that the kernel kills when this program ends in any way, if `setpriv` is installed. Start it from a thread
/// that lives as long as the program: the signal is sent when that thread ends.
pub fn killed_with_parent(program: &str) -> Command {
    if Command::new("setpriv").arg("--version").output().is_err() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// Until it is dropped, this program and a server have real-time priority, if that is permitted: otherwise time slices of
/// other programs, milliseconds each, would be counted as theirs. Hold it only briefly: after most of a second the kernel
/// throttles real-time processes to let others run.
pub struct RaisedPriority(Vec<u32>);

impl RaisedPriority {
    /// How long to let other programs run afterwards.
    pub const REST: Duration = Duration::from_millis(100);

    pub fn raise(server: Option<&Process>) -> Self {
        let server = server.map(|process| process.0.id());
        let raised = Self(server.into_iter().chain([std::process::id()]).collect());
        raised.schedule(["--fifo", "1"]);
        raised
    }

    /// Prints a warning if real-time priority is not permitted or `chrt` is missing.
    pub fn warn() {
        if !Self::raise(None).schedule(["--fifo", "1"]) {
            println!(
                "Real-time priority is not permitted: these figures include the time slices of other programs.\n"
            );
        }
    }

    fn schedule(&self, [policy, priority]: [&str; 2]) -> bool {
        self.0.iter().all(|id| {
            let mut chrt = Command::new("chrt");
            chrt.args([policy, "--all-tasks", "--pid", priority, &id.to_string()]);
            chrt.output().is_ok_and(|output| output.status.success())
        })
    }
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        self.schedule(["--other", "0"]);
    }
}

/// A measured server, killed when dropped.
pub struct Process(Child);

impl Process {
    /// Starts the server, and waits until it listens on all ports.
    pub fn start(command: &mut Command, ports: &[u16]) -> Self {
        let child = command
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (process, start) = (Self(child), Instant::now());
        for port in ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                assert!(start.elapsed() < Duration::from_secs(20), "{command:?} does not listen");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        process
    }

    /// The CPU time so far.
    pub fn cpu_s(&self) -> f64 {
        cpu_s(&self.proc("stat"))
    }

    /// The CPU time of its running threads so far, to the nanosecond.
    pub fn on_cpu_s(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("a process");
        let ns = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<f64>().ok()
        };
        tasks.filter_map(ns).sum::<f64>() / 1e9
    }

    /// The resident memory.
    pub fn resident_mb(&self) -> f64 {
        self.status_mb("VmRSS:")
    }

    /// The part of it that is not the pages of files: processes of one program share those.
    pub fn anonymous_mb(&self) -> f64 {
        self.status_mb("RssAnon:")
    }

    fn status_mb(&self, field: &str) -> f64 {
        size_mb(&self.proc("status"), field)
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id())).expect("a process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The CPU time of this process so far.
pub fn own_cpu_s() -> f64 {
    cpu_s(&std::fs::read_to_string("/proc/self/stat").expect("Linux"))
}

/// The CPU time in a `/proc/PID/stat`.
fn cpu_s(stat: &str) -> f64 {
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// The resident memory of this process.
pub fn own_resident_mb() -> f64 {
    size_mb(&std::fs::read_to_string("/proc/self/status").expect("Linux"), "VmRSS:")
}

/// A size in a `/proc/PID/status`.
fn size_mb(status: &str, field: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kb.expect("a size") / 1024.0
}

/// A port that is free now, and that this process has not been given before.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    // Each is held until one is new, so that the system gives another.
    let mut held = Vec::new();
    loop {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        if given.insert(port) {
            return port;
        }
        held.push(free);
    }
}

/// `QUICK=1`: whether a benchmark only has to show that it works.
pub fn is_quick() -> bool {
    std::env::var_os("QUICK").is_some()
}

pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
