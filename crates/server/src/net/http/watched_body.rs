//! The body of an answer, whose pieces tell for how long they wait for the client.
//!
//! A peer of HTTP/2 says how much it is willing to take of each answer. One that takes nothing of some leaves the
//! stream itself free, so that nobody sees it there.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Buf, Frame, SizeHint};

use super::activity::{Activity, Waiting};

#[derive(Debug)]
pub(crate) struct WatchedBody<B> {
    body: B,
    /// Whom the pieces tell; nobody, if they need not be watched.
    activity: Option<Arc<Activity>>,
}

/// What was read of a body, until it is sent.
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
