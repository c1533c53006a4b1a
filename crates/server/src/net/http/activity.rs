//! Counts the requests of a connection and notices responses that stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::net::clients::ClientUsage;
use crate::net::room::{ANSWERS, Reserved};

/// Answers that the client of a connection may leave unread before they need room. On HTTP/1.1 one answer is under way at
/// a time, so that a smaller one needs none.
const UNREAD_BYTES_FREE: usize = 16 << 10;

/// The size of a body that is not known before its end.
const CHUNKED: u64 = u64::MAX;

/// Requests and stalled responses of one connection. Relaxed ordering is enough: the counts only have to become right
/// soon.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    is_http2: AtomicBool,
    /// Heads of HTTP/1.1, and the body of the last one: its bytes, or [`CHUNKED`].
    heads: AtomicU64,
    body_bytes: AtomicU64,
    round: AtomicUsize,
    /// Pieces of responses that wait for the client, by the round in which they last moved: this one or the one before.
    waiting: [AtomicUsize; 2],
    /// Bytes of responses over HTTP/2 that the client has not read.
    unread_bytes: AtomicUsize,
    /// Whose room requests and answers take; `None` if nobody counts it.
    client: Option<Arc<ClientUsage>>,
}

/// An answer that the client has not read, until dropped.
#[derive(Debug)]
pub(crate) struct Unread {
    /// Of HTTP/2.
    counted: Option<(Arc<Activity>, usize)>,
    room: Option<Reserved<'static>>,
}

/// A request in flight, until dropped.
pub(super) struct UnderWay<'a>(&'a Activity);

/// Keeps the connection busy after the head of a response, until dropped.
#[derive(Debug)]
pub(crate) struct Held(Arc<Activity>);

/// A piece of a response that the client has not read yet, until dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    activity: Arc<Activity>,
    round: usize,
}

impl Activity {
    pub(crate) fn of(client: Option<&Arc<ClientUsage>>) -> Arc<Self> {
        Arc::new(Self { client: client.cloned(), ..Self::default() })
    }

    pub(crate) fn client(&self) -> Option<&Arc<ClientUsage>> {
        self.client.as_ref()
    }

    /// Room for an answer of `bytes` until the client has read it; `None` if there is none.
    pub(super) fn keep_unread(self: &Arc<Self>, bytes: usize, is_http2: bool) -> Option<Unread> {
        let mut unread = Unread { counted: None, room: None };
        let mut total = bytes;
        if is_http2 && bytes > 0 {
            total += self.unread_bytes.fetch_add(bytes, Relaxed);
            unread.counted = Some((self.clone(), bytes));
        }
        if total > UNREAD_BYTES_FREE {
            unread.room = Some(ANSWERS.reserve_for(self.client(), bytes)?);
        }
        Some(unread)
    }

    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.begin();
        Held(self.clone())
    }

    /// A head of HTTP/1.1 was read. Only the task of the connection calls it.
    pub(super) fn read_head(&self, body_bytes: Option<u64>) {
        self.heads.store(self.heads.load(Relaxed) + 1, Relaxed);
        self.body_bytes.store(body_bytes.unwrap_or(CHUNKED), Relaxed);
    }

    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Relaxed)
    }

    /// The size of the body after the last head; `None` if it is chunked.
    pub(super) fn body_bytes(&self) -> Option<u64> {
        Some(self.body_bytes.load(Relaxed)).filter(|bytes| *bytes != CHUNKED)
    }

    /// Has to be called before further bytes are read.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// Ends the request that has begun when dropped.
    pub(super) fn under_way(&self) -> UnderWay<'_> {
        UnderWay(self)
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.begun.load(Relaxed) != self.ended.load(Relaxed)
    }

    /// Whether no request has begun since the last call, and none is in flight.
    pub(super) fn is_idle_since(&self, seen: &mut u64) -> bool {
        let begun = self.begun();
        let is_idle = begun == *seen && !self.is_busy();
        *seen = begun;
        is_idle
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2.load(Relaxed)
    }

    pub(super) fn speaks_http2(&self) {
        self.is_http2.store(true, Relaxed);
    }

    /// Ready when the client has read nothing of some response for `span`, at the latest after twice that.
    pub(crate) async fn stalled(&self, span: Duration) {
        loop {
            tokio::time::sleep(span).await;
            let next = self.round.load(Relaxed).wrapping_add(1);
            // These pieces have not moved since the round before this one.
            if self.waiting_of(next).load(Relaxed) > 0 {
                return;
            }
            self.round.store(next, Relaxed);
        }
    }

    fn waiting_of(&self, round: usize) -> &AtomicUsize {
        &self.waiting[round % 2]
    }
}

impl Waiting {
    pub(super) fn begin(activity: Arc<Activity>) -> Self {
        let round = activity.round.load(Relaxed);
        activity.waiting_of(round).fetch_add(1, Relaxed);
        Self { activity, round }
    }

    /// The client has read some of it.
    pub(super) fn moved(&mut self) {
        let round = self.activity.round.load(Relaxed);
        if round != self.round {
            self.activity.waiting_of(round).fetch_add(1, Relaxed);
            self.activity.waiting_of(self.round).fetch_sub(1, Relaxed);
            self.round = round;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.activity.waiting_of(self.round).fetch_sub(1, Relaxed);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        if let Some((activity, bytes)) = &self.counted {
            activity.unread_bytes.fetch_sub(*bytes, Relaxed);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_response_that_moves_once_a_round_is_not_stalled() {
        const SPAN: Duration = Duration::from_secs(30);
        let activity = Arc::new(Activity::default());
        let (mut taken, mut stalled) =
            (Waiting::begin(activity.clone()), pin!(activity.stalled(SPAN)));
        let mut is_stalled =
            || stalled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_stalled());
        for round in 0..5 {
            let gone = Waiting::begin(activity.clone());
            tokio::time::advance(SPAN).await;
            assert!(!is_stalled(), "round {round}");
            drop(gone);
            taken.moved();
        }
        tokio::time::advance(SPAN).await;
        assert!(!is_stalled(), "the response has moved since");
        tokio::time::advance(SPAN).await;
        assert!(is_stalled());
    }
}
