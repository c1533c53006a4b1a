//! What a client gets that is refused, and why a setting of the layer was not taken.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use tidegate_core::Decision;

use super::headers::{printable_ascii, to_value, write_retry_after};
use crate::cidr::CidrError;
use crate::engine::{Answer, CheckError};

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static PROBLEM: HeaderName = HeaderName::from_static("x-tidegate-error");

const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;
const UNAVAILABLE: u8 = 14;

/// Where the store failed, the policy cannot answer, and it names no time to wait.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// In a header, because the layer cannot fill a body whose type it does not know.
#[cfg(feature = "axum")]
const NO_PEER: &str = "no client address: serve with \
    into_make_service_with_connect_info::<SocketAddr>(), or set ClientIp::peer";
#[cfg(not(feature = "axum"))]
const NO_PEER: &str = "no client address: with axum, enable tidegate's feature `axum`; otherwise \
    set ClientIp::peer";

/// Answers a refused request. Closures do, of the shape that
/// [`RateLimitLayer::on_refusal`](super::RateLimitLayer::on_refusal) takes.
///
/// ```
/// use http::{Request, Response, StatusCode, request::Parts};
/// use tidegate::{Decision, tower::Refuse};
///
/// let teapot = |_: &Parts, _: &Decision| {
///     let mut response = Response::new(());
///     *response.status_mut() = StatusCode::IM_A_TEAPOT;
///     response
/// };
/// let (request, ()) = Request::new(()).into_parts();
/// assert_eq!(teapot.refuse(&request, &Decision::blocked()).status(), 418);
/// ```
pub trait Refuse<B> {
    /// The answer, to which the layer adds its headers.
    fn refuse(&self, request: &Parts, decision: &Decision) -> Response<B>;
}

impl<B, F> Refuse<B> for F
where
    F: Fn(&Parts, &Decision) -> Response<B>,
{
    fn refuse(&self, request: &Parts, decision: &Decision) -> Response<B> {
        self(request, decision)
    }
}

/// Status 429 and an empty body; to a gRPC call, `RESOURCE_EXHAUSTED`.
///
/// ```
/// use http::Request;
/// use tidegate::{Decision, tower::{Refuse, TooManyRequests}};
///
/// let (request, ()) = Request::new(()).into_parts();
/// let response: http::Response<String> = TooManyRequests.refuse(&request, &Decision::blocked());
/// assert_eq!(response.status(), 429);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TooManyRequests;

impl<B: Default> Refuse<B> for TooManyRequests {
    fn refuse(&self, request: &Parts, _: &Decision) -> Response<B> {
        grpc(request, RESOURCE_EXHAUSTED, HeaderValue::from_static("rate limit exceeded"))
            .unwrap_or_else(|| empty(StatusCode::TOO_MANY_REQUESTS))
    }
}

/// Why a request has no decision.
#[derive(Debug)]
pub(super) enum Failure {
    /// The address of the connection's peer is not known.
    NoPeer,
    /// The store failed, and the policy denies then.
    Closed { policy: Box<str>, retry_after: Option<Duration> },
    /// The policy cannot be asked by a layer, or nothing could stand in for its store.
    Unanswered(CheckError),
}

impl Failure {
    pub(super) fn closed(answer: &Answer<'_>) -> Self {
        let retry_after = answer.decision.retry_after();
        Self::Closed { policy: answer.policy.into(), retry_after }
    }

    /// A mistake in the server's setup fails every request: one budget shared by all clients would be worse. A failure of
    /// the store must not look like a refusal.
    pub(super) fn response<B: Default>(&self, request: &Parts) -> Response<B> {
        let setup = (StatusCode::INTERNAL_SERVER_ERROR, INTERNAL);
        let store = (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE);
        let ((status, grpc_status), retry_after) = match self {
            Self::Closed { retry_after, .. } => (store, *retry_after),
            Self::Unanswered(error) if error.store_failure().is_some() => {
                (store, Some(STORE_RETRY_AFTER))
            }
            Self::NoPeer | Self::Unanswered(_) => (setup, None),
        };
        let reason = to_value(printable_ascii(&self.reason()));
        let mut response =
            grpc(request, grpc_status, reason.clone()).unwrap_or_else(|| empty(status));
        response.headers_mut().insert(&PROBLEM, reason);
        write_retry_after(response.headers_mut(), retry_after);
        response
    }

    /// Without what the store says itself: callers must not learn its address.
    fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::NoPeer => NO_PEER.into(),
            Self::Closed { policy, .. } => {
                format!("policy `{policy}` admits nothing while its store fails").into()
            }
            Self::Unanswered(CheckError::Store(error)) => {
                format!("the store did not answer: {}", error.kind().as_str()).into()
            }
            Self::Unanswered(error) => error.to_string().into(),
        }
    }
}

/// gRPC reads its own status, from an answer that HTTP calls a success; `None` if the request is not gRPC.
fn grpc<B: Default>(request: &Parts, status: u8, message: HeaderValue) -> Option<Response<B>> {
    let content_type = request.headers.get(CONTENT_TYPE)?;
    if !content_type.as_bytes().starts_with(b"application/grpc") {
        return None;
    }
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(&GRPC_STATUS, u16::from(status).into());
    headers.insert(&GRPC_MESSAGE, message);
    Some(response)
}

fn empty<B: Default>(status: StatusCode) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = status;
    response
}

/// A setting that makes no sense.
///
/// ```
/// use tidegate::Cidr;
/// use tidegate::tower::{ClientIp, Key, SetupError};
///
/// let error = "10.0.0.0/33".parse::<Cidr>().err().map(SetupError::Network);
/// assert!(error.is_some());
/// assert_eq!(ClientIp::new().trust("10.0.0.0/33").err(), error);
///
/// let error = SetupError::HeaderName("x api key".to_owned());
/// assert_eq!(error.to_string(), "`x api key` cannot be the name of a header");
/// assert_eq!(Key::header("x api key").err(), Some(error));
///
/// assert_eq!(ClientIp::new().trust_hops(17).err(), Some(SetupError::Hops(17)));
/// let both = ClientIp::new().trust_hops(1)?.trust("10.0.0.0/8");
/// assert_eq!(both.err(), Some(SetupError::HopsAndNetworks));
/// # Ok::<(), SetupError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// A network that is not written like `10.0.0.0/8`.
    Network(CidrError),
    /// A header name with characters that no header name has.
    HeaderName(String),
    /// A count of proxies that is not from 1 to 16.
    Hops(usize),
    /// Trusted proxies are counted and named.
    HopsAndNetworks,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::HeaderName(name) => {
                write!(f, "`{}` cannot be the name of a header", name.escape_debug())
            }
            Self::Hops(hops) => write!(f, "{hops} proxies: expected 1 to 16"),
            Self::HopsAndNetworks => {
                f.write_str("trusted proxies are counted and named: do one of them")
            }
        }
    }
}

impl From<CidrError> for SetupError {
    fn from(error: CidrError) -> Self {
        Self::Network(error)
    }
}

impl std::error::Error for SetupError {}
