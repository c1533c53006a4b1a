//! Where calls run: at once, for as long as they need nobody else.

use std::pin::Pin;
use std::task::{Context, Waker};

use hyper::rt::Executor;

/// Runs a call right where it was read, and makes a task of it only if it has to wait. With a store in memory no call
/// does, and a task for each would cost as much as its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eager;

impl<F> Executor<F> for Eager
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(call);
        // Nobody has to be woken: who is not ready is polled again by its own task.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(call);
        }
    }
}
