//! Sockets and notifications of systemd, with a parent process and a socket that act like systemd.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::programs::root;
use crate::support::{DEADLINE, Folder, ended, kill, launch, tidegate};

/// Passes its stdin as the first socket, and execs the server, so that `LISTEN_PID` is right.
const PASS_SOCKET: &str = "import os, sys
os.dup2(0, 3)
os.environ.update(LISTEN_FDS='1', LISTEN_FDNAMES=sys.argv[1], LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])";

fn start_on(socket: OwnedFd, name: &str) -> (Child, String) {
    let mut command = Command::new("python3");
    command.args(["-c", PASS_SOCKET, name, env!("CARGO_BIN_EXE_tidegate"), "serve"]);
    launch(command.stdin(Stdio::from(socket)).stderr(Stdio::null()))
}

fn ask(mut stream: impl Read + Write) -> String {
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_restart_on_a_systemd_socket_refuses_no_connection() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    // This client connects before a server runs.
    let early = TcpStream::connect(addr).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (mut child, welcome) = start_on(socket.try_clone().unwrap().into(), "http");
        assert!(welcome.contains(&addr.to_string()), "{welcome}");
        assert!(ask(early).ends_with("ok\n"));
        let client = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::Relaxed) {
                let stream = TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                assert!(ask(stream).ends_with("ok\n"));
                answered += 1;
            }
            answered
        });
        for _ in 0..2 {
            kill(&child, "TERM");
            assert_eq!(ended(child).code(), Some(0));
            child = start_on(socket.try_clone().unwrap().into(), "tidegate.socket").0;
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(client.join().unwrap() > 0);
        kill(&child, "TERM");
        assert_eq!(ended(child).code(), Some(0));
    });
}

#[test]
fn a_unix_socket_from_systemd_keeps_its_file() {
    let path = std::env::temp_dir().join(format!("tidegate-handed-{}.sock", std::process::id()));
    let socket = UnixListener::bind(&path).unwrap();
    let (child, _) = start_on(socket.try_clone().unwrap().into(), "http");
    let stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert!(ask(stream).ends_with("ok\n"));
    kill(&child, "TERM");
    assert_eq!(ended(child).code(), Some(0));
    assert!(path.exists(), "the socket file was removed");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_public_socket_from_systemd_is_refused_like_any_other() {
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", PASS_SOCKET, "http", env!("CARGO_BIN_EXE_tidegate"), "serve"]);
    let output = command.stdin(Stdio::from(OwnedFd::from(socket))).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--insecure-bind"));
}

/// The next message on the notify socket.
fn next_message(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let count = socket.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn check_notifications(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "40000");
    let (child, _) = launch(command.stderr(Stdio::null()));
    assert!(next_message(socket).starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(next_message(socket), "WATCHDOG=1");
    }
    kill(&child, "TERM");
    let stopping = std::iter::repeat_with(|| next_message(socket)).find(|it| it != "WATCHDOG=1");
    assert!(stopping.unwrap().starts_with("STOPPING=1\n"));
    assert_eq!(ended(child).code(), Some(0));
}

#[test]
fn systemd_gets_the_status_and_watchdog_messages() {
    let path = std::env::temp_dir().join(format!("tidegate-notify-{}.sock", std::process::id()));
    let socket = UnixDatagram::bind(&path).unwrap();
    check_notifications(&socket, path.to_str().unwrap());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn systemd_can_use_an_abstract_notify_socket() {
    let name = format!("tidegate-notify-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    check_notifications(&UnixDatagram::bind_addr(&addr).unwrap(), &format!("@{name}"));
}

/// The units of `deploy/`, with the tested binary instead of the one that they name, which is not installed.
fn units(folder: &Folder) -> [String; 2] {
    ["tidegate.service", "tidegate.socket"].map(|name| {
        let text = std::fs::read_to_string(root().join("deploy/systemd").join(name)).unwrap();
        folder.write(name, text.replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate")))
    })
}

/// The problems that `systemd-analyze verify` reports.
fn problems(units: &[String]) -> String {
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let ran = Command::new("systemd-analyze").args(verify).args(units).output();
    let ran =
        ran.expect("cannot start systemd-analyze; `./dev clients` installs what the tests need");
    let output = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.success(), output.is_empty(), "{output}");
    output
}

#[test]
fn systemd_accepts_every_line_of_the_units() {
    let folder = Folder::new();
    let [service, socket] = units(&folder);
    assert_eq!(problems(&[service.clone(), socket.clone()]), "");
    // An unknown key is reported in both units.
    for (path, line) in [(&service, "LimitNOFILE="), (&socket, "ListenStream=")] {
        let text = std::fs::read_to_string(path).unwrap();
        let bad = folder.write(path.rsplit('/').next().unwrap(), text.replace(line, "Zebra="));
        assert!(problems(&[bad]).contains("Zebra"), "{line}");
        std::fs::write(path, text).unwrap();
    }
}

/// Whether `systemd-analyze security` rates the exposure of a service at 2 of 10 or less. Versions of systemd differ by a
/// few tenths.
fn is_sandboxed(unit: &str) -> bool {
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", "--threshold=20", unit]);
    let ran = analyze.stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.expect("cannot start systemd-analyze; `./dev clients` installs what the tests need")
        .success()
}

#[test]
fn the_units_are_sandboxed() {
    let folder = Folder::new();
    let [service, _] = units(&folder);
    assert!(is_sandboxed(&service));
    // The control: without the sandbox settings the exposure is higher.
    let text = std::fs::read_to_string(&service).unwrap();
    let open =
        text.replace("\nProtect", "\n#").replace("\nPrivate", "\n#").replace("DynamicUser=", "#");
    assert!(!is_sandboxed(&folder.write("tidegate.service", open)));
}
