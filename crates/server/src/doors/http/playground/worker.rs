//! Runs simulations on blocking threads, a few at a time, so that no check waits for one.

use std::time::Duration;

use http::{Response, StatusCode};
use tidegate::tower::write_retry_after;
use tidegate_simulation::StopFlag;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::super::router::{ApiBody, HandlerResult, whole};
use crate::doors::shared::Problem;
use crate::net::timeout::within;

/// Two at once. Nothing waits for a worker: a third request is refused.
static WORKERS: Semaphore = Semaphore::const_new(2);
/// Bounded inputs take a fraction of it (`docs/playground.md`); on a very busy machine they are stopped after this.
const TIME_MAX: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Stops the work when the caller no longer waits for it: it has hung up, or the time is over.
struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs the work, which ends early when the flag is set. Answers 503 if all workers are busy, and 422 if it
/// takes too long.
pub(super) async fn run<W>(work: W) -> HandlerResult
where
    W: FnOnce(&StopFlag) -> HandlerResult + Send + 'static,
{
    let Ok(permit) = WORKERS.try_acquire() else { return Ok(busy()) };
    let stop = StopFlag::default();
    let stop_on_drop = StopOnDrop(stop.clone());
    let work = spawn_blocking(move || {
        let done = work(&stop);
        drop(permit);
        done
    });
    let done = within(TIME_MAX, work).await;
    drop(stop_on_drop);
    match done {
        Some(Ok(done)) => done,
        // The panic is already logged.
        Some(Err(_)) => Ok(busy()),
        None => Err(Problem::stopped(TIME_MAX)),
    }
}

fn busy() -> Response<ApiBody> {
    let mut response = whole(Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into_response());
    write_retry_after(response.headers_mut(), Some(RETRY_AFTER));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http::header::RETRY_AFTER;
    use tokio::sync::{Mutex, MutexGuard};

    use super::*;

    /// The workers are shared by all tests of this process.
    static ALONE: Mutex<()> = Mutex::const_new(());

    async fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().await
    }

    #[expect(clippy::unnecessary_wraps, reason = "work may fail, but not this")]
    fn done(_: &StopFlag) -> HandlerResult {
        Ok(whole(Response::default()))
    }

    /// Work without an end of its own. It reports when it starts.
    fn endless(started: mpsc::Sender<()>) -> impl FnOnce(&StopFlag) -> HandlerResult {
        move |stop| {
            started.send(()).unwrap();
            while !stop.is_stopped() {
                std::thread::yield_now();
            }
            done(stop)
        }
    }

    async fn wait_for(started: mpsc::Receiver<()>) {
        spawn_blocking(move || started.recv().unwrap()).await.unwrap();
    }

    /// Ready when both workers are free: if work never ended, the test would not either.
    async fn all_free() {
        drop(WORKERS.acquire_many(2).await.unwrap());
    }

    #[tokio::test]
    async fn a_busy_playground_answers_503_with_retry_after() {
        let _alone = alone().await;
        assert_eq!(run(done).await.unwrap().status(), StatusCode::OK);
        let taken = WORKERS.acquire_many(2).await.unwrap();
        let refused = run(done).await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(RETRY_AFTER));
        drop(taken);
        assert_eq!(run(done).await.unwrap().status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn work_ends_when_its_caller_hangs_up() {
        let _alone = alone().await;
        for _ in 0..3 {
            let (sender, started) = mpsc::channel();
            let caller = tokio::spawn(run(endless(sender)));
            wait_for(started).await;
            caller.abort();
            all_free().await;
        }
    }

    #[tokio::test]
    async fn work_ends_when_its_time_is_over_and_the_answer_says_so() {
        let _alone = alone().await;
        let (sender, started) = mpsc::channel();
        let caller = tokio::spawn(run(endless(sender)));
        wait_for(started).await;
        tokio::time::pause();
        // A timer fires up to a millisecond late, and time does not go on by itself while a worker is busy.
        tokio::time::advance(TIME_MAX + Duration::from_secs(1)).await;
        let problem = caller.await.unwrap().unwrap_err();
        assert_eq!(problem.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert!(problem.detail().contains("longer than 10 s and was stopped"));
        all_free().await;
    }
}
