//! The task of one HTTP/2 stream, which ends when the client does not read its response.
//!
//! hyper takes a piece of a body, waits until the client's window has room, and takes the next. While it waits, nobody can
//! tell it to stop, so the future itself is dropped: h2 then resets this stream, and the others of the connection go on.
//!
//! A body tells the task that it gave a piece through a variable of the thread, because hyper's future hides the body.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;

use super::timed_stream::Alarm;

thread_local! {
    static BODY: Cell<BodyPolls> = const { Cell::new(BodyPolls::NONE) };
}

/// What the body of the stream that is polled has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BodyPolls {
    count: u64,
    /// Whether it gave a piece the last time: hyper has not taken the next, so the client has to make room.
    gave: bool,
}

impl BodyPolls {
    const NONE: Self = Self { count: 0, gave: false };
}

/// Called by a body with each poll.
pub(super) fn body_polled(gave: bool) {
    BODY.with(|body| body.set(BodyPolls { count: body.get().count + 1, gave }));
}

/// Runs a stream's future. Drops it after `unread` without progress of its client.
pub(crate) async fn run(call: impl Future<Output = ()>, unread: Duration) {
    let (mut call, mut unread) = (pin!(call), Alarm::after(unread));
    let mut body = BodyPolls::NONE;
    poll_fn(move |cx| {
        let before = body;
        let outer = BODY.replace(before);
        let polled = call.as_mut().poll(cx);
        body = BODY.replace(outer);
        if polled.is_ready() {
            return polled;
        }
        if body != before {
            unread.disarm();
        }
        if !body.gave {
            return Poll::Pending;
        }
        let rang = unread.ring(cx);
        if rang.is_ready() {
            tracing::debug!("stream reset: the client stopped reading its response");
        }
        rang
    })
    .await;
}

/// Runs each stream in a task of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamExecutor {
    /// How long a client may leave a response unread.
    pub(crate) unread: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(run(stream, self.unread));
    }
}
