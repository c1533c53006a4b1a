//! Many connections: they block no other client, and their memory is freed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::processes::{DEADLINE, wait_until};
use crate::support::Server;

/// A server that may open this many files.
fn server(files_max: u32) -> Server {
    let script = format!("ulimit -n {files_max}; exec \"$0\" serve --listen 127.0.0.1:0");
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tidegate")]);
    // glibc has a heap per thread and fills one after another, which looks like a leak for a while.
    command.env("MALLOC_ARENA_MAX", "1");
    Server::launched(command.stdin(Stdio::null()).stderr(Stdio::null()))
}

fn health(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut bytes = [0; 1024];
    let count = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn without_free_file_descriptors_open_connections_are_served_and_others_wait() {
    let server = server(48);
    let mut inside = server.connect();
    assert!(health(&mut inside).ends_with("ok\n"));
    // More connections than it can accept: the others wait in the kernel's queue.
    let crowd: Vec<_> = (0..80).map(|_| server.connect()).collect();
    let mut outside = server.connect();
    for _ in 0..20 {
        assert!(health(&mut inside).ends_with("ok\n"));
    }
    drop(crowd);
    assert!(health(&mut outside).ends_with("ok\n"));
    assert!(server.get("/healthz").body.ends_with("ok\n"));
}

#[test]
fn idle_connections_leave_no_memory_behind() {
    const CROWD: u16 = 400;
    let server = server(4096);
    let open = || server.metric("tidegate_connections{door=\"http\"}").unwrap();
    let mut after = Vec::new();
    for _ in 0..6 {
        // Half of them have sent a request. The server closes the others after five seconds, which may pass here.
        let arrive = |number| {
            let mut stream = server.connect();
            assert!(number % 2 == 1 || health(&mut stream).ends_with("ok\n"));
            stream
        };
        let crowd: Vec<_> = (0..CROWD).map(arrive).collect();
        wait_until("all active connections are accepted", DEADLINE, || {
            open() >= f64::from(CROWD / 2)
        });
        after.push(server.metric("process_resident_memory_bytes").unwrap());
        drop(crowd);
        wait_until("all are gone", DEADLINE, || open() < 10.0);
    }
    let (second, last) = (after[1], after[5]);
    assert!(last < second + 4e6, "{after:?}");
}
