//! Starts the binary and sends requests to it. Every wait has a deadline.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// Far longer than anything here takes, also on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The binary, with its arguments.
pub(crate) fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// The exit code and output of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> CommandOutput {
    run_with(args, &[])
}

/// Runs the binary to its end, with environment variables.
pub(crate) fn run_with(args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let mut command = tidegate(args);
    command.envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Starts a server and waits until it listens. Returns the process and its output.
pub(crate) fn launch(command: &mut Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut welcome = String::new();
    for _ in 0..2 {
        stdout.read_line(&mut welcome).unwrap();
    }
    (child, welcome)
}

/// Sends a signal by name.
pub(crate) fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
}

/// Waits until a process has ended.
pub(crate) fn ended(mut child: Child) -> ExitStatus {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait().unwrap()));
    ended.recv_timeout(DEADLINE).expect("the server did not end")
}

/// A temporary folder, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// A new folder in `place`.
    pub(crate) fn within(place: &Path) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-test-{}-{number}", std::process::id());
        let folder = Self(place.join(name));
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file, creates its folders, and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server on a free port, stopped when dropped.
pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) addr: SocketAddr,
    /// The address of the Redis protocol, if that door is open.
    pub(crate) resp: Option<SocketAddr>,
    /// The output of the start.
    pub(crate) welcome: String,
    /// The address of the gRPC door, if it is open.
    pub(crate) grpc: Option<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&["serve", "--listen", "127.0.0.1:0"])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        Self::start_with_log(args, Stdio::null())
    }

    /// Starts a server with its log in a file.
    pub(crate) fn start_logged(args: &[&str], log: &str) -> Self {
        Self::start_with_log(args, fs::File::create(log).unwrap().into())
    }

    fn start_with_log(args: &[&str], log: Stdio) -> Self {
        Self::launched(tidegate(args).stderr(log))
    }

    /// Starts a server on TCP with a command.
    pub(crate) fn launched(command: &mut Command) -> Self {
        let has = |flag: &str| command.get_args().any(|arg| arg == flag);
        let (has_resp, has_grpc) = (has("--resp"), has("--grpc"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut welcome = String::new();
        stdout.read_line(&mut welcome).unwrap();
        let addr = welcome.trim().split("http://").nth(1).expect("a URL").parse().unwrap();
        stdout.read_line(&mut welcome).unwrap();
        let resp = has_resp.then(|| {
            stdout.read_line(&mut welcome).unwrap();
            stdout.read_line(&mut welcome).unwrap();
            let (_, place) = welcome.rsplit_once("Redis protocol on ").expect("an address");
            place.split(":  ").next().unwrap().parse().unwrap()
        });
        let grpc = has_grpc.then(move || {
            let line = stdout.lines().map_while(Result::ok).find(|line| line.contains("gRPC on"));
            line.and_then(|line| line.split(" on ").nth(1).map(str::to_owned)).expect("an address")
        });
        Self { child: Some(child), addr, resp, welcome, grpc }
    }

    /// A server that is already running, by the output of its start.
    pub(crate) fn of(child: Child, addr: SocketAddr, welcome: String) -> Self {
        Self { child: Some(child), addr, resp: None, welcome, grpc: None }
    }

    /// Takes its stdout. Can be called once.
    pub(crate) fn stdout(&mut self) -> ChildStdout {
        self.child.as_mut().and_then(|child| child.stdout.take()).unwrap()
    }

    /// The process itself, for a caller that stops it.
    pub(crate) fn into_child(mut self) -> Child {
        self.child.take().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Sends a signal by name, and waits until the process has ended.
    pub(crate) fn stop(&mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.ended()
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        ended(self.child.take().unwrap())
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &[], body.as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let more = lines.concat();
        let (host, length) = (self.addr, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{more}\r\n"
        );
        Reply::read(&self.raw(&[head.as_bytes(), body].concat()))
    }

    /// Sends raw bytes, and reads until the server closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// The value of a series in `/metrics`, by its name with labels.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let page = self.get("/metrics").body;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().expect(series))
    }

    /// The remaining units of a key, by a peek.
    pub(crate) fn remaining(&self, policy: &str, key: &str) -> u64 {
        let body = format!(r#"{{"policy":"{policy}","key":"{key}","cost":0}}"#);
        self.post("/v1/peek", &body).json()["remaining"].as_u64().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a response");
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}
