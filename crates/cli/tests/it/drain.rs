//! SIGTERM under load: every request on an accepted connection is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::processes::{DEADLINE, wait_until};
use crate::support::{ended, kill, launch, tidegate};

/// Clients of each kind.
const CLIENTS: usize = 8;
const ROUNDS: usize = 3;

const REQUEST: &[u8] = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 28\r\n\r\n\
    {\"policy\":\"api\",\"key\":\"ann\"}";

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Target {
    fn connect(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Tcp(addr) => {
                let stream = TcpStream::connect(addr)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                Box::new(stream)
            }
        })
    }
}

/// Sends one request. Returns whether its answer was the last on the connection.
fn ask(connection: &mut dyn Connection) -> io::Result<bool> {
    connection.write_all(REQUEST)?;
    let mut answer = Vec::new();
    let mut bytes = [0; 1024];
    // The answer ends with its only object.
    while !answer.ends_with(b"}") {
        let count = connection.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&bytes[..count]);
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    Ok(text.contains("connection: close"))
}

/// Sends requests until the server accepts no more connections. Keeps a connection until the server closes it, or for one
/// request.
fn client(target: &Target, keeps: bool, answered: &AtomicU64) -> Result<(), String> {
    while let Ok(mut connection) = target.connect() {
        loop {
            let is_last =
                ask(&mut *connection).map_err(|error| format!("{target:?} {keeps} {error}"))?;
            answered.fetch_add(1, Ordering::Relaxed);
            if is_last || !keeps {
                break;
            }
        }
    }
    Ok(())
}

fn drains_without_a_failure(listen: &str, target: impl Fn(&str) -> Target) {
    for _ in 0..ROUNDS {
        let (child, welcome) =
            launch(tidegate(&["serve", "--listen", listen]).stderr(Stdio::null()));
        ends_without_a_failure(child, &target(&welcome), 2000);
    }
}

/// Sends SIGTERM after this many answers to clients of both kinds: every request on an accepted connection is answered.
pub(crate) fn ends_without_a_failure(child: Child, target: &Target, after: u64) {
    let answered = &AtomicU64::new(0);
    thread::scope(|scope| {
        let start = |keeps| scope.spawn(move || client(target, keeps, answered));
        let clients: Vec<_> = (0..2 * CLIENTS).map(|number| start(number % 2 == 0)).collect();
        wait_until("the server is under load", DEADLINE, || {
            answered.load(Ordering::Relaxed) > after
        });
        kill(&child, "TERM");
        assert_eq!(ended(child).code(), Some(0));
        let failures: Vec<_> =
            clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect();
        assert!(failures.is_empty(), "{failures:?} of {}", answered.load(Ordering::Relaxed));
    });
}

#[test]
fn over_tcp_a_shutdown_answers_every_accepted_request() {
    drains_without_a_failure("127.0.0.1:0", |welcome| {
        let url = welcome.lines().next().unwrap().split("http://").nth(1).unwrap();
        Target::Tcp(url.parse().unwrap())
    });
}

#[test]
fn over_a_unix_socket_a_shutdown_answers_every_accepted_request() {
    let path = std::env::temp_dir().join(format!("tidegate-drain-{}.sock", std::process::id()));
    let listen = format!("unix:{}", path.display());
    drains_without_a_failure(&listen, |_| Target::Unix(path.clone()));
    assert!(!path.exists(), "left behind");
}
