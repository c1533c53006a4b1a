//! Errors as RFC 9457 `application/problem+json`, naming the field that is wrong.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Response, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;
use tidegate::tower::write_retry_after;
use tidegate::{Answer, CheckError, StoreErrorKind, Timestamp};

use crate::net::http::{BadCoding, Refusal};
use crate::service::{Unanswered, since_reload};
use tidegate_core::text::printable;
use tidegate_request::AmbiguousRequest;

/// The most targets that an error lists.
const LISTED_MAX: usize = 10;

/// An error response.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Sent as a header.
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: &str) -> Self {
        let (status, detail) = (status.as_u16(), printable(detail));
        Self { kind, title, status, detail, field: None, retry_after: None }
    }

    fn with_field(mut self, field: &str) -> Self {
        self.field = Some(printable(field));
        self
    }

    /// The problem as part of a batch.
    pub(crate) fn within_batch(self, index: usize) -> Self {
        self.within(&format!("checks[{index}]"))
    }

    /// The problem as part of an element of a list.
    pub(crate) fn within(mut self, element: &str) -> Self {
        self.field = Some(match self.field {
            Some(field) => format!("{element}.{field}"),
            None => element.to_owned(),
        });
        self.detail = format!("{element}: {}", self.detail);
        self
    }

    pub(crate) fn bad_input(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:tidegate:bad-input", "Bad input", detail)
    }

    /// An invalid field; `what` follows its name.
    pub(crate) fn bad_field(field: &str, what: &str) -> Self {
        Self::bad_input(&format!("`{field}` {what}")).with_field(field)
    }

    /// A field whose value was refused by who reads it, in a sentence of its own.
    pub(crate) fn bad_value(field: &str, error: &impl Display) -> Self {
        Self::bad_input(&format!("`{field}`: {error}")).with_field(field)
    }

    /// Invalid JSON; `field` is empty if the error is about the whole body.
    pub(crate) fn bad_json(field: &str, error: &str) -> Self {
        match field {
            "" => Self::bad_input(&format!("the body: {error}")),
            _ => Self::bad_value(field, &error),
        }
    }

    pub(crate) fn body_too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is larger than {bytes_max} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "urn:tidegate:body-too-large", "Body too large", &detail)
    }

    pub(crate) fn body_timeout(after: Duration) -> Self {
        let detail = format!("the body did not arrive within {after:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, "urn:tidegate:body-timeout", "Body timeout", &detail)
    }

    /// The sender of a body paused for too long.
    pub(crate) fn body_paused() -> Self {
        Self::gateway(StatusCode::REQUEST_TIMEOUT, "the request body did not arrive in time")
    }

    /// A body that cannot be read to its end.
    pub(crate) fn body_broken() -> Self {
        Self::bad_input("the body ended early or has invalid framing")
    }

    /// All bodies together exceed the memory bound.
    pub(crate) fn too_many_bodies() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let detail = "too many large request bodies at once: retry later";
        Self::new(status, "urn:tidegate:overloaded", "Overloaded", detail)
    }

    /// A request that its door does not see, or an answer for which there is no memory.
    pub(crate) fn refused(why: Refusal) -> Self {
        match why {
            Refusal::Coding(BadCoding::Malformed) => {
                Self::bad_field("transfer-encoding", "must be `chunked`, once")
            }
            Refusal::Coding(BadCoding::Unknown) => {
                let status = StatusCode::NOT_IMPLEMENTED;
                let detail = "`transfer-encoding` must be `chunked`: no other coding is supported";
                Self::new(status, "urn:tidegate:unknown-coding", "Unknown coding", detail)
                    .with_field("transfer-encoding")
            }
            Refusal::NoRoom => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let detail = "too many large answers are unread: read them, and retry later";
                Self::new(status, "urn:tidegate:overloaded", "Overloaded", detail)
            }
        }
    }

    /// A call that is allowed from this machine only.
    pub(crate) fn not_local(why: &str) -> Self {
        let detail = format!("this call is only answered on the machine itself: {why}");
        Self::new(StatusCode::FORBIDDEN, "urn:tidegate:not-local", "Only local", &detail)
    }

    /// A call by a name that is not the API's own.
    pub(crate) fn foreign_host(host: &str) -> Self {
        let detail = format!(
            "clients on this machine call the API by `localhost` or an address: `{}` is neither, and not among \
             `admin.hosts`",
            printable(host)
        );
        Self::new(StatusCode::FORBIDDEN, "urn:tidegate:foreign-host", "Foreign host", &detail)
            .with_field("host")
    }

    pub(crate) fn unauthorized(why: &str) -> Self {
        let detail = format!("this call needs the admin token: {why}");
        Self::new(StatusCode::UNAUTHORIZED, "urn:tidegate:unauthorized", "Unauthorized", &detail)
    }

    /// A refusal, for doors that report it as an error status.
    pub(crate) fn limited(status: StatusCode, answer: &Answer<'_>) -> Self {
        Self {
            status: status.as_u16(),
            ..Self::limited_by(answer.policy, answer.decision.retry_after())
        }
    }

    /// A refusal by its policy and wait time.
    pub(crate) fn limited_by(policy: &str, wait: Option<Duration>) -> Self {
        let detail = match wait {
            Some(wait) => {
                let seconds = wait.as_millis().div_ceil(1000);
                format!("policy `{policy}` allows the next request in {seconds} s")
            }
            None => format!("policy `{policy}` never allows this request"),
        };
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "urn:tidegate:limited", "Too many requests", &detail)
    }

    /// Load shedding: the request was not processed.
    pub(crate) fn shed(status: StatusCode) -> Self {
        let detail = "too many requests at once: retry later";
        Self::new(status, "urn:tidegate:overloaded", "Overloaded", detail)
    }

    /// Work for a page that took too long, and was stopped.
    pub(crate) fn stopped(after: Duration) -> Self {
        let seconds = after.as_secs();
        let detail = format!(
            "this took longer than {seconds} s and was stopped: send smaller input, or use the command line"
        );
        // Not a 503: the page would send the same again.
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::new(status, "urn:tidegate:stopped", "Stopped", &detail)
    }

    /// The upstream gave no usable response.
    pub(crate) fn gateway(status: StatusCode, detail: &str) -> Self {
        let (kind, title) = match status {
            StatusCode::GATEWAY_TIMEOUT => ("urn:tidegate:gateway-timeout", "Gateway timeout"),
            StatusCode::REQUEST_TIMEOUT => ("urn:tidegate:body-timeout", "Body timeout"),
            _ => ("urn:tidegate:bad-gateway", "Bad gateway"),
        };
        Self::new(status, kind, title, detail)
    }

    /// The same, with what to do instead.
    pub(crate) fn advise(self, advice: &str) -> Self {
        Self { detail: format!("{}: {advice}", self.detail), ..self }
    }

    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// How long to wait before the next try, if that is known.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST)
    }

    /// Too many dashboard connections, or the server is shutting down.
    pub(crate) fn too_many_watchers(watchers_max: usize) -> Self {
        let detail = format!(
            "{watchers_max} clients watch already, or the server is shutting down: retry later"
        );
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "urn:tidegate:too-many-watchers", "Too many watchers", &detail)
    }

    pub(crate) fn unknown_path(path: &str) -> Self {
        let detail = format!("no such path: `{path}`; GET /openapi.json lists all paths");
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:unknown-path", "Unknown path", &detail)
    }

    /// A known path with an unsupported method.
    pub(crate) fn wrong_method(method: &Method, path: &str) -> Self {
        let detail = format!("`{path}` does not support {method}: see the Allow header");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "urn:tidegate:wrong-method", "Wrong method", &detail)
    }

    /// A question that does not fit its policy.
    fn bad_question(error: &CheckError) -> Self {
        match error {
            CheckError::MissingKey { policy, key } if key == "key" => Self::bad_input(&format!(
                "`key` is missing: policy `{policy}` counts by one key"
            ))
            .with_field("key"),
            CheckError::MissingKey { policy, key } => Self::bad_input(&format!(
                "policy `{policy}` counts by `{key}`: give it as `keys`: {{\"{key}\":\"…\"}}"
            ))
            .with_field(&format!("keys.{key}")),
            CheckError::Shapes(policy) => Self::bad_input(&format!(
                "policy `{policy}` is a leaky bucket, which delays instead of refusing: use POST /v1/reserve"
            ))
            .with_field("policy"),
            CheckError::DoesNotShape(policy) => Self::bad_input(&format!(
                "policy `{policy}` is not a leaky bucket and has no queue: use POST /v1/check"
            ))
            .with_field("policy"),
            CheckError::NeedsAcquire(policy) => Self::bad_input(&format!(
                "policy `{policy}` limits concurrency, so permits have to be released: use POST /v1/acquire"
            ))
            .with_field("policy"),
            CheckError::CostTooHigh { .. } => Self::bad_value("cost", &error),
            CheckError::Store(error) => Self::bad_input(&error.to_string()),
            other => Self::bad_input(&other.to_string()).with_field("policy"),
        }
    }

    /// Checks that cannot be charged in one atomic step.
    pub(crate) fn not_atomic(why: Unanswered) -> Self {
        match why {
            Unanswered::BadQuestion(error @ CheckError::TooManyTogether) => {
                Self::bad_value("checks", &error)
            }
            Unanswered::BadQuestion(CheckError::Store(error)) => {
                Self::bad_field("atomic", &format!("is not possible: {error}"))
            }
            Unanswered::BadQuestion(CheckError::Apart) => Self::bad_field(
                "atomic",
                "is not possible: the checks are in different slots of a Redis Cluster. Checks of one `key` share a \
                 slot, and so do the rules of one Envoy domain; send the others separately",
            ),
            other => other.into(),
        }
    }

    /// The store failed and there is no fallback. Never a 429: a failure must not look like a refusal.
    pub(crate) fn unavailable(detail: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "urn:tidegate:store-unavailable", "Store unavailable", detail)
    }

    /// Reports only the kind of failure: callers must not learn the store's address.
    pub(crate) fn store_failed(kind: StoreErrorKind) -> Self {
        let kind = kind.as_str();
        Self::unavailable(&format!(
            "the store did not answer ({kind}), and this call has no fallback"
        ))
    }

    /// `limit`: the limit of which an override was asked for, if not of the whole policy.
    pub(crate) fn no_override(policy: &str, key: &str, limit: Option<&str>) -> Self {
        let (policy, key) = (printable(policy), printable(key));
        let limit = limit.map(|name| format!("limit `{}` of ", printable(name)));
        let limit = limit.unwrap_or_default();
        let detail = format!("`{key}` has no stored override of {limit}policy `{policy}`");
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:no-override", "No override", &detail)
    }

    pub(crate) fn unknown_target(name: &str) -> Self {
        let name = printable(name);
        let detail = format!(
            "nothing was observed of target `{name}`, and no limit follows it; GET /v1/pressure lists all targets"
        );
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:unknown-target", "Unknown target", &detail)
    }

    /// Setting its pressure would change nothing.
    pub(crate) fn unfollowed_target(name: &str, followed: &BTreeSet<String>) -> Self {
        let advice = if followed.is_empty() {
            "no policy is adaptive".to_owned()
        } else {
            let listed: Vec<_> = followed.iter().take(LISTED_MAX).map(|it| printable(it)).collect();
            format!("limits follow: {}", listed.join(", "))
        };
        let detail = format!("no limit follows target `{}`; {advice}", printable(name));
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:unknown-target", "Unknown target", &detail)
    }

    /// `removed_at`: when a reload removed it, if one did.
    pub(crate) fn unknown_policy(name: &str, removed_at: Option<Timestamp>) -> Self {
        let (name, removed) = (printable(name), since_reload(removed_at));
        let detail =
            format!("no policy is called `{name}`{removed}; GET /v1/policies lists all policies");
        let status = StatusCode::NOT_FOUND;
        Self::new(status, "urn:tidegate:unknown-policy", "Unknown policy", &detail)
            .with_field("policy")
    }
}

impl From<AmbiguousRequest> for Problem {
    fn from(why: AmbiguousRequest) -> Self {
        Self::bad_input(&why.to_string())
    }
}

impl From<Unanswered> for Problem {
    fn from(why: Unanswered) -> Self {
        match &why {
            Unanswered::UnknownPolicy { name, removed_at } => {
                Self::unknown_policy(name, *removed_at)
            }
            Unanswered::BadQuestion(error) => Self::bad_question(error),
            Unanswered::StoreFailed(kind) => Self::store_failed(*kind),
            Unanswered::FailedClosed { retry_after, .. } => {
                Self { retry_after: *retry_after, ..Self::unavailable(&why.detail()) }
            }
        }
    }
}

impl Problem {
    pub(crate) fn into_response(self) -> Response<Bytes> {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(body.into());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.kind == "urn:tidegate:unauthorized" {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        write_retry_after(headers, self.retry_after);
        response
    }
}
