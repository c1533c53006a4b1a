//! Envoy's `ShouldRateLimit`, several calls on one connection.

use std::borrow::Cow;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::sync::Mutex;

use super::config::RequestTemplate;
use super::connection::BatchResult;
use super::error::{ErrorKind, RequestError};
use super::target::Target;
use tidegate_core::text::{percent_decoded, printable};

/// Far more than any reply has.
const REPLY_BYTES_MAX: usize = 64 << 10;
const PATH: &str = "http://tidegate/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// `RateLimitResponse.Code`.
const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;

/// Alone on its connection, or shared by several clients. One that finds the connection closed opens it again.
#[derive(Debug)]
pub(super) struct GrpcClient {
    target: Target,
    request: RequestTemplate,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
    /// 0 means 1.
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
    /// Here 0 means 0.
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    /// Present if a limit applies; its content does not matter.
    #[prost(message, optional, tag = "2")]
    current_limit: Option<()>,
}

impl GrpcClient {
    pub(super) fn new(target: &Target, request: &RequestTemplate) -> Self {
        Self { target: target.clone(), request: request.clone(), sender: Mutex::default() }
    }

    /// Asks whether a limit applies, without spending.
    pub(super) async fn probe(
        target: &Target,
        request: &RequestTemplate,
        key: &str,
    ) -> Result<(), RequestError> {
        let peek = RequestTemplate { cost: 0, ..request.clone() };
        let response = Self::new(target, &peek).call(key).await??;
        if response.statuses.iter().all(|status| status.current_limit.is_none()) {
            return Err(RequestError::new(
                ErrorKind::Refused,
                "no limit has a say: check --policy, or --domain and --descriptor",
            ));
        }
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<(), RequestError> {
        self.sender().await.map(drop)
    }

    pub(super) async fn send(&self, key: &str) -> Result<BatchResult, RequestError> {
        Ok(BatchResult::one(match self.call(key).await? {
            Ok(RateLimitResponse { overall_code: OK, .. }) => Ok(true),
            Ok(RateLimitResponse { overall_code: OVER_LIMIT, .. }) => Ok(false),
            Ok(other) => Err(RequestError::bad_reply(format!("{other:?}").as_bytes())),
            Err(refused) => Err(refused),
        }))
    }

    async fn call(
        &self,
        key: &str,
    ) -> Result<Result<RateLimitResponse, RequestError>, RequestError> {
        let request = Request::post(PATH)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(Full::new(encode(&self.request, key)))
            .map_err(|error| RequestError::new(ErrorKind::BadReply, error.to_string()))?;
        let mut sender = self.sender().await?;
        sender.ready().await.map_err(|error| lost(&error))?;
        decode(sender.send_request(request).await.map_err(|error| lost(&error))?).await
    }

    async fn sender(&self) -> Result<SendRequest<Full<Bytes>>, RequestError> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let stream = TokioIo::new(self.target.connect().await?);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| lost(&error))?;
        tokio::spawn(connection);
        *current = Some(sender.clone());
        Ok(sender)
    }
}

fn encode(request: &RequestTemplate, key: &str) -> Bytes {
    let RequestTemplate { cost, domain, entries, .. } = request;
    let entry = |(name, value): &(String, String)| Entry {
        key: name.clone(),
        value: value.replace("{}", key),
    };
    let entries = entries.iter().map(entry).collect();
    let hits_addend = (*cost == 0).then_some(0);
    let descriptors = vec![Descriptor { entries, hits_addend }];
    let request = RateLimitRequest { domain: domain.clone(), descriptors, hits_addend: *cost };
    let length = u32::try_from(request.encoded_len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &request.encode_to_vec()].concat().into()
}

async fn decode(
    response: Response<hyper::body::Incoming>,
) -> Result<Result<RateLimitResponse, RequestError>, RequestError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let why = format!("status {}: is this a gRPC address?", head.status.as_u16());
        return Ok(Err(RequestError::new(ErrorKind::Refused, why)));
    }
    let body = Limited::new(body, REPLY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| RequestError::new(ErrorKind::Lost, error.to_string()))?;
    // A reply without a message has its status in the headers.
    if let Some(refused) = body.trailers().and_then(refusal).or_else(|| refusal(&head.headers)) {
        return Ok(Err(refused));
    }
    let bytes = body.to_bytes();
    let response = bytes.get(5..).and_then(|message| RateLimitResponse::decode(message).ok());
    response.map(Ok).ok_or_else(|| RequestError::bad_reply(&bytes))
}

/// A status other than OK.
fn refusal(headers: &HeaderMap) -> Option<RequestError> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let status = text("grpc-status").filter(|status| status != "0")?;
    let message = text("grpc-message").unwrap_or_default();
    // Sent percent-encoded. A client has to show what is encoded wrongly as it came.
    let decoded = percent_decoded(&message).and_then(|bytes| String::from_utf8(bytes).ok());
    let message = decoded.map_or(message, Cow::from);
    let why = format!("gRPC status {}: {}", printable(&status), printable(&message));
    Some(RequestError::new(ErrorKind::Refused, why))
}

fn lost(error: &hyper::Error) -> RequestError {
    let kind = if error.is_parse() { ErrorKind::BadReply } else { ErrorKind::Lost };
    RequestError::new(kind, format!("HTTP/2: {error}"))
}
