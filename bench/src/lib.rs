//! Shared helpers of the benchmarks: pinned processes, priorities, medians.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs this program again with the argument `measure`, off the first processor, which is left to the servers. Not pinned
/// with a single processor or without `taskset`.
pub fn rerun_off_first_processor() -> ! {
    let me = std::env::current_exe().expect("this program");
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    if count > 1 {
        let others = format!("1-{}", count - 1);
        let _ = Command::new("taskset").args(["-c", &others]).arg(&me).arg("measure").exec();
    }
    panic!("{}", Command::new(me).arg("measure").exec());
}

/// A command that runs on the first processor, if `taskset` is installed. `taskset` execs the program, so that the
/// process id of the child is the program's.
pub fn pinned(program: &str) -> Command {
    if Command::new("taskset").arg("--version").output().is_err() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0", program]);
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
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kb.expect("a size") / 1024.0
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

pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("its address").port()
}

pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
