//! One HTTP/1.1 or HTTP/2 connection: its bounds, timeouts and shutdown. The door answers its requests.

mod activity;
mod coding;
mod stream_task;
mod timed_stream;
mod watched_body;

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use http::header::{CONNECTION, HeaderValue};
use http::{Response, StatusCode, Version};
use hyper::Request;
use hyper::body::Bytes;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::time::sleep;

pub(crate) use self::activity::{Activity, Held};
pub(crate) use self::coding::{BadCoding, check_coding};
pub(crate) use self::stream_task::{StreamExecutor, run as run_stream};
pub(crate) use self::timed_stream::{Alarm, TimedStream, Timeouts};
pub(crate) use self::watched_body::WatchedBody;
use crate::net::{Client, Shutdown, Stream, WriteCoalescer, timeout};

/// The bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpBounds {
    /// For a request head; for the first one, from the start of the connection.
    pub(crate) head_timeout: Duration,
    /// A connection without requests is closed after this time, at the latest after twice that.
    pub(crate) idle_timeout: Duration,
    /// A client that reads nothing of a response is disconnected after this time; on HTTP/2, the response alone is reset.
    pub(crate) write_timeout: Duration,
    /// The number of headers is bounded by hyper's default of 100: any other bound costs an allocation per request.
    pub(crate) head_bytes_max: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub(crate) streams_max: u32,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self {
            head_timeout: timeout::OPENING,
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            head_bytes_max: 32 << 10,
            streams_max: 256,
        }
    }
}

/// HTTP/2 streams that may be reset before they are accepted: a client that opens and resets hundreds causes work without
/// waiting for it (rapid reset).
const RESETS_MAX: usize = 20;
/// What HTTP/2 keeps of one response: the rest stays with its body, which has room for it.
pub(crate) const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Interval and timeout of HTTP/2 pings.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

pub(crate) type HttpBuilder = auto::Builder<StreamExecutor>;

/// Why a request is refused before its door sees it, or its answer is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Coding(BadCoding),
    /// All unread answers together take too much memory.
    NoRoom,
}

/// The client of a connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) is_tls: bool,
    /// For responses that go on after their head.
    pub(crate) activity: Arc<Activity>,
}

/// Answers the requests of a connection.
pub(crate) trait Answers: Send + Sync + 'static {
    type Body: Body<Data = Bytes, Error: Error + Send + Sync> + Unpin + Send + 'static;

    /// Whether a request may turn an HTTP/1.1 connection into a tunnel. Nothing polls the coalescer of a tunnel.
    const MAY_UPGRADE: bool = false;

    /// The future should not hold the request itself: every layer that wraps it would move it once more.
    fn answer(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The bytes that a body holds for this answer alone. Not those that all answers share, nor those that follow.
    fn held_bytes(body: &Self::Body) -> usize;

    fn refuse(&self, why: Refusal) -> Response<Self::Body>;

    /// Runs after the last HTTP request, such as a tunnel.
    fn afterwards(&self, _: Shutdown) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// What to do if the client has hung up before its response is written. An extension of the response.
#[derive(Clone)]
pub(crate) struct IfHungUp(Arc<dyn Fn() + Send + Sync>);

impl IfHungUp {
    pub(crate) fn new(undo: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(undo))
    }
}

pub(crate) fn builder(bounds: HttpBounds) -> HttpBuilder {
    let mut http = auto::Builder::new(StreamExecutor { unread: bounds.write_timeout });
    http.http1()
        // hyper's timeout would end idle connections as well, and cost a timer per request: see `TimedStream`.
        .header_read_timeout(None)
        // The buffer also bounds a head that never ends; hyper's `max_header_size` only checks complete heads.
        .max_buf_size(bounds.head_bytes_max);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams_max)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    http
}

/// Serves a connection to its end.
pub(crate) async fn serve<A: Answers>(
    http: &HttpBuilder,
    bounds: HttpBounds,
    answers: A,
    stream: Stream,
    client: Client,
    shutdown: Shutdown,
) {
    let activity = Activity::of(client.usage());
    let caller = Caller { client, is_tls: stream.is_tls(), activity: activity.clone() };
    let timeouts = Timeouts { head: bounds.head_timeout, write: bounds.write_timeout };
    let timed = TimedStream::new(stream, activity.clone(), timeouts);
    let coalesces = if A::MAY_UPGRADE { TimedStream::is_http2 } else { |_: &TimedStream| true };
    let stream = WriteCoalescer::only_if(timed, coalesces);
    // One `Arc` for all of it: one reference count per request.
    let session =
        Arc::new(Session { answers, caller, shutdown: shutdown.clone(), stream: stream.clone() });
    let session_after = session.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let session = session.clone();
        session.caller.activity.begin();
        if request.version() != Version::HTTP_2 {
            session.caller.activity.read_head(request.body().size_hint().exact());
        }
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let io = TokioIo::new(stream.clone());
    let mut connection = pin!(http.serve_connection_with_upgrades(io, service));
    let ended = {
        let mut events = ConnectionEvents::new();
        events.push(Box::pin(after(shutdown.draining(), ConnectionEvent::Draining)));
        events.push(Box::pin(after(sleep(bounds.idle_timeout), ConnectionEvent::IdleTimeout)));
        // Later than the streams' own timeouts.
        let stalled = activity.stalled(2 * bounds.write_timeout);
        events.push(Box::pin(after(stalled, ConnectionEvent::Stalled)));
        let mut seen = 0;
        loop {
            tokio::select! {
                biased;
                ended = stream.drive(connection.as_mut()) => break ended,
                Some(event) = events.next() => match event {
                    ConnectionEvent::Draining => {
                        // HTTP/2 has GOAWAY; HTTP/1.1 can only say `close` with a response.
                        if activity.is_http2() {
                            connection.as_mut().graceful_shutdown();
                        }
                        events.push(Box::pin(after(shutdown.closing(), ConnectionEvent::Closing)));
                    }
                    ConnectionEvent::Closing => connection.as_mut().graceful_shutdown(),
                    ConnectionEvent::IdleTimeout if activity.is_idle_since(&mut seen) => {
                        connection.as_mut().graceful_shutdown();
                    }
                    ConnectionEvent::IdleTimeout => {
                        let idle = sleep(bounds.idle_timeout);
                        events.push(Box::pin(after(idle, ConnectionEvent::IdleTimeout)));
                    }
                    ConnectionEvent::Stalled => {
                        break Err("the client stopped reading a response".into());
                    }
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    session_after.answers.afterwards(shutdown).await;
}

/// What happens to a connection besides its requests.
enum ConnectionEvent {
    Draining,
    Closing,
    IdleTimeout,
    /// A response of HTTP/2 does not move, and is so small that nothing can reset its stream any more. On HTTP/1.1 the
    /// stream itself notices that.
    Stalled,
}

/// Each is polled when it is woken, not with every request: that would cost as much as a decision.
type ConnectionEvents<'a> =
    FuturesUnordered<Pin<Box<dyn Future<Output = ConnectionEvent> + Send + 'a>>>;

async fn after(happened: impl Future<Output = ()>, event: ConnectionEvent) -> ConnectionEvent {
    happened.await;
    event
}

/// What the requests of one connection share.
struct Session<A> {
    answers: A,
    caller: Caller,
    shutdown: Shutdown,
    stream: WriteCoalescer<TimedStream>,
}

impl<A: Answers> Session<A> {
    fn answer(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<WatchedBody<A::Body>>> + Send {
        let under_way = self.caller.activity.under_way();
        let is_http2 = request.version() == Version::HTTP_2;
        // HTTP/2 has no transfer codings.
        let coding = if is_http2 { Ok(()) } else { check_coding(request.headers()) };
        let answer = coding.map(|()| self.answers.answer(request, &self.caller));
        async move {
            let _under_way = under_way;
            let mut response = match answer {
                Ok(answer) => answer.await,
                Err(why) => self.refuse_coding(why),
            };
            if let Some(IfHungUp(undo)) = response.extensions_mut().remove()
                && self.stream.ask(TimedStream::has_hung_up)
            {
                undo();
            }
            let activity = &self.caller.activity;
            let unread = activity.keep_unread(A::held_bytes(response.body()), is_http2);
            if unread.is_none() {
                response = self.answers.refuse(Refusal::NoRoom);
            }
            let is_last = self.shutdown.is_draining() && !is_http2;
            if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            let activity = is_http2.then(|| activity.clone());
            response.map(|body| WatchedBody::new(body, activity, unread))
        }
    }

    /// The body cannot be decoded, so that nobody knows where the next request begins.
    #[cold]
    fn refuse_coding(&self, why: BadCoding) -> Response<A::Body> {
        let mut response = self.answers.refuse(Refusal::Coding(why));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
