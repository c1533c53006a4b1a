//! All servers of a set: sends one round to each, and counts the answers.

use std::sync::Arc;
use std::time::Duration;

use redis::Value as Wire;
use tidegate::{Clock, Ran, StoreError, StoreErrorKind, SystemClock, Timestamp};
use tidegate_cas::ItemKey;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::ballot::{Ballot, Ballots};
use crate::node::Node;
use crate::replies::{AcceptReply, Prepared, ServerReply, accept_reply, prepared};
use crate::rounds::{Accepts, Outcome, Progress, Promises};
use crate::script::{ACCEPT, Call, FORM, PREPARE, ScriptText};
use crate::standing::Standing;

/// How long the last answers are waited for when those of a majority do not agree. They may still decide, but a server that
/// hangs gives none, and what has become of a write can only be found out before many others follow it.
const STRAGGLERS_MAX: Duration = Duration::from_millis(2);

/// How much longer than its deadline a promise is kept. One that has run out is refused, which is safe.
const PROMISE_MARGIN: Duration = Duration::from_secs(10);

/// A century: longer than anything has to be kept, and short enough for Redis.
const LIFE_MS_MAX: u128 = 100 * 366 * 86_400_000;

#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) nodes: Vec<Arc<Node>>,
    ballots: Ballots,
    /// The marker of a server, and the note that it has none.
    marks: [String; 2],
}

/// An item of a round, and for how long it can matter at most.
#[derive(Clone, Debug)]
pub(crate) struct RoundItem {
    pub(crate) key: ItemKey,
    pub(crate) life_max: Duration,
}

/// A value to be accepted.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) item: RoundItem,
    pub(crate) ballot: Ballot,
    pub(crate) bytes: Vec<u8>,
    /// How long it has to be kept.
    pub(crate) life: Duration,
}

/// What is known of a server after a round.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Silent,
    Failed(StoreError),
    Answered { now: Timestamp, standing: Standing },
}

/// The answers to one ballot.
#[derive(Debug)]
pub(crate) struct PrepareRound {
    pub(crate) ballot: Ballot,
    /// For each item.
    pub(crate) promises: Vec<Promises<Vec<u8>>>,
    /// For each item, how many servers hold what is not ours.
    pub(crate) foreign: Vec<usize>,
    /// For each server.
    pub(crate) seen: Vec<Seen>,
}

impl Servers {
    pub(crate) fn new(nodes: Vec<Arc<Node>>, key_prefix: &str) -> Self {
        let marks = ["since", "met"].map(|name| format!("{key_prefix}:q:{name}"));
        Self { nodes, ballots: Ballots::default(), marks }
    }

    /// Has a fresh ballot promised for some items. Returns as soon as no answer can change the result.
    pub(crate) async fn prepare(&self, items: &[RoundItem], due: Instant) -> PrepareRound {
        let ballot = self.ballots.next(SystemClock.now());
        let life = due.saturating_duration_since(Instant::now()) + PROMISE_MARGIN;
        let digits = ballot.digits().into_bytes();
        let args = vec![digits.clone(), digits, millis(life)];
        let call = self.call(&PREPARE, items.iter().map(|item| &item.key), args);
        let mut round = PrepareRound::new(ballot, self.nodes.len(), items.len());
        let mut replies = self.ask(call, self.nodes.iter().enumerate(), due);
        let mut until = due;
        while round.is_open() || round.may_be_new() {
            if until == due && round.is_heard() {
                until = due.min(Instant::now() + STRAGGLERS_MAX);
            }
            let Ok(Some((number, reply))) = timeout_at(until, replies.recv()).await else { break };
            let reply = reply.and_then(|reply| ServerReply::read(&reply, items.len(), prepared));
            round.take(number, reply, items, &self.ballots);
        }
        round
    }

    /// Has values accepted, each at a ballot that was promised for it.
    pub(crate) async fn accept(&self, proposals: &[Proposal], due: Instant) -> Vec<Outcome> {
        let count = proposals.len();
        let mut tallies = vec![Accepts::new(self.nodes.len()); count];
        let mut args = vec![self.ballots.next(SystemClock.now()).digits().into_bytes()];
        for Proposal { ballot, bytes, life, .. } in proposals {
            args.extend([ballot.digits().into_bytes(), bytes.clone(), millis(*life)]);
        }
        let call = self.call(&ACCEPT, proposals.iter().map(|it| &it.item.key), args);
        let asked = self.nodes.iter().enumerate().filter(|(_, node)| {
            let is_hung = node.is_hung();
            if is_hung {
                tallies.iter_mut().for_each(Accepts::refused);
            }
            !is_hung
        });
        let mut replies = self.ask(call, asked, due);
        let mut until = due;
        while !tallies.iter().all(|it| it.progress() == Progress::Done || it.is_answered()) {
            if until == due && tallies.iter().all(Accepts::is_heard) {
                until = due.min(Instant::now() + STRAGGLERS_MAX);
            }
            let Ok(Some((_, reply))) = timeout_at(until, replies.recv()).await else { break };
            count_accepts(&mut tallies, proposals, reply);
        }
        tallies.iter().map(Accepts::outcome).collect()
    }

    /// Makes a new set of servers that were all met without a marker. The first one decides who may: whoever finds it marked
    /// has come too late, and nothing that it has read still holds.
    pub(crate) async fn form(&self, notes: &[Vec<u8>], due: Instant) {
        let call = |note: &Vec<u8>| self.call(&FORM, std::iter::empty(), vec![note.clone()]);
        let Some((first, others)) = self
            .nodes
            .split_first()
            .zip(notes.split_first())
            .map(|((node, nodes), (note, notes))| ((node, note), nodes.iter().zip(notes)))
        else {
            return;
        };
        let formed = timeout_at(due, first.0.call(&call(first.1), due)).await;
        if !matches!(formed, Ok(Ok(Wire::Int(1)))) {
            return;
        }
        let asked = others.map(|(node, note)| self.ask(call(note), [(0, node)].into_iter(), due));
        for mut reply in asked.collect::<Vec<_>>() {
            // One that was not reached stays out, like one that has lost what it knew.
            let _ = timeout_at(due, reply.recv()).await;
        }
    }

    fn call<'a>(
        &self,
        script: &'static ScriptText,
        items: impl Iterator<Item = &'a ItemKey>,
        args: Vec<Vec<u8>>,
    ) -> Call {
        let keys = self.marks.iter().cloned().chain(items.map(ToString::to_string)).collect();
        Call { script, keys, args }
    }

    /// Sends a call to servers. Each has a task, which also takes the answers that nobody waits for any more.
    fn ask<'a>(
        &self,
        call: Call,
        nodes: impl Iterator<Item = (usize, &'a Arc<Node>)>,
        due: Instant,
    ) -> mpsc::Receiver<(usize, Result<Wire, StoreError>)> {
        let (replies, receiver) = mpsc::channel(self.nodes.len());
        let call = Arc::new(call);
        for (number, node) in nodes {
            let (node, call, replies) = (node.clone(), call.clone(), replies.clone());
            tokio::spawn(async move {
                let reply = node.call(&call, due).await;
                node.note(&reply);
                let _ = replies.send((number, reply)).await;
            });
        }
        receiver
    }
}

impl PrepareRound {
    fn new(ballot: Ballot, nodes: usize, items: usize) -> Self {
        let promises = vec![Promises::new(nodes); items];
        Self { ballot, promises, foreign: vec![0; items], seen: vec![Seen::Silent; nodes] }
    }

    fn is_open(&self) -> bool {
        self.promises.iter().any(|promises| promises.progress() == Progress::Open)
    }

    /// Whether another ballot helps more than the answers that are still to come.
    fn is_heard(&self) -> bool {
        !self.may_be_new() && self.promises.iter().all(Promises::is_heard)
    }

    /// Whether it may turn out that no server has a marker: then all have to be heard.
    fn may_be_new(&self) -> bool {
        let is_silent = |seen: &Seen| matches!(seen, Seen::Silent);
        let is_unmarked =
            |seen: &Seen| matches!(seen, Seen::Answered { standing: Standing::Unmarked(_), .. });
        self.seen.iter().any(is_silent)
            && self.seen.iter().any(is_unmarked)
            && self.seen.iter().all(|seen| is_silent(seen) || is_unmarked(seen))
    }

    fn take(
        &mut self,
        number: usize,
        reply: Result<ServerReply<Prepared>, StoreError>,
        items: &[RoundItem],
        ballots: &Ballots,
    ) {
        let ServerReply { now, standing, items: answers } = match reply {
            Ok(reply) => reply,
            Err(error) => {
                self.promises.iter_mut().for_each(Promises::missing);
                self.seen[number] = Seen::Failed(error);
                return;
            }
        };
        let mut answers = answers.into_iter();
        for (place, (promises, item)) in self.promises.iter_mut().zip(items).enumerate() {
            match answers.next() {
                Some(Prepared::Promised(accepted)) if standing.counts(now, item.life_max) => {
                    promises.promised(accepted);
                }
                Some(Prepared::Refused(ballot)) => {
                    ballots.seen(ballot);
                    promises.refused();
                }
                Some(Prepared::Foreign) => {
                    self.foreign[place] += 1;
                    promises.missing();
                }
                Some(Prepared::Promised(_)) | None => promises.missing(),
                Some(Prepared::Failed(error)) => {
                    promises.missing();
                    self.seen[number] = Seen::Failed(error);
                }
            }
        }
        if !matches!(self.seen[number], Seen::Failed(_)) {
            self.seen[number] = Seen::Answered { now, standing };
        }
    }

    /// The latest time of the servers that answered.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        let times = self.seen.iter().filter_map(|seen| match seen {
            Seen::Answered { now, .. } => Some(*now),
            _ => None,
        });
        times.max()
    }

    /// The notes of all servers, if none of them has a marker.
    pub(crate) fn unmarked(&self) -> Option<Vec<Vec<u8>>> {
        let note = |seen: &Seen| match seen {
            Seen::Answered { standing: Standing::Unmarked(note), .. } => Some(note.clone()),
            _ => None,
        };
        self.seen.iter().map(note).collect()
    }
}

fn count_accepts(tallies: &mut [Accepts], proposals: &[Proposal], reply: Result<Wire, StoreError>) {
    let reply = match reply {
        Ok(reply) => ServerReply::read(&reply, proposals.len(), accept_reply),
        Err(error) if has_not_run(&error) => {
            return tallies.iter_mut().for_each(Accepts::refused);
        }
        Err(error) => Err(error),
    };
    let Ok(ServerReply { now, standing, items }) = reply else {
        return tallies.iter_mut().for_each(Accepts::unknown);
    };
    let mut items = items.into_iter();
    for (tally, proposal) in tallies.iter_mut().zip(proposals) {
        match items.next() {
            Some(AcceptReply::Accepted) => {
                tally.accepted(standing.counts(now, proposal.item.life_max));
            }
            Some(AcceptReply::Refused) | None => tally.refused(),
        }
    }
}

/// Whether a script has certainly not begun. One that failed on its way may have written some of its items.
fn has_not_run(error: &StoreError) -> bool {
    let may_have_begun =
        [StoreErrorKind::BadRequest, StoreErrorKind::Other, StoreErrorKind::WrongType];
    error.ran() == Ran::No && !may_have_begun.contains(&error.kind())
}

fn millis(life: Duration) -> Vec<u8> {
    life.as_millis().clamp(1, LIFE_MS_MAX).to_string().into_bytes()
}
