//! Questions that leave together: one call of the script for all that may share it.

use redis::{Pipeline, cmd};

use super::link::{Link, Pending};
use super::script::{self, By, Text};
use super::ticket::Ticket;

/// Shares the questions out among as few calls as possible. Questions on one key stay in order.
pub(super) fn shared(tickets: Vec<Ticket>) -> Vec<Vec<Ticket>> {
    let mut calls: Vec<Vec<Ticket>> = Vec::with_capacity(1);
    for ticket in tickets {
        let mut others = calls.iter_mut().rev();
        let call = match ticket.question.now {
            None => others.find(|call| share(call, &ticket)),
            // In a replay time must not run backwards on a key: only the last call of its slot will do.
            Some(_) => others
                .find(|call| call.first().is_some_and(|other| other.slot == ticket.slot))
                .filter(|call| share(call, &ticket)),
        };
        match call {
            Some(call) => call.push(ticket),
            None => calls.push(vec![ticket]),
        }
    }
    calls
}

/// Whether a call can take one more question: of one script, one slot, one time, one way to go.
fn share(call: &[Ticket], ticket: &Ticket) -> bool {
    call.first().is_some_and(|other| {
        let key = |it: &Ticket| (it.slot, it.question.script, it.question.now, it.asking, it.alone);
        // Of the scripts only the one that decides takes several.
        ticket.question.script == Text::Check
            && key(other) == key(ticket)
            && (!ticket.alone || other.question.keys == ticket.question.keys)
    })
}

/// Hands the call over.
pub(super) fn start(link: &Link, tickets: &[Ticket]) -> Pending {
    let questions = || tickets.iter().map(|ticket| &ticket.question);
    let any = |is_so: fn(&Ticket) -> bool| tickets.iter().any(is_so);
    if any(|ticket| ticket.asking) {
        // `NOSCRIPT` would use the one permission up that `ASKING` gives.
        let mut both = Pipeline::new();
        both.add_command(cmd("ASKING")).add_command(script::call(questions(), By::Source));
        return link.start_together(both);
    }
    let by = if any(|ticket| ticket.tried) { By::Source } else { By::Hash };
    link.start(script::call(questions(), by))
}
