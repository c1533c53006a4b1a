//! gRPC over HTTP/2, by hand: of an answer only the status and the first bytes are decoded.

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{HeaderValue, Request};

pub const SHOULD_RATE_LIMIT: &str =
    "http://bench/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// A connection that many calls share.
#[derive(Clone)]
pub struct Channel(SendRequest<Bytes>);

impl Channel {
    pub async fn open(port: u16) -> Result<Self, String> {
        let stream = super::connect(port).await.map_err(|error| error.to_string())?;
        let mut builder = Builder::new();
        builder.initial_window_size(1 << 20).initial_connection_window_size(16 << 20);
        let (sender, driver) =
            builder.handshake(stream).await.map_err(|error| error.to_string())?;
        tokio::spawn(driver);
        Ok(Self(sender))
    }

    /// One call. Returns the first part of the answer, with gRPC's prefix of five bytes.
    pub async fn call(&self, path: &'static str, message: Bytes) -> Result<Bytes, String> {
        let (first, status) =
            self.exchange(path, message).await.map_err(|error| error.to_string())?;
        match status.as_ref().map(HeaderValue::as_bytes) {
            Some(b"0") if first.len() > 5 => Ok(first),
            _ => Err(format!("gRPC status {status:?} after {} bytes", first.len())),
        }
    }

    async fn exchange(
        &self,
        path: &'static str,
        message: Bytes,
    ) -> Result<(Bytes, Option<HeaderValue>), h2::Error> {
        let request = Request::post(path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a request");
        let mut sender = self.0.clone().ready().await?;
        let (answer, mut body) = sender.send_request(request, false)?;
        body.send_data(message, true)?;
        let mut answer = answer.await?.into_body();
        let mut first = Bytes::new();
        while let Some(data) = answer.data().await {
            let data = data?;
            let _ = answer.flow_control().release_capacity(data.len());
            if first.is_empty() {
                first = data;
            }
        }
        let trailers = answer.trailers().await?.unwrap_or_default();
        Ok((first, trailers.get("grpc-status").cloned()))
    }
}

/// A request to check one key of a policy. The domain means tidegate's own policies: in another one, without rules,
/// nothing is limited.
pub fn should_rate_limit(policy: &str, key: &str) -> Bytes {
    let entry = |name: &str, value: &str| {
        text(1, &[text(1, name.as_bytes()), text(2, value.as_bytes())].concat())
    };
    let descriptor = [entry("policy", policy), entry("user", key)].concat();
    framed(&[text(1, b"tidegate"), text(2, &descriptor)].concat())
}

/// Whether the answer of `ShouldRateLimit` admits, from its first field, `overall_code`: `OK` or `OVER_LIMIT`.
pub fn admits(answer: &[u8]) -> Result<bool, String> {
    match answer.get(5..7) {
        Some([8, 1]) => Ok(true),
        Some([8, 2]) => Ok(false),
        other => Err(format!("no overall_code: {other:?}")),
    }
}

/// A message after gRPC's prefix of five bytes.
pub fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

/// A field of text, in protobuf.
pub fn text(field: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![field << 3 | 2];
    varint(&mut bytes, u32::try_from(value.len()).expect("a short text"));
    bytes.extend_from_slice(value);
    bytes
}

pub fn varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
