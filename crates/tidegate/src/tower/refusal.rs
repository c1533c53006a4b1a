//! What a client gets that is refused, and why a setting of the layer was not taken.

use std::fmt;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use tidegate_core::Decision;

use crate::cidr::CidrError;

static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static PROBLEM: HeaderName = HeaderName::from_static("x-tidegate-error");

const RESOURCE_EXHAUSTED: u8 = 8;
const INTERNAL: u8 = 13;

/// In a header, because the layer cannot fill a body whose type it does not know.
const NO_PEER: &str = "no client address: serve with \
    into_make_service_with_connect_info::<SocketAddr>(), or set ClientIp::peer";

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
        grpc(request, RESOURCE_EXHAUSTED, "rate limit exceeded")
            .unwrap_or_else(|| empty(StatusCode::TOO_MANY_REQUESTS))
    }
}

/// A mistake in the server's setup fails every request: one budget shared by all clients would be worse.
pub(super) fn no_peer<B: Default>(request: &Parts) -> Response<B> {
    let mut response = grpc(request, INTERNAL, NO_PEER)
        .unwrap_or_else(|| empty(StatusCode::INTERNAL_SERVER_ERROR));
    response.headers_mut().insert(&PROBLEM, HeaderValue::from_static(NO_PEER));
    response
}

/// gRPC reads its own status, from an answer that HTTP calls a success; `None` if the request is not gRPC.
fn grpc<B: Default>(request: &Parts, status: u8, message: &'static str) -> Option<Response<B>> {
    let content_type = request.headers.get(CONTENT_TYPE)?;
    if !content_type.as_bytes().starts_with(b"application/grpc") {
        return None;
    }
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(&GRPC_STATUS, u16::from(status).into());
    headers.insert(&GRPC_MESSAGE, HeaderValue::from_static(message));
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
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// A network that is not written like `10.0.0.0/8`.
    Network(CidrError),
    /// A header name with characters that no header name has.
    HeaderName(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::HeaderName(name) => {
                write!(f, "`{}` cannot be the name of a header", name.escape_debug())
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
