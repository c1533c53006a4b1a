//! Whoever answers may be no Redis, or one that has lost its mind.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::time::Instant;

use crate::support::{PATIENT, limit_of, store, take};

/// Somebody who is no Redis: says these words to everybody, then the last ones without end.
struct Stranger {
    address: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stranger {
    fn start(first: &'static str, endless: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = thread::spawn(move || {
            for client in listener.incoming() {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                talk(client.unwrap(), first, &endless.repeat(1_000));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

/// Until the other end hangs up, or there is nothing left to say.
fn talk(mut client: TcpStream, first: &str, endless: &str) {
    let mut said = client.write_all(first.as_bytes());
    while said.is_ok() && !endless.is_empty() {
        said = client.write_all(endless.as_bytes());
    }
    let _ = client.set_read_timeout(Some(Duration::from_secs(1)));
    while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_neither_believed_nor_listened_to_for_ever() {
    const LET_IN: &str = "+PONG\r\n+hash\r\n";
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
        (LET_IN, "*99999999999\r\n"),
        (LET_IN, "$99999999999\r\n"),
    ];
    for (first, endless) in rows {
        let stranger = Stranger::start(first, endless);
        let store = store(format!("redis://{}", stranger.address), Duration::from_millis(300));
        for _ in 0..3 {
            let start = Instant::now();
            let answer = take(&store, "k", &limit_of(5)).await;
            assert!(answer.is_err(), "{first:?} {endless:?}: {answer:?}");
            assert!(start.elapsed() < PATIENT / 2, "{first:?} {endless:?}");
        }
    }
}
