//! Runs simulations on blocking threads, a few at a time, so that no check waits for one.

use std::time::Duration;

use http::{Response, StatusCode};
use tidegate::tower::write_retry_after;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::super::router::{ApiBody, HandlerResult, whole};
use crate::doors::shared::Problem;
use crate::net::timeout::within;

/// Two at once.
static WORKERS: Semaphore = Semaphore::const_new(2);
/// Bounded inputs take less than a second. On a very busy machine the caller stops waiting after this; the worker stays
/// taken until the work is done.
const WAIT_MAX: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Runs the work, or answers 503 if all workers are busy.
pub(super) async fn run<W>(work: W) -> HandlerResult
where
    W: FnOnce() -> HandlerResult + Send + 'static,
{
    let Ok(permit) = WORKERS.try_acquire() else { return Ok(busy()) };
    let work = spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    match within(WAIT_MAX, work).await {
        Some(Ok(done)) => done,
        // The panic is already logged.
        Some(Err(_)) | None => Ok(busy()),
    }
}

fn busy() -> Response<ApiBody> {
    let mut response = whole(Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into_response());
    write_retry_after(response.headers_mut(), Some(RETRY_AFTER));
    response
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    /// No other test in this process uses the workers.
    #[tokio::test]
    async fn a_busy_playground_answers_503_with_retry_after() {
        let done = || Ok(whole(Response::default()));
        assert_eq!(run(done).await.unwrap().status(), StatusCode::OK);
        let taken = WORKERS.try_acquire_many(2).unwrap();
        let refused = run(done).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(RETRY_AFTER));
        drop(taken);
        assert_eq!(run(done).await.unwrap().status(), StatusCode::OK);
    }
}
