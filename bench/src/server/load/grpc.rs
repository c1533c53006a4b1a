//! gRPC over HTTP/2, by hand: requests are encoded in advance, and of an answer only the status is decoded.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::Request;
use tokio::net::TcpStream;

use super::{PLENTY, PREPARED, Wire, keys_of};
use crate::contender::Contender;

const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 64;

pub(crate) struct Client {
    sender: SendRequest<Bytes>,
    path: &'static str,
    messages: Vec<Bytes>,
}

impl Client {
    pub(super) async fn open_all(contender: &Contender) -> Vec<Self> {
        let port = contender.port(Wire::Grpc).expect("a port");
        let path = if contender.is_throttlecrab() {
            "http://bench/throttlecrab.RateLimiter/Throttle"
        } else {
            "http://bench/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
        };
        let mut clients = Vec::new();
        for connection in 0..CONNECTIONS {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let mut builder = Builder::new();
            builder.initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
            let (sender, driver) = builder.handshake(stream).await.expect("HTTP/2");
            tokio::spawn(driver);
            for number in 0..IN_FLIGHT {
                let keys = keys_of(connection * IN_FLIGHT + number).take(PREPARED);
                let messages = keys.map(|key| message(contender, &key)).collect();
                clients.push(Self { sender: sender.clone(), path, messages });
            }
        }
        clients
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let request = Request::post(self.path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a request");
        let mut sender = self.sender.clone().ready().await.expect("a connection");
        let (answer, mut body) = sender.send_request(request, false).expect("a server that reads");
        body.send_data(self.messages[number % PREPARED].clone(), true)
            .expect("a server that reads");
        let mut answer = answer.await.expect("an answer").into_body();
        let mut length = 0;
        while let Some(data) = answer.data().await {
            let data = data.expect("an answer");
            length += data.len();
            let _ = answer.flow_control().release_capacity(data.len());
        }
        let trailers = answer.trailers().await.expect("an end").unwrap_or_default();
        let status = trailers.get("grpc-status").map(http::HeaderValue::as_bytes);
        assert!(status == Some(b"0") && length > 5, "{trailers:?}");
        1
    }
}

/// A message after gRPC's prefix of five bytes.
fn message(contender: &Contender, key: &str) -> Bytes {
    let message = if contender.is_throttlecrab() {
        let mut message = text(1, key.as_bytes());
        for (field, number) in (2..).zip(PLENTY.into_iter().chain([1])) {
            message.push(field << 3);
            varint(&mut message, number);
        }
        message
    } else {
        let entry = |name: &str, value: &str| {
            text(1, &[text(1, name.as_bytes()), text(2, value.as_bytes())].concat())
        };
        let descriptor = [entry("policy", "api"), entry("user", key)].concat();
        [text(1, b"bench"), text(2, &descriptor)].concat()
    };
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), &message].concat().into()
}

fn text(field: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 2];
    varint(&mut bytes, u32::try_from(value.len()).expect("a short text"));
    bytes.extend_from_slice(value);
    bytes
}

fn varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
