//! A node with a connection: what waits leaves, what comes back is told.

use std::time::Duration;

use redis::{RedisResult, ServerError, Value};
use tokio::time::Instant;

use super::desk::Why;
use super::flight::{Call, Flights};
use super::link::{self, Link};
use super::node::{Node, moved};
use super::queue::Wish;
use super::script::{self, Text};
use super::ticket::{Answer, Ticket};
use crate::store::{StoreError, Trouble};

/// So many questions leave in one flight.
pub(super) const BATCH_MAX: usize = 64;

/// So many flights are under way at once: the next is on its way while Redis works on the first.
pub(super) const FLIGHTS_MAX: usize = 2;

/// A connection that was made so long ago may lead to a server that has since become a replica; a younger one was told
/// just now.
const PRIMARY_STANDS: Duration = Duration::from_secs(1);

/// What became of the connection.
enum Then {
    Stay,
    /// Send nothing more, hear what is owed, and connect anew.
    Leave,
    /// It is of no use any more.
    Cut,
}

impl Node {
    /// Uses the connection until it ends. Says whether it has ever been of use.
    pub(super) async fn serve(&mut self, link: &mut Link) -> bool {
        let (mut flights, mut worked) = (Flights::new(self.shared.clone()), false);
        let (mut heard, mut leaving) = (false, false);
        let since = Instant::now();
        loop {
            if !leaving {
                self.send(link, &mut flights, heard);
            }
            if flights.is_empty() && (leaving || self.is_over()) {
                return worked;
            }
            heard = false;
            self.timer.arm(|| flights.next_due().into_iter().chain(self.queue.next_due()).min());
            let wish = Wish { enough: self.enough(&flights), alarm: self.timer.alarm() };
            let then = tokio::select! {
                biased;
                () = link.drive() => Then::Cut,
                (call, reply) = flights.reply() => {
                    link.meter().reply_ends();
                    heard = true;
                    worked |= reply.is_ok();
                    self.settle(call, reply, link, &mut flights, since)
                }
                () = self.queue.gathered(wish) => {
                    if flights.count() > 0 {
                        self.timer.disarm();
                    }
                    Then::Stay
                }
                () = self.timer.rings() => self.time_passes(&mut flights),
                () = moved(&mut self.place) => Then::Cut,
            };
            match then {
                Then::Stay => {}
                Then::Leave => leaving = true,
                Then::Cut => {
                    link.cut();
                    while !flights.is_empty() {
                        let (call, reply) = flights.reply().await;
                        self.settle(call, reply, link, &mut flights, since);
                    }
                    return worked;
                }
            }
        }
    }

    /// At once if nothing is under way; otherwise when there is room, and a reply has come or a flight is full.
    fn send(&mut self, link: &Link, flights: &mut Flights, heard: bool) {
        while flights.count() < self.flights_max() {
            let waiting = self.queue.len();
            if waiting == 0 || !(flights.count() == 0 || heard || waiting >= BATCH_MAX) {
                return;
            }
            let tickets = self.queue.take(BATCH_MAX);
            if let Some(due) = tickets.iter().map(|ticket| ticket.due).min() {
                self.timer.arm_by(due);
            }
            let counters = &self.shared.counters;
            // Announcements are nobody's question.
            let asked = tickets.iter().filter(|ticket| ticket.question.script == Text::Check);
            counters.questions.add(asked.count());
            counters.calls.add(flights.leave(link, tickets, Instant::now()));
        }
    }

    /// Tells those whose deadline has passed.
    fn time_passes(&mut self, flights: &mut Flights) -> Then {
        let now = Instant::now();
        self.tell_overdue(now);
        let overdue = flights.tell_overdue(now);
        if overdue > 0 {
            self.shared.trouble();
        }
        self.shared.counters.timeouts.add(overdue);
        if flights.is_stale(now) { Then::Cut } else { Then::Stay }
    }

    /// Tells the askers of one call what came of it.
    fn settle(
        &mut self,
        mut call: Call,
        reply: RedisResult<Value>,
        link: &Link,
        flights: &mut Flights,
        since: Instant,
    ) -> Then {
        if call.confirms {
            return self.confirm(call, &reply);
        }
        let reply = match reply {
            Ok(Value::ServerError(error)) => return self.refused(call.tickets, &error, since),
            Ok(value) => value,
            Err(error) if call.never_left(link) => {
                let why = StoreError::new(Trouble::Unreachable, error.to_string());
                self.again(call.tickets, &why);
                return Then::Cut;
            }
            Err(error) => {
                let why = link::lost(&error);
                Ticket::fail_all(call.tickets, &why);
                return Then::Cut;
            }
        };
        match script::read(call.tickets.iter().map(|ticket| &ticket.question), reply) {
            Ok(answers) => {
                let answered = call.tickets.drain(..).zip(answers);
                let charged = answered.filter_map(|(ticket, answer)| self.tell(ticket, answer));
                flights.hold(charged.collect());
                Then::Stay
            }
            Err(why) => {
                Ticket::fail_all(call.tickets, &why);
                Then::Cut
            }
        }
    }

    /// Tells an asker, or gives back the ticket of one who was charged: replicas have to confirm that.
    fn tell(&self, mut ticket: Ticket, answer: Answer) -> Option<Ticket> {
        match answer {
            Ok(outcome) if self.shared.needs_copies(&ticket, &outcome) => {
                ticket.held = ticket.is_open().then_some(outcome);
                return Some(ticket);
            }
            answer => ticket.answer(answer),
        }
        None
    }

    /// Tells those who were charged whether replicas have confirmed it.
    fn confirm(&self, call: Call, reply: &RedisResult<Value>) -> Then {
        let confirmed = reply.as_ref().is_ok_and(|reply| self.shared.is_enough(reply));
        for mut ticket in call.tickets {
            self.shared.conclude(&mut ticket, confirmed);
        }
        if reply.is_ok() { Then::Stay } else { Then::Cut }
    }

    /// The server has not run a call.
    fn refused(&mut self, mut tickets: Vec<Ticket>, error: &ServerError, since: Instant) -> Then {
        let why = link::said(error);
        if let Some(desk) = &self.shared.desk
            && let Some(why) =
                Why::of(error, self.place.borrow().as_ref().ok().and_then(Option::as_ref))
        {
            if why == Why::TryAgain && split(&mut tickets) {
                self.queue.put_back(tickets.into_iter());
            } else {
                desk.bring(tickets, why);
            }
            return Then::Stay;
        }
        match why.trouble() {
            Trouble::NoScript => {
                self.shared.counters.noscript.add(1);
                self.again(tickets, &why);
            }
            // Whoever answers to the name may be another server by now.
            Trouble::ReadOnly if since.elapsed() >= PRIMARY_STANDS => {
                self.again(tickets, &why);
                return Then::Leave;
            }
            trouble => {
                if trouble == Trouble::ClusterDown {
                    self.shared.trouble();
                }
                Ticket::fail_all(tickets, &why);
            }
        }
        Then::Stay
    }

    /// Once more, before all others; whoever has tried twice is told why.
    fn again(&mut self, tickets: Vec<Ticket>, why: &StoreError) {
        let (tried, mut first): (Vec<_>, Vec<_>) =
            tickets.into_iter().partition(|ticket| ticket.tried);
        Ticket::fail_all(tried, why);
        first.retain(Ticket::is_open);
        self.shared.counters.retries.add(first.len());
        for ticket in &mut first {
            ticket.tried = true;
        }
        self.queue.put_back(first.into_iter());
    }

    /// How many questions are reason to send them.
    fn enough(&self, flights: &Flights) -> usize {
        match flights.count() {
            0 => 1,
            count if count < self.flights_max() => BATCH_MAX,
            _ => usize::MAX,
        }
    }

    /// What is sent behind a `WAIT` is held up by it: better not sent, and so certainly not run.
    fn flights_max(&self) -> usize {
        if self.shared.replicas.is_some() { 1 } else { FLIGHTS_MAX }
    }
}

/// Lets each go without those on other keys, if that is what stood in the way: while a slot is moved, a node has some
/// of its keys. Put together by us, the questions have not been refused themselves.
fn split(tickets: &mut [Ticket]) -> bool {
    let is_mixed = tickets.windows(2).any(|pair| pair[0].question.keys != pair[1].question.keys);
    for ticket in tickets {
        ticket.alone |= is_mixed;
    }
    is_mixed
}
