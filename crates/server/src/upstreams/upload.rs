//! A request body in transit to an upstream, and the draining of one that is not needed.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{forwarded, hops};
use crate::net::http::Alarm;

/// What is read and discarded of an unneeded body, so that its sender can read the response instead of a connection reset.
/// Beyond that the connection is closed.
const DRAIN_BYTES_MAX: usize = 1 << 20;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// An incoming body with a timeout for pauses of its sender.
#[derive(Debug)]
pub(crate) struct Upload {
    /// `None` without a body and after its end.
    body: Option<Incoming>,
    flow: Option<Arc<Flow>>,
    pause: Alarm,
    may_drain: bool,
}

/// The progress of a body, for the request that waits for the response.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    frames: AtomicU64,
    is_ended: AtomicBool,
    /// Whether the client has to send the next frame.
    is_waiting: AtomicBool,
}

impl Flow {
    pub(crate) fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Relaxed)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Relaxed)
    }
}

#[derive(Debug)]
pub(crate) enum Broken {
    Paused,
    Sender(hyper::Error),
}

impl Upload {
    /// `may_drain`: whether an unneeded rest may be read. Not for a client that waits for `100 Continue`, because reading
    /// would send it.
    pub(crate) fn new(body: Incoming, pause: Duration, may_drain: bool) -> Self {
        let body = Some(body).filter(|body| !body.is_end_stream());
        let flow = body.is_some().then(Arc::default);
        Self { body, flow, pause: Alarm::after(pause), may_drain }
    }

    pub(crate) const fn empty() -> Self {
        Self { body: None, flow: None, pause: Alarm::after(Duration::ZERO), may_drain: false }
    }

    /// `None` without a body.
    pub(crate) fn flow(&self) -> Option<Arc<Flow>> {
        self.flow.clone()
    }

    fn end(&mut self) {
        self.body = None;
        if let Some(flow) = &self.flow {
            flow.is_ended.store(true, Relaxed);
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        let (Some(body), Some(flow)) = (&mut this.body, &this.flow) else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        flow.is_waiting.store(polled.is_pending(), Relaxed);
        match polled {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    // Proxies write no such trailers, and some upstreams treat trailers as headers.
                    forwarded::strip_untrusted(trailers, false);
                    hops::strip_proxy(trailers);
                }
                flow.frames.fetch_add(1, Relaxed);
                this.pause.disarm();
                if body.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Broken::Sender(error)))),
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => this.pause.ring(cx).map(|()| Some(Err(Broken::Paused))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|_| self.may_drain) else { return };
        // Bounded: a connection has at most one such body, which ends with the connection.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(DRAIN_TIME_MAX, drain(body)));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(size) else { return };
        left = rest;
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("the client stopped sending the request body"),
            Self::Sender(error) => error.fmt(f),
        }
    }
}

impl Error for Broken {}
