//! One client of one door of one node, with one exchange in flight.

use tidegate_bench::wire::{connect, grpc, http, resp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Door;
use crate::fleet::Ports;
use crate::traffic::Ask;

/// The lines of an answer: the head of an array and five integers.
const LINES: usize = 6;
/// Room for the answers to a pipeline.
const BYTES: usize = 4 << 10;

pub(crate) struct Client {
    door: Door,
    ports: Ports,
    connection: Connection,
}

enum Connection {
    Lines(TcpStream, Vec<u8>),
    Grpc(grpc::Channel),
}

impl Client {
    /// All clients of a door. Those of gRPC share a connection.
    pub(crate) async fn open_all(door: Door, ports: Ports) -> Result<Vec<Self>, String> {
        let mut clients: Vec<Self> = Vec::new();
        for _ in 0..door.clients() {
            let connection = match clients.first().map(|first| &first.connection) {
                Some(Connection::Grpc(channel)) => Connection::Grpc(channel.clone()),
                _ => Connection::open(door, ports).await?,
            };
            clients.push(Self { door, ports, connection });
        }
        Ok(clients)
    }

    pub(crate) const fn door(&self) -> Door {
        self.door
    }

    pub(crate) async fn reopen(&mut self) -> Result<(), String> {
        self.connection = Connection::open(self.door, self.ports).await?;
        Ok(())
    }

    /// Asks, and appends whether each request is admitted.
    pub(crate) async fn exchange(
        &mut self,
        asks: &[Ask],
        admits: &mut Vec<bool>,
    ) -> Result<(), String> {
        match &mut self.connection {
            Connection::Grpc(channel) => {
                let message = grpc::should_rate_limit(asks[0].policy, &asks[0].key);
                let answer = channel.call(grpc::SHOULD_RATE_LIMIT, message).await?;
                admits.push(grpc::admits(&answer)?);
            }
            Connection::Lines(stream, bytes) if self.door == Door::Http => {
                let Ask { policy, key, .. } = &asks[0];
                let body = format!(r#"{{"policy":"{policy}","key":"{key}"}}"#);
                let request = http::post("/v1/check", &body);
                let answer = http::exchange(stream, &request, bytes).await?;
                admits.push(match answer {
                    [b'{', rest @ ..] if rest.starts_with(br#""allowed":true,"#) => true,
                    [b'{', rest @ ..] if rest.starts_with(br#""allowed":false,"#) => false,
                    other => return Err(String::from_utf8_lossy(other).into_owned()),
                });
            }
            Connection::Lines(stream, bytes) => {
                let mut text = String::new();
                asks.iter()
                    .for_each(|ask| resp::command(&mut text, &["TG.CHECK", ask.policy, &ask.key]));
                stream.write_all(text.as_bytes()).await.map_err(|error| error.to_string())?;
                read_answers(stream, asks.len(), bytes, admits).await?;
            }
        }
        Ok(())
    }
}

impl Connection {
    async fn open(door: Door, ports: Ports) -> Result<Self, String> {
        let lines = async |port| {
            let stream = connect(port).await.map_err(|error| error.to_string())?;
            Ok(Self::Lines(stream, vec![0; BYTES]))
        };
        match door {
            Door::Http => lines(ports.http).await,
            Door::Resp => lines(ports.resp).await,
            Door::Grpc => grpc::Channel::open(ports.grpc).await.map(Self::Grpc),
        }
    }
}

/// Reads the answers of `TG.CHECK`. The first integer of each is 0 if the request is admitted.
async fn read_answers(
    stream: &mut TcpStream,
    count: usize,
    bytes: &mut [u8],
    admits: &mut Vec<bool>,
) -> Result<(), String> {
    let (mut filled, mut parsed, mut line) = (0, 0, 0);
    while line < count * LINES {
        let read = stream.read(&mut bytes[filled..]).await.map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("the server closed the connection, or its answers are too long".to_owned());
        }
        filled += read;
        while let Some(length) = bytes[parsed..filled].iter().position(|byte| *byte == b'\n') {
            let text = &bytes[parsed..parsed + length];
            match (line % LINES, text) {
                (0, [b'*', ..]) | (2.., [b':', ..]) => {}
                (1, [b':', code, ..]) => admits.push(*code == b'0'),
                _ => return Err(String::from_utf8_lossy(text).trim().to_owned()),
            }
            (parsed, line) = (parsed + length + 1, line + 1);
        }
    }
    Ok(())
}
