//! Server reflection, v1 and v1alpha, so that tools can list and call the service without `.proto` files.

mod describe;
mod schema;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::Status;
use tonic::body::Body;
use tonic_reflection::server::Builder;
use tower_service::Service as _;

use super::service::NAME_BYTES_MAX;
use crate::net::http::Alarm;

pub(super) const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Calls at once: each holds descriptors of some kilobytes, and few people ask.
static CALLS: Semaphore = Semaphore::const_new(32);
/// A tool asks its questions within seconds, and then keeps the call open.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);

type Method = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Invalid descriptors; a test excludes them.
#[derive(Debug)]
pub(crate) struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid schema of the rate limit service: {}", self.0)
    }
}

/// Both versions, because clients of each are in use.
pub(super) struct Reflection {
    v1: Method,
    v1_alpha: Method,
}

/// Boxes a generated service, whose type cannot be named.
macro_rules! method {
    ($server:expr) => {{
        let server = $server.map_err(|error| SchemaError(error.to_string()))?;
        let server = server.max_decoding_message_size(NAME_BYTES_MAX);
        Box::new(move |request| -> Answering {
            let mut server = server.clone();
            Box::pin(async move {
                let Ok(place) = CALLS.try_acquire() else {
                    let why = "too many reflection calls at once: retry later";
                    return Status::resource_exhausted(why).into_http();
                };
                match server.call(request).await {
                    Ok(response) => response.map(|body| BoundedCall::body(body, place)),
                    Err(never) => match never {},
                }
            })
        })
    }};
}

impl Reflection {
    pub(super) fn new() -> Result<Self, SchemaError> {
        let schema = || Builder::configure().register_file_descriptor_set(describe::files());
        Ok(Self { v1: method!(schema().build_v1()), v1_alpha: method!(schema().build_v1alpha()) })
    }

    pub(super) fn method(&self, path: &str) -> Option<&Method> {
        match path {
            V1 => Some(&self.v1),
            V1_ALPHA => Some(&self.v1_alpha),
            _ => None,
        }
    }
}

/// The answers of a call, which ends after [`CALL_TIMEOUT`].
struct BoundedCall {
    answers: Body,
    timeout: Alarm,
    _place: SemaphorePermit<'static>,
}

impl BoundedCall {
    fn body(answers: Body, place: SemaphorePermit<'static>) -> Body {
        Body::new(Self { answers, timeout: Alarm::after(CALL_TIMEOUT), _place: place })
    }
}

impl hyper::body::Body for BoundedCall {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.timeout.ring(cx).is_ready() {
            let why = format!("the call took longer than {CALL_TIMEOUT:?}");
            return Poll::Ready(Some(Err(Status::deadline_exceeded(why))));
        }
        Poll::Ready(ready!(Pin::new(&mut self.answers).poll_frame(cx)))
    }

    fn is_end_stream(&self) -> bool {
        self.answers.is_end_stream()
    }
}

impl fmt::Debug for Reflection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflection").finish_non_exhaustive()
    }
}
