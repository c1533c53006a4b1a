//! The calls that are under way on one connection, answered in the order they left.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{RedisResult, Value};
use tokio::time::Instant;

use super::batch;
use super::link::{Link, Pending};
use super::ticket::Ticket;
use crate::store::Trouble;

/// A connection whose oldest call is older has lost its other end without a word.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Calls that left together make one flight.
#[derive(Default)]
pub(super) struct Flights {
    calls: VecDeque<Call>,
    count: usize,
}

pub(super) struct Call {
    pub(super) tickets: Vec<Ticket>,
    reply: Pending,
    since: Instant,
    /// How much the connection had written before.
    written_before: u64,
    ends_flight: bool,
}

impl Flights {
    /// How many are under way.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// All of these leave in one write, when the link is next driven. Gives the number of calls.
    pub(super) fn leave(&mut self, link: &Link, tickets: Vec<Ticket>, now: Instant) -> usize {
        let calls = batch::shared(tickets);
        let (count, written_before) = (calls.len(), link.meter().written());
        for (index, tickets) in calls.into_iter().enumerate() {
            let reply = batch::start(link, &tickets);
            let ends_flight = index + 1 == count;
            self.calls.push_back(Call { tickets, reply, since: now, written_before, ends_flight });
        }
        self.count += usize::from(count > 0);
        count
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
        let tell = |ticket: &mut Ticket| ticket.fail(Trouble::Timeout, "no answer in time");
        overdue.map(tell).count()
    }

    /// Whether the other end has been silent for too long.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.silence_ends().is_some_and(|end| end <= now)
    }

    fn silence_ends(&self) -> Option<Instant> {
        let first = self.calls.front()?;
        // Somebody who is more patient than that is listened to.
        let patience = first.tickets.iter().filter(|it| it.is_open()).map(|it| it.due);
        patience.chain([first.since + SILENCE_MAX]).max()
    }
}

impl Call {
    /// Whether not one byte of it was written: it has certainly not run.
    pub(super) fn never_left(&self, link: &Link) -> bool {
        link.meter().written() <= self.written_before
    }
}
