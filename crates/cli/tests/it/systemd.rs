//! What systemd hands over and wants to hear, with a parent and a socket that do as it does.

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

/// Becomes the server, with what it got as standard input as the first socket: only then does the number fit.
const HAND_OVER: &str = "import os, sys
os.dup2(0, 3)
os.environ.update(LISTEN_FDS='1', LISTEN_FDNAMES=sys.argv[1], LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])";

fn start_on(socket: OwnedFd, name: &str) -> (Child, String) {
    let mut command = Command::new("python3");
    command.args(["-c", HAND_OVER, name, env!("CARGO_BIN_EXE_tidegate"), "serve"]);
    launch(command.stdin(Stdio::from(socket)).stderr(Stdio::null()))
}

fn ask(mut stream: impl Read + Write) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_restart_on_a_socket_of_systemd_refuses_nobody() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    // Before any server runs.
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
fn a_unix_socket_of_systemd_keeps_its_file() {
    let path = std::env::temp_dir().join(format!("tidegate-handed-{}.sock", std::process::id()));
    let socket = UnixListener::bind(&path).unwrap();
    let (child, _) = start_on(socket.try_clone().unwrap().into(), "http");
    let stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert!(ask(stream).ends_with("ok\n"));
    kill(&child, "TERM");
    assert_eq!(ended(child).code(), Some(0));
    assert!(path.exists(), "it is not ours to remove");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_public_socket_of_systemd_is_refused_as_any_other() {
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", HAND_OVER, "http", env!("CARGO_BIN_EXE_tidegate"), "serve"]);
    let said = command.stdin(Stdio::from(OwnedFd::from(socket))).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--insecure-bind"));
}

/// The next message, as `systemd` would read it.
fn heard(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let count = socket.recv(&mut bytes).expect("a message");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn is_told(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "40000");
    let (child, _) = launch(command.stderr(Stdio::null()));
    assert!(heard(socket).starts_with("READY=1\n"));
    for _ in 0..3 {
        assert_eq!(heard(socket), "WATCHDOG=1");
    }
    kill(&child, "TERM");
    let stopping = std::iter::repeat_with(|| heard(socket)).find(|it| it != "WATCHDOG=1");
    assert!(stopping.unwrap().starts_with("STOPPING=1\n"));
    assert_eq!(ended(child).code(), Some(0));
}

#[test]
fn systemd_is_told_how_the_service_does() {
    let path = std::env::temp_dir().join(format!("tidegate-notify-{}.sock", std::process::id()));
    let socket = UnixDatagram::bind(&path).unwrap();
    is_told(&socket, path.to_str().unwrap());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn systemd_is_told_over_a_socket_without_a_file() {
    let name = format!("tidegate-notify-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    is_told(&UnixDatagram::bind_addr(&addr).unwrap(), &format!("@{name}"));
}

/// Units of `deploy/`, with the binary that is tested in them: the one they name is not installed here.
fn units(folder: &Folder) -> [String; 2] {
    ["tidegate.service", "tidegate.socket"].map(|name| {
        let text = std::fs::read_to_string(root().join("deploy/systemd").join(name)).unwrap();
        folder.write(name, text.replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate")))
    })
}

/// What `systemd-analyze` complains of.
fn complaints(units: &[String]) -> String {
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let ran = Command::new("systemd-analyze").args(verify).args(units).output();
    let ran =
        ran.expect("cannot start systemd-analyze; `./dev clients` installs what the tests need");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.success(), said.is_empty(), "{said}");
    said
}

#[test]
fn systemd_understands_every_line_of_the_units() {
    let folder = Folder::new();
    let [service, socket] = units(&folder);
    assert_eq!(complaints(&[service.clone(), socket.clone()]), "");
    // A word that it does not know is complained of, in both.
    for (path, line) in [(&service, "LimitNOFILE="), (&socket, "ListenStream=")] {
        let text = std::fs::read_to_string(path).unwrap();
        let bad = folder.write(path.rsplit('/').next().unwrap(), text.replace(line, "Zebra="));
        assert!(complaints(&[bad]).contains("Zebra"), "{line}");
        std::fs::write(path, text).unwrap();
    }
}

/// Whether systemd itself rates what a service gets at of the machine as no more than 2 of 10. Versions differ by a few
/// tenths.
fn is_harmless(unit: &str) -> bool {
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", "--threshold=20", unit]);
    let ran = analyze.stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.expect("cannot start systemd-analyze; `./dev clients` installs what the tests need")
        .success()
}

#[test]
fn the_service_gets_at_little_of_the_machine() {
    let folder = Folder::new();
    let [service, _] = units(&folder);
    assert!(is_harmless(&service));
    // Without its walls it is more, and that is seen.
    let text = std::fs::read_to_string(&service).unwrap();
    let open =
        text.replace("\nProtect", "\n#").replace("\nPrivate", "\n#").replace("DynamicUser=", "#");
    assert!(!is_harmless(&folder.write("tidegate.service", open)));
}
