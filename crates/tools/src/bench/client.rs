//! One client of the load: it encodes requests, sends them, waits, and decodes the replies.

use std::sync::Arc;

use tidegate::{Check, Engine, Key, Op};

use super::connection::BatchResult;
use super::error::{ErrorKind, RequestError};
use super::grpc::GrpcClient;
use super::http::HttpClient;
use super::keys::Keys;
use super::resp::RespClient;

#[derive(Debug)]
pub(super) enum Client {
    Http(HttpClient),
    Grpc(Arc<GrpcClient>),
    Resp(RespClient),
    Embedded(EmbeddedClient),
}

impl Client {
    /// How many requests are sent at once.
    pub(super) fn batch_size(&self) -> u64 {
        match self {
            Self::Http(_) | Self::Grpc(_) => 1,
            Self::Resp(client) => client.pipeline,
            Self::Embedded(_) => EmbeddedClient::BATCH_SIZE,
        }
    }

    /// Sends `count` requests, with the keys from number `first`, and waits for all replies. After an error the next
    /// batch connects again.
    pub(super) async fn send(
        &mut self,
        keys: &Keys,
        first: u64,
        count: u64,
    ) -> Result<BatchResult, RequestError> {
        let batch = (first..first + count).map(|number| keys.at(number));
        match self {
            Self::Http(client) => client.send(keys.at(first)).await,
            Self::Grpc(client) => client.send(keys.at(first)).await,
            Self::Resp(client) => client.send(batch).await,
            Self::Embedded(client) => Ok(client.send(batch)),
        }
    }

    /// Closes a connection after an error: what arrives on it might be a late reply.
    pub(super) fn reset(&mut self) {
        match self {
            Self::Http(client) => client.connection.stream = None,
            Self::Resp(client) => client.connection.stream = None,
            // A call has its own stream, and a closed connection is noticed.
            Self::Grpc(_) | Self::Embedded(_) => {}
        }
    }
}

/// The library itself, with its store in memory.
#[derive(Clone, Debug)]
pub(super) struct EmbeddedClient {
    engine: Arc<Engine>,
    policy: Arc<str>,
    cost: u64,
}

impl EmbeddedClient {
    /// Decisions that are timed together: one takes about as long as reading the clock.
    const BATCH_SIZE: u64 = 64;

    /// Fails if the policy cannot be checked.
    pub(super) fn new(engine: Engine, policy: &str, cost: u32) -> Result<Self, String> {
        let check = Check { policy, key: Key::One(b"anybody"), cost: cost.into() };
        engine.validate(&check, Op::Take).map_err(|error| error.to_string())?;
        Ok(Self { engine: engine.into(), policy: policy.into(), cost: cost.into() })
    }

    fn send<'k>(&self, keys: impl Iterator<Item = &'k str>) -> BatchResult {
        let mut result = BatchResult::default();
        for key in keys {
            let key = Key::One(key.as_bytes());
            let check = Check { policy: &self.policy, key, cost: self.cost };
            let answer = self.engine.ask(&check, Op::Take).now();
            let answer = answer.map(|answer| answer.decision.allowed());
            result.add(answer.map_err(|it| RequestError::new(ErrorKind::Refused, it.to_string())));
        }
        result
    }
}
