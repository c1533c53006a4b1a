//! The clients of each protocol.

mod grpc;
mod http;
mod resp;

use std::fmt;

use crate::contender::Contender;

/// The protocol, and for RESP the number of commands per pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    Resp(usize),
    Http,
    Grpc,
}

impl Wire {
    /// Of its table.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Resp(1) => "resp-1",
            Self::Resp(16) => "resp-16",
            Self::Resp(_) => "resp-64",
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }

    /// What is asked there.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Resp(pipeline) => format!("RESP `CL.THROTTLE`, pipeline {pipeline}"),
            Self::Http => "HTTP `/v1/check`".to_owned(),
            Self::Grpc => "gRPC `ShouldRateLimit`, 4 × 64 in flight".to_owned(),
        }
    }

    pub(crate) const fn door(self) -> &'static str {
        match self {
            Self::Resp(_) => "resp",
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resp(pipeline) => {
                write!(f, "RESP, {CONNECTIONS} connections, pipeline {pipeline}")
            }
            Self::Http => write!(f, "HTTP, {CONNECTIONS} connections"),
            Self::Grpc => write!(f, "gRPC, 4 connections, 64 in flight on each"),
        }
    }
}

const CONNECTIONS: usize = 50;
/// The number of keys. All clients together check each of them once, and then again.
const KEYS: usize = 100_000;

/// A limit that no run uses up: burst, units, and seconds.
pub(crate) const PLENTY: [u32; 3] = [1_000_000, 1_000_000, 1];

/// One client. It has one exchange in flight at a time.
pub(crate) enum Client {
    Resp(resp::Client),
    Http(http::Client),
    Grpc(grpc::Client),
}

impl tidegate_bench::load::Client for Client {
    async fn exchange(&mut self, number: usize) -> usize {
        match self {
            Self::Resp(client) => client.exchange(number).await,
            Self::Http(client) => client.exchange(number).await,
            Self::Grpc(client) => client.exchange(number).await,
        }
    }
}

pub(crate) async fn clients(contender: &Contender, wire: Wire) -> Vec<Client> {
    let mut clients = Vec::new();
    match wire {
        Wire::Resp(pipeline) => {
            for number in 0..CONNECTIONS {
                clients.push(Client::Resp(resp::Client::open(contender, number, pipeline).await));
            }
        }
        Wire::Http => {
            for number in 0..CONNECTIONS {
                clients.push(Client::Http(http::Client::open(contender, number).await));
            }
        }
        Wire::Grpc => {
            clients.extend(grpc::Client::open_all(contender).await.into_iter().map(Client::Grpc))
        }
    }
    clients
}

/// Checks each of this many keys once.
pub(crate) async fn fill(contender: &Contender, keys: usize) {
    resp::fill(contender, keys).await;
}
