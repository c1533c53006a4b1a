//! Response bodies on their way to the client. The upstream is read only as fast as the client reads, so memory stays
//! flat.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate::Permit;
use tokio::sync::oneshot;

use super::tracker::RequestTracker;
use crate::net::ClientRequestSlot;
use crate::net::http::{Alarm, Held};
use crate::upstreams::connection::UpstreamConnection;
use crate::upstreams::in_flight::Passage;
use crate::upstreams::upload::Flow;
use crate::upstreams::{RequestSlot, Upstreams};

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Local(Full<Bytes>),
    Upstream(Box<UpstreamBody>),
}

/// A body streamed from an upstream.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    body: Incoming,
    driver: ConnectionDriver,
    proxy: Arc<Upstreams>,
    idle_timer: Alarm,
    /// An error that is reported with the next poll.
    error_to_report: Option<hyper::Error>,
    guards: RequestGuards,
}

/// Released when a response has ended in any way.
#[derive(Debug)]
pub(super) struct RequestGuards {
    pub(super) tracker: RequestTracker,
    pub(super) _slot: RequestSlot,
    pub(super) _activity: Held,
    pub(super) _permit: Option<Permit>,
    pub(super) _passage: Option<Passage>,
    pub(super) _client_slot: Option<ClientRequestSlot>,
}

/// Who drives the upstream connection while the body is read.
#[derive(Debug)]
enum ConnectionDriver {
    /// The reader of the body.
    Reader(Box<UpstreamConnection>),
    /// A task, until this is dropped.
    Task { _guard: oneshot::Sender<()> },
    /// None: the body is complete, or the connection is driven elsewhere.
    Done,
}

/// Why a body ended early.
#[derive(Debug)]
pub(crate) enum BodyError {
    Idle,
    Upstream(hyper::Error),
}

impl ResponseBody {
    pub(super) fn local(body: Bytes) -> Self {
        Self::Local(Full::new(body))
    }

    /// The bytes that it holds before the client reads: an upstream's body is read as fast as the client reads it.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Local(body) => usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX),
            Self::Upstream(_) => 0,
        }
    }

    /// Streams a body. While the request body is still being sent, a task drives the connection, so that both make
    /// progress.
    pub(super) fn upstream(
        body: Incoming,
        link: Option<Box<UpstreamConnection>>,
        upload: Option<&Flow>,
        proxy: Arc<Upstreams>,
        guards: RequestGuards,
    ) -> Self {
        let times = proxy.settings.times;
        let is_sent = upload.is_none_or(Flow::is_ended);
        let driver = match link {
            None => ConnectionDriver::Done,
            Some(link) if is_sent => ConnectionDriver::Reader(link),
            Some(link) => ConnectionDriver::Task { _guard: link.detach(times.idle) },
        };
        let mut streamed = UpstreamBody {
            body,
            driver,
            proxy,
            idle_timer: Alarm::after(times.idle),
            error_to_report: None,
            guards,
        };
        if streamed.body.is_end_stream() {
            streamed.finish();
        }
        Self::Upstream(Box::new(streamed))
    }
}

impl UpstreamBody {
    /// Returns the connection to the pool.
    fn finish(&mut self) {
        if let ConnectionDriver::Reader(link) =
            std::mem::replace(&mut self.driver, ConnectionDriver::Done)
        {
            self.guards.tracker.upstream().keep(link, &self.proxy.settings);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.error_to_report.take() {
            return Poll::Ready(Some(Err(BodyError::Upstream(error))));
        }
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending()
            && let ConnectionDriver::Reader(link) = &mut self.driver
        {
            link.drive(cx);
            polled = Pin::new(&mut self.body).poll_frame(cx);
        }
        if polled.is_pending() {
            ready!(self.idle_timer.ring(cx));
            return Poll::Ready(Some(Err(BodyError::Idle)));
        }
        self.idle_timer.disarm();
        let frame = match ready!(polled).transpose() {
            Ok(frame) => frame,
            Err(error) => {
                // hyper drops unwritten data when a body fails: let it write first.
                self.error_to_report = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        if frame.is_none() || self.body.is_end_stream() {
            self.finish();
        }
        Poll::Ready(frame.map(Ok))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Local(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Upstream(streamed) => streamed.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Local(body) => body.is_end_stream(),
            Self::Upstream(streamed) => streamed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Local(body) => body.size_hint(),
            Self::Upstream(streamed) => streamed.body.size_hint(),
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("the upstream stopped sending its response"),
            Self::Upstream(error) => error.fmt(f),
        }
    }
}

impl Error for BodyError {}
