//! One gRPC connection: its bounds, and how it shuts down.

use std::convert::Infallible;
use std::future::pending;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::service::Service;
use crate::doors::shared::{DoorContext, OpenDoor};
use crate::net::http::{
    Activity, SEND_BUFFER_BYTES, TimedStream, Timeouts, WatchedBody, run_stream,
};
use crate::net::timeout::OPENING;
use crate::net::{Client, ConnectionHandler, Shutdown, Stream, WriteCoalescer};
use tidegate_config::{Address, Config};

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcBounds {
    /// Maximum concurrent calls.
    pub(crate) streams_max: u32,
    /// Maximum size of the headers of a call.
    pub(crate) head_bytes_max: u32,
    /// How many calls the client may reset before they are processed. A client that only opens and resets calls costs
    /// the server more than itself.
    pub(crate) resets_max: usize,
    /// Timeouts for the HTTP/2 preface, and for the client to read responses.
    pub(crate) timeouts: Timeouts,
    /// How long a connection may be idle before it is pinged.
    pub(crate) idle: Duration,
    /// How long the client has to answer the ping.
    pub(crate) idle_answer: Duration,
}

impl Default for GrpcBounds {
    fn default() -> Self {
        Self {
            streams_max: 1024,
            head_bytes_max: 16 << 10,
            resets_max: 64,
            timeouts: Timeouts { head: OPENING, write: Duration::from_secs(30) },
            idle: Duration::from_secs(30),
            idle_answer: Duration::from_secs(10),
        }
    }
}

/// The smallest maximum that HTTP/2 allows, and far more than a request needs.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// How much of one call a client may send before it is read; a request has at most sixteen times this.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// The same for all calls of a connection together.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The door of the rate limit service.
#[derive(Clone, Debug)]
pub(crate) struct GrpcDoor {
    service: Service,
    http: http2::Builder<RunInPlace>,
    timeouts: Timeouts,
}

impl GrpcDoor {
    pub(crate) fn new(service: Service, bounds: GrpcBounds) -> Self {
        let mut http = http2::Builder::new(RunInPlace { unread: bounds.timeouts.write });
        // hyper ignores the timeouts without a timer.
        http.timer(TokioTimer::new())
            .keep_alive_interval(bounds.idle)
            .keep_alive_timeout(bounds.idle_answer)
            .max_concurrent_streams(bounds.streams_max)
            .max_header_list_size(bounds.head_bytes_max)
            .max_pending_accept_reset_streams(bounds.resets_max)
            .max_local_error_reset_streams(bounds.resets_max)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            // No gRPC client reads it, and it costs a header per response.
            .auto_date_header(false);
        Self { service, http, timeouts: bounds.timeouts }
    }
}

impl OpenDoor for GrpcDoor {
    const LISTENING: &'static str = "listening for gRPC";

    fn build(context: &DoorContext<'_>) -> Result<Self, String> {
        let service = Service::new(context.app.clone()).map_err(|error| error.to_string())?;
        Ok(Self::new(service, GrpcBounds::default()))
    }

    fn welcome(address: &Address, _scheme: &str, _config: &Config) -> String {
        format!("for Envoy: gRPC on {address}\n")
    }
}

impl ConnectionHandler for GrpcDoor {
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let activity = Activity::of(client.usage());
        let service = self.service.for_connection(shutdown.clone(), activity.clone());
        let for_bodies = activity.clone();
        let service = service_fn(move |request| {
            let (answer, activity) = (service.clone().answer(request), for_bodies.clone());
            async {
                let watched = |body| WatchedBody::counting_pieces(body, activity);
                Ok::<_, Infallible>(answer.await.map(watched))
            }
        });
        // Pings only start after the HTTP/2 preface, so the preface has its own timeout.
        let timed = TimedStream::new(stream, activity.clone(), self.timeouts);
        let stream = WriteCoalescer::new(timed);
        let io = TokioIo::new(stream.clone());
        let mut connection = pin!(self.http.serve_connection(io, service));
        let ended = async {
            // After a GOAWAY the calls in flight are finished, and clients reconnect, to another node if there is one. A
            // client that connects while draining is served until the server closes.
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
                        () = closing_before_preface(&shutdown, &activity) => Ok(()),
                    }
                }
            }
        };
        let ended = tokio::select! {
            biased;
            ended = ended => ended.map_err(|error| error.to_string()),
            // Later than the streams' own timeouts.
            () = activity.stalled(2 * self.timeouts.write) => Err("the client does not read the response".to_owned()),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// Runs a call in place, and spawns a task only if it has to wait. With the memory store no call waits, and a task for
/// each would cost as much as its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunInPlace {
    /// How long a client may leave a response unread.
    unread: Duration,
}

impl<F> Executor<F> for RunInPlace
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(run_stream(call, self.unread));
        // No waker is needed: a pending call is polled again by its own task.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(call);
        }
    }
}

/// Ready when the server closes and the connection has not sent the HTTP/2 preface: hyper would still wait for it.
async fn closing_before_preface(shutdown: &Shutdown, activity: &Activity) {
    shutdown.closing().await;
    if activity.is_http2() {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
