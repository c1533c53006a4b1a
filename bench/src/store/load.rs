//! The clients of each protocol. Every answer must admit.

use bytes::Bytes;
use tidegate_bench::keys::keys_of;
use tidegate_bench::load::Client;
use tidegate_bench::wire::{connect, grpc, http, resp};
use tokio::net::TcpStream;

use crate::contender::{Contender, DOMAIN, Kind, POLICY};

const CONNECTIONS: usize = 50;
const GRPC_CONNECTIONS: usize = 4;
/// On each connection of gRPC.
const IN_FLIGHT: usize = 64;
/// The number of keys. All clients together check each of them once, and then again.
const KEYS: usize = 100_000;
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

    pub(crate) const ENVOY_AND_HTTP: [Self; 2] = [Self::Http, Self::Grpc];

    /// The identifier of its table, and its title.
    pub(crate) const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Http => ["http", "HTTP, 50 connections"],
            Self::Grpc => ["grpc", "gRPC `ShouldRateLimit`, 4 connections, 64 in flight on each"],
            Self::Resp(1) => ["resp-1", "RESP `TG.CHECK`, 50 connections, pipeline 1"],
            Self::Resp(_) => ["resp-16", "RESP `TG.CHECK`, 50 connections, pipeline 16"],
        }
    }

    /// limitador's cached storage stopped answering under gRPC, its threads blocked: it is measured over HTTP alone.
    pub(crate) fn is_spoken_by(self, contender: &Contender) -> bool {
        match self {
            Self::Http => true,
            Self::Grpc => contender.kind != Kind::LimitadorCached,
            Self::Resp(_) => contender.resp.is_some(),
        }
    }
}

pub(crate) enum Connection {
    Http { stream: TcpStream, requests: Vec<String>, admitted: &'static [u8], bytes: Vec<u8> },
    Grpc { channel: grpc::Channel, messages: Vec<Bytes> },
    Resp { stream: TcpStream, batches: Vec<String>, pipeline: usize, bytes: Vec<u8> },
}

impl Client for Connection {
    async fn exchange(&mut self, number: usize) -> usize {
        match self {
            Self::Http { stream, requests, admitted, bytes } => {
                let answer =
                    http::exchange(stream, &requests[number % requests.len()], bytes).await;
                let answer = answer.expect("an answer");
                assert!(answer.starts_with(admitted), "{}", String::from_utf8_lossy(answer));
                1
            }
            Self::Grpc { channel, messages } => {
                let answer = channel
                    .call(grpc::SHOULD_RATE_LIMIT, messages[number % messages.len()].clone())
                    .await;
                assert_eq!(grpc::admits(&answer.expect("an answer")), Ok(true));
                1
            }
            Self::Resp { stream, batches, pipeline, bytes } => {
                resp::exchange(
                    stream,
                    &batches[number % batches.len()],
                    *pipeline,
                    INTEGERS,
                    bytes,
                )
                .await;
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
                let requests = keys_of(number, KEYS / CONNECTIONS);
                let requests = requests.map(|key| check(contender, &key)).collect();
                let admitted: &[u8] = match contender.kind.is_tidegate() {
                    true => br#"{"allowed":true,"#,
                    // Its status says it.
                    false => b"null",
                };
                let bytes = vec![0; 4 << 10];
                clients.push(Connection::Http { stream, requests, admitted, bytes });
            }
        }
        Wire::Grpc => {
            for connection in 0..GRPC_CONNECTIONS {
                let channel = grpc::Channel::open(contender.grpc).await.expect("a connection");
                for number in 0..IN_FLIGHT {
                    let keys = keys_of(
                        connection * IN_FLIGHT + number,
                        KEYS / (GRPC_CONNECTIONS * IN_FLIGHT),
                    );
                    let messages = keys.map(|key| grpc::should_rate_limit(POLICY, &key)).collect();
                    clients.push(Connection::Grpc { channel: channel.clone(), messages });
                }
            }
        }
        Wire::Resp(pipeline) => {
            let port = contender.resp.expect("a door for RESP");
            for number in 0..CONNECTIONS {
                let stream = connect(port).await.expect("a connection");
                let keys: Vec<String> = keys_of(number, KEYS / CONNECTIONS).collect();
                let batches = keys.chunks_exact(pipeline).map(batch).collect();
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
    if contender.kind.is_tidegate() {
        return http::post("/v1/check", &format!(r#"{{"policy":"{POLICY}","key":"{key}"}}"#));
    }
    let body = format!(r#"{{"namespace":"{DOMAIN}","values":{{"user":"{key}"}},"delta":1}}"#);
    http::post("/check_and_report", &body)
}

fn batch(keys: &[String]) -> String {
    let mut text = String::new();
    keys.iter().for_each(|key| resp::command(&mut text, &["TG.CHECK", POLICY, key]));
    text
}
