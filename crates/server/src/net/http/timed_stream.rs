//! A stream with two timeouts: for the rest of a head that has begun, and for the client to read its response.
//!
//! A request that arrives whole, as nearly all do, sets no timer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::activity::Activity;
use crate::net::Stream;

/// The HTTP/2 connection preface.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a head, or for the HTTP/2 preface.
    pub(crate) head: Duration,
    /// For the client to read some of its response.
    pub(crate) write: Duration,
}

#[derive(Debug)]
pub(crate) struct TimedStream {
    stream: Stream,
    activity: Arc<Activity>,
    /// The rest of the preface; empty once the version is known.
    missing: &'static [u8],
    /// The number of requests that had begun when the last bytes arrived, if those belong to a head.
    head_after: Option<u64>,
    head: Alarm,
    write: Alarm,
}

impl TimedStream {
    pub(crate) fn new(stream: Stream, activity: Arc<Activity>, timeouts: Timeouts) -> Self {
        let (head, write) = (Alarm::after(timeouts.head), Alarm::after(timeouts.write));
        // The first head is timed from the start: a silent client occupies a connection.
        Self { stream, activity, missing: HTTP2, head_after: Some(0), head, write }
    }

    pub(super) fn is_http2(&self) -> bool {
        self.activity.is_http2()
    }

    fn received(&mut self, bytes: &[u8]) {
        let begun = self.activity.begun();
        self.recognise(bytes);
        // During a request the bytes are its body, or a later request.
        self.head_after = (!self.activity.is_busy()).then_some(begun);
    }

    /// Recognises the HTTP/2 preface, which may arrive in pieces.
    fn recognise(&mut self, bytes: &[u8]) {
        if self.missing.is_empty() {
            return;
        }
        let (expected, missing) = self.missing.split_at(bytes.len().min(self.missing.len()));
        let is_expected = bytes.starts_with(expected);
        if is_expected && missing.is_empty() {
            self.activity.speaks_http2();
        }
        self.missing = if is_expected { missing } else { &[] };
    }

    /// Whether a head has begun and is incomplete.
    fn is_within_head(&self) -> bool {
        // On HTTP/2 pings notice a dead peer.
        self.head_after == Some(self.activity.begun())
            && !self.activity.is_busy()
            && !self.activity.is_http2()
    }

    fn wrote<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write.disarm();
            return written;
        }
        ready!(self.write.ring(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            self.received(&buf.filled()[before..]);
            return read;
        }
        if !self.is_within_head() {
            self.head.disarm();
            return Poll::Pending;
        }
        ready!(self.head.ring(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the request head took too long")))
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(cx, shut)
    }
}

/// A timer that is created when it is first polled.
#[derive(Debug)]
pub(crate) struct Alarm {
    after: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    pub(crate) const fn after(after: Duration) -> Self {
        Self { after, sleep: None }
    }

    /// Ready when the time has passed since the first poll after `disarm`.
    pub(crate) fn ring(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.after;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        sleep.as_mut().poll(cx)
    }

    pub(crate) fn disarm(&mut self) {
        if self.sleep.is_some() {
            self.sleep = None;
        }
    }
}
