//! One gRPC connection: how much it may ask for at once, how large and how slow, and how it ends.

use std::convert::Infallible;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::service::Service;
use crate::net::Stream;
use crate::net::WriteCoalescer;
use crate::net::http::{Activity, TimedStream, Timeouts, WatchedBody};
use crate::net::{ConnectionHandler, Shutdown};
use tidegate_request::Peer;

/// What one connection may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcBounds {
    /// How many calls may be under way at once.
    pub(crate) streams_max: u32,
    /// How large the headers of a call may be.
    pub(crate) head_bytes_max: u32,
    /// How many calls may be given up by the client before we have looked at them. A client that opens calls only to
    /// give them up costs us more than itself.
    pub(crate) resets_max: usize,
    /// How long a connection is waited for to begin, and for its client to take something of what is written.
    pub(crate) waits: Timeouts,
    /// How long a connection may be silent before it is asked whether it is still there.
    pub(crate) idle: Duration,
    /// How long it has to say so.
    pub(crate) idle_answer: Duration,
}

impl Default for GrpcBounds {
    fn default() -> Self {
        Self {
            streams_max: 1024,
            head_bytes_max: 16 << 10,
            resets_max: 64,
            waits: Timeouts { head: Duration::from_secs(5), write: Duration::from_secs(30) },
            idle: Duration::from_secs(30),
            idle_answer: Duration::from_secs(10),
        }
    }
}

/// The smallest frame that HTTP/2 lets us ask for, and far more than a request needs.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// What a client may send of one call before we have read it; a request is at most sixteen of these.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// What a client may send of all calls together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The rate limit service behind gRPC.
#[derive(Clone, Debug)]
pub(crate) struct GrpcDoor {
    service: Service,
    http: http2::Builder<RunInPlace>,
    waits: Timeouts,
}

impl GrpcDoor {
    pub(crate) fn new(service: Service, bounds: GrpcBounds) -> Self {
        let mut http = http2::Builder::new(RunInPlace);
        // Without the timer the timeouts would be numbers that nobody looks at.
        http.timer(TokioTimer::new())
            .keep_alive_interval(bounds.idle)
            .keep_alive_timeout(bounds.idle_answer)
            .max_concurrent_streams(bounds.streams_max)
            .max_header_list_size(bounds.head_bytes_max)
            .max_pending_accept_reset_streams(bounds.resets_max)
            .max_local_error_reset_streams(bounds.resets_max)
            .max_frame_size(FRAME_BYTES_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            // Nobody looks at it, and it costs a header per answer.
            .auto_date_header(false);
        Self { service, http, waits: bounds.waits }
    }
}

impl ConnectionHandler for GrpcDoor {
    async fn serve(self, stream: Stream, _: Peer, shutdown: Shutdown) {
        let service = self.service.for_connection(shutdown.clone());
        let line = Arc::new(Activity::default());
        let watched = line.clone();
        let service = service_fn(move |request| {
            let (answer, line) = (service.clone().answer(request), watched.clone());
            async {
                Ok::<_, Infallible>(answer.await.map(|body| WatchedBody::new(body, Some(line))))
            }
        });
        // Pings find out whether a peer is there, but only once it has begun to speak.
        let patient = TimedStream::new(stream, line.clone(), self.waits);
        let stream = WriteCoalescer::new(patient);
        let io = TokioIo::new(stream.clone());
        let mut connection = pin!(self.http.serve_connection(io, service));
        let ended = async {
            // HTTP/2 can say that no more calls are taken while those under way are finished, and clients then connect
            // anew: elsewhere, if there is anybody else. Who still finds us is served for as long as there are others.
            let leave = async {
                if shutdown.is_draining() {
                    shutdown.closing().await;
                } else {
                    shutdown.draining().await;
                }
            };
            tokio::select! {
                ended = stream.drive(connection.as_mut()) => ended,
                () = leave => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = stream.drive(connection) => ended,
                        () = closing_in_silence(&shutdown, &line) => Ok(()),
                    }
                }
            }
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended.map_err(|error| error.to_string()),
            () = line.stalled(self.waits.write) => Err("an answer was not taken".to_owned()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// Runs a call right where it was read, and makes a task of it only if it has to wait. With a store in memory no call
/// does, and a task for each would cost as much as its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunInPlace;

impl<F> Executor<F> for RunInPlace
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(call);
        // Nobody has to be woken: who is not ready is polled again by its own task.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(call);
        }
    }
}

/// Ready when a connection is to be closed that has not begun to speak: nothing is under way on it, and hyper would
/// still wait for it.
async fn closing_in_silence(shutdown: &Shutdown, line: &Activity) {
    shutdown.closing().await;
    if line.is_http2() {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
