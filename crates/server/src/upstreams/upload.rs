//! A request body in transit to an upstream, and the draining of one that is not needed.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::{forwarded, hops};
use crate::net::ClientUsage;
use crate::net::body::{Collected, Collecting};
use crate::net::http::Alarm;
use crate::net::room::Reserved;

/// What is read and discarded of an unneeded body, so that its sender can read the response instead of a connection reset.
/// Beyond that the connection is closed.
const DRAIN_BYTES_MAX: usize = 1 << 20;
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

/// An incoming body with a timeout for pauses of its sender.
#[derive(Debug)]
pub(crate) struct Upload {
    /// `None` without a body and after its end.
    body: Option<Incoming>,
    /// What was read and is not forwarded yet.
    ahead: Option<Box<ReadAhead>>,
    flow: Option<Arc<Flow>>,
    pause: Alarm,
    may_drain: bool,
}

/// The beginning of a body, or all of it, and the room that it takes.
#[derive(Debug)]
struct ReadAhead {
    /// Data, and perhaps trailers. Not empty.
    frames: VecDeque<Frame<Bytes>>,
    _room: Option<Reserved<'static>>,
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

/// Why a body could not be read ahead.
#[derive(Debug)]
pub(crate) enum ReadAheadError {
    Broken(Broken),
    /// All bodies together, or those of this client, take too much memory.
    NoRoom,
}

impl Upload {
    /// `may_drain`: whether an unneeded rest may be read. Not for a client that waits for `100 Continue`, because reading
    /// would send it.
    pub(crate) fn new(body: Incoming, pause: Duration, may_drain: bool) -> Self {
        let body = Some(body).filter(|body| !body.is_end_stream());
        let flow = body.is_some().then(Arc::default);
        Self { body, ahead: None, flow, pause: Alarm::after(pause), may_drain }
    }

    pub(crate) const fn empty() -> Self {
        let pause = Alarm::after(Duration::ZERO);
        Self { body: None, ahead: None, flow: None, pause, may_drain: false }
    }

    /// `None` without a body.
    pub(crate) fn flow(&self) -> Option<Arc<Flow>> {
        self.flow.clone()
    }

    /// Reads up to so many bytes before anything is forwarded, and returns the body if that is all of it. Whatever was read
    /// is forwarded as it came.
    pub(crate) async fn read_ahead(
        &mut self,
        client: Option<&Arc<ClientUsage>>,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, ReadAheadError> {
        if self.size_hint().lower() > bytes_max as u64 {
            return Ok(None);
        }
        let (mut read, mut trailers) = (Collecting::default(), None);
        while self.body.is_some() && read.len() <= bytes_max {
            let Some(frame) = poll_fn(|cx| self.poll_body(cx)).await else { break };
            match frame.map_err(ReadAheadError::Broken)?.into_data() {
                Ok(data) => {
                    let is_end = self.body.is_none();
                    read.extend(client, data, is_end).map_err(|_| ReadAheadError::NoRoom)?;
                }
                Err(frame) => trailers = Some(frame),
            }
        }
        let Collected { bytes, room } = read.finish();
        let data = (!bytes.is_empty()).then(|| Frame::data(bytes.clone()));
        let frames: VecDeque<_> = data.into_iter().chain(trailers).collect();
        if !frames.is_empty() {
            self.ahead = Some(Box::new(ReadAhead { frames, _room: room }));
        }
        Ok(Some(bytes).filter(|bytes| self.body.is_none() && bytes.len() <= bytes_max))
    }

    /// The next frame that was read ahead. The room is free after the last one.
    fn next_ahead(&mut self) -> Option<Frame<Bytes>> {
        let frames = &mut self.ahead.as_mut()?.frames;
        let next = frames.pop_front();
        if frames.is_empty() {
            self.ahead = None;
        }
        next
    }

    /// The next frame from the client.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let (Some(body), Some(flow)) = (&mut self.body, &self.flow) else {
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
                self.pause.disarm();
                if body.is_end_stream() {
                    self.body = None;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Broken::Sender(error)))),
            Poll::Ready(None) => {
                self.body = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.pause.ring(cx).map(|()| Some(Err(Broken::Paused))),
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
        let polled = match this.next_ahead() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => this.poll_body(cx),
        };
        let is_ended = this.body.is_none() && this.ahead.is_none();
        if let Some(flow) = this.flow.as_ref().filter(|_| is_ended) {
            flow.is_ended.store(true, Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let frames = || self.ahead.iter().flat_map(|ahead| &ahead.frames);
        let ahead: usize = frames().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead as u64);
        // A body with a known length could not have trailers.
        if let Some(upper) = rest.upper().filter(|_| !frames().any(Frame::is_trailers)) {
            hint.set_upper(upper + ahead as u64);
        }
        hint
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
