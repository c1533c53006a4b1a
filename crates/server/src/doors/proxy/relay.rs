//! The body of an answer on its way to the client. What it cannot send on it does not read: memory stays flat.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate::Permit;
use tokio::sync::oneshot;

use super::watch::Watch;
use crate::net::http::{Alarm, Held};
use crate::upstreams::link::Link;
use crate::upstreams::upload::Flow;
use crate::upstreams::{Proxy, RequestSlot};

/// A body of our own, or one that is passed on.
#[derive(Debug)]
pub(crate) enum Relay {
    Own(Full<Bytes>),
    Passed(Box<Passed>),
}

/// A body that comes from an upstream.
#[derive(Debug)]
pub(crate) struct Passed {
    body: Incoming,
    source: Source,
    proxy: Arc<Proxy>,
    pause: Alarm,
    /// What it ends with.
    broken: Option<hyper::Error>,
    held: Guards,
}

/// What is given back when an answer has ended, in whatever way.
#[derive(Debug)]
pub(super) struct Guards {
    pub(super) watch: Watch,
    pub(super) _place: RequestSlot,
    pub(super) _line: Held,
    pub(super) _permit: Option<Permit>,
}

/// What drives the connection that a body comes from.
#[derive(Debug)]
enum Source {
    /// Whoever reads the body.
    Reader(Box<Link>),
    /// A task, for as long as this is not dropped.
    Task { _guard: oneshot::Sender<()> },
    /// Others do, or nothing has to: all is there.
    Done,
}

/// Why a body ends early.
#[derive(Debug)]
pub(crate) enum Cut {
    Paused,
    Upstream(hyper::Error),
}

impl Relay {
    pub(super) fn own(body: Bytes) -> Self {
        Self::Own(Full::new(body))
    }

    /// Passes a body on. While the request's own is not all sent, both have to go on at once.
    pub(super) fn pass(
        body: Incoming,
        link: Option<Box<Link>>,
        upload: Option<&Flow>,
        proxy: Arc<Proxy>,
        held: Guards,
    ) -> Self {
        let times = proxy.settings.times;
        let is_sent = upload.is_none_or(Flow::is_ended);
        let source = match link {
            None => Source::Done,
            Some(link) if is_sent => Source::Reader(link),
            Some(link) => Source::Task { _guard: link.detach(times.idle) },
        };
        let mut passed =
            Passed { body, source, proxy, pause: Alarm::after(times.idle), broken: None, held };
        if passed.body.is_end_stream() {
            passed.finish();
        }
        Self::Passed(Box::new(passed))
    }
}

impl Passed {
    /// The connection is free for the next request.
    fn finish(&mut self) {
        if let Source::Reader(link) = std::mem::replace(&mut self.source, Source::Done) {
            self.held.watch.upstream().keep(link, &self.proxy.settings);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(Cut::Upstream(error))));
        }
        let mut polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending()
            && let Source::Reader(link) = &mut self.source
        {
            link.drive(cx);
            polled = Pin::new(&mut self.body).poll_frame(cx);
        }
        if polled.is_pending() {
            ready!(self.pause.ring(cx));
            return Poll::Ready(Some(Err(Cut::Paused)));
        }
        self.pause.disarm();
        let frame = match ready!(polled).transpose() {
            Ok(frame) => frame,
            Err(error) => {
                // hyper drops what it has not written yet when a body breaks off: let it write first.
                self.broken = Some(error);
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

impl Body for Relay {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Own(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Passed(passed) => passed.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Passed(passed) => passed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Passed(passed) => passed.body.size_hint(),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str("what is behind did not go on with its answer"),
            Self::Upstream(error) => error.fmt(f),
        }
    }
}

impl Error for Cut {}
