//! SIGTERM under load: nobody who was let in goes without an answer.

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

const REQUEST: &[u8] = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 28\r\n\r\n\
    {\"policy\":\"api\",\"key\":\"ann\"}";

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

trait Line: Read + Write {}
impl<T: Read + Write> Line for T {}

impl Target {
    fn connect(&self) -> io::Result<Box<dyn Line>> {
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

/// What became of one request: whether the answer was the last on its connection.
fn ask(line: &mut dyn Line) -> io::Result<bool> {
    line.write_all(REQUEST)?;
    let mut answer = Vec::new();
    let mut bytes = [0; 1024];
    // The only answer has the only object.
    while !answer.ends_with(b"}") {
        let count = line.read(&mut bytes)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&bytes[..count]);
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    Ok(text.contains("connection: close"))
}

/// Asks until nobody lets it in any more. Keeps its connection for as long as it is allowed to, or for one request.
fn client(target: &Target, keeps: bool, answered: &AtomicU64) -> Result<(), String> {
    while let Ok(mut line) = target.connect() {
        loop {
            let is_last = ask(&mut *line).map_err(|error| format!("{target:?} {keeps} {error}"))?;
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

/// SIGTERM among clients of both kinds, once so many were answered: nobody who was let in goes without an answer.
pub(crate) fn ends_without_a_failure(child: Child, target: &Target, after: u64) {
    let answered = &AtomicU64::new(0);
    thread::scope(|scope| {
        let start = |keeps| scope.spawn(move || client(target, keeps, answered));
        let clients: Vec<_> = (0..2 * CLIENTS).map(|number| start(number % 2 == 0)).collect();
        wait_until("there is load", DEADLINE, || answered.load(Ordering::Relaxed) > after);
        kill(&child, "TERM");
        assert_eq!(ended(child).code(), Some(0));
        let failures: Vec<_> =
            clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect();
        assert!(failures.is_empty(), "{failures:?} of {}", answered.load(Ordering::Relaxed));
    });
}

#[test]
fn over_tcp_nobody_who_was_let_in_goes_without_an_answer() {
    drains_without_a_failure("127.0.0.1:0", |welcome| {
        let url = welcome.lines().next().unwrap().split("http://").nth(1).unwrap();
        Target::Tcp(url.parse().unwrap())
    });
}

#[test]
fn over_a_unix_socket_nobody_who_was_let_in_goes_without_an_answer() {
    let path = std::env::temp_dir().join(format!("tidegate-drain-{}.sock", std::process::id()));
    let listen = format!("unix:{}", path.display());
    drains_without_a_failure(&listen, |_| Target::Unix(path.clone()));
    assert!(!path.exists(), "left behind");
}
