//! Trouble, as RFC 9457 has it: `application/problem+json`, naming the field that is wrong.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate::tower::write_retry_after;
use tidegate::{Answer, CheckError, StoreErrorKind};

use crate::service::Unanswered;
use tidegate_core::text::printable;

/// Why a request has no answer.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Told as a header.
    #[serde(skip)]
    retry_after: Option<Duration>,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: &str) -> Self {
        let (status, detail) = (status.as_u16(), printable(detail));
        Self { kind, title, status, detail, field: None, retry_after: None }
    }

    fn at(mut self, field: &str) -> Self {
        self.field = Some(printable(field));
        self
    }

    /// The same problem, in the body of a batch.
    pub(crate) fn within_batch(mut self, index: usize) -> Self {
        let place = format!("checks[{index}]");
        self.field = Some(match self.field {
            Some(field) => format!("{place}.{field}"),
            None => place.clone(),
        });
        self.detail = format!("{place}: {}", self.detail);
        self
    }

    /// Input that makes no sense.
    pub(crate) fn bad_input(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:tidegate:bad-input", "Bad input", detail)
    }

    /// A field whose value makes no sense; `what` follows its name.
    pub(crate) fn bad_field(field: &str, what: &str) -> Self {
        Self::bad_input(&format!("`{field}` {what}")).at(field)
    }

    /// A body that could not be decoded, and where; the field is empty if it is the body as a whole.
    pub(crate) fn bad_json(field: &str, error: &str) -> Self {
        match field {
            "" => Self::bad_input(&format!("the body: {error}")),
            _ => Self::bad_input(&format!("`{field}`: {error}")).at(field),
        }
    }

    /// A body above the bound.
    pub(crate) fn body_too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is larger than {bytes_max} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "urn:tidegate:body-too-large", "Body too large", &detail)
    }

    /// A body that did not come in time.
    pub(crate) fn body_timeout(after: Duration) -> Self {
        let detail = format!("the body did not come within {after:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, "urn:tidegate:body-timeout", "Body timeout", &detail)
    }

    /// A body that is one too many, because all together take too much.
    pub(crate) fn no_room() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let detail = "there are too many large bodies at once: come back in a moment";
        Self::new(status, "urn:tidegate:overloaded", "Overloaded", detail)
    }

    /// A call that is only answered on this machine.
    pub(crate) fn not_local(why: &str) -> Self {
        let detail = format!("this call is only answered on the machine itself: {why}");
        Self::new(StatusCode::FORBIDDEN, "urn:tidegate:not-local", "Only local", &detail)
    }

    /// A call that needs a token.
    pub(crate) fn unauthorized(why: &str) -> Self {
        let detail = format!("this call needs the admin token: {why}");
        Self::new(StatusCode::UNAUTHORIZED, "urn:tidegate:unauthorized", "Unauthorized", &detail)
    }

    /// A refusal, where the status says so.
    pub(crate) fn limited(status: StatusCode, answer: &Answer<'_>) -> Self {
        Self {
            status: status.as_u16(),
            ..Self::turned_away(answer.policy, answer.decision.retry_after())
        }
    }

    /// The same by what is known of it.
    pub(crate) fn turned_away(policy: &str, wait: Option<Duration>) -> Self {
        let detail = match wait {
            Some(wait) => {
                let seconds = wait.as_millis().div_ceil(1000);
                format!("policy `{policy}` admits the next one in {seconds} s")
            }
            None => format!("policy `{policy}` will not admit this"),
        };
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "urn:tidegate:limited", "Too many requests", &detail)
    }

    fn closed(policy: &str, retry_after: Option<Duration>) -> Self {
        let detail = format!("policy `{policy}` admits nothing while its store fails");
        Self { retry_after, ..Self::unavailable(&detail) }
    }

    /// A request that was not even looked at, because there is too much to do.
    pub(crate) fn shed(status: StatusCode) -> Self {
        let detail = "there are too many requests at once: come back in a moment";
        Self::new(status, "urn:tidegate:overloaded", "Overloaded", detail)
    }

    /// A request that was passed on, or should have been, without an answer coming back.
    pub(crate) fn gateway(status: StatusCode, detail: &str) -> Self {
        let (kind, title) = match status {
            StatusCode::GATEWAY_TIMEOUT => ("urn:tidegate:gateway-timeout", "Gateway timeout"),
            StatusCode::REQUEST_TIMEOUT => ("urn:tidegate:body-timeout", "Body timeout"),
            _ => ("urn:tidegate:bad-gateway", "Bad gateway"),
        };
        Self::new(status, kind, title, detail)
    }

    /// The field that is to blame, if there is one.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// What is wrong, as plain text.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST)
    }

    /// Nobody else can watch, or nothing is to be seen any more.
    pub(crate) fn too_many_watchers(watchers_max: usize) -> Self {
        let detail = format!(
            "{watchers_max} watch already, or the server is about to end: come back in a moment"
        );
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "urn:tidegate:too-many-watchers", "Too many watchers", &detail)
    }

    /// A path that leads nowhere.
    pub(crate) fn unknown_path(path: &str) -> Self {
        let detail = format!("there is nothing at `{path}`; GET / shows what there is");
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:unknown-path", "Unknown path", &detail)
    }

    /// A path whose parts cannot be read.
    pub(crate) fn bad_path(why: &PathRejection) -> Self {
        Self::bad_field("path", &why.body_text())
    }

    /// A path that is asked with another method.
    pub(crate) fn wrong_method(method: &Method, path: &str) -> Self {
        let detail = format!("`{path}` does not answer {method}: see the Allow header");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "urn:tidegate:wrong-method", "Wrong method", &detail)
    }

    /// A question that makes no sense to its policy.
    fn bad_question(error: &CheckError) -> Self {
        match error {
            CheckError::MissingKey { policy, key } if key == "key" => Self::bad_input(&format!(
                "policy `{policy}` counts by one key: give it as `key`"
            ))
            .at("key"),
            CheckError::MissingKey { policy, key } => Self::bad_input(&format!(
                "policy `{policy}` counts by `{key}`: give it as `keys`: {{\"{key}\":\"…\"}}"
            ))
            .at(&format!("keys.{key}")),
            CheckError::Shapes(policy) => Self::bad_input(&format!(
                "policy `{policy}` is a leaky bucket, which delays instead of refusing: ask POST /v1/reserve"
            ))
            .at("policy"),
            CheckError::DoesNotShape(policy) => Self::bad_input(&format!(
                "policy `{policy}` is no leaky bucket, so there is no queue to reserve in: ask POST /v1/check"
            ))
            .at("policy"),
            CheckError::NeedsAcquire(policy) => Self::bad_input(&format!(
                "policy `{policy}` limits concurrency, which has to be given back: ask POST /v1/acquire"
            ))
            .at("policy"),
            CheckError::Store(error) => Self::bad_input(&error.to_string()),
            other => Self::bad_input(&other.to_string()).at("policy"),
        }
    }

    /// Checks that cannot be one step.
    pub(crate) fn not_together(why: Unanswered) -> Self {
        match why {
            Unanswered::BadQuestion(error @ CheckError::TooManyTogether) => {
                Self::bad_field("checks", &format!(": {error}"))
            }
            Unanswered::BadQuestion(CheckError::Store(error)) => {
                Self::bad_field("atomic", &format!("cannot be kept: {error}"))
            }
            Unanswered::BadQuestion(CheckError::Apart) => Self::bad_field(
                "atomic",
                "cannot be kept: the checks count in different slots of a Redis Cluster. Those of one `key` share \
                 a slot, and so do the rules of one of Envoy's domains; ask for the others one after another",
            ),
            other => other.into(),
        }
    }

    /// The store did not answer, and nobody stands in for it. Never a 429: a failure must not look like a refusal.
    pub(crate) fn unavailable(detail: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "urn:tidegate:store-unavailable", "Store unavailable", detail)
    }

    /// Only the kind of trouble: where the store is, is nothing to callers.
    pub(crate) fn store_failed(kind: StoreErrorKind) -> Self {
        let kind = kind.as_str();
        Self::unavailable(&format!(
            "the store did not answer ({kind}), and nothing can stand in for it"
        ))
    }

    /// A key that gets what its policy says.
    pub(crate) fn no_override(policy: &str, key: &str) -> Self {
        let (policy, key) = (printable(policy), printable(key));
        let detail = format!("`{key}` has no override of policy `{policy}` that was set here");
        Self::new(StatusCode::NOT_FOUND, "urn:tidegate:no-override", "No override", &detail)
    }

    /// A policy that there is none of; perhaps another was meant.
    pub(crate) fn unknown_policy(name: &str, closest: Option<&str>) -> Self {
        let hint = match closest {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "GET /v1/policies lists those there are".to_owned(),
        };
        let detail = format!("no policy is called `{}`; {hint}", printable(name));
        let status = StatusCode::NOT_FOUND;
        Self::new(status, "urn:tidegate:unknown-policy", "Unknown policy", &detail).at("policy")
    }
}

impl From<Unanswered> for Problem {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::UnknownPolicy { name, closest } => {
                Self::unknown_policy(&name, closest.as_deref())
            }
            Unanswered::BadQuestion(error) => Self::bad_question(&error),
            Unanswered::StoreFailed(kind) => Self::store_failed(kind),
            Unanswered::FailedClosed { policy, retry_after } => Self::closed(&policy, retry_after),
        }
    }
}

impl Problem {
    /// The answer, with its body at hand.
    pub(crate) fn whole(self) -> hyper::Response<Bytes> {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = hyper::Response::new(body.into());
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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.whole().map(Body::from)
    }
}

impl From<PathRejection> for Problem {
    fn from(why: PathRejection) -> Self {
        Self::bad_path(&why)
    }
}
