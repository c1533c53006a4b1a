//! 50,000 checks a second over the Redis protocol, in bursts at a fixed interval.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 8;
const PIPELINE: usize = 16;
/// 8 × 16 checks every 2.56 ms are 50,000 a second.
const INTERVAL: Duration = Duration::from_micros(2560);
const KEYS: usize = 10_000;

pub(crate) struct Load {
    connections: Vec<TcpStream>,
    policy: &'static str,
    next: usize,
    out: Vec<u8>,
}

impl Load {
    pub(crate) fn open(port: u16, policy: &'static str) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            stream.set_nodelay(true).expect("no delay");
            stream
        };
        let connections = (0..CONNECTIONS).map(connect).collect();
        Self { connections, policy, next: 0, out: Vec::new() }
    }

    /// Sends checks for the length of a round. Returns how many were answered, and how long that took.
    pub(crate) fn run(&mut self, round: Duration) -> (f64, Duration) {
        let start = Instant::now();
        let mut bursts = 0;
        while start.elapsed() < round {
            self.send_burst();
            bursts += 1;
            // A late burst is caught up, so that the rate stays the same.
            std::thread::sleep((INTERVAL * bursts).saturating_sub(start.elapsed()));
        }
        (f64::from(bursts) * (CONNECTIONS * PIPELINE) as f64, start.elapsed())
    }

    fn send_burst(&mut self) {
        for index in 0..CONNECTIONS {
            self.out.clear();
            for _ in 0..PIPELINE {
                self.next = (self.next + 1) % KEYS;
                write!(self.out, "TG.CHECK {} key-{}\r\n", self.policy, self.next).expect("memory");
            }
            self.connections[index].write_all(&self.out).expect("a server that reads");
        }
        for connection in &mut self.connections {
            read_answers(connection);
        }
    }
}

/// Every answer has six lines: the array header and five integers.
fn read_answers(connection: &mut TcpStream) {
    let (mut lines, mut buffer) = (0, [0; 4096]);
    while lines < PIPELINE * 6 {
        let read = connection.read(&mut buffer).expect("a server that answers");
        assert!(read > 0, "the server closed the connection");
        assert!(buffer[0] != b'-', "{}", String::from_utf8_lossy(&buffer[..read]));
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
    }
}
