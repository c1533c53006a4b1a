//! A server that is started for the run: another process, so that its CPU time is its own, on free loopback ports.

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

use super::config::{BenchConfig, RequestTemplate};
use super::door::Door;
use crate::Failure;

/// For the server to print where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The name of the policy that is made of `--limit`.
pub(super) const POLICY: &str = "bench";

/// Killed when dropped.
#[derive(Debug)]
pub(super) struct LocalServer {
    child: Child,
    folder: PathBuf,
    pub(super) url: String,
}

#[derive(Clone, Debug)]
pub(super) enum PolicySource {
    /// A file, or the default of `tidegate serve`.
    Config(Option<PathBuf>),
    Limit(String),
}

impl LocalServer {
    /// With the proxy's upstream.
    pub(super) async fn start(
        config: &BenchConfig,
        upstream: Option<&str>,
    ) -> Result<Self, Failure> {
        let door = config.door;
        let cannot = |why: String| Failure::new(format!("cannot start a server to measure: {why}"));
        let folder = folder().map_err(|error| cannot(error.to_string()))?;
        let child = spawn(config, upstream, &folder);
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                return Err(cannot(error.to_string()));
            }
        };
        let stdout = child.stdout.take();
        let mut server = Self { child, folder, url: String::new() };
        let (sender, url) = oneshot::channel();
        std::thread::spawn(move || {
            let lines = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines);
            let found = lines.map_while(Result::ok).find_map(|line| listen_url(door, &line));
            // The receiver may have timed out.
            let _ = sender.send(found);
        });
        match timeout(START_TIMEOUT, url).await {
            Ok(Ok(Some(url))) => {
                server.url = url;
                Ok(server)
            }
            // It has printed why.
            Ok(_) => Err(cannot("it has ended".to_owned())),
            Err(_) => Err(cannot(format!("it does not listen after {START_TIMEOUT:?}"))),
        }
    }

    /// CPU time of all its threads so far, where the kernel has `schedstat`. `/proc/PID/stat` counts in hundredths of a
    /// second, too coarse for a short run.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let ns = threads.filter_map(|thread| {
            let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        Some(Duration::from_nanos(ns.sum())).filter(|cpu| !cpu.is_zero())
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A new private folder. Its name is random, because process numbers repeat, in containers every time, and a killed
/// run leaves its folder behind.
fn folder() -> std::io::Result<PathBuf> {
    let name = format!("tidegate-bench-{:016x}", RandomState::new().hash_one(()));
    let folder = std::env::temp_dir().join(name);
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn spawn(config: &BenchConfig, upstream: Option<&str>, folder: &Path) -> std::io::Result<Child> {
    let BenchConfig { door, policies, request, .. } = config;
    let any = "127.0.0.1:0";
    let socket = format!("unix:{}", folder.join("http.sock").display());
    let http = if *door == Door::Unix { socket.as_str() } else { any };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--only-typed-doors", "--listen", http, "--resp", any, "--grpc", any]);
    if let Some(upstream) = upstream {
        command.args(["--proxy", any, "--upstream", upstream]);
    }
    if door.goes_by_routes() {
        let RequestTemplate { policy, key_header, cost, .. } = request;
        command.args(["--route-policy", policy, "--route-key", &format!("header:{key_header}")]);
        command.args(["--route-cost", &cost.to_string()]);
    }
    match policies {
        PolicySource::Config(None) => {}
        PolicySource::Config(Some(file)) => {
            command.arg("-c").arg(file);
        }
        PolicySource::Limit(limit) => {
            let file = folder.join("bench.yaml");
            let quoted = serde_json::to_string(limit)?;
            fs::write(&file, format!("policies: {{ {POLICY}: {quoted} }}\n"))?;
            command.arg("-c").arg(file);
        }
    }
    // A group of its own: Ctrl-C must not end it before its last replies.
    command.process_group(0);
    command.env("RUST_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}

/// The URL of a door, if the line has it.
fn listen_url(door: Door, line: &str) -> Option<String> {
    let url = match door {
        Door::Http | Door::Unix | Door::Auth => line.strip_prefix("tidegate listens on ")?,
        Door::Resp => line.strip_prefix("and the Redis protocol on ")?.split(":  ").next()?,
        Door::Grpc => line.strip_prefix("for Envoy: gRPC on ")?,
        Door::Proxy => {
            line.strip_prefix("tidegate passes requests on from ")?.split(" to ").next()?
        }
        Door::Embedded => return None,
    };
    Some(url.to_owned())
}
