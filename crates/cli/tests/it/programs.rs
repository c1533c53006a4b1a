//! Third-party programs: started for one test and stopped with it. A missing program fails the test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) use crate::processes::free_port;
use crate::processes::{DEADLINE, wait_until};
use crate::support::{Folder, Server, kill, tidegate};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A program that runs until this is dropped.
pub(crate) struct Program {
    child: Child,
    log: String,
}

impl Program {
    /// Starts a program with its output in a file of the folder.
    pub(crate) fn start(command: &mut Command, folder: &Folder) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let log = folder.path("program.log");
        let file = File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: spawn(command, &name), log }
    }
}

impl Program {
    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        kill(&self.child, signal);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

fn spawn(command: &mut Command, name: &str) -> Child {
    command.spawn().unwrap_or_else(|error| {
        panic!("cannot start {name}: {error}; `./dev clients` installs what the tests need")
    })
}

/// The app behind the proxies, and its port.
pub(crate) struct App {
    child: Child,
    pub(crate) port: u16,
}

impl App {
    pub(crate) fn start() -> Self {
        let script = root().join("crates/cli/tests/clients/echo_app.py");
        let mut command = Command::new("python3");
        let mut child =
            spawn(command.arg(script).stdout(Stdio::piped()).stderr(Stdio::null()), "python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port on which nothing listens, and which nobody else gets while this lives. Who is told it can listen there.
pub(crate) struct ReservedPort {
    pub(crate) port: u16,
    _socket: tokio::net::TcpSocket,
}

impl ReservedPort {
    pub(crate) fn new() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { port: socket.local_addr().unwrap().port(), _socket: socket }
    }
}

/// Waits until a program listens on the port.
pub(crate) fn wait_for_port(port: u16) {
    let connects = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until("a program listens", DEADLINE, connects);
}

/// A file that `./dev clients` has installed in the target folder.
pub(crate) fn installed(path: &str) -> PathBuf {
    let path = root().join("target/clients").join(path);
    assert!(path.exists(), "{} is missing: `./dev clients` installs it", path.display());
    path
}

/// A program of the virtual environment that `./dev` creates.
pub(crate) fn of_venv(program: &str) -> PathBuf {
    installed(&format!("proxies/bin/{program}"))
}

/// Runs the first of these scripts of `tests/clients/node` to its end, with the others in the same folder, and returns
/// its output. They are copied to the folder of the installed libraries.
pub(crate) fn node(scripts: &[&str], args: &[&str]) -> String {
    let libraries = installed("node/node_modules");
    let folder = Folder::within(libraries.parent().unwrap());
    for script in scripts {
        let source = root().join("crates/cli/tests/clients/node").join(script);
        folder.write(script, fs::read(source).unwrap());
    }
    output(Command::new("node").arg(folder.path(scripts[0])).args(args))
}

/// Runs a program to its end within a deadline, and returns its output.
pub(crate) fn output(command: &mut Command) -> String {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    wait_until("a client ends", DEADLINE * 6, || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

/// Runs curl, and returns its output.
pub(crate) fn curl(args: &[&str]) -> String {
    try_curl(args).unwrap_or_else(|printed| panic!("curl {args:?}: {printed}"))
}

/// Runs curl, and returns its output or its error message.
pub(crate) fn try_curl(args: &[&str]) -> Result<String, String> {
    let ran = Command::new("curl").args(["-sS", "--max-time", "20"]).args(args).output();
    let ran = ran.expect("cannot start curl; `./dev clients` installs what the tests need");
    let printed = if ran.status.success() { Ok(ran.stdout) } else { Err(ran.stderr) };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    printed.map(text).map_err(text)
}

impl Server {
    /// A server with a configuration.
    pub(crate) fn with_config(folder: &Folder, config: &str) -> Self {
        let path = folder.write("tidegate.yaml", config);
        Self::start_with(&["serve", "-c", &path, "--listen", "127.0.0.1:0"])
    }
}

/// Starts the binary on a Unix socket, and waits until it accepts connections: the file exists a moment earlier.
pub(crate) fn on_socket(folder: &Folder, config: &str) -> (Program, String) {
    let (path, socket) = (folder.write("tidegate.yaml", config), folder.path("http.sock"));
    let address = format!("unix:{socket}");
    let mut command = tidegate(&["serve", "-c", &path, "--listen", &address]);
    let program = Program::start(&mut command, folder);
    wait_until("the socket accepts connections", DEADLINE, || UnixStream::connect(&socket).is_ok());
    (program, socket)
}
