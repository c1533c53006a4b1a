//! `ShouldRateLimit`: decodes the message, decides, encodes the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Buf;
use hyper::body::Bytes;
use prost::Message;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::UnaryService;
use tonic::{Request, Response, Status};

use super::super::decide::{DecideError, decide};
use super::super::wire::{self, RateLimitResponse};
use crate::metrics::Door;
use crate::service::AppState;

/// Subtracted from the caller's deadline, so that the response arrives in time.
const RESPONSE_MARGIN: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) struct ShouldRateLimit {
    pub(super) app: Arc<AppState>,
}

impl UnaryService<Bytes> for ShouldRateLimit {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let app = self.app.clone();
        Box::pin(async move {
            let timeout = caller_timeout(request.metadata());
            answer(&app, &request.into_inner(), timeout).await.map(Response::new)
        })
    }
}

async fn answer(
    app: &AppState,
    message: &[u8],
    timeout: Option<Duration>,
) -> Result<RateLimitResponse, Status> {
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Grpc).within(timeout);
    let request = wire::decode(message).map_err(|bad| Status::invalid_argument(bad.0))?;
    let answer = decide(call, &request).await.map_err(|error| match error {
        DecideError::BadRequest(why) => Status::invalid_argument(why),
        DecideError::UnknownPolicy(why) => Status::not_found(why),
        DecideError::Unavailable(why) => Status::unavailable(why),
    })?;
    Ok((&answer).into())
}

/// The caller's deadline less the margin. `20m` is twenty milliseconds.
fn caller_timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // At most eight digits, as the protocol says, so that nothing overflows.
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let given = match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(given.saturating_sub(RESPONSE_MARGIN))
}

/// Passes requests on undecoded, because the decoded request borrows from the bytes; encodes responses.
#[derive(Clone, Copy, Debug)]
pub(super) struct RlsCodec;

/// Requests and responses have about a hundred bytes. The default buffers of 8 KiB cost more than all the rest of a
/// call.
fn buffers() -> BufferSettings {
    BufferSettings::new(512, 8 << 10)
}

impl Codec for RlsCodec {
    type Encode = RateLimitResponse;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RlsCodec {
    type Item = RateLimitResponse;
    type Error = Status;

    fn encode(&mut self, answer: RateLimitResponse, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(to).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

impl Decoder for RlsCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_parsed() {
        for (text, expected) in [
            ("20m", Some(Duration::from_millis(15))),
            ("250000u", Some(Duration::from_millis(245))),
            ("1S", Some(Duration::from_millis(995))),
            ("2H", Some(Duration::from_millis(7_199_995))),
            ("1m", Some(Duration::ZERO)),
            ("999999999m", None),
            ("20", None),
            ("m", None),
            ("-1m", None),
            ("", None),
            ("2ö", None),
        ] {
            let mut metadata = MetadataMap::new();
            if let Ok(value) = text.parse() {
                metadata.insert("grpc-timeout", value);
            }
            assert_eq!(caller_timeout(&metadata), expected, "{text}");
        }
    }
}
