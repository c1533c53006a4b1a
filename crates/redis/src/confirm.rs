//! Confirmed by replicas: whoever was charged is told once `WAIT` says that enough of them know.
//!
//! `WAIT` holds up whatever is behind it on its connection, for up to 100 ms longer than it was told to where Redis is
//! idle. So it is the last command of its flight, nothing is sent behind it, and nobody waits for it past the deadline.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tidegate_core::Decision;

use super::node::Shared;
use super::question::Outcome;
use super::ticket::Ticket;
use tidegate::{Replicas, StoreErrorKind, Unconfirmed};

/// The command that waits for replicas.
pub(super) fn wait(replicas: &Replicas) -> Cmd {
    let timeout_ms = replicas.bounded_timeout().as_nanos().div_ceil(1_000_000);
    cmd("WAIT").arg(replicas.wait.get()).arg(timeout_ms.to_string()).take()
}

impl Outcome {
    /// Whether something was charged, if the question was one that charges.
    fn admits(&self) -> bool {
        match self {
            Self::StoreReply(settled) => match settled.grant {
                Some(grant) => grant.units > 0,
                None => settled.verdict.decision.allowed(),
            },
            Self::Each(decisions) => decisions.iter().all(Decision::allowed),
            Self::Reserved(place) => place.reservation.accepted(),
            Self::Nodes(_)
            | Self::Table(_)
            | Self::Changed(_)
            | Self::TickReadings(_)
            | Self::Edges(_) => false,
        }
    }
}

impl Shared {
    /// How much longer than usual an answer may take.
    pub(super) fn extra_patience(&self) -> Duration {
        self.replicas.as_ref().map_or(Duration::ZERO, Replicas::bounded_timeout)
    }

    /// Whether an answer has to be held back until replicas know of the charge.
    pub(super) fn needs_copies(&self, ticket: &Ticket, outcome: &Outcome) -> bool {
        self.replicas.is_some() && ticket.question.charges && outcome.admits()
    }

    /// Whether the reply of `WAIT` says that enough replicas have confirmed.
    pub(super) fn is_enough(&self, reply: &Value) -> bool {
        let wanted = self.replicas.map_or(0, |replicas| i64::from(replicas.wait.get()));
        matches!(reply, Value::Int(count) if *count >= wanted)
    }

    /// Tells an asker whose answer was held back, by what became of it at the replicas.
    pub(super) fn conclude(&self, ticket: &mut Ticket, confirmed: bool) {
        let Some(outcome) = ticket.held.take() else { return };
        if confirmed {
            return ticket.answer(Ok(outcome));
        }
        self.counters.unreplicated.add(1);
        match self.replicas.map(|replicas| replicas.unconfirmed) {
            Some(Unconfirmed::Deny) => {
                ticket.fail(
                    StoreErrorKind::Unreplicated,
                    "charged, but too few replicas have confirmed it",
                );
            }
            Some(Unconfirmed::Allow) | None => ticket.answer(Ok(outcome)),
        }
    }
}
