//! Closed-loop load: each client waits for the answer before it sends the next request.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The results of a run.
pub(crate) struct Load {
    took: Duration,
    /// The latency of each request in microseconds, ascending.
    us: Vec<f64>,
}

impl Load {
    pub(crate) async fn closed(port: u16, page: usize, clients: usize, span: Duration) -> Self {
        let mut streams = Vec::new();
        for _ in 0..clients {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            streams.push(stream);
        }
        let start = Instant::now();
        let run = |stream| tokio::spawn(ask(stream, page, start, span));
        let tasks: Vec<_> = streams.into_iter().map(run).collect();
        let mut us = Vec::new();
        for task in tasks {
            us.extend(task.await.expect("a client"));
        }
        us.sort_by(f64::total_cmp);
        Self { took: start.elapsed(), us }
    }

    pub(crate) fn count(&self) -> usize {
        self.us.len()
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.us.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.us[((self.us.len() - 1) as f64 * quantile).round() as usize]
    }
}

async fn ask(mut stream: TcpStream, page: usize, start: Instant, span: Duration) -> Vec<f64> {
    let request = format!(
        "GET /{page} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\n\
         Accept-Encoding: gzip\r\nCookie: session=0123456789abcdef\r\n\r\n"
    );
    let (mut bytes, mut us) = (vec![0; page + (4 << 10)], Vec::new());
    while start.elapsed() < span {
        let since = Instant::now();
        stream.write_all(request.as_bytes()).await.expect("a server that reads");
        let (mut filled, mut length) = (0, None);
        while length.is_none_or(|length| filled < length) {
            let count = stream.read(&mut bytes[filled..]).await.expect("an answer");
            assert!(count > 0, "the server closed the connection");
            filled += count;
            length = length.or_else(|| answer_length(&bytes[..filled], page));
        }
        us.push(since.elapsed().as_secs_f64() * 1e6);
    }
    us
}

/// The length of the answer, once its head has arrived.
fn answer_length(bytes: &[u8], page: usize) -> Option<usize> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(bytes));
    Some(end + page)
}
