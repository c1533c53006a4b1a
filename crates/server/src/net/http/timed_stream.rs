//! A stream that timeouts for its client, but not for ever: for the rest of a head that has begun, and for the client to
//! take its answer.
//!
//! No timer is touched by requests that come whole, which is nearly all of them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::activity::Activity;
use crate::net::Stream;

/// How a connection of HTTP/2 begins.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a head, or for the beginning of HTTP/2.
    pub(crate) head: Duration,
    /// For it to take something of its answer.
    pub(crate) write: Duration,
}

#[derive(Debug)]
pub(crate) struct TimedStream {
    stream: Stream,
    activity: Arc<Activity>,
    /// What has yet to come for this to be HTTP/2; nothing, once that is decided.
    missing: &'static [u8],
    /// How many requests had begun when bytes came that no request was made of yet.
    head_after: Option<u64>,
    head: Alarm,
    write: Alarm,
}

impl TimedStream {
    pub(crate) fn new(stream: Stream, activity: Arc<Activity>, timeouts: Timeouts) -> Self {
        let (head, write) = (Alarm::after(timeouts.head), Alarm::after(timeouts.write));
        // The first head is waited for from the start: who connects and says nothing holds a place.
        Self { stream, activity, missing: HTTP2, head_after: Some(0), head, write }
    }

    pub(super) fn is_http2(&self) -> bool {
        self.activity.is_http2()
    }

    /// Notes that bytes came.
    fn heard(&mut self, bytes: &[u8]) {
        let begun = self.activity.begun();
        self.recognise(bytes);
        // While a request is under way they are its body, or wait behind it.
        self.head_after = (!self.activity.is_busy()).then_some(begun);
    }

    /// Finds out whether this is HTTP/2, whose beginning may come in pieces.
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

    /// Whether a head has begun, and no request was made of it yet.
    fn is_within_head(&self) -> bool {
        // Pings of HTTP/2 find out whether its peer is there.
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
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the answer was not taken")))
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
            self.heard(&buf.filled()[before..]);
            return read;
        }
        if !self.is_within_head() {
            self.head.disarm();
            return Poll::Pending;
        }
        ready!(self.head.ring(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head took too long")))
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

/// A timer that is made when it is first needed.
#[derive(Debug)]
pub(crate) struct Alarm {
    after: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    pub(crate) const fn after(after: Duration) -> Self {
        Self { after, sleep: None }
    }

    /// Ready when it has been asked for so long without being disarmed.
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
