//! Commands of the Redis protocol, many in one write.

use std::fmt::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{PLENTY, PREPARED, Wire, key, keys_of};
use crate::contender::Contender;

/// The number of newlines in an answer of five integers.
const NEWLINES: usize = 6;

pub(crate) struct Client {
    stream: TcpStream,
    pipeline: usize,
    batches: Vec<String>,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn open(contender: &Contender, number: usize, pipeline: usize) -> Self {
        let mut keys = keys_of(number);
        let mut batch = |_| {
            let mut text = String::new();
            keys.by_ref().take(pipeline).for_each(|key| throttle(&mut text, contender, &key));
            text
        };
        let batches = (0..PREPARED).map(&mut batch).collect();
        let port = contender.port(Wire::Resp(pipeline)).expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, pipeline, batches, bytes: vec![0; 64 << 10] }
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let batch = &self.batches[number % PREPARED];
        send(&mut self.stream, batch, self.pipeline, &mut self.bytes).await;
        self.pipeline
    }
}

/// Sends commands, and waits for their answers.
async fn send(stream: &mut TcpStream, text: &str, commands: usize, bytes: &mut [u8]) {
    stream.write_all(text.as_bytes()).await.expect("a server that reads");
    let mut lines = 0;
    while lines < commands * NEWLINES {
        let count = stream.read(bytes).await.expect("an answer");
        assert!(count > 0, "the server closed the connection");
        let answer = &bytes[..count];
        assert!(lines > 0 || answer[0] == b'*', "{}", String::from_utf8_lossy(answer));
        lines += answer.iter().filter(|byte| **byte == b'\n').count();
    }
}

fn throttle(text: &mut String, contender: &Contender, key: &str) {
    let name = if contender.is_throttlecrab() { "THROTTLE" } else { "CL.THROTTLE" };
    let numbers = PLENTY.map(|number| number.to_string());
    let parts = [name, key, &numbers[0], &numbers[1], &numbers[2]];
    let _ = write!(text, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(text, "${}\r\n{part}\r\n", part.len());
    }
}

/// Uses many connections: over one, a server that delays small answers would take minutes.
pub(super) async fn fill(contender: &Contender, keys: usize) {
    const AT_ONCE: usize = 64;
    const CONNECTIONS: usize = 50;
    let port = contender.port(Wire::Resp(AT_ONCE)).expect("a port");
    let mut filling = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let batch = |first: usize| {
            let mut text = String::new();
            (first..first + AT_ONCE)
                .for_each(|number| throttle(&mut text, contender, &key(number)));
            text
        };
        let firsts = (0..keys).step_by(AT_ONCE).skip(connection).step_by(CONNECTIONS);
        let batches: Vec<_> = firsts.map(batch).collect();
        filling.spawn(async move {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            let mut bytes = vec![0; 64 << 10];
            for text in batches {
                send(&mut stream, &text, AT_ONCE, &mut bytes).await;
            }
        });
    }
    while filling.join_next().await.is_some() {}
}
