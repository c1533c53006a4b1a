//! HTTP/1.1, one request at a time on a keep-alive connection.

use tidegate_bench::keys::keys_of;
use tidegate_bench::wire::{connect, http};
use tokio::net::TcpStream;

use super::{CONNECTIONS, KEYS, PLENTY, Wire};
use crate::contender::Contender;

pub(crate) struct Client {
    stream: TcpStream,
    requests: Vec<String>,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn open(contender: &Contender, number: usize) -> Self {
        let keys = keys_of(number, KEYS / CONNECTIONS);
        let requests = keys.map(|key| request(contender, &key)).collect();
        let port = contender.port(Wire::Http).expect("a port");
        let stream = connect(port).await.expect("a connection");
        Self { stream, requests, bytes: vec![0; 4 << 10] }
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let request = &self.requests[number % self.requests.len()];
        http::exchange(&mut self.stream, request, &mut self.bytes).await.expect("an answer");
        1
    }
}

fn request(contender: &Contender, key: &str) -> String {
    let [burst, units, seconds] = PLENTY;
    let (path, body) = if contender.is_throttlecrab() {
        let limit = format!(r#""max_burst":{burst},"count_per_period":{units},"period":{seconds}"#);
        ("/throttle", format!(r#"{{"key":"{key}",{limit}}}"#))
    } else {
        ("/v1/check", format!(r#"{{"policy":"api","key":"{key}"}}"#))
    };
    http::post(path, &body)
}
