//! HTTP/1.1 on a persistent connection, one request at a time.

use std::io::Write;
use std::sync::Arc;

use httparse::{EMPTY_HEADER, Response};
use serde::Deserialize;

use super::config::RequestTemplate;
use super::connection::{BatchResult, Connection};
use super::error::{ErrorKind, RequestError};
use super::target::Target;
use crate::client::problem_detail;

/// Far more than any reply has.
const REPLY_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// What all requests have in common.
#[derive(Debug)]
pub(super) struct HttpTemplate {
    target: Target,
    path: &'static str,
    /// A JSON object without the value of its last field, which is the key.
    body: String,
}

#[derive(Debug)]
pub(super) struct HttpClient {
    template: Arc<HttpTemplate>,
    pub(super) connection: Connection,
    body: Vec<u8>,
}

#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

impl HttpTemplate {
    fn tidegate(target: &Target, request: &RequestTemplate, path: &'static str) -> Self {
        let policy = serde_json::Value::from(request.policy.as_str());
        let body = format!(r#"{{"policy":{policy},"cost":{},"key":"#, request.cost);
        Self { target: target.clone(), path, body }
    }

    /// Asks which API the server has, without spending. A limit can be sent to throttlecrab only, which has no
    /// policies.
    pub(super) async fn probe(
        target: &Target,
        request: &RequestTemplate,
        key: &str,
    ) -> Result<Self, RequestError> {
        let peek = Self::tidegate(target, request, "/v1/peek");
        let Err(refused) = HttpClient::new(peek.into()).check(key).await? else {
            return Ok(Self::tidegate(target, request, "/v1/check"));
        };
        let Some(limit) = request.limit else { return Err(refused) };
        let throttle = |quantity: u32| {
            let body = format!(
                r#"{{"max_burst":{},"count_per_period":{},"period":{},"quantity":{quantity},"key":"#,
                limit.max_burst, limit.count, limit.period_s
            );
            Self { target: target.clone(), path: "/throttle", body }
        };
        match HttpClient::new(throttle(0).into()).check(key).await {
            Ok(Ok(_)) => Ok(throttle(request.cost)),
            _ => Err(RequestError::new(
                refused.kind,
                format!(
                    "{}; over HTTP a --limit can only go along to throttlecrab: ask for a --policy",
                    refused.message
                ),
            )),
        }
    }
}

impl HttpClient {
    pub(super) fn new(template: Arc<HttpTemplate>) -> Self {
        Self { template, connection: Connection::default(), body: Vec::new() }
    }

    pub(super) async fn connect(&mut self) -> Result<(), RequestError> {
        self.connection.connect(&self.template.target).await
    }

    pub(super) async fn send(&mut self, key: &str) -> Result<BatchResult, RequestError> {
        Ok(BatchResult::one(self.check(key).await?))
    }

    /// Whether it was allowed, or the error that the server sent.
    async fn check(&mut self, key: &str) -> Result<Result<bool, RequestError>, RequestError> {
        if self.connection.stream.is_none() {
            self.connect().await?;
        }
        self.encode(key).map_err(|error| RequestError::lost(&error))?;
        let (decision, closes) = self
            .connection
            .exchange(|input| match decode(input)? {
                Some(reply) => Ok(Some((reply.decision(input)?, reply.closes))),
                None if input.len() > REPLY_BYTES_MAX => Err(RequestError::bad_reply(input)),
                None => Ok(None),
            })
            .await?;
        if closes {
            self.connection.stream = None;
        }
        Ok(decision)
    }

    fn encode(&mut self, key: &str) -> std::io::Result<()> {
        let HttpTemplate { target, path, body } = &*self.template;
        self.body.clear();
        self.body.extend_from_slice(body.as_bytes());
        serde_json::to_writer(&mut self.body, key)?;
        self.body.push(b'}');
        let output = &mut self.connection.output;
        output.clear();
        write!(
            output,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            target.host,
            self.body.len()
        )?;
        output.extend_from_slice(&self.body);
        Ok(())
    }
}

/// A complete reply.
#[derive(Debug)]
struct Reply {
    status: u16,
    body: std::ops::Range<usize>,
    closes: bool,
}

impl Reply {
    fn decision(&self, bytes: &[u8]) -> Result<Result<bool, RequestError>, RequestError> {
        let body = bytes.get(self.body.clone()).unwrap_or_default();
        if self.status == 200 {
            let decision = serde_json::from_slice(body);
            let decision: Decision = decision.map_err(|_| RequestError::bad_reply(body))?;
            return Ok(Ok(decision.allowed));
        }
        let detail = problem_detail(body).map_or_else(String::new, |detail| format!(": {detail}"));
        Ok(Err(RequestError::new(ErrorKind::Refused, format!("status {}{detail}", self.status))))
    }
}

/// A reply, once it is complete.
fn decode(bytes: &[u8]) -> Result<Option<Reply>, RequestError> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| RequestError::bad_reply(bytes))?;
    let httparse::Status::Complete(head) = parsed else { return Ok(None) };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    let length = length.filter(|length| *length <= REPLY_BYTES_MAX);
    let length = length.ok_or_else(|| RequestError::bad_reply(bytes))?;
    if bytes.len() < head + length {
        return Ok(None);
    }
    Ok(Some(Reply {
        status: response.code.unwrap_or_default(),
        body: head..head + length,
        closes: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    const GRAMMAR: Grammar = Grammar {
        whole: &["HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}"],
        words: &[
            "HTTP/1.1 ",
            "200",
            " OK\r\n",
            "content-length: ",
            "Content-Length:",
            "18446744073709551615",
            "-1",
            "16",
            "connection: close\r\n",
            "transfer-encoding: chunked\r\n",
            "\r\n",
            "{\"allowed\":",
            "true",
            "}",
            "{\"detail\":\"x\"}",
            "\0",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn every_reply_is_a_decision_or_an_error(bytes in fuzz::bytes_like(GRAMMAR)) {
            if let Ok(Some(Ok(_))) = fuzz::held_to(20, &bytes, || read(&bytes)) {
                prop_assert!(bytes.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Result<bool, RequestError>>, RequestError> {
        decode(bytes)?.map(|reply| reply.decision(bytes)).transpose()
    }

    #[test]
    fn a_reply_is_read_once_it_is_complete() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}";
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(whole), Ok(Some(Ok(true))));
    }

    #[test]
    fn other_replies_are_errors() {
        for (bytes, kind, message) in [
            (&b"SSH-2.0-x\r\n"[..], ErrorKind::BadReply, "SSH-2.0"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", ErrorKind::BadReply, "`hi`"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", ErrorKind::BadReply, "HTTP"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", ErrorKind::BadReply, "HTTP"),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.kind == kind && error.message.contains(message), "{error:?}");
        }
        let refused = b"HTTP/1.1 404 No\r\ncontent-length: 14\r\n\r\n{\"detail\":\"x\"}";
        let refused = read(refused).unwrap().unwrap().unwrap_err();
        assert_eq!(refused, RequestError::new(ErrorKind::Refused, "status 404: x"));
    }
}
