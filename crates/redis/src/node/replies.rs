//! What follows a reply: an answer, another attempt, another node, or an error; and confirmation by replicas (`WAIT`).
//!
//! `WAIT` delays everything behind it on its connection, by up to 100 ms more than its timeout where Redis is idle. So
//! it is the last command of its batch, nothing is sent behind it, and no caller waits for it past the deadline.

use std::time::Duration;

use redis::{Cmd, RedisResult, ServerError, Value, cmd};
use tidegate::{Replicas, StoreError, StoreErrorKind, Unconfirmed};
use tidegate_core::Decision;
use tokio::time::Instant;

use crate::cluster::Reason;
use crate::connection::Connection;
use crate::node::in_flight::{Call, InFlight};
use crate::node::{Node, NodeContext};
use crate::queue::{Pending, ScriptResult};
use crate::script_reply::ScriptReply;
use crate::{error, script};

/// A connection of this age may lead to a server that has become a replica since; a younger one has just been checked.
const PRIMARY_CHECK_HOLDS: Duration = Duration::from_secs(1);

/// What became of the connection.
pub(crate) enum Next {
    Continue,
    /// Send nothing more, read the replies that are due, and connect anew.
    Drain,
    /// It is broken.
    Close,
    /// It is silent. What was sent may still be run.
    Abandon,
}

impl Node {
    /// Handles the reply to one call.
    pub(crate) fn handle_reply(
        &mut self,
        mut call: Call,
        reply: RedisResult<Value>,
        connection: &Connection,
        in_flight: &mut InFlight,
        since: Instant,
    ) -> Next {
        if call.confirms {
            return self.confirm(call, &reply);
        }
        let reply = match reply {
            Ok(Value::ServerError(error)) => {
                return self.handle_error(call.requests, &error, since);
            }
            Ok(value) => value,
            Err(error) if call.was_not_sent(connection) => {
                let why = StoreError::new(StoreErrorKind::Unreachable, error.to_string());
                self.retry(call.requests, &why);
                return Next::Close;
            }
            Err(error) => {
                let why = error::from_connection(&error);
                Pending::fail_all(call.requests, &why);
                return Next::Close;
            }
        };
        match script::read(call.requests.iter().map(|pending| &pending.request), reply) {
            Ok(answers) => {
                let answered = call.requests.drain(..).zip(answers);
                let charged =
                    answered.filter_map(|(pending, answer)| self.deliver(pending, answer));
                in_flight.await_replicas(charged.collect());
                Next::Continue
            }
            Err(why) => {
                Pending::fail_all(call.requests, &why);
                Next::Close
            }
        }
    }

    /// Answers a request, or returns it if replicas have to confirm its charge first.
    fn deliver(&self, mut pending: Pending, answer: ScriptResult) -> Option<Pending> {
        match answer {
            Ok(outcome) if pending.is_open() && self.shared.awaits_replicas(&pending, &outcome) => {
                pending.held = Some(outcome);
                return Some(pending);
            }
            answer => pending.answer(answer),
        }
        None
    }

    /// Answers charged requests by whether replicas have confirmed.
    fn confirm(&self, call: Call, reply: &RedisResult<Value>) -> Next {
        let confirmed = reply.as_ref().is_ok_and(|reply| self.shared.has_enough_replicas(reply));
        for mut pending in call.requests {
            self.shared.finish_confirmation(&mut pending, confirmed);
        }
        if reply.is_ok() { Next::Continue } else { Next::Close }
    }

    /// The server has not run a call.
    fn handle_error(
        &mut self,
        mut requests: Vec<Pending>,
        error: &ServerError,
        since: Instant,
    ) -> Next {
        let why = error::from_server(error);
        let here = self.endpoint.borrow().clone().ok().flatten();
        if let Some(redirects) = &self.shared.redirects
            && let Some(why) = Reason::from_error(error, here.as_ref())
        {
            if why == Reason::TryAgain && isolate_keys(&mut requests) {
                self.queue.put_back(requests.into_iter());
            } else {
                redirects.send(requests, why);
            }
            return Next::Continue;
        }
        match why.kind() {
            StoreErrorKind::NoScript => {
                self.shared.counters.noscript.add(1);
                self.retry(requests, &why);
            }
            // Another server may have this name by now.
            StoreErrorKind::ReadOnly if since.elapsed() >= PRIMARY_CHECK_HOLDS => {
                self.retry(requests, &why);
                self.shared.report_failure();
                return Next::Drain;
            }
            trouble => {
                if matches!(trouble, StoreErrorKind::ClusterDown | StoreErrorKind::ReadOnly) {
                    self.shared.report_failure();
                }
                Pending::fail_all(requests, &why);
            }
        }
        Next::Continue
    }

    /// Sends requests again, before all others; those that were tried twice fail.
    fn retry(&mut self, requests: Vec<Pending>, why: &StoreError) {
        let (tried, mut first): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|pending| pending.tried);
        Pending::fail_all(tried, why);
        first.retain(Pending::is_open);
        self.shared.counters.retries.add(first.len());
        for pending in &mut first {
            pending.tried = true;
        }
        self.queue.put_back(first.into_iter());
    }
}

/// Sends requests on different keys apart, if the call had several: while a slot is moved, a node has only some of its
/// keys. `true` if it had, since then no single request was refused.
fn isolate_keys(requests: &mut [Pending]) -> bool {
    let is_mixed = requests.windows(2).any(|pair| pair[0].request.keys != pair[1].request.keys);
    for pending in requests {
        pending.alone |= is_mixed;
    }
    is_mixed
}

/// The command that waits for replicas.
pub(crate) fn wait_command(replicas: &Replicas) -> Cmd {
    let timeout_ms = replicas.bounded_timeout().as_nanos().div_ceil(1_000_000);
    cmd("WAIT").arg(replicas.wait.get()).arg(timeout_ms.to_string()).take()
}

impl ScriptReply {
    /// Whether something was charged, if the request was one that charges.
    fn has_charged(&self) -> bool {
        match self {
            Self::Decided(reply) => match &reply.grant {
                Some(grant) => grant.units > 0,
                None => reply.verdict.decision.allowed(),
            },
            Self::Each(decisions) => decisions.iter().all(Decision::allowed),
            Self::Reserved(reply) => reply.reservation.accepted(),
            Self::Nodes(_)
            | Self::Table(_)
            | Self::Swept(_)
            | Self::Changed(_)
            | Self::Readings(_)
            | Self::Edges(_) => false,
        }
    }
}

impl NodeContext {
    /// How much longer than usual an answer may take.
    pub(crate) fn replication_timeout(&self) -> Duration {
        self.replicas.as_ref().map_or(Duration::ZERO, Replicas::bounded_timeout)
    }

    /// Whether an answer has to be held back until replicas know of the charge.
    pub(crate) fn awaits_replicas(&self, pending: &Pending, outcome: &ScriptReply) -> bool {
        self.replicas.is_some() && pending.request.charges && outcome.has_charged()
    }

    /// Whether the reply of `WAIT` says that enough replicas have confirmed.
    pub(crate) fn has_enough_replicas(&self, reply: &Value) -> bool {
        let wanted = self.replicas.map_or(0, |replicas| i64::from(replicas.wait.get()));
        matches!(reply, Value::Int(count) if *count >= wanted)
    }

    /// Answers a request that waited for replicas.
    pub(crate) fn finish_confirmation(&self, pending: &mut Pending, confirmed: bool) {
        let Some(outcome) = pending.held.take() else { return };
        if confirmed {
            return pending.answer(Ok(outcome));
        }
        self.counters.unreplicated.add(1);
        match self.replicas.map(|replicas| replicas.unconfirmed) {
            Some(Unconfirmed::Deny) => {
                pending.fail(
                    StoreErrorKind::Unreplicated,
                    "charged, but too few replicas have confirmed it",
                );
                pending.give_back(Ok(outcome));
            }
            Some(Unconfirmed::Allow) | None => pending.answer(Ok(outcome)),
        }
    }
}
