//! gRPC: requests are encoded in advance.

use bytes::Bytes;
use tidegate_bench::keys::keys_of;
use tidegate_bench::wire::grpc::{
    Channel, SHOULD_RATE_LIMIT, framed, should_rate_limit, text, varint,
};

use super::{KEYS, PLENTY, Wire};
use crate::contender::Contender;

const CONNECTIONS: usize = 4;
const IN_FLIGHT: usize = 64;

pub(crate) struct Client {
    channel: Channel,
    path: &'static str,
    messages: Vec<Bytes>,
}

impl Client {
    pub(super) async fn open_all(contender: &Contender) -> Vec<Self> {
        let port = contender.port(Wire::Grpc).expect("a port");
        let path = if contender.is_throttlecrab() {
            "http://bench/throttlecrab.RateLimiter/Throttle"
        } else {
            SHOULD_RATE_LIMIT
        };
        let mut clients = Vec::new();
        for connection in 0..CONNECTIONS {
            let channel = Channel::open(port).await.expect("a connection");
            for number in 0..IN_FLIGHT {
                let count = KEYS / (CONNECTIONS * IN_FLIGHT);
                let keys = keys_of(connection * IN_FLIGHT + number, count);
                let messages = keys.map(|key| message(contender, &key)).collect();
                clients.push(Self { channel: channel.clone(), path, messages });
            }
        }
        clients
    }

    pub(super) async fn exchange(&mut self, number: usize) -> usize {
        let message = self.messages[number % self.messages.len()].clone();
        self.channel.call(self.path, message).await.expect("an answer");
        1
    }
}

fn message(contender: &Contender, key: &str) -> Bytes {
    if !contender.is_throttlecrab() {
        return should_rate_limit("api", key);
    }
    let mut message = text(1, key.as_bytes());
    for (field, number) in (2..).zip(PLENTY.into_iter().chain([1])) {
        message.push(field << 3);
        varint(&mut message, number);
    }
    framed(&message)
}
