//! HTTP/1.1 on a persistent connection, one request at a time.

mod reply;

use std::io::Write;
use std::sync::Arc;

pub(super) use self::reply::Verdict;
use self::reply::{REPLY_BYTES_MAX, Reply, decode};
use super::config::RequestTemplate;
use super::connection::{BatchResult, Connection};
use super::error::RequestError;
use super::target::Target;

/// What all requests have in common.
#[derive(Debug)]
pub(super) struct HttpTemplate {
    target: Target,
    request: HttpRequest,
}

/// A request but for its key.
#[derive(Debug)]
enum HttpRequest {
    /// A JSON object without the value of its last field, which is the key.
    Post { path: &'static str, body: String },
    /// A head up to the value of its last header, which is the key.
    Get { head: String, verdict: Verdict },
}

#[derive(Debug)]
pub(super) struct HttpClient {
    template: Arc<HttpTemplate>,
    pub(super) connection: Connection,
    body: Vec<u8>,
}

impl HttpTemplate {
    fn post(target: &Target, path: &'static str, body: String) -> Self {
        Self { target: target.clone(), request: HttpRequest::Post { path, body } }
    }

    fn get(target: &Target, request: &RequestTemplate, path: &str, verdict: Verdict) -> Self {
        let RequestTemplate { path: page, key_header, .. } = request;
        let host = &target.host;
        // Where the server does not trust us it looks at the path itself.
        let forwarded = match verdict {
            Verdict::Auth => format!("x-forwarded-method: GET\r\nx-forwarded-uri: {page}\r\n"),
            Verdict::Body | Verdict::Page => String::new(),
        };
        let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{forwarded}{key_header}: ");
        Self { target: target.clone(), request: HttpRequest::Get { head, verdict } }
    }

    fn tidegate(target: &Target, request: &RequestTemplate, path: &'static str) -> Self {
        let policy = serde_json::Value::from(request.policy.as_str());
        let body = format!(r#"{{"policy":{policy},"cost":{},"key":"#, request.cost);
        Self::post(target, path, body)
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
            Self::post(target, "/throttle", body)
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

    /// Asks forward-auth, or for the page, once. Says whether a limit applies, or whether a proxy of tidegate answers.
    pub(super) async fn probe_routed(
        target: &Target,
        request: &RequestTemplate,
        key: &str,
        verdict: Verdict,
    ) -> Result<(Self, bool), RequestError> {
        let path = match (verdict, &request.auth_policy) {
            (Verdict::Auth, Some(policy)) => format!("/v1/auth/{policy}"),
            (Verdict::Auth, None) => "/v1/auth".to_owned(),
            (Verdict::Body | Verdict::Page, _) => request.path.clone(),
        };
        let template = || Self::get(target, request, &path, verdict);
        let (decision, reply) = HttpClient::new(template().into()).exchange(key).await?;
        decision?;
        Ok((template(), reply.shows_limiter))
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
        Ok(self.exchange(key).await?.0)
    }

    async fn exchange(
        &mut self,
        key: &str,
    ) -> Result<(Result<bool, RequestError>, Reply), RequestError> {
        if self.connection.stream.is_none() {
            self.connect().await?;
        }
        self.encode(key).map_err(|error| RequestError::lost(&error))?;
        let verdict = match self.template.request {
            HttpRequest::Post { .. } => Verdict::Body,
            HttpRequest::Get { verdict, .. } => verdict,
        };
        let (decision, reply) = self
            .connection
            .exchange(|input| match decode(input, verdict)? {
                Some(reply) => Ok(Some((reply.decision(input, verdict)?, reply))),
                None if input.len() > REPLY_BYTES_MAX => Err(RequestError::bad_reply(input)),
                None => Ok(None),
            })
            .await?;
        if reply.closes {
            self.connection.stream = None;
        }
        Ok((decision, reply))
    }

    fn encode(&mut self, key: &str) -> std::io::Result<()> {
        let HttpTemplate { target, request } = &*self.template;
        let output = &mut self.connection.output;
        output.clear();
        let (path, body) = match request {
            HttpRequest::Get { head, .. } => return write!(output, "{head}{key}\r\n\r\n"),
            HttpRequest::Post { path, body } => (path, body),
        };
        self.body.clear();
        self.body.extend_from_slice(body.as_bytes());
        serde_json::to_writer(&mut self.body, key)?;
        self.body.push(b'}');
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
