//! A connection of the load, and what comes back on it.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::error::RequestError;
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
        let Some(stream) = &mut self.stream else { return Err(RequestError::closed_after(b"")) };
        stream.write_all(&self.output).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        self.input.clear();
        loop {
            if stream.read_buf(&mut self.input).await.map_err(lost)? == 0 {
                return Err(RequestError::closed_after(&self.input));
            }
            if let Some(value) = decode(&mut self.input)? {
                return Ok(value);
            }
        }
    }
}
