//! The questions that wait for one node: bounded, first in, first out, and refused while there is no way to the node.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::time::Instant;

use super::stats::Counters;
use super::ticket::Ticket;
use tidegate::{StoreError, StoreErrorKind};

/// So many may wait. At 300,000 decisions a second they are 14 ms of work: more would only miss their deadline.
pub(super) const WAITING_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Ticket>,
    gate: Gate,
    taker: Option<Taker>,
    /// The taker was woken, and has not looked since.
    called: bool,
}

/// Who takes from the queue, and when it wants to be woken.
#[derive(Debug)]
struct Taker {
    waker: Waker,
    wish: Wish,
}

/// What whoever takes from the queue waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// So many questions.
    pub(super) enough: usize,
    /// Or one that is due before this: when it looks by itself.
    pub(super) alarm: Option<Instant>,
}

impl Wish {
    /// Whether a question that is due then is reason enough, being one of so many.
    fn is_met(&self, waiting: usize, due: Instant) -> bool {
        waiting >= self.enough || self.alarm.is_none_or(|alarm| due < alarm)
    }
}

/// Whether a question may wait.
#[derive(Clone, Debug, Default)]
enum Gate {
    #[default]
    Open,
    /// There is no connection, and none under way: this is why.
    Refusing(StoreError),
    /// The node has left, or the client is dropped.
    Closed,
}

impl Queue {
    /// Puts a question at the end. Given back if the queue is closed: it may be asked elsewhere.
    #[must_use = "given back, it has to go elsewhere"]
    pub(super) fn push(&self, ticket: Ticket, counters: &Counters) -> Option<Ticket> {
        let mut state = self.state();
        let refusal = match &state.gate {
            Gate::Open if state.waiting.len() < WAITING_MAX => None,
            Gate::Open => {
                counters.overloaded.add(1);
                Some(StoreError::new(
                    StoreErrorKind::Overloaded,
                    "too many questions wait for Redis",
                ))
            }
            Gate::Refusing(why) => Some(why.clone()),
            Gate::Closed => return Some(ticket),
        };
        if let Some(why) = refusal {
            drop(state);
            Ticket::fail_all([ticket], &why);
            return None;
        }
        let due = ticket.due;
        state.waiting.push_back(ticket);
        let waiting = state.waiting.len();
        let taker = state.taker.take_if(|taker| taker.wish.is_met(waiting, due));
        state.called |= taker.is_some();
        drop(state);
        if let Some(taker) = taker {
            taker.waker.wake();
        }
        None
    }

    /// Puts questions that have not run before all others, in their order. For whoever takes from the queue.
    pub(super) fn put_back(&self, tickets: impl DoubleEndedIterator<Item = Ticket>) {
        let mut state = self.state();
        tickets.rev().for_each(|ticket| state.waiting.push_front(ticket));
    }

    /// Takes up to so many, with up to so many keys among them; one at least.
    pub(super) fn take(&self, max: usize, keys_max: usize) -> Vec<Ticket> {
        let mut state = self.state();
        let mut keys = 0;
        let fits = |ticket: &&Ticket| {
            keys += ticket.question.keys.len();
            keys <= keys_max
        };
        let count = state.waiting.iter().take(max).take_while(fits).count();
        let count = count.max(1).min(state.waiting.len());
        state.waiting.drain(..count).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Until what was wished for is there, or the queue is closed.
    pub(super) async fn gathered(&self, wish: Wish) {
        poll_fn(|task| {
            let mut state = self.state();
            let last = state.waiting.back();
            let is_met = last.is_some_and(|last| wish.is_met(state.waiting.len(), last.due));
            if std::mem::take(&mut state.called) || is_met {
                return Poll::Ready(());
            }
            let known = state.taker.take().map(|taker| taker.waker);
            let known = known.filter(|waker| waker.will_wake(task.waker()));
            let waker = known.unwrap_or_else(|| task.waker().clone());
            state.taker = Some(Taker { waker, wish });
            Poll::Pending
        })
        .await;
    }

    /// The earliest deadline.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.state().waiting.iter().map(|ticket| ticket.due).min()
    }

    /// Takes those whose deadline has passed.
    pub(super) fn take_overdue(&self, now: Instant) -> Vec<Ticket> {
        let mut state = self.state();
        let overdue = state.waiting.iter().filter(|ticket| ticket.due <= now).count();
        let mut taken = Vec::with_capacity(overdue);
        for _ in 0..if overdue == 0 { 0 } else { state.waiting.len() } {
            match state.waiting.pop_front() {
                Some(ticket) if ticket.due <= now => taken.push(ticket),
                Some(ticket) => state.waiting.push_back(ticket),
                None => {}
            }
        }
        taken
    }

    /// From now on questions wait.
    pub(super) fn open(&self) {
        let mut state = self.state();
        if !matches!(state.gate, Gate::Closed) {
            state.gate = Gate::Open;
        }
    }

    /// From now on questions fail at once, and so do those that wait.
    pub(super) fn refuse(&self, why: &StoreError) {
        let mut state = self.state();
        if !matches!(state.gate, Gate::Closed) {
            state.gate = Gate::Refusing(why.clone());
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        Ticket::fail_all(waiting, why);
    }

    pub(super) fn is_refusing(&self) -> bool {
        matches!(self.state().gate, Gate::Refusing(_))
    }

    /// Takes no more questions.
    pub(super) fn close(&self) {
        let taker = {
            let mut state = self.state();
            state.gate = Gate::Closed;
            state.called = true;
            state.taker.take()
        };
        if let Some(taker) = taker {
            taker.waker.wake();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state().gate, Gate::Closed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here can stop half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
