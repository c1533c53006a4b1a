//! Servers that are not Redis, or that answer garbage.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, limit_of, store, take};

/// A server that is not Redis: writes `first` to every client, then `endless` without end.
struct FakeServer {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    fn start(first: &'static str, endless: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                write_all_and_drain(client.unwrap(), first, &endless.repeat(1_000));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

/// Writes until the client disconnects or there is nothing left, then reads until it disconnects.
fn write_all_and_drain(mut client: TcpStream, first: &str, endless: &str) {
    let mut written = client.write_all(first.as_bytes());
    while written.is_ok() && !endless.is_empty() {
        written = client.write_all(endless.as_bytes());
    }
    let _ = client.set_read_timeout(Some(Duration::from_secs(1)));
    while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_redis_is_an_error_within_the_deadline() {
    const HANDSHAKE: &str = "+PONG\r\n+hash\r\n";
    let rows = [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", ""),
        ("", "x"),
        ("$99999999999\r\n", "x"),
        ("*99999999999\r\n", ":1\r\n"),
        ("", "*1\r\n"),
        ("-ERR who are you\r\n", "-ERR go away\r\n"),
        ("+PONG\r\n+hash\r\n*4\r\n:1\r\n:2\r\n", ""),
        ("+PONG\r\n+hash\r\n*4\r\n:1\r\n+a\r\n:3\r\n:4\r\n", ""),
        ("+PONG\r\n+hash\r\n*2\r\n:-1\r\n:-1\r\n", ""),
        ("+PONG\r\n+hash\r\n:1\r\n", ""),
        (HANDSHAKE, "*99999999999\r\n"),
        (HANDSHAKE, "$99999999999\r\n"),
    ];
    for (first, endless) in rows {
        let server = FakeServer::start(first, endless);
        let store = store(format!("redis://{}", server.address), Duration::from_millis(300));
        for _ in 0..3 {
            let start = Instant::now();
            let answer = take(&store, "k", &limit_of(5)).await;
            assert!(answer.is_err(), "{first:?} {endless:?}: {answer:?}");
            assert!(start.elapsed() < LONG_TIMEOUT / 2, "{first:?} {endless:?}");
        }
    }
}
