//! One client of the load: it encodes requests, sends them, waits, and decodes the replies.

use std::io;
use std::sync::Arc;

use tidegate::{Check, Engine, Key, Op};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::{ErrorKind, RequestError};
use super::grpc::GrpcClient;
use super::http::HttpClient;
use super::keys::Keys;
use super::resp::RespClient;
use super::target::Target;
use crate::client::Stream;

/// The replies to one batch.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchResult {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// How many replies were errors, and the first of them.
    pub(super) refused: Option<(u64, RequestError)>,
}

impl BatchResult {
    pub(super) fn add(&mut self, reply: Result<bool, RequestError>) {
        match reply {
            Ok(true) => self.allowed += 1,
            Ok(false) => self.denied += 1,
            Err(error) => self.refused.get_or_insert((0, error)).0 += 1,
        }
    }

    pub(super) fn one(reply: Result<bool, RequestError>) -> Self {
        let mut result = Self::default();
        result.add(reply);
        result
    }
}

#[derive(Debug)]
pub(super) enum Client {
    Http(HttpClient),
    Grpc(GrpcClient),
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

/// A connection with a buffer for requests and one for replies.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) stream: Option<Stream>,
    pub(super) output: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    pub(super) async fn connect(&mut self, target: &Target) -> Result<(), RequestError> {
        self.stream = Some(target.connect().await?);
        Ok(())
    }

    /// Sends `output`, and reads until `decode` returns a value. It gets all bytes that have arrived, and may remove
    /// those it has read.
    pub(super) async fn exchange<T>(
        &mut self,
        mut decode: impl FnMut(&mut Vec<u8>) -> Result<Option<T>, RequestError>,
    ) -> Result<T, RequestError> {
        let lost = |error: io::Error| RequestError::lost(&error);
        let Some(stream) = &mut self.stream else { return Err(RequestError::closed()) };
        stream.write_all(&self.output).await.map_err(lost)?;
        self.input.clear();
        loop {
            if stream.read_buf(&mut self.input).await.map_err(lost)? == 0 {
                return Err(RequestError::closed());
            }
            if let Some(value) = decode(&mut self.input)? {
                return Ok(value);
            }
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
