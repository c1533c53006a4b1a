//! `ShouldRateLimit`: the message in, the message out.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::Buf;
use prost::Message;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::server::UnaryService;
use tonic::{Request, Response, Status};

use super::super::decide::{Trouble, decide};
use super::super::wire::{self, RateLimitResponse};
use crate::metrics::DoorName;
use crate::service::AppState;

/// What is left to the caller of the time that it gave, for the way back.
const WAY_BACK: Duration = Duration::from_millis(5);

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) app: Arc<AppState>,
}

impl UnaryService<Bytes> for Call {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Result<Response<RateLimitResponse>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let app = self.app.clone();
        Box::pin(async move {
            let timeout = timeout_of(request.metadata());
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
    let call = app.call(&in_force, DoorName::Grpc).within(timeout);
    let request = wire::decode(message).map_err(|bad| Status::invalid_argument(bad.0))?;
    let ruling = decide(call, &request).await.map_err(|trouble| match trouble {
        Trouble::Bad(why) => Status::invalid_argument(why),
        Trouble::Unknown(why) => Status::not_found(why),
        Trouble::Unavailable(why) => Status::unavailable(why),
    })?;
    Ok((&ruling).into())
}

/// How long the caller waits for an answer, less the way back: `20m` are twenty milliseconds.
fn timeout_of(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The protocol has at most eight digits, so that nothing overflows.
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
    Some(given.saturating_sub(WAY_BACK))
}

/// The request as it is, to be read where it is answered; and answers as they are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct RlsCodec;

/// A message in, or out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages;

/// An answer is about a hundred bytes, and so is a request. The default of eight kilobytes for each costs more than all
/// that is done with them.
fn buffers() -> BufferSettings {
    BufferSettings::new(512, 8 << 10)
}

impl Codec for RlsCodec {
    type Encode = RateLimitResponse;
    type Decode = Bytes;
    type Encoder = Messages;
    type Decoder = Messages;

    fn encoder(&mut self) -> Messages {
        Messages
    }

    fn decoder(&mut self) -> Messages {
        Messages
    }
}

impl Encoder for Messages {
    type Item = RateLimitResponse;
    type Error = Status;

    fn encode(&mut self, answer: RateLimitResponse, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(to).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

impl Decoder for Messages {
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
    fn the_time_of_a_call_is_read_as_grpc_spells_it() {
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
            assert_eq!(timeout_of(&metadata), expected, "{text}");
        }
    }
}
