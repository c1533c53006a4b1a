//! A server of our own: another process, so that what it uses is its own, on free ports of the loopback.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::door::DoorKind;
use crate::Failure;

/// For the server to say where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// What a limit is called that was typed.
pub(super) const POLICY: &str = "bench";

/// Ended when dropped.
#[derive(Debug)]
pub(super) struct Own {
    child: Child,
    folder: PathBuf,
    /// Where it is reached.
    pub(super) url: String,
}

/// What it serves.
#[derive(Clone, Debug)]
pub(super) enum Serves {
    /// A file, or whatever `tidegate serve` takes without one.
    Config(Option<PathBuf>),
    Limit(String),
}

impl Own {
    pub(super) async fn start(door: DoorKind, serves: &Serves) -> Result<Self, Failure> {
        let cannot = |why: String| Failure::new(format!("cannot start a server to measure: {why}"));
        let folder = folder().map_err(|error| cannot(error.to_string()))?;
        let child = spawn(door, serves, &folder);
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                return Err(cannot(error.to_string()));
            }
        };
        let stdout = child.stdout.take();
        let mut own = Self { child, folder, url: String::new() };
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            let lines = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            let found = lines.map_while(Result::ok).find_map(|line| place(door, &line));
            // Who waited for it may have given up.
            let _ = tell.send(found);
        });
        match timeout(START_TIMEOUT, told).await {
            Ok(Ok(Some(url))) => {
                own.url = url;
                Ok(own)
            }
            // It has said why itself.
            Ok(_) => Err(cannot("it has ended".to_owned())),
            Err(_) => Err(cannot(format!("it does not listen after {START_TIMEOUT:?}"))),
        }
    }

    /// Processor time so far, of all its threads; nothing where the kernel does not tell. `/proc/PID/stat` counts in
    /// hundredths of a second, too coarse for a short run.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let ns = threads.filter_map(|thread| {
            let told = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        });
        Some(Duration::from_nanos(ns.sum())).filter(|cpu| !cpu.is_zero())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A folder that nobody else can have made, or look into. Its name is drawn: a process number comes again, in a
/// container every time, and a run that was killed leaves its folder behind.
fn folder() -> std::io::Result<PathBuf> {
    let name = format!("tidegate-bench-{:016x}", RandomState::new().hash_one(()));
    let folder = std::env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn spawn(door: DoorKind, serves: &Serves, folder: &Path) -> std::io::Result<Child> {
    let any = "127.0.0.1:0";
    let socket = format!("unix:{}", folder.join("http.sock").display());
    let http = if door == DoorKind::Unix { socket.as_str() } else { any };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--only-typed-doors", "--listen", http, "--resp", any, "--grpc", any]);
    match serves {
        Serves::Config(None) => {}
        Serves::Config(Some(file)) => {
            command.arg("-c").arg(file);
        }
        Serves::Limit(limit) => {
            let file = folder.join("bench.yaml");
            let quoted = serde_json::to_string(limit)?;
            fs::write(&file, format!("policies: {{ {POLICY}: {quoted} }}\n"))?;
            command.arg("-c").arg(file);
        }
    }
    // In a group of its own: a Ctrl-C is for us, who want its last answers.
    command.process_group(0);
    command.env("RUST_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}

/// Where a door listens, if that is what a line says.
fn place(door: DoorKind, line: &str) -> Option<String> {
    let url = match door {
        DoorKind::Http | DoorKind::Unix => line.strip_prefix("tidegate listens on ")?,
        DoorKind::Resp => line.strip_prefix("and the Redis protocol on ")?.split(":  ").next()?,
        DoorKind::Grpc => line.strip_prefix("for Envoy: gRPC on ")?,
        DoorKind::Embedded => return None,
    };
    Some(url.to_owned())
}
