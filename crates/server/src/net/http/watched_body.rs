//! A response body whose pieces record how long they wait for the client.
//!
//! HTTP/2 has flow control per stream. A client that stalls one response does not stall the connection, so the connection
//! itself cannot notice it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Bytes;
use hyper::body::{Body, Buf, Frame, SizeHint};

use super::activity::{Activity, Waiting};

#[derive(Debug)]
pub(crate) struct WatchedBody<B> {
    body: B,
    /// `None` if the pieces need not be watched.
    activity: Option<Arc<Activity>>,
}

#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Bytes,
    waiting: Option<Waiting>,
}

impl<B> WatchedBody<B> {
    pub(crate) const fn new(body: B, activity: Option<Arc<Activity>>) -> Self {
        Self { body, activity }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Piece;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, B::Error>>> {
        let Self { body, activity } = self.get_mut();
        let piece = |bytes| Piece { bytes, waiting: activity.clone().map(Waiting::begin) };
        Pin::new(body).poll_frame(cx).map_ok(|frame| frame.map_data(piece))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
