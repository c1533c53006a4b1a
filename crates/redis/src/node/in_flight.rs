//! The calls in flight on one connection, answered in the order they were sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value, cmd};
use tidegate::StoreErrorKind;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::connection::{Connection, ReplyFuture};
use crate::node::{NodeContext, replies};
use crate::queue::Pending;
use crate::script::{self, CallBy};
use crate::script_request::ScriptKind;

/// A connection whose oldest call is older is dead, though it was not closed.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Calls that were sent and not answered. Calls that left in one write are one batch.
pub(crate) struct InFlight {
    shared: Arc<NodeContext>,
    calls: VecDeque<Call>,
    /// How many batches there are.
    pub(crate) count: usize,
    /// How many requests were sent in them.
    pub(crate) requests: usize,
}

pub(crate) struct Call {
    pub(crate) requests: Vec<Pending>,
    reply: ReplyFuture,
    pub(crate) since: Instant,
    /// How much the connection had written before.
    written_before: u64,
    ends_batch: bool,
    /// The `WAIT` for the calls before it. Its requests have been answered by the script, and wait for replicas.
    pub(crate) confirms: bool,
}

impl InFlight {
    pub(crate) fn new(shared: Arc<NodeContext>) -> Self {
        Self { shared, calls: VecDeque::new(), count: 0, requests: 0 }
    }

    /// All of these are sent in one write, when the connection is next driven. Returns the number of calls.
    pub(crate) fn send(
        &mut self,
        connection: &Connection,
        requests: Vec<Pending>,
        now: Instant,
    ) -> usize {
        let calls = group_by_call(requests);
        let (count, written_before) = (calls.len(), connection.meter.written());
        self.requests += calls.iter().map(Vec::len).sum::<usize>();
        let charges = calls.iter().flatten().any(|pending| pending.request.charges);
        let replicas = self.shared.replicas.filter(|_| charges);
        let mut push = |requests, reply, confirms| {
            let ends_batch = false;
            let call = Call { requests, reply, since: now, written_before, ends_batch, confirms };
            self.calls.push_back(call);
        };
        for requests in calls {
            let reply = start(connection, &requests);
            push(requests, reply, false);
        }
        if let Some(replicas) = replicas {
            push(Vec::new(), connection.start(replies::wait_command(&replicas)), true);
        }
        if let Some(last) = self.calls.back_mut().filter(|_| count > 0) {
            last.ends_batch = true;
            self.count += 1;
        }
        count
    }

    /// Keeps charged requests until replicas have confirmed them.
    pub(crate) fn await_replicas(&mut self, requests: Vec<Pending>) {
        if let Some(wait) = self.calls.back_mut().filter(|call| call.confirms) {
            wait.requests.extend(requests);
        }
    }

    /// The next reply, with the call it answers. Waits for ever if no call is in flight.
    pub(crate) async fn reply(&mut self) -> (Call, RedisResult<Value>) {
        poll_fn(|task| self.poll_reply(task)).await
    }

    pub(crate) fn poll_reply(
        &mut self,
        task: &mut Context<'_>,
    ) -> Poll<(Call, RedisResult<Value>)> {
        let Some(first) = self.calls.front_mut() else { return Poll::Pending };
        let Poll::Ready(reply) = first.reply.as_mut().poll(task) else { return Poll::Pending };
        let Some(call) = self.calls.pop_front() else { return Poll::Pending };
        self.count -= usize::from(call.ends_batch);
        if !call.confirms {
            self.requests -= call.requests.len();
        }
        Poll::Ready((call, reply))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// When to act without a reply: a deadline, or the silence limit of the connection.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let open = self.calls.iter().flat_map(|call| &call.requests).filter(|it| it.is_open());
        open.map(|pending| pending.due).chain(self.silence_ends()).min()
    }

    /// Fails requests past their deadline. Their replies are dropped when they come.
    pub(crate) fn fail_overdue(&mut self, now: Instant) -> usize {
        let requests = self.calls.iter_mut().flat_map(|call| &mut call.requests);
        let overdue = requests.filter(|pending| pending.is_open() && pending.due <= now);
        let mut count = 0;
        for pending in overdue {
            if pending.held.is_some() {
                self.shared.finish_confirmation(pending, false);
            } else {
                pending.fail(StoreErrorKind::Timeout, "no answer in time");
                count += 1;
            }
        }
        count
    }

    /// Whether a reply may grant permits, though its caller was answered.
    pub(crate) fn may_grant(&self) -> bool {
        self.calls.iter().flat_map(|call| &call.requests).any(Pending::may_grant)
    }

    /// Fails all that is unanswered: nothing is known of it.
    pub(crate) fn fail_open(&mut self) {
        for pending in self.calls.iter_mut().flat_map(|call| &mut call.requests) {
            if pending.held.is_some() {
                self.shared.finish_confirmation(pending, false);
            } else {
                pending.fail(StoreErrorKind::Disconnected, "the server is silent");
            }
        }
    }

    /// Permission to keep the connection for late replies.
    pub(crate) fn keep_connection(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.abandoned.clone().try_acquire_owned().ok()
    }

    /// Whether the server has been silent for too long.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        self.silence_ends().is_some_and(|end| end <= now)
    }

    fn silence_ends(&self) -> Option<Instant> {
        let first = self.calls.front()?;
        // A request with a longer deadline extends the wait.
        let deadlines = first.requests.iter().filter(|it| it.is_open()).map(|it| it.due);
        deadlines.chain([first.since + SILENCE_MAX + self.shared.replication_timeout()]).max()
    }
}

impl Call {
    /// Whether not one byte of it was written: it has certainly not run.
    pub(crate) fn was_not_sent(&self, connection: &Connection) -> bool {
        connection.meter.written() <= self.written_before
    }

    /// The reply to a call whose requests have all been answered: what it grants is given back.
    pub(crate) fn give_back_late(mut self, reply: Value) {
        if self.confirms {
            return;
        }
        let requests = self.requests.iter().map(|pending| &pending.request);
        let Ok(answers) = script::read(requests, reply) else { return };
        for (mut pending, answer) in self.requests.drain(..).zip(answers) {
            pending.give_back(answer);
        }
    }
}

/// Groups requests into as few calls as possible. Requests on one key stay in order.
fn group_by_call(requests: Vec<Pending>) -> Vec<Vec<Pending>> {
    let mut calls: Vec<Vec<Pending>> = Vec::with_capacity(1);
    for pending in requests {
        let mut others = calls.iter_mut().rev();
        let call = match pending.request.now {
            None => others.find(|call| can_share(call, &pending)),
            // In a replay time must not run backwards on a key: only the last call of its slot will do.
            Some(_) => others
                .find(|call| call.first().is_some_and(|other| other.slot == pending.slot))
                .filter(|call| can_share(call, &pending)),
        };
        match call {
            Some(call) => call.push(pending),
            None => calls.push(vec![pending]),
        }
    }
    calls
}

/// Whether a call can take one more request: of the same script, slot, time and routing.
fn can_share(call: &[Pending], pending: &Pending) -> bool {
    call.first().is_some_and(|other| {
        let key = |it: &Pending| (it.slot, it.request.script, it.request.now, it.asking, it.alone);
        // Of the scripts only the one that decides takes several.
        pending.request.script == ScriptKind::Check
            && key(other) == key(pending)
            && (!pending.alone || other.request.keys == pending.request.keys)
    })
}

/// Passes the call to the connection.
fn start(connection: &Connection, requests: &[Pending]) -> ReplyFuture {
    let scripts = || requests.iter().map(|pending| &pending.request);
    let any = |is_so: fn(&Pending) -> bool| requests.iter().any(is_so);
    if any(|pending| pending.asking) {
        // A `NOSCRIPT` reply would use up the permission that `ASKING` gives for one command.
        let mut both = Pipeline::new();
        both.add_command(cmd("ASKING")).add_command(script::call(scripts(), CallBy::Source));
        return connection.start_together(both);
    }
    let by = if any(|pending| pending.tried) { CallBy::Source } else { CallBy::Hash };
    connection.start(script::call(scripts(), by))
}
