//! The clients of each protocol. Every answer must admit.

use bytes::Bytes;
use tidegate_bench::load::Client;
use tidegate_bench::wire::{connect, grpc, http, resp};
use tokio::net::TcpStream;

use crate::contender::{Contender, DOMAIN, Kind, POLICY};

const CONNECTIONS: usize = 50;
const GRPC_CONNECTIONS: usize = 4;
/// On each connection of gRPC.
const IN_FLIGHT: usize = 64;
/// The number of keys.
const KEYS: usize = 100_000;
/// Requests that a client builds in advance, so that building them is not measured.
const PREPARED: usize = 256;
/// The integers in an answer of `TG.CHECK`, after its head.
const INTEGERS: usize = 5;

/// The protocol, and for RESP the number of commands per pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    Http,
    Grpc,
    Resp(usize),
}

impl Wire {
    pub(crate) const ALL: [Self; 4] = [Self::Http, Self::Grpc, Self::Resp(1), Self::Resp(16)];

    /// The identifier of its table, and its title.
    pub(crate) const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Http => ["http", "HTTP, 50 connections"],
            Self::Grpc => ["grpc", "gRPC `ShouldRateLimit`, 4 connections, 64 in flight on each"],
            Self::Resp(1) => ["resp-1", "RESP `TG.CHECK`, 50 connections, pipeline 1"],
            Self::Resp(_) => ["resp-16", "RESP `TG.CHECK`, 50 connections, pipeline 16"],
        }
    }

    pub(crate) fn is_spoken_by(self, contender: &Contender) -> bool {
        !matches!(self, Self::Resp(_)) || contender.resp.is_some()
    }
}

pub(crate) enum Connection {
    Http { stream: TcpStream, requests: Vec<String>, admitted: &'static [u8], bytes: Vec<u8> },
    Grpc { channel: grpc::Channel, messages: Vec<Bytes> },
    Resp { stream: TcpStream, batches: Vec<String>, pipeline: usize, bytes: Vec<u8> },
}

impl Client for Connection {
    async fn exchange(&mut self, number: usize) -> usize {
        let turn = number % PREPARED;
        match self {
            Self::Http { stream, requests, admitted, bytes } => {
                let answer = http::exchange(stream, &requests[turn], bytes).await;
                let answer = answer.expect("an answer");
                assert!(answer.starts_with(admitted), "{}", String::from_utf8_lossy(answer));
                1
            }
            Self::Grpc { channel, messages } => {
                let answer = channel.call(grpc::SHOULD_RATE_LIMIT, messages[turn].clone()).await;
                assert_eq!(grpc::admits(&answer.expect("an answer")), Ok(true));
                1
            }
            Self::Resp { stream, batches, pipeline, bytes } => {
                resp::exchange(stream, &batches[turn], *pipeline, INTEGERS, bytes).await;
                *pipeline
            }
        }
    }
}

/// All clients of a protocol.
pub(crate) async fn clients(contender: &Contender, wire: Wire) -> Vec<Connection> {
    let mut clients = Vec::new();
    match wire {
        Wire::Http => {
            for number in 0..CONNECTIONS {
                let stream = connect(contender.http).await.expect("a connection");
                let requests = keys_of(number, 1).map(|key| check(contender, &key)).collect();
                let admitted: &[u8] = match contender.kind {
                    Kind::Tidegate => br#"{"allowed":true,"#,
                    // Its status says it.
                    Kind::Limitador | Kind::LimitadorCached => b"null",
                };
                let bytes = vec![0; 4 << 10];
                clients.push(Connection::Http { stream, requests, admitted, bytes });
            }
        }
        Wire::Grpc => {
            for connection in 0..GRPC_CONNECTIONS {
                let channel = grpc::Channel::open(contender.grpc).await.expect("a connection");
                for number in 0..IN_FLIGHT {
                    let keys = keys_of(connection * IN_FLIGHT + number, 1);
                    let messages = keys.map(|key| grpc::should_rate_limit(POLICY, &key)).collect();
                    clients.push(Connection::Grpc { channel: channel.clone(), messages });
                }
            }
        }
        Wire::Resp(pipeline) => {
            let port = contender.resp.expect("a door for RESP");
            for number in 0..CONNECTIONS {
                let stream = connect(port).await.expect("a connection");
                let keys: Vec<String> = keys_of(number, pipeline).collect();
                let batches = keys.chunks(pipeline).map(batch).collect();
                clients.push(Connection::Resp {
                    stream,
                    batches,
                    pipeline,
                    bytes: vec![0; 16 << 10],
                });
            }
        }
    }
    clients
}

fn check(contender: &Contender, key: &str) -> String {
    match contender.kind {
        Kind::Tidegate => {
            http::post("/v1/check", &format!(r#"{{"policy":"{POLICY}","key":"{key}"}}"#))
        }
        Kind::Limitador | Kind::LimitadorCached => {
            let body =
                format!(r#"{{"namespace":"{DOMAIN}","values":{{"user":"{key}"}},"delta":1}}"#);
            http::post("/check_and_report", &body)
        }
    }
}

fn batch(keys: &[String]) -> String {
    let mut text = String::new();
    keys.iter().for_each(|key| resp::command(&mut text, &["TG.CHECK", POLICY, key]));
    text
}

/// The keys of a client, for so many commands per exchange: spread over all keys, and different from those of others.
fn keys_of(client: usize, pipeline: usize) -> impl Iterator<Item = String> {
    (0..PREPARED * pipeline).map(move |turn| {
        let number = client * PREPARED * 64 + turn;
        tidegate_bench::keys::key((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % KEYS)
    })
}
