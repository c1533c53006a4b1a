//! Dispatches calls to methods by their paths.

mod call;

use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode};
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use self::call::{RlsCodec, ShouldRateLimit};
use super::health::{Check, Watch};
use super::reflection::{Reflection, SchemaError};
use crate::logs::trace::Trace;
use crate::net::Shutdown;
use crate::net::body::{BodyReadError, Collected, collect};
use crate::net::http::Activity;
use crate::net::timeout::within;
use crate::service::AppState;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
/// Room for 64 descriptors of 64 entries with long values.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// The gRPC message prefix: compression flag and length.
const PREFIX_BYTES: usize = 5;
/// The other methods get a name only.
pub(super) const NAME_BYTES_MAX: usize = 4 << 10;
/// The maximum duration of a call, whatever deadline the caller sends, so that a slow caller does not hold a stream for
/// longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// State shared by all connections.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    app: Arc<AppState>,
    reflection: Arc<Reflection>,
}

/// The service for one connection.
#[derive(Debug)]
pub(super) struct ConnectionService {
    shared: Service,
    shutdown: Shutdown,
    activity: Arc<Activity>,
}

impl Service {
    pub(crate) fn new(app: Arc<AppState>) -> Result<Self, SchemaError> {
        Ok(Self { app, reflection: Arc::new(Reflection::new()?) })
    }

    pub(super) fn for_connection(
        self,
        shutdown: Shutdown,
        activity: Arc<Activity>,
    ) -> Arc<ConnectionService> {
        Arc::new(ConnectionService { shared: self, shutdown, activity })
    }
}

impl ConnectionService {
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if !is_grpc(&request) {
            let mut response = Response::new(Body::default());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        if request.uri().path() != SHOULD_RATE_LIMIT {
            // Boxed, so that the frequent call does not pay for its size.
            return Box::pin(self.answer_other(request)).await;
        }
        let trace = Trace::from_headers(request.headers());
        let answer = within(CALL_TIMEOUT, self.should_rate_limit(request));
        let answer = match trace {
            // Boxed for the same reason.
            Some(trace) => Box::pin(trace.around(answer)).await,
            None => answer.await,
        };
        answer.unwrap_or_else(too_slow)
    }

    /// The frequent call. The memory budget of the message is held until it is answered.
    async fn should_rate_limit(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, mut body) = request.into_parts();
        let Collected { bytes, room: _held } = match collect(
            self.activity.client(),
            &mut body,
            PREFIX_BYTES + MESSAGE_BYTES_MAX,
        )
        .await
        {
            Ok(collected) => collected,
            Err(why) => return uncollected(why).into_http(),
        };
        let call = ShouldRateLimit { app: self.shared.app.clone() };
        let mut grpc = Grpc::new(RlsCodec).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.unary(call, Request::from_parts(head, Full::new(bytes))).await
    }

    async fn answer_other(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let (path, shutdown) = (request.uri().path(), self.shutdown.clone());
        let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(NAME_BYTES_MAX);
        let answer = match path {
            HEALTH_CHECK => within(CALL_TIMEOUT, grpc.unary(Check(shutdown), request)).await,
            HEALTH_WATCH => {
                within(CALL_TIMEOUT, grpc.server_streaming(Watch(shutdown), request)).await
            }
            path => {
                let Some(method) = self.shared.reflection.method(path) else {
                    let path = tidegate_core::text::printable(path);
                    return Status::unimplemented(format!("no method at {path}")).into_http();
                };
                return method(request).await;
            }
        };
        answer.unwrap_or_else(too_slow)
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn uncollected(why: BodyReadError) -> Status {
    match why {
        BodyReadError::Broken => Status::cancelled("the message ended early"),
        BodyReadError::TooLarge => Status::out_of_range(format!(
            "the message is too large: the maximum is {MESSAGE_BYTES_MAX} bytes"
        )),
        BodyReadError::NoRoom => {
            Status::resource_exhausted("too many large messages at once: retry later")
        }
    }
}

fn too_slow() -> Response<Body> {
    let why = format!("the call took longer than {CALL_TIMEOUT:?}");
    Status::deadline_exceeded(why).into_http()
}
