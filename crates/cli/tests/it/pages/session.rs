//! The session of one page: its folder, the programs that it expects, and the servers that it has started.

use std::env;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::processes::{DEADLINE, MemcachedServer, PostgresServer, wait_until};
use crate::programs::root;
use crate::proxy_support::Origin;
use crate::support::Folder;

/// How long a block may take, in seconds. The longest is a simulation.
const TIMEOUT_S: &str = "120";

pub(crate) struct Session {
    folder: Folder,
    /// Its own loopback address: pages run in parallel with the ports that they name.
    host: String,
    servers: Vec<Child>,
    redis: Option<Child>,
    _postgres: Option<PostgresServer>,
    _memcached: Option<MemcachedServer>,
    _app: Option<Origin>,
}

impl Session {
    /// Starts what commands and files require: a Redis on port 6379, a PostgreSQL on 5432, a memcached on
    /// 11211, an app on port 3000.
    pub(crate) fn new(used: &str) -> Self {
        let host = own_address();
        let folder = Folder::new();
        for shared in ["testdata", "deploy", "docs", "examples", "crates"] {
            symlink(root().join(shared), folder.path(shared)).unwrap();
        }
        program(&folder, "tidegate", include_str!("tidegate.sh"));
        // The binary is built already: `cargo run --release -- ARGUMENTS` becomes `tidegate ARGUMENTS`.
        program(
            &folder,
            "cargo",
            "#!/bin/bash\n[ \"$1 $2\" = 'run --release' ] && exec tidegate \"${@:4}\"\n",
        );
        let cli = format!("#!/bin/bash\nPATH=${{PATH#*:}} exec redis-cli -h {host} \"$@\"\n");
        program(&folder, "redis-cli", &cli);
        let wants = |what: &str| used.contains(what);
        let app = wants("127.0.0.1:3000").then(|| Origin::mirror_at((address(&host), 3000).into()));
        let redis = (wants("redis-cli") || wants(":6379")).then(|| start_redis(&folder, &host));
        let postgres = wants(":5432").then(|| PostgresServer::builder().at(&host, 5432).start());
        let memcached = wants(":11211").then(|| MemcachedServer::start_at(&host, 11_211, &[]));
        let servers = Vec::new();
        Self { folder, host, servers, redis, _postgres: postgres, _memcached: memcached, _app: app }
    }

    /// Writes a file of the page.
    pub(crate) fn write(&self, name: &str, content: &str) {
        self.folder.write(name, self.placed(content));
    }

    /// Runs commands to their end.
    pub(crate) fn run(&self, commands: &str) -> Output {
        let commands = self.placed(commands);
        self.command("timeout").args([TIMEOUT_S, "bash", "-ec", &commands]).output().unwrap()
    }

    /// Stops the servers that run, and starts one per line.
    pub(crate) fn serve(&mut self, commands: &str) {
        self.end_servers();
        let commands = self.placed(commands).replace("\\\n", " ");
        for line in commands.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (output, log) = (self.folder.path("output"), self.folder.path("log"));
            let _ = fs::remove_file(&output);
            let mut command = self.command("bash");
            command.args(["-c", &format!("exec {line}")]);
            command.stdout(File::create(&output).unwrap()).stderr(File::create(&log).unwrap());
            self.servers.push(command.spawn().unwrap());
            let server = self.servers.last_mut().unwrap();
            wait_until(&format!("`{line}` listens"), DEADLINE, || {
                let gone = server.try_wait().unwrap();
                assert!(gone.is_none(), "`{line}`: {}", fs::read_to_string(&log).unwrap());
                fs::read_to_string(&output).unwrap().contains('\n')
            });
        }
    }

    /// The output with the addresses of the page.
    pub(crate) fn as_written(&self, output: &[u8]) -> String {
        let output = String::from_utf8_lossy(output).replace('\r', "");
        output.replace(&format!("{}:", self.host), "127.0.0.1:")
    }

    fn placed(&self, text: &str) -> String {
        text.replace("127.0.0.1:", &format!("{}:", self.host))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:{}", self.folder.path("bin"), env::var("PATH").unwrap());
        command.env("PATH", path).env("TIDEGATE_BINARY", env!("CARGO_BIN_EXE_tidegate"));
        // redis-cli formats replies as on a terminal.
        command.env("TIDEGATE_HOST", &self.host).env("FAKETTY", "1").env("USER", "ann");
        command.env_remove("RUST_LOG").current_dir(self.folder.path("")).stdin(Stdio::null());
        command
    }

    fn end_servers(&mut self) {
        for mut child in self.servers.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_servers();
        if let Some(mut redis) = self.redis.take() {
            let _ = redis.kill();
            let _ = redis.wait();
        }
    }
}

/// An address of 127.0.0.0/8 that no other page uses, in this run or a parallel one.
fn own_address() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.{}", 1 + high % 250, 1 + COUNT.fetch_add(1, Ordering::Relaxed) % 250)
}

fn address(host: &str) -> IpAddr {
    host.parse().unwrap()
}

fn program(folder: &Folder, name: &str, content: &str) {
    let path = folder.write(&format!("bin/{name}"), content);
    fs::set_permissions(Path::new(&path), fs::Permissions::from_mode(0o755)).unwrap();
}

fn start_redis(folder: &Folder, host: &str) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--bind", host, "--port", "6379", "--save", "", "--dir", &folder.path("")]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let child =
        child.expect("cannot start redis-server; `./dev clients` installs what the tests need");
    let listens = || std::net::TcpStream::connect((host, 6379)).is_ok();
    wait_until("Redis listens", DEADLINE, listens);
    child
}
