//! Waiting with an end, without a timer for what does not wait.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// What a future comes to, unless it takes longer than `at_most`. One that is ready at once, as nearly all are with a
/// store in memory, costs no timer.
pub(crate) async fn within<F: Future>(at_most: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    match poll_once(future.as_mut()).await {
        Poll::Ready(done) => Some(done),
        Poll::Pending => tokio::time::timeout(at_most, future).await.ok(),
    }
}

/// Looks once whether a future is ready.
pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|task| Poll::Ready(future.as_mut().poll(task))).await
}
