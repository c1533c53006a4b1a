//! The timeout of new connections, and timeouts that set no timer for a future that is ready at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

/// How long a client may take to open a connection: for the PROXY protocol, for TLS, for its first request head, HTTP/2
/// preface or command, and for its password.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// The output of a future, or `None` after `at_most`. With a store in memory nearly all futures are ready at once.
pub(crate) async fn within<F: Future>(at_most: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    match poll_once(future.as_mut()).await {
        Poll::Ready(done) => Some(done),
        // Boxed: a timer would make every future larger, and nearly none needs it.
        Poll::Pending => Box::pin(tokio::time::timeout(at_most, future)).await.ok(),
    }
}

pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|task| Poll::Ready(future.as_mut().poll(task))).await
}
