//! One HTTP connection, of version 1.1 or 2: how much and how slowly it may send, and how it ends.

mod line;
mod patient;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, HeaderValue};
use axum::http::{Method, Response, Version};
use http_body_util::{Either, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tracing::Instrument;

use self::line::Line;
use self::patient::Patient;
use super::express;
use crate::gate::Gate;
use crate::gather::Gathering;
use crate::listen::{Peer, Stream};
use crate::logs::trace;
use crate::server::{Door, Ending};

/// What one connection may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpBounds {
    /// How long a request head may take; the first one from when the connection is there.
    pub(crate) head_timeout: Duration,
    /// How long a connection may stay without a request, at least; at most twice that.
    pub(crate) idle_timeout: Duration,
    /// How long a client may take none of its answer.
    pub(crate) write_timeout: Duration,
    /// How large a request head may be. How many headers it has, at most 100, is hyper's default: a number of
    /// our own would cost an allocation per request.
    pub(crate) head_bytes_max: usize,
    /// How many requests of HTTP/2 may be under way at once.
    pub(crate) streams_max: u32,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            head_bytes_max: 32 << 10,
            streams_max: 256,
        }
    }
}

/// How many requests of HTTP/2 may have been taken back before we knew of them: who opens and resets streams by the
/// hundred wants work done that nobody waits for.
const RESETS_MAX: usize = 20;
/// How often, and for how long, a peer of HTTP/2 is asked whether it is still there.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// A router behind HTTP.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    router: TowerToHyperService<Router>,
    /// For the one path that is too hot for a router.
    checks: Option<Arc<Gate>>,
    http: auto::Builder<TokioExecutor>,
    bounds: HttpBounds,
}

type Answer = Response<Either<Full<Bytes>, Body>>;

impl HttpDoor {
    pub(crate) fn new(router: Router, bounds: HttpBounds) -> Self {
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1()
            // hyper's timeout would end idle connections as well, and cost a timer per request: see `Patient`.
            .header_read_timeout(None)
            // The buffer bounds the head, also one that never ends; hyper's `max_header_size` looks at whole heads only.
            .max_buf_size(bounds.head_bytes_max)
            // Answers are small: one buffer and a plain write, instead of two gathered by the kernel.
            .writev(false);
        http.http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(bounds.streams_max)
            .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(RESETS_MAX)
            .keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1);
        Self { router: TowerToHyperService::new(router), checks: None, http, bounds }
    }

    /// Answers `POST /v1/check` itself, past the router, which costs as much as the check.
    pub(crate) fn with_checks(mut self, gate: Arc<Gate>) -> Self {
        self.checks = Some(gate);
        self
    }
}

impl Door for HttpDoor {
    async fn serve(self, mut stream: Stream, peer: Peer, mut ending: Ending) {
        let Self { router, checks, http, bounds } = self;
        let unread = match &checks {
            Some(gate) => express::serve(&mut stream, gate, &mut ending, bounds).await,
            None => Some(Vec::new()),
        };
        let Some(unread) = unread else { return };
        let line = Arc::new(Line::default());
        let patient = Patient::new(stream, unread, line.clone(), bounds);
        // HTTP/1.1 has one answer at a time.
        let stream = Gathering::only_if(patient, Patient::is_http2);
        // One count of references per request, not one for each of these.
        let session =
            Arc::new(Session { router, checks, peer, line: line.clone(), ending: ending.clone() });
        let service = service_fn(move |request| {
            let session = session.clone();
            session.line.begin();
            async move { Ok::<_, Infallible>(session.answer(request).await) }
        });
        let io = TokioIo::new(stream.clone());
        let mut connection = pin!(http.serve_connection(io, service));
        let mut idle = pin!(tokio::time::sleep(bounds.idle_timeout));
        let mut seen = 0;
        let mut is_farewell = false;
        let ended = loop {
            let stop = async {
                if is_farewell {
                    ending.closing().await;
                } else {
                    ending.farewell().await;
                }
            };
            tokio::select! {
                biased;
                ended = stream.turns(connection.as_mut()) => break ended,
                () = stop => {
                    // HTTP/2 can say that no new requests are wanted; HTTP/1.1 only with an answer.
                    if is_farewell || line.is_http2() {
                        connection.as_mut().graceful_shutdown();
                    }
                    if is_farewell {
                        break stream.turns(connection).await;
                    }
                    is_farewell = true;
                }
                () = idle.as_mut() => {
                    if line.is_idle_since(&mut seen) {
                        connection.as_mut().graceful_shutdown();
                        break stream.turns(connection).await;
                    }
                    let deadline = tokio::time::Instant::now() + bounds.idle_timeout;
                    idle.as_mut().reset(deadline);
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// What the requests of one connection share.
struct Session {
    router: TowerToHyperService<Router>,
    checks: Option<Arc<Gate>>,
    peer: Peer,
    line: Arc<Line>,
    ending: Ending,
}

impl Session {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let _under_way = self.line.under_way();
        let version = request.version();
        let span = trace::span(request.headers());
        let mut response = match span {
            Some(span) => self.reached(request).instrument(span).await,
            None => self.reached(request).await,
        };
        if self.ending.is_farewell() && version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn reached(&self, request: Request<Incoming>) -> Answer {
        match &self.checks {
            Some(gate) if is_check(&request) => {
                let answer = super::check_now(gate, request.into_body()).await;
                answer.map(|body| Either::Left(Full::new(body)))
            }
            _ => self.routed(request).await.map(Either::Right),
        }
    }

    async fn routed(&self, request: Request<Incoming>) -> Response<Body> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        match hyper::service::Service::call(&self.router, request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

fn is_check(request: &Request<Incoming>) -> bool {
    request.uri().path() == "/v1/check" && request.method() == Method::POST
}

#[cfg(test)]
mod tests;
