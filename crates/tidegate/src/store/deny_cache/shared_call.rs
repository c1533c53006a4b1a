//! One store call that several callers wait for. Each waiter polls it, so that none depends on another that was cancelled
//! or is not polled yet.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::reply::{Later, Reply};
use crate::store::{StoreError, StoreErrorKind, StoreReply, StoreResult};
use crate::sync::lock;

type Outcome = Result<StoreReply, StoreError>;

pub(super) struct SharedCall {
    /// When the call was sent.
    pub(super) sent_us: u64,
    state: Mutex<CallState>,
    /// Not part of `state`: the pending reply holds it too, as its waker.
    wakers: Arc<WakeAll>,
    waiters: AtomicUsize,
    /// A background task was started to finish the call.
    #[cfg(feature = "breaker")]
    is_detached: std::sync::atomic::AtomicBool,
}

enum CallState {
    Starting,
    Pending(Later<'static, StoreReply, StoreError>),
    /// `None` if the store was never called.
    Done(Option<Outcome>),
}

/// The waker that the pending reply gets: it wakes every waiter.
#[derive(Default)]
struct WakeAll(Mutex<WakerList>);

#[derive(Default)]
struct WakerList {
    /// How often all were woken. Registrations of earlier rounds are void.
    round: u64,
    wakers: Vec<Waker>,
}

/// Waits for the outcome of the call. The output is `None` if the store was never called.
pub(super) struct Waiter {
    call: Arc<SharedCall>,
    /// The round, and the index in [`WakerList::wakers`].
    registration: Option<(u64, usize)>,
}

impl SharedCall {
    pub(super) fn new(sent_us: u64) -> Self {
        Self {
            sent_us,
            state: Mutex::new(CallState::Starting),
            wakers: Arc::default(),
            waiters: AtomicUsize::new(0),
            #[cfg(feature = "breaker")]
            is_detached: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Calls the store, and wakes those who joined before.
    pub(super) fn start(
        self: &Arc<Self>,
        request: impl FnOnce() -> StoreResult<StoreReply>,
    ) -> StoreResult<StoreReply> {
        let _started = Started(self);
        match request().split() {
            Ok(answer) => {
                *lock(&self.state) = CallState::Done(Some(answer.clone()));
                Reply::ready(answer)
            }
            Err(later) => {
                *lock(&self.state) = CallState::Pending(later);
                let waiter = self.join();
                let lost =
                    || Err(StoreError::new(StoreErrorKind::NotSent, "the request was given up"));
                Reply::later(async move { waiter.await.unwrap_or_else(lost) })
            }
        }
    }

    pub(super) fn join(self: &Arc<Self>) -> Waiter {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        Waiter { call: self.clone(), registration: None }
    }

    /// Finishes a call in the background when all waiters were dropped, if there is a runtime. Otherwise clients that
    /// disconnect at once would keep its answer from all others, and a breaker would count a missing reply.
    #[cfg(feature = "breaker")]
    fn finish_detached(self: &Arc<Self>) {
        if !matches!(*lock(&self.state), CallState::Pending(_)) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.is_detached.swap(true, Ordering::Relaxed) {
            let timeout = Duration::from_micros(super::refusals::PENDING_US);
            let waiter = self.join();
            runtime.spawn(async move { tokio::time::timeout(timeout, waiter).await });
        }
    }
}

/// The answer to a request that was sent after waiting for another's: within what is left of the deadline.
pub(super) async fn within(left: Option<Duration>, reply: StoreResult<StoreReply>) -> Outcome {
    #[cfg(any(feature = "adaptive", feature = "breaker", feature = "leases"))]
    if let Some(left) = left.filter(|_| tokio::runtime::Handle::try_current().is_ok()) {
        let late = || StoreError::new(StoreErrorKind::Timeout, "no answer within the deadline");
        return tokio::time::timeout(left, reply).await.unwrap_or_else(|_| Err(late()));
    }
    // Without a runtime there is no timer: the store's own deadline counts.
    let _ = left;
    reply.await
}

/// Wakes those who joined before there was a reply to poll, also if the store panicked.
struct Started<'a>(&'a SharedCall);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        if matches!(*state, CallState::Starting) {
            *state = CallState::Done(None);
        }
        drop(state);
        self.0.wakers.wake_all();
    }
}

impl WakeAll {
    fn wake_all(&self) {
        let mut list = lock(&self.0);
        list.round += 1;
        let wakers = std::mem::take(&mut list.wakers);
        drop(list);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for WakeAll {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Waiter {
    /// Call it before looking at the state, so that no wake-up is missed.
    fn register_waker(&mut self, waker: &Waker) {
        let mut list = lock(&self.call.wakers.0);
        let registration = self.registration.filter(|(round, _)| *round == list.round);
        if let Some(known) = registration.and_then(|(_, index)| list.wakers.get_mut(index)) {
            known.clone_from(waker);
        } else {
            self.registration = Some((list.round, list.wakers.len()));
            list.wakers.push(waker.clone());
        }
    }
}

impl Future for Waiter {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.register_waker(task.waker());
        let mut state = lock(&self.call.state);
        if let CallState::Pending(later) = &mut *state {
            let waker = Waker::from(self.call.wakers.clone());
            if let Poll::Ready(answer) = later.as_mut().poll(&mut Context::from_waker(&waker)) {
                *state = CallState::Done(Some(answer));
            }
        }
        let CallState::Done(answer) = &*state else { return Poll::Pending };
        let answer = answer.clone();
        drop(state);
        self.call.wakers.wake_all();
        Poll::Ready(answer)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.call.waiters.fetch_sub(1, Ordering::AcqRel) == 1 {
            #[cfg(feature = "breaker")]
            self.call.finish_detached();
        }
    }
}
