//! The calls that are under way on one connection, answered in the order they left.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use std::sync::Arc;

use redis::{RedisResult, Value};
use tokio::time::Instant;

use super::batch;
use super::confirm;
use super::link::{Link, Pending};
use super::node::Shared;
use super::ticket::Ticket;
use tidegate::StoreErrorKind;

/// A connection whose oldest call is older has lost its other end without a word.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Calls that left together make one flight.
pub(super) struct Flights {
    shared: Arc<Shared>,
    calls: VecDeque<Call>,
    count: usize,
}

pub(super) struct Call {
    pub(super) tickets: Vec<Ticket>,
    reply: Pending,
    pub(super) since: Instant,
    /// How much the connection had written before.
    written_before: u64,
    ends_flight: bool,
    /// The `WAIT` for what left before it. Its tickets are those that have been answered, and wait for replicas.
    pub(super) confirms: bool,
}

impl Flights {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, calls: VecDeque::new(), count: 0 }
    }

    /// How many are under way.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// All of these leave in one write, when the link is next driven. Gives the number of calls.
    pub(super) fn leave(&mut self, link: &Link, tickets: Vec<Ticket>, now: Instant) -> usize {
        let calls = batch::shared(tickets);
        let (count, written_before) = (calls.len(), link.meter().written());
        let charges = calls.iter().flatten().any(|ticket| ticket.question.charges);
        let replicas = self.shared.replicas.filter(|_| charges);
        let mut push = |tickets, reply, confirms| {
            let ends_flight = false;
            let call = Call { tickets, reply, since: now, written_before, ends_flight, confirms };
            self.calls.push_back(call);
        };
        for tickets in calls {
            let reply = batch::start(link, &tickets);
            push(tickets, reply, false);
        }
        if let Some(replicas) = replicas {
            push(Vec::new(), link.start(confirm::wait(&replicas)), true);
        }
        if let Some(last) = self.calls.back_mut().filter(|_| count > 0) {
            last.ends_flight = true;
            self.count += 1;
        }
        count
    }

    /// Keeps those who have been charged until replicas have confirmed it.
    pub(super) fn hold(&mut self, tickets: Vec<Ticket>) {
        if let Some(wait) = self.calls.back_mut().filter(|call| call.confirms) {
            wait.tickets.extend(tickets);
        }
    }

    /// The next reply, with the call it answers. Waits for ever if none is under way.
    pub(super) async fn reply(&mut self) -> (Call, RedisResult<Value>) {
        poll_fn(|task| self.poll_reply(task)).await
    }

    pub(super) fn poll_reply(
        &mut self,
        task: &mut Context<'_>,
    ) -> Poll<(Call, RedisResult<Value>)> {
        let Some(first) = self.calls.front_mut() else { return Poll::Pending };
        let Poll::Ready(reply) = first.reply.as_mut().poll(task) else { return Poll::Pending };
        let Some(call) = self.calls.pop_front() else { return Poll::Pending };
        self.count -= usize::from(call.ends_flight);
        Poll::Ready((call, reply))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// When something has to be done though nothing is heard: a deadline, or the end of patience with the connection.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let open = self.calls.iter().flat_map(|call| &call.tickets).filter(|it| it.is_open());
        open.map(|ticket| ticket.due).chain(self.silence_ends()).min()
    }

    /// Tells those whose deadline has passed. The reply is still owed, and dropped when it comes.
    pub(super) fn tell_overdue(&mut self, now: Instant) -> usize {
        let tickets = self.calls.iter_mut().flat_map(|call| &mut call.tickets);
        let overdue = tickets.filter(|ticket| ticket.is_open() && ticket.due <= now);
        let mut count = 0;
        for ticket in overdue {
            if ticket.held.is_some() {
                self.shared.conclude(ticket, false);
            } else {
                ticket.fail(StoreErrorKind::Timeout, "no answer in time");
                count += 1;
            }
        }
        count
    }

    /// Whether the other end has been silent for too long.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.silence_ends().is_some_and(|end| end <= now)
    }

    fn silence_ends(&self) -> Option<Instant> {
        let first = self.calls.front()?;
        // Somebody who is more patient than that is listened to.
        let patience = first.tickets.iter().filter(|it| it.is_open()).map(|it| it.due);
        patience.chain([first.since + SILENCE_MAX + self.shared.extra_patience()]).max()
    }
}

impl Call {
    /// Whether not one byte of it was written: it has certainly not run.
    pub(super) fn never_left(&self, link: &Link) -> bool {
        link.meter().written() <= self.written_before
    }
}
