//! What the benchmarks of whole processes share.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs this program again as `apart`, off the first processor, which is left to the servers; where there is more than
/// one, and a way to say so.
pub fn apart() -> ! {
    let me = std::env::current_exe().expect("this program");
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    if count > 1 {
        let others = format!("1-{}", count - 1);
        let _ = Command::new("taskset").args(["-c", &others]).arg(&me).arg("apart").exec();
    }
    panic!("{}", Command::new(me).arg("apart").exec());
}

/// On the first processor, where there is a way to say so. `taskset` becomes the program, so that its number is ours.
pub fn pinned(program: &str) -> Command {
    if Command::new("taskset").arg("--version").output().is_err() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", "0", program]);
    command
}

/// While this lives, this program and a server run ahead of all others of the machine, where that is allowed: the turns
/// of others, milliseconds each, would be counted as theirs. It cannot live for long: whoever is kept waiting for most
/// of a second is let in by the kernel.
pub struct Ahead(Vec<u32>);

impl Ahead {
    /// How long other programs should have their turn afterwards.
    pub const REST: Duration = Duration::from_millis(100);

    pub fn of(server: Option<&Process>) -> Self {
        let server = server.map(|process| process.0.id());
        let ahead = Self(server.into_iter().chain([std::process::id()]).collect());
        ahead.schedule(["--fifo", "1"]);
        ahead
    }

    /// Says so, where it is not allowed or there is no way to.
    pub fn warn() {
        if !Self::of(None).schedule(["--fifo", "1"]) {
            println!(
                "Not allowed to run ahead of other programs: their turns are in these figures.\n"
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

impl Drop for Ahead {
    fn drop(&mut self) {
        self.schedule(["--other", "0"]);
    }
}

/// A server that is measured; ended when dropped.
pub struct Process(Child);

impl Process {
    /// Starts it, and waits until it listens.
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

    /// Processor time so far.
    pub fn cpu_s(&self) -> f64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) / 100.0
    }

    /// The same to the nanosecond, of the threads that there are.
    pub fn on_cpu_s(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("a process");
        let ns = |task: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<f64>().ok()
        };
        tasks.filter_map(ns).sum::<f64>() / 1e9
    }

    /// Memory it holds.
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

pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("its address").port()
}

pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}
