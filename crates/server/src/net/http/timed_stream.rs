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
    behind: BehindHead,
    head: Alarm,
    write: Alarm,
}

impl TimedStream {
    pub(crate) fn new(stream: Stream, activity: Arc<Activity>, timeouts: Timeouts) -> Self {
        let (head, write) = (Alarm::after(timeouts.head), Alarm::after(timeouts.write));
        // The first head is timed from the start: a silent client occupies a connection.
        let behind = BehindHead::default();
        Self { stream, activity, missing: HTTP2, head_after: Some(0), behind, head, write }
    }

    pub(super) fn has_hung_up(&self) -> bool {
        self.stream.has_hung_up()
    }

    pub(super) fn is_http2(&self) -> bool {
        self.activity.is_http2()
    }

    fn received(&mut self, bytes: &[u8]) {
        let begun = self.activity.begun();
        self.recognise(bytes);
        // During a request the bytes are its body, or a later request.
        let is_busy = self.activity.is_busy();
        self.head_after = (!is_busy).then_some(begun);
        if !self.activity.is_http2() {
            self.behind.received(bytes, is_busy, self.activity.heads());
        }
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
        if self.activity.is_busy() || self.activity.is_http2() {
            return false;
        }
        self.head_after == Some(self.activity.begun())
            || self.behind.has_begun(self.activity.heads(), self.activity.body_bytes())
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

/// What arrived behind a head of HTTP/1.1: its body, and maybe the beginning of the next head, which is timed once the
/// request before it is answered.
#[derive(Debug, Default)]
struct BehindHead {
    /// The heads that were read before this one.
    heads: u64,
    /// The bytes after it; `None` if its end was not found.
    bytes: Option<u64>,
    /// The last bytes, in which a head may end.
    last: [u8; 4],
}

impl BehindHead {
    fn received(&mut self, bytes: &[u8], is_busy: bool, heads: u64) {
        if is_busy {
            self.bytes = self.bytes.map(|behind| behind + bytes.len() as u64);
        } else {
            if heads != self.heads {
                // Another head.
                (self.heads, self.last) = (heads, [0; 4]);
            }
            // Most requests without a body end with their head: nothing to search.
            let end = if bytes.ends_with(BLANK_LINE) {
                Some(bytes.len())
            } else {
                end_across(self.last, bytes).or_else(|| head_end(bytes))
            };
            self.bytes = end.map(|end| (bytes.len() - end) as u64);
        }
        let kept = bytes.len().min(self.last.len());
        self.last.rotate_left(kept);
        let at = self.last.len() - kept;
        self.last[at..].copy_from_slice(&bytes[bytes.len() - kept..]);
    }

    /// Whether another head has begun, after `heads` heads, the last of which has a body of so many bytes, or a chunked
    /// one.
    fn has_begun(&self, heads: u64, body_bytes: Option<u64>) -> bool {
        match (heads - self.heads, self.bytes, body_bytes) {
            (1, Some(behind), Some(body)) => behind > body,
            // Several requests arrived at once, or a head with bare line feeds: where this body ends is not known. A
            // client that sends no more is idle, and what it sends next is timed.
            (0, _, _) | (_, _, Some(1..)) => false,
            _ => !self.last.ends_with(b"\n\r\n") && !self.last.ends_with(b"\n\n"),
        }
    }
}

/// Ends a head, and a chunked body.
const BLANK_LINE: &[u8; 4] = b"\r\n\r\n";

/// The end of the blank line that begins in the `last` bytes before.
fn end_across(last: [u8; 4], bytes: &[u8]) -> Option<usize> {
    (1..BLANK_LINE.len()).find(|end| {
        let (before, after) = BLANK_LINE.split_at(BLANK_LINE.len() - end);
        last.ends_with(before) && bytes.starts_with(after)
    })
}

/// The end of the first blank line. Looks at every fourth byte: few of a head are line ends.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut at = BLANK_LINE.len() - 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'\n' if bytes[..=at].ends_with(BLANK_LINE) => return Some(at + 1),
            b'\n' => 2,
            b'\r' => 1,
            _ => 4,
        };
    }
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is() {
        for before in 0..9 {
            let head = [&b"GETxx / x"[..before], b"\r\nx\r\n\r\n"].concat();
            let all = [&head[..], b"ab\r\n\r\ncd"].concat();
            assert_eq!(head_end(&all), Some(head.len()), "{before}");
            assert_eq!(head_end(&head[..head.len() - 1]), None);
            for cut in 1..head.len() {
                let mut behind = BehindHead::default();
                behind.received(&all[..cut], false, 0);
                assert_eq!(behind.bytes, None);
                behind.received(&all[cut..], false, 0);
                assert_eq!(behind.bytes, Some(8), "cut at {cut} of {before}");
            }
        }
    }

    #[test]
    fn the_next_head_begins_where_the_body_ends() {
        // What arrives at once, and while the request is under way; the size of its body.
        let begun = |arrived: &[u8], later: &[u8], body: Option<u64>| {
            let mut behind = BehindHead::default();
            behind.received(arrived, false, 0);
            behind.received(later, true, 1);
            behind.has_begun(1, body)
        };
        for (arrived, later, body, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", "", Some(0), false),
            ("GET / HTTP/1.1\r\n\r\nG", "", Some(0), true),
            ("GET / HTTP/1.1\r\n\r\n", "GET / H", Some(0), true),
            ("POST / HTTP/1.1\r\n\r\nok", "", Some(2), false),
            ("POST / HTTP/1.1\r\n\r\no", "k", Some(2), false),
            ("POST / HTTP/1.1\r\n\r\n\r\n\r\n", "", Some(4), false),
            ("POST / HTTP/1.1\r\n\r\n\r\n\r\nG", "", Some(4), true),
            ("POST / HTTP/1.1\r\n\r\nokG", "", Some(2), true),
            ("POST / HTTP/1.1\r\n\r\no", "kGET / HTTP/1.1\r\n", Some(2), true),
            ("POST / HTTP/1.1\r\n\r\n2\r\nok\r\n", "0\r\n\r\n", None, false),
            ("POST / HTTP/1.1\r\n\r\n2\r\nok\r\n0\r\n\r\nGE", "", None, true),
        ] {
            let found = begun(arrived.as_bytes(), later.as_bytes(), body);
            assert_eq!(found, expected, "{arrived:?}, then {later:?}");
        }
    }

    #[test]
    fn complete_requests_that_arrive_at_once_begin_no_other_head() {
        let (get, post) = ("GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n\r\nok");
        let chunked = "POST / HTTP/1.1\r\n\r\n2\r\nok\r\n0\r\n\r\n";
        // The heads, and the size of the last body.
        for (arrived, heads, body, expected) in [
            (format!("{post}{post}"), 2, Some(2), false),
            (format!("{get}{chunked}{post}"), 3, Some(2), false),
            ("POST / HTTP/1.1\n\nok".to_owned(), 1, Some(2), false),
            ("POST / HTTP/1.1\r\nA: b\n\r\nok".to_owned(), 1, Some(2), false),
            ("GET / HTTP/1.1\n\n".to_owned(), 1, Some(0), false),
            ("GET / HTTP/1.1\n\r\n".to_owned(), 1, Some(0), false),
            (format!("{post}{get}"), 2, Some(0), false),
            (format!("{post}{get}GET"), 2, Some(0), true),
            (format!("{post}{chunked}"), 2, None, false),
            (format!("{post}{chunked}G"), 2, None, true),
        ] {
            let mut behind = BehindHead::default();
            behind.received(arrived.as_bytes(), false, 0);
            assert_eq!(behind.has_begun(heads, body), expected, "{arrived:?}");
        }
    }
}
