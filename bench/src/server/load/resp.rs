//! Commands of the Redis protocol, many in one write.

use tidegate_bench::keys::{key, keys_of};
use tidegate_bench::wire::{connect, resp};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{CONNECTIONS, KEYS, PLENTY, Wire};
use crate::contender::Contender;

/// The integers in an answer.
const INTEGERS: usize = 5;

pub(crate) struct Client {
    stream: TcpStream,
    pipeline: usize,
    batches: Vec<String>,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn open(contender: &Contender, number: usize, pipeline: usize) -> Self {
        let keys: Vec<String> = keys_of(number, KEYS / CONNECTIONS).collect();
        let batch = |keys: &[String]| {
            let mut text = String::new();
            keys.iter().for_each(|key| throttle(&mut text, contender, key));
            text
        };
        let batches = keys.chunks_exact(pipeline).map(batch).collect();
        let port = contender.port(Wire::Resp(pipeline)).expect("a port");
        let stream = connect(port).await.expect("a connection");
        Self { stream, pipeline, batches, bytes: vec![0; 64 << 10] }
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let batch = &self.batches[number % self.batches.len()];
        resp::exchange(&mut self.stream, batch, self.pipeline, INTEGERS, &mut self.bytes).await;
        self.pipeline
    }
}

fn throttle(text: &mut String, contender: &Contender, key: &str) {
    let name = if contender.is_throttlecrab() { "THROTTLE" } else { "CL.THROTTLE" };
    let numbers = PLENTY.map(|number| number.to_string());
    resp::command(text, &[name, key, &numbers[0], &numbers[1], &numbers[2]]);
}

/// Uses many connections: over one, a server that delays small answers would take minutes.
pub(super) async fn fill(contender: &Contender, keys: usize) {
    const AT_ONCE: usize = 64;
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
                resp::exchange(&mut stream, &text, AT_ONCE, INTEGERS, &mut bytes).await;
            }
        });
    }
    while filling.join_next().await.is_some() {}
}
