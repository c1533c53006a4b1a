//! Counts the requests of a connection and notices responses that stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Requests and stalled responses of one connection. Relaxed ordering is enough: the counts only have to become right
/// soon.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    ended: AtomicU64,
    is_http2: AtomicBool,
    round: AtomicUsize,
    /// Pieces of responses that wait for the client, by the round in which they last moved: this one or the one before.
    waiting: [AtomicUsize; 2],
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
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.begin();
        Held(self.clone())
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
