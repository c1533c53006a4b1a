//! Envoy's `ShouldRateLimit`, several calls on one connection.

use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HeaderMap, TE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::sync::Mutex;

use super::{Answers, Kind, Trouble};
use crate::bench::question::Question;
use crate::bench::target::Target;
use tidegate_core::text::printable;

/// Far more than any answer has.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const PATH: &str = "http://tidegate/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// `RateLimitResponse.Code`.
const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;

/// What is the same in every call.
#[derive(Debug)]
pub(in super::super) struct Form {
    target: Target,
    question: Question,
}

/// A connection that several share. Whoever finds it closed opens it again.
#[derive(Debug)]
pub(in super::super) struct Connection {
    form: Arc<Form>,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    connection: Arc<Connection>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Call {
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
    /// Where it says 0 it is 0.
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

/// What is read of an answer.
#[derive(Clone, PartialEq, prost::Message)]
struct Verdict {
    #[prost(int32, tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    /// Whatever it is: there if a limit had a say.
    #[prost(message, optional, tag = "2")]
    current_limit: Option<()>,
}

impl Form {
    /// Finds out whether a limit answers, and spends nothing.
    pub(in super::super) async fn find(
        target: &Target,
        question: &Question,
        key: &str,
    ) -> Result<Self, Trouble> {
        let peek = Question { cost: 0, ..question.clone() };
        let peek = Arc::new(Self { target: target.clone(), question: peek });
        let verdict = Line::new(peek).ask(key).await??;
        if verdict.statuses.iter().all(|status| status.current_limit.is_none()) {
            return Err(Trouble::new(
                Kind::Refused,
                "no limit has a say: check --policy, or --domain and --descriptor",
            ));
        }
        Ok(Self { target: target.clone(), question: question.clone() })
    }

    fn encode(&self, key: &str) -> Bytes {
        let Question { cost, domain, entries, .. } = &self.question;
        let entry = |(name, value): &(String, String)| Entry {
            key: name.clone(),
            value: value.replace("{}", key),
        };
        let entries = entries.iter().map(entry).collect();
        let hits_addend = (*cost == 0).then_some(0);
        let descriptors = vec![Descriptor { entries, hits_addend }];
        let call = Call { domain: domain.clone(), descriptors, hits_addend: *cost };
        let length = u32::try_from(call.encoded_len()).unwrap_or(u32::MAX);
        [&[0][..], &length.to_be_bytes(), &call.encode_to_vec()].concat().into()
    }
}

impl Line {
    /// Alone on its connection; clones share it.
    pub(in super::super) fn new(form: Arc<Form>) -> Self {
        Self { connection: Arc::new(Connection { form, sender: Mutex::default() }) }
    }

    pub(in super::super) async fn connect(&self) -> Result<(), Trouble> {
        self.connection.sender().await.map(drop)
    }

    pub(super) async fn exchange(&self, key: &str) -> Result<Answers, Trouble> {
        let mut answers = Answers::default();
        answers.add(match self.ask(key).await? {
            Ok(Verdict { overall_code: OK, .. }) => Ok(true),
            Ok(Verdict { overall_code: OVER_LIMIT, .. }) => Ok(false),
            Ok(other) => Err(Trouble::unclear(format!("{other:?}").as_bytes())),
            Err(refused) => Err(refused),
        });
        Ok(answers)
    }

    async fn ask(&self, key: &str) -> Result<Result<Verdict, Trouble>, Trouble> {
        let body = Full::new(self.connection.form.encode(key));
        let request = Request::post(PATH)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(body)
            .map_err(|error| Trouble::new(Kind::Unclear, error.to_string()))?;
        let mut sender = self.connection.sender().await?;
        sender.ready().await.map_err(|error| lost(&error))?;
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        decode(response).await
    }
}

impl Connection {
    async fn sender(&self) -> Result<SendRequest<Full<Bytes>>, Trouble> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let stream = TokioIo::new(self.form.target.connect().await?);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| lost(&error))?;
        tokio::spawn(connection);
        *current = Some(sender.clone());
        Ok(sender)
    }
}

async fn decode(
    response: Response<hyper::body::Incoming>,
) -> Result<Result<Verdict, Trouble>, Trouble> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let why = format!("status {}: is this a gRPC address?", head.status.as_u16());
        return Ok(Err(Trouble::new(Kind::Refused, why)));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Trouble::new(Kind::Lost, error.to_string()))?;
    // Without a message the status comes with the head.
    if let Some(refused) = body.trailers().and_then(refusal).or_else(|| refusal(&head.headers)) {
        return Ok(Err(refused));
    }
    let bytes = body.to_bytes();
    let verdict = bytes.get(5..).and_then(|message| Verdict::decode(message).ok());
    verdict.map(Ok).ok_or_else(|| Trouble::unclear(&bytes))
}

/// A status other than OK.
fn refusal(headers: &HeaderMap) -> Option<Trouble> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let status = text("grpc-status").filter(|status| status != "0")?;
    let message = text("grpc-message").unwrap_or_default();
    let why = format!("gRPC status {}: {}", printable(&status), printable(&message));
    Some(Trouble::new(Kind::Refused, why))
}

fn lost(error: &hyper::Error) -> Trouble {
    let kind = if error.is_parse() { Kind::Unclear } else { Kind::Lost };
    Trouble::new(kind, format!("HTTP/2: {error}"))
}
