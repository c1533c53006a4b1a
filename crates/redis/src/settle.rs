//! What becomes of a call: an answer, another attempt, another node, or a failure with a name.

use std::time::Duration;

use redis::{RedisResult, ServerError, Value};
use tokio::time::Instant;

use super::desk::Why;
use super::flight::{Call, Flights};
use super::link::{self, Link};
use super::node::Node;
use super::script;
use super::ticket::{Answer, Ticket};
use tidegate::{StoreError, StoreErrorKind};

/// A connection that was made so long ago may lead to a server that has since become a replica; a younger one was told
/// just now.
const PRIMARY_STANDS: Duration = Duration::from_secs(1);

/// What became of the connection.
pub(super) enum Then {
    Stay,
    /// Send nothing more, hear what is owed, and connect anew.
    Leave,
    /// It is of no use any more.
    Cut,
}

impl Node {
    /// Tells the askers of one call what came of it.
    pub(super) fn settle(
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
                let why = StoreError::new(StoreErrorKind::Unreachable, error.to_string());
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
        let here = self.place.borrow().clone().ok().flatten();
        if let Some(desk) = &self.shared.desk
            && let Some(why) = Why::of(error, here.as_ref())
        {
            if why == Why::TryAgain && split(&mut tickets) {
                self.queue.put_back(tickets.into_iter());
            } else {
                desk.bring(tickets, why);
            }
            return Then::Stay;
        }
        match why.kind() {
            StoreErrorKind::NoScript => {
                self.shared.counters.noscript.add(1);
                self.again(tickets, &why);
            }
            // Whoever answers to the name may be another server by now.
            StoreErrorKind::ReadOnly if since.elapsed() >= PRIMARY_STANDS => {
                self.again(tickets, &why);
                self.shared.trouble();
                return Then::Leave;
            }
            trouble => {
                if matches!(trouble, StoreErrorKind::ClusterDown | StoreErrorKind::ReadOnly) {
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
