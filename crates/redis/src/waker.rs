//! A waker for futures that only their own task drives: while the task runs, it need not be woken.
//!
//! A connection's driver and the calls on it wake each other, all within one task. If passed on, each such wake makes the
//! runtime queue the task again and wake another thread: 15 µs of a round trip of 35.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The task is awake, and will poll again before it sleeps.
const AWAKE: u8 = 1;
/// It was woken since its last poll.
const WOKEN: u8 = 2;

/// How often a task polls again before it yields.
const POLLS_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct TaskWaker {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl TaskWaker {
    pub(crate) fn new() -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let inner = Arc::new(Inner { state: AtomicU8::new(AWAKE), task });
        Self { waker: Waker::from(inner.clone()), inner }
    }

    /// Polls until there is a result, or until `poll` waits for something from outside. After a result the task counts as
    /// awake.
    pub(crate) fn poll<T>(
        &self,
        task: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.inner.remember(task.waker());
        for _ in 0..POLLS_MAX {
            self.inner.state.swap(AWAKE, AcqRel);
            if let Poll::Ready(result) = poll(&mut Context::from_waker(&self.waker)) {
                return Poll::Ready(result);
            }
            if self.inner.state.compare_exchange(AWAKE, 0, AcqRel, Acquire).is_ok() {
                return Poll::Pending;
            }
        }
        // When the task has used up tokio's budget, every poll wakes it again at once: yield, or this would not end.
        self.inner.state.swap(0, AcqRel);
        task.waker().wake_by_ref();
        Poll::Pending
    }

    /// The task is awake for another reason, and will poll.
    pub(crate) fn stay_awake(&self) {
        self.inner.state.fetch_or(AWAKE, AcqRel);
    }
}

impl Inner {
    fn remember(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.will_wake(waker) {
            task.clone_from(waker);
        }
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, AcqRel) == 0 {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_a_sleeping_task_is_woken_and_no_call_is_lost() {
        let count = Arc::<Count>::default();
        let woken = || count.0.load(Ordering::Relaxed);
        let waker = Waker::from(count.clone());
        let (awake, mut task) = (TaskWaker::new(), Context::from_waker(&waker));
        let (mut polls, mut kept) = (0, None);
        let asleep = awake.poll(&mut task, |inner| {
            polls += 1;
            if polls == 1 {
                inner.waker().wake_by_ref();
            }
            kept = Some(inner.waker().clone());
            Poll::<()>::Pending
        });
        assert!(asleep.is_pending());
        assert_eq!((polls, woken()), (2, 0), "called while awake, it looked again");
        let kept = kept.unwrap();
        kept.wake_by_ref();
        kept.wake_by_ref();
        assert_eq!(woken(), 1, "called twice while asleep, it was woken once");
        assert!(awake.poll(&mut task, |_| Poll::<()>::Pending).is_pending());
        awake.stay_awake();
        kept.wake_by_ref();
        assert_eq!(woken(), 1, "awake for another reason");
        let endless = awake.poll(&mut task, |inner| {
            inner.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(endless.is_pending());
        assert_eq!(woken(), 2, "others have their turn");
    }
}
