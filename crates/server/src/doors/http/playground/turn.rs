//! Who may compute: a few at a time, each on a thread of its own, so that no check waits for a playground.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tidegate::tower::write_retry_after;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::super::Answered;
use crate::doors::shared::Problem;
use crate::net::timeout::within;

/// One for whoever plays, and one more.
static TURNS: Semaphore = Semaphore::const_new(2);
/// Bounded inputs take less than a second. On a machine that is too busy even for that, nobody waits for longer; the
/// turn is only over with the work.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// When to come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Does work that takes a while, or asks to come back.
pub(super) async fn take<W>(work: W) -> Answered
where
    W: FnOnce() -> Answered + Send + 'static,
{
    let Ok(turn) = TURNS.try_acquire() else { return Ok(busy()) };
    let work = spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    match within(WAIT_MAX, work).await {
        Some(Ok(done)) => done,
        // A thread that panicked has said why.
        Some(Err(_)) | None => Ok(busy()),
    }
}

fn busy() -> Response {
    let mut response = Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into_response();
    write_retry_after(response.headers_mut(), Some(RETRY_AFTER));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;

    use super::*;

    /// The only test that takes turns in this process.
    #[tokio::test]
    async fn whoever_finds_no_turn_is_asked_to_come_back() {
        let done = || Ok(Response::default());
        assert_eq!(take(done).await.unwrap().status(), StatusCode::OK);
        let taken = TURNS.try_acquire_many(2).unwrap();
        let refused = take(done).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(RETRY_AFTER));
        drop(taken);
        assert_eq!(take(done).await.unwrap().status(), StatusCode::OK);
    }
}
