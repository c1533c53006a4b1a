//! A response body in pieces that the client has to read one after the other.
//!
//! HTTP/2 has flow control per stream. A client that stalls one response does not stall the connection, so the connection
//! itself cannot notice it: see [`stream_task`](super::stream_task).

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::Bytes;
use hyper::body::{Body, Buf, Frame, SizeHint};

use super::activity::{Activity, Unread, Waiting};
use super::stream_task::body_polled;

/// hyper keeps a piece that it has taken, so that pieces are small.
const PIECE_BYTES_MAX: usize = 16 << 10;
/// hyper hands a piece to HTTP/2 as soon as one byte of it fits into the client's window, and with the last piece it ends
/// the stream's task, which alone can reset the stream. So the last byte of larger bodies is a piece of its own.
const LAST_BYTE_APART: usize = 1 << 10;

#[derive(Debug)]
pub(crate) struct WatchedBody<B> {
    body: B,
    /// Of HTTP/2. `None` if the pieces need not be watched.
    activity: Option<Arc<Activity>>,
    /// What is left of the frame that the body gave last.
    rest: Bytes,
    /// The room of the whole answer, which its last piece gets.
    unread: Option<Unread>,
    /// Whether each piece needs room of its own, because the size of the whole was not known.
    counts_pieces: bool,
}

#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Bytes,
    waiting: Option<Waiting>,
    _unread: Option<Unread>,
}

/// Why a body ended early.
#[derive(Debug)]
pub(crate) enum WatchedBodyError<E> {
    /// All unread answers together take too much memory.
    NoRoom(h2::Error),
    Body(E),
}

impl<B> WatchedBody<B> {
    /// A body for which `unread` has reserved room, or that needs none.
    pub(crate) const fn new(
        body: B,
        activity: Option<Arc<Activity>>,
        unread: Option<Unread>,
    ) -> Self {
        Self { body, activity, rest: Bytes::new(), unread, counts_pieces: false }
    }

    /// A body of unknown size, over HTTP/2: its pieces take room one by one.
    pub(crate) const fn counting_pieces(body: B, activity: Arc<Activity>) -> Self {
        let activity = Some(activity);
        Self { body, activity, rest: Bytes::new(), unread: None, counts_pieces: true }
    }
}

impl<B: Body<Data = Bytes> + Unpin> WatchedBody<B> {
    /// Takes the next piece of what the body gave.
    fn next_piece(&mut self) -> Result<Piece, h2::Error> {
        let mut size = self.rest.len().min(PIECE_BYTES_MAX);
        if self.activity.is_some() && size == self.rest.len() && size > LAST_BYTE_APART {
            size -= 1;
        }
        let bytes = self.rest.split_to(size);
        let mut unread = None;
        if let Some(activity) = self.activity.as_ref().filter(|_| self.counts_pieces) {
            let no_room = || h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM);
            unread = Some(activity.keep_unread(size, true).ok_or_else(no_room)?);
        } else if self.rest.is_empty() && self.body.is_end_stream() {
            unread = self.unread.take();
        }
        Ok(Piece { bytes, waiting: self.activity.clone().map(Waiting::begin), _unread: unread })
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Piece;
    type Error = WatchedBodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Self::Error>>> {
        let body = self.get_mut();
        if body.rest.is_empty() {
            body_polled(false);
            let frame = match ready!(Pin::new(&mut body.body).poll_frame(cx)) {
                Some(frame) => frame.map_err(WatchedBodyError::Body)?,
                None => return Poll::Ready(None),
            };
            match frame.into_data() {
                Ok(data) => body.rest = data,
                // Trailers, with which the body ends.
                Err(frame) => {
                    let frame = frame.into_trailers().map(Frame::trailers);
                    return Poll::Ready(frame.ok().map(Ok));
                }
            }
        }
        body_polled(true);
        let piece = body.next_piece().map_err(WatchedBodyError::NoRoom);
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(waiting) = &mut self.waiting {
            waiting.moved();
        }
    }
}

impl<E: fmt::Display> fmt::Display for WatchedBodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom(_) => f.write_str("too many answers are unread"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for WatchedBodyError<E> {
    /// hyper resets the stream with the reason that it finds here.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoRoom(reason) => Some(reason),
            Self::Body(error) => error.source(),
        }
    }
}
