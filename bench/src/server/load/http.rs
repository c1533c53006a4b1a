//! HTTP/1.1, one request at a time on a keep-alive connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{PLENTY, PREPARED, Wire, keys_of};
use crate::contender::Contender;

pub(crate) struct Client {
    stream: TcpStream,
    requests: Vec<String>,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn open(contender: &Contender, number: usize) -> Self {
        let requests = keys_of(number).take(PREPARED).map(|key| request(contender, &key)).collect();
        let port = contender.port(Wire::Http).expect("a port");
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, requests, bytes: vec![0; 4 << 10] }
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let request = &self.requests[number % PREPARED];
        self.stream.write_all(request.as_bytes()).await.expect("a server that reads");
        let mut filled = 0;
        while answer_length(&self.bytes[..filled]).is_none_or(|length| filled < length) {
            let count = self.stream.read(&mut self.bytes[filled..]).await.expect("an answer");
            assert!(count > 0, "the server closed the connection");
            filled += count;
        }
        1
    }
}

/// The length of the answer, once its head has arrived.
fn answer_length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let name = "content-length: ";
    let is_length =
        |line: &&str| line.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name));
    let line = head.split("\r\n").find(is_length).expect("a length");
    Some(end + line[name.len()..].parse::<usize>().expect("a number"))
}

fn request(contender: &Contender, key: &str) -> String {
    let [burst, units, seconds] = PLENTY;
    let (path, body) = if contender.is_throttlecrab() {
        let limit = format!(r#""max_burst":{burst},"count_per_period":{units},"period":{seconds}"#);
        ("/throttle", format!(r#"{{"key":"{key}",{limit}}}"#))
    } else {
        ("/v1/check", format!(r#"{{"policy":"api","key":"{key}"}}"#))
    };
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}
