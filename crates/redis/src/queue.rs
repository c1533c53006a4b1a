//! Pending requests, and the queue of those that wait for one node: bounded, first in, first out, and refused while the
//! node cannot be reached.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tidegate::store_kit::{BreakerPass, NetworkCounters};
use tidegate::{StoreError, StoreErrorKind, StoreReply};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error;
use crate::node_breaker::NodeBreaker;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

pub(crate) type ScriptResult = Result<ScriptReply, StoreError>;

/// Receives the answer.
pub(crate) type ReplyReceiver = oneshot::Receiver<ScriptResult>;

/// One pending request: its deadline, its attempts, and where its reply goes.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: ScriptRequest,
    /// Where a cluster keeps its keys; 0 without a cluster.
    pub(crate) slot: u16,
    pub(crate) due: Instant,
    /// It was refused once without running, and is sent with the script's source: so there is no third attempt.
    pub(crate) tried: bool,
    /// It shares a call with requests on the same keys only: its slot is being moved key by key.
    pub(crate) alone: bool,
    /// It goes to a node that is still importing its slot.
    pub(crate) asking: bool,
    /// What was answered, while replicas have not confirmed it.
    pub(crate) held: Option<ScriptReply>,
    /// The breaker of its node, if that has one.
    pub(crate) observer: Option<(Arc<NodeBreaker>, BreakerPass)>,
    /// Counts as load of its pool while it is pending.
    _busy: Option<Arc<()>>,
    /// What to do with permits that were granted and never reached the caller.
    unused: Option<UnusedGrant>,
    /// `None` once it was answered.
    caller: Option<oneshot::Sender<ScriptResult>>,
}

/// Gives back the permits of a reply that came too late.
pub(crate) struct UnusedGrant(Box<dyn FnOnce(StoreReply) + Send>);

impl UnusedGrant {
    pub(crate) fn new(give_back: impl FnOnce(StoreReply) + Send + 'static) -> Self {
        Self(Box::new(give_back))
    }
}

impl fmt::Debug for UnusedGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnusedGrant")
    }
}

impl Pending {
    pub(crate) fn new(
        request: ScriptRequest,
        slot: u16,
        due: Instant,
        busy: Option<Arc<()>>,
    ) -> (Self, ReplyReceiver) {
        let (caller, answer) = oneshot::channel();
        let (tried, alone, asking) = (false, false, false);
        let (held, observer, unused, caller) = (None, None, None, Some(caller));
        let pending = Self {
            request,
            slot,
            due,
            tried,
            alone,
            asking,
            held,
            observer,
            _busy: busy,
            unused,
            caller,
        };
        (pending, answer)
    }

    /// If the caller does not get the permits of the reply, this gives them back.
    pub(crate) fn with_unused(self, unused: Option<UnusedGrant>) -> Self {
        Self { unused, ..self }
    }

    /// It is sent now: a breaker counts its time from here.
    pub(crate) fn leaves(&mut self, now: Instant) {
        if let Some((_, pass)) = &mut self.observer {
            *pass = pass.sent_at(now);
        }
    }

    /// Answers the caller. Only the first answer counts; permits that come with a later one, or to a caller who has left,
    /// are given back.
    pub(crate) fn answer(&mut self, answer: ScriptResult) {
        let Some(caller) = self.caller.take() else { return self.give_back(answer) };
        if let Some((observer, pass)) = self.observer.take() {
            observer.observe(pass, self, answer.as_ref().err());
        }
        if let Err(unread) = caller.send(answer) {
            self.give_back(unread);
        }
    }

    /// Gives back the permits of an answer that nobody gets.
    pub(crate) fn give_back(&mut self, answer: ScriptResult) {
        if let Ok(ScriptReply::Decided(reply)) = answer
            && !reply.permits.is_empty()
            && let Some(UnusedGrant(give_back)) = self.unused.take()
        {
            give_back(reply);
        }
    }

    /// Whether its reply matters though it was answered: it may grant permits.
    pub(crate) fn may_grant(&self) -> bool {
        self.unused.is_some()
    }

    pub(crate) fn fail(&mut self, kind: StoreErrorKind, detail: &'static str) {
        self.answer(Err(StoreError::new(kind, detail)));
    }

    /// Fails all of them with one error.
    pub(crate) fn fail_all(requests: impl IntoIterator<Item = Self>, why: &StoreError) {
        for mut pending in requests {
            pending.answer(Err(why.clone()));
        }
    }

    /// Whether it is still unanswered.
    pub(crate) fn is_open(&self) -> bool {
        self.caller.is_some()
    }
}

/// Waits for the reply.
pub(crate) async fn received(answer: ReplyReceiver) -> ScriptResult {
    answer.await.unwrap_or_else(|_| Err(error::client_ended()))
}

/// The most requests that wait. At 300,000 decisions a second they are 14 ms of work: more would miss their deadline.
pub(crate) const WAITING_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Pending>,
    admission: Admission,
    waiter: Option<Waiter>,
    /// The waiter was woken, and has not polled since.
    woken: bool,
}

/// The task that takes from the queue, and when to wake it.
#[derive(Debug)]
struct Waiter {
    waker: Waker,
    wake_when: WakeWhen,
}

/// When the task that takes from the queue is woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeWhen {
    /// At this many requests.
    pub(crate) enough: usize,
    /// Or at a request that is due before the timer fires.
    pub(crate) alarm: Option<Instant>,
}

impl WakeWhen {
    /// Whether to wake for a request with this deadline, at this length of the queue.
    fn is_met(&self, waiting: usize, due: Instant) -> bool {
        waiting >= self.enough || self.alarm.is_none_or(|alarm| due < alarm)
    }
}

/// Whether a request may wait.
#[derive(Clone, Debug, Default)]
enum Admission {
    #[default]
    Open,
    /// There is no connection, and no attempt to connect: this is why.
    Refusing(StoreError),
    /// The node has left, or the client is dropped.
    Closed,
}

impl Queue {
    /// Puts a request at the end. Returned if the queue is closed: another node may take it.
    #[must_use = "a returned request has to go to another node"]
    pub(crate) fn push(&self, pending: Pending, counters: &NetworkCounters) -> Option<Pending> {
        let mut state = self.state();
        let refusal = match &state.admission {
            Admission::Open if state.waiting.len() < WAITING_MAX => None,
            Admission::Open => {
                counters.overloaded.add(1);
                Some(StoreError::new(
                    StoreErrorKind::Overloaded,
                    "too many requests wait for Redis",
                ))
            }
            Admission::Refusing(why) => Some(why.clone()),
            Admission::Closed => return Some(pending),
        };
        if let Some(why) = refusal {
            drop(state);
            Pending::fail_all([pending], &why);
            return None;
        }
        let due = pending.due;
        state.waiting.push_back(pending);
        let waiting = state.waiting.len();
        let waiter = state.waiter.take_if(|waiter| waiter.wake_when.is_met(waiting, due));
        state.woken |= waiter.is_some();
        drop(state);
        if let Some(waiter) = waiter {
            waiter.waker.wake();
        }
        None
    }

    /// Puts requests that have not run back to the front, in their order.
    pub(crate) fn put_back(&self, requests: impl DoubleEndedIterator<Item = Pending>) {
        let mut state = self.state();
        requests.rev().for_each(|pending| state.waiting.push_front(pending));
    }

    /// Takes up to `max` requests with up to `work_max` of work; at least one request.
    pub(crate) fn take(&self, max: usize, work_max: u64) -> Vec<Pending> {
        let mut state = self.state();
        let mut work: u64 = 0;
        let fits = |pending: &&Pending| {
            work = work.saturating_add(pending.request.work);
            work <= work_max
        };
        let count = state.waiting.iter().take(max).take_while(fits).count();
        let count = count.max(1).min(state.waiting.len());
        state.waiting.drain(..count).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Waits until it is time to wake, or the queue is closed.
    pub(crate) async fn ready(&self, wake_when: WakeWhen) {
        poll_fn(|task| {
            let mut state = self.state();
            let last = state.waiting.back();
            let is_met = last.is_some_and(|last| wake_when.is_met(state.waiting.len(), last.due));
            if std::mem::take(&mut state.woken) || is_met {
                return Poll::Ready(());
            }
            let known = state.waiter.take().map(|waiter| waiter.waker);
            let known = known.filter(|waker| waker.will_wake(task.waker()));
            let waker = known.unwrap_or_else(|| task.waker().clone());
            state.waiter = Some(Waiter { waker, wake_when });
            Poll::Pending
        })
        .await;
    }

    /// The earliest deadline.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.state().waiting.iter().map(|pending| pending.due).min()
    }

    /// Takes those whose deadline has passed.
    pub(crate) fn take_overdue(&self, now: Instant) -> Vec<Pending> {
        let mut state = self.state();
        let overdue = state.waiting.iter().filter(|pending| pending.due <= now).count();
        let mut taken = Vec::with_capacity(overdue);
        for _ in 0..if overdue == 0 { 0 } else { state.waiting.len() } {
            match state.waiting.pop_front() {
                Some(pending) if pending.due <= now => taken.push(pending),
                Some(pending) => state.waiting.push_back(pending),
                None => {}
            }
        }
        taken
    }

    /// From now on requests wait.
    pub(crate) fn open(&self) {
        let mut state = self.state();
        if !matches!(state.admission, Admission::Closed) {
            state.admission = Admission::Open;
        }
    }

    /// From now on requests fail at once, and so do those that wait.
    pub(crate) fn refuse(&self, why: &StoreError) {
        let mut state = self.state();
        if !matches!(state.admission, Admission::Closed) {
            state.admission = Admission::Refusing(why.clone());
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        Pending::fail_all(waiting, why);
    }

    pub(crate) fn is_refusing(&self) -> bool {
        matches!(self.state().admission, Admission::Refusing(_))
    }

    /// Takes no more requests.
    pub(crate) fn close(&self) {
        let waiter = {
            let mut state = self.state();
            state.admission = Admission::Closed;
            state.woken = true;
            state.waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.waker.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state().admission, Admission::Closed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change under the lock can stop half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
