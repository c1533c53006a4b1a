//! The protocol with two writers and three servers.

use std::fmt;
use std::time::Duration;

use tidegate::Timestamp;

use super::explore::{Model, hashed};
use crate::ballot::Ballot;
use crate::rounds::{Accepted, Accepts, Outcome, Progress, Promises, resolve};
use crate::standing::Standing;
use crate::value::{Descent, Value};

const SERVERS: usize = 3;
const WRITERS: usize = 2;

/// The charges of each writer's check.
type Charges = [u8; WRITERS];

/// Which rules hold: each is left out in a control.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is left out by itself")]
pub(crate) struct Rules {
    pub(crate) stays_out: bool,
    pub(crate) knows_ancestors: bool,
    pub(crate) fences: bool,
    pub(crate) keeps_promises: bool,
}

impl Rules {
    pub(crate) const ALL: Self =
        Self { stays_out: true, knows_ancestors: true, fences: true, keeps_promises: true };
}

pub(crate) struct Protocol {
    pub(crate) limit: u8,
    /// How many ballots each writer may use.
    pub(crate) ballots: [u8; WRITERS],
    pub(crate) restarts: u8,
    /// How many calls may fail, whether they arrive later or not.
    pub(crate) failures: u8,
    pub(crate) rules: Rules,
    /// Whether servers keep their names, for a history that is read. Otherwise states that differ by names alone are one.
    pub(crate) named: bool,
}

/// What `lua/*` does with one item.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Cell {
    promised: Option<Ballot>,
    accepted: Option<Accepted<Charges>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Server {
    cell: Cell,
    has_restarted: bool,
    /// Messages that may arrive at any time.
    inbox: Vec<Message>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Message {
    ballot: Ballot,
    /// What is to be accepted; `None` asks for a promise.
    value: Option<Value<Charges>>,
    /// Whether its writer was told that it failed. It may arrive all the same.
    has_failed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// Waits for promises: to decide, or to learn what has become of a write.
    Preparing {
        ours: Option<Ballot>,
        promises: Promises<Charges>,
    },
    /// Waits until its own write is accepted.
    Accepting {
        accepts: Accepts,
    },
    /// Waits until the furthest value is accepted again: then it is known whether the write happened.
    Fencing {
        ours: Ballot,
        is_written: bool,
        accepts: Accepts,
    },
    Admitted,
    /// Refused, or told that it is not known.
    Ended,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Writer {
    phase: Phase,
    ballot: Ballot,
    /// The highest counter that it was refused for.
    seen: u64,
    ballots_left: u8,
}

#[derive(Clone, Hash)]
pub(crate) struct World {
    servers: [Server; SERVERS],
    writers: [Writer; WRITERS],
    restarts_left: u8,
    failures_left: u8,
}

#[derive(Clone, Copy)]
pub(crate) enum Event {
    Prepares(usize, Ballot),
    Arrives { server: usize, ballot: Ballot, accept: bool, agrees: bool },
    Fails { server: usize, ballot: Ballot },
    Decides(usize, bool),
    Confirms(usize),
    GoesOn(usize, &'static str),
    Restarts(usize),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writer = |number: usize| ["Ann", "Bob"][number];
        let server = |number: usize| ["A", "B", "C"][number];
        match *self {
            Self::Prepares(who, ballot) => {
                write!(f, "{} asks for promises of ballot {}", writer(who), shown(ballot))
            }
            Self::Fails { server: at, ballot } => {
                let who = writer(usize::from(ballot.writer > 0));
                write!(f, "{who} gets no answer from server {} to {}", server(at), shown(ballot))
            }
            Self::Arrives { server: at, ballot, accept, agrees } => {
                let did = match (accept, agrees) {
                    (false, true) => "promises",
                    (true, true) => "accepts the value of",
                    (_, false) => "refuses",
                };
                write!(f, "server {} {did} {}", server(at), shown(ballot))
            }
            Self::Decides(who, true) => write!(f, "{} decides to admit, and writes", writer(who)),
            Self::Decides(who, false) => write!(f, "{} is refused", writer(who)),
            Self::Confirms(who) => write!(f, "{} is admitted: a majority has it", writer(who)),
            Self::GoesOn(who, what) => write!(f, "{} {what}", writer(who)),
            Self::Restarts(at) => write!(f, "server {} restarts, empty", server(at)),
        }
    }
}

fn shown(ballot: Ballot) -> String {
    format!("{}.{}", ballot.counter, ["Ann", "Bob"][usize::from(ballot.writer > 0)])
}

impl Cell {
    fn prepare(&mut self, ballot: Ballot) -> Result<Option<Accepted<Charges>>, Ballot> {
        match self.promised {
            Some(promised) if promised >= ballot => Err(promised),
            _ => {
                self.promised = Some(ballot);
                Ok(self.accepted.clone())
            }
        }
    }

    fn accept(&mut self, ballot: Ballot, value: Value<Charges>, keeps_promises: bool) -> bool {
        let accepts = !keeps_promises || self.promised == Some(ballot);
        if accepts {
            self.accepted = Some((ballot, value));
        }
        accepts
    }
}

impl Server {
    fn counts(&self, rules: Rules) -> bool {
        // Nothing of what it knew has run out in the time of a run.
        let life = if rules.stays_out { Duration::from_hours(1) } else { Duration::ZERO };
        let now = Timestamp::from_micros(1);
        let standing = if self.has_restarted { Standing::LostAt(now) } else { Standing::Member };
        standing.counts(now, life)
    }
}

impl World {
    fn send(&mut self, message: &Message) {
        for server in &mut self.servers {
            server.inbox.push(message.clone());
        }
    }

    fn prepare(&mut self, who: usize, ours: Option<Ballot>) -> bool {
        let writer = &mut self.writers[who];
        if writer.ballots_left == 0 {
            return false;
        }
        writer.ballots_left -= 1;
        writer.ballot.counter = writer.ballot.counter.max(writer.seen) + 1;
        writer.phase = Phase::Preparing { ours, promises: Promises::new(SERVERS) };
        let ballot = writer.ballot;
        self.send(&Message { ballot, value: None, has_failed: false });
        true
    }

    fn propose(&mut self, who: usize, value: Value<Charges>) {
        let ballot = self.writers[who].ballot;
        self.send(&Message { ballot, value: Some(value), has_failed: false });
    }

    /// A writer is told that a call failed. The message may arrive later.
    fn fail(&mut self, at: usize, message: usize) -> Option<Event> {
        let message = &mut self.servers[at].inbox[message];
        let ballot = message.ballot;
        let writer = &mut self.writers[usize::from(ballot.writer > 0)];
        if message.has_failed || !writer.listens(message) || self.failures_left == 0 {
            return None;
        }
        self.failures_left -= 1;
        message.has_failed = true;
        match &mut writer.phase {
            Phase::Preparing { promises, .. } => promises.missing(),
            Phase::Accepting { accepts } | Phase::Fencing { accepts, .. } => accepts.unknown(),
            _ => return None,
        }
        Some(Event::Fails { server: at, ballot })
    }

    /// Delivers a message; the writer hears of it if it still listens.
    fn deliver(&mut self, at: usize, message: usize, rules: Rules) -> Event {
        let server = &mut self.servers[at];
        let message = server.inbox.remove(message);
        let counts = server.counts(rules);
        let ballot = message.ballot;
        let writer = &mut self.writers[usize::from(ballot.writer > 0)];
        let is_heard = !message.has_failed && writer.listens(&message);
        let accept = message.value.is_some();
        let agrees = match message.value {
            None => {
                let answer = server.cell.prepare(ballot);
                let agrees = answer.is_ok();
                if let (true, Phase::Preparing { promises, .. }) = (is_heard, &mut writer.phase) {
                    match answer {
                        Ok(accepted) if counts => promises.promised(accepted),
                        Ok(_) => promises.missing(),
                        Err(higher) => {
                            promises.refused();
                            writer.seen = writer.seen.max(higher.counter);
                        }
                    }
                }
                agrees
            }
            Some(value) => {
                let agrees = server.cell.accept(ballot, value, rules.keeps_promises);
                match &mut writer.phase {
                    Phase::Accepting { accepts } | Phase::Fencing { accepts, .. } if is_heard => {
                        if agrees {
                            accepts.accepted(counts);
                        } else {
                            accepts.refused();
                        }
                    }
                    _ => {}
                }
                agrees
            }
        };
        Event::Arrives { server: at, ballot, accept, agrees }
    }

    /// What a writer does next, if it can.
    fn act(&mut self, who: usize, model: &Protocol) -> Option<Event> {
        let ballot = self.writers[who].ballot;
        let event = match self.writers[who].phase.clone() {
            Phase::Idle => {
                self.prepare(who, None);
                Event::Prepares(who, self.writers[who].ballot)
            }
            Phase::Preparing { ours, promises } => match (promises.progress(), ours) {
                (Progress::Done, None) => self.decide(who, promises, model),
                (Progress::Done, Some(ours)) => self.resolve(who, ours, promises, model),
                (Progress::Lost, ours) => self.again(who, ours, "asks for another ballot"),
                (Progress::Open, _) => return None,
            },
            Phase::Accepting { accepts } if accepts.progress() == Progress::Open => return None,
            Phase::Accepting { accepts } => match accepts.outcome() {
                Outcome::Written => {
                    self.writers[who].phase = Phase::Admitted;
                    Event::Confirms(who)
                }
                Outcome::NotWritten => {
                    self.again(who, None, "has written nothing, and decides again")
                }
                Outcome::Undecided if model.rules.knows_ancestors => self.again(
                    who,
                    Some(ballot),
                    "does not know what became of its write, and looks",
                ),
                Outcome::Undecided => {
                    self.again(who, None, "has no majority for its write, and decides again")
                }
            },
            Phase::Fencing { ours, is_written, accepts } => match accepts.progress() {
                Progress::Open => return None,
                Progress::Done => self.settle(who, is_written),
                Progress::Lost => self.again(
                    who,
                    Some(ours),
                    "has no majority for what it found, and looks again",
                ),
            },
            Phase::Admitted | Phase::Ended => return None,
        };
        Some(event)
    }

    /// Another ballot, if there is one left; otherwise the caller is told that it is not known.
    fn again(&mut self, who: usize, ours: Option<Ballot>, why: &'static str) -> Event {
        if self.prepare(who, ours) {
            return Event::GoesOn(who, why);
        }
        self.writers[who].phase = Phase::Ended;
        Event::GoesOn(who, "gives up: it is not known")
    }

    fn decide(&mut self, who: usize, promises: Promises<Charges>, model: &Protocol) -> Event {
        let value = promises.into_best().map(|(_, value)| value).unwrap_or_default();
        if value.content.iter().sum::<u8>() >= model.limit {
            self.writers[who].phase = Phase::Ended;
            return Event::Decides(who, false);
        }
        let mut content = value.content;
        content[who] += 1;
        let lineage = value.lineage.with(self.writers[who].ballot);
        self.writers[who].phase = Phase::Accepting { accepts: Accepts::new(SERVERS) };
        self.propose(who, Value { lineage, content });
        Event::Decides(who, true)
    }

    fn resolve(
        &mut self,
        who: usize,
        ours: Ballot,
        promises: Promises<Charges>,
        model: &Protocol,
    ) -> Event {
        let resolution = resolve(ours, &promises);
        let is_written = match resolution.descent {
            Descent::Yes => true,
            Descent::No => false,
            Descent::Unknown => {
                self.writers[who].phase = Phase::Ended;
                return Event::GoesOn(who, "is told that it is not known");
            }
        };
        if !resolution.needs_fence || !model.rules.fences {
            return self.settle(who, is_written);
        }
        let value = promises.into_best().map(|(_, value)| value).unwrap_or_default();
        let accepts = Accepts::new(SERVERS);
        self.writers[who].phase = Phase::Fencing { ours, is_written, accepts };
        self.propose(who, value);
        let found = if is_written { "finds its write" } else { "does not find its write" };
        Event::GoesOn(who, found)
    }

    fn settle(&mut self, who: usize, is_written: bool) -> Event {
        if is_written {
            self.writers[who].phase = Phase::Admitted;
            return Event::Confirms(who);
        }
        self.again(who, None, "knows that nothing was written, and decides again")
    }

    /// The same state for all names of servers, and without messages that can do nothing any more.
    fn tidy(&mut self, named: bool, rules: Rules) {
        for server in &mut self.servers {
            let promised = server.cell.promised;
            let writers = &self.writers;
            server.inbox.retain(|message| {
                let is_heard = !message.has_failed && writers.iter().any(|it| it.listens(message));
                let changes = match message.value {
                    Some(_) => !rules.keeps_promises || promised <= Some(message.ballot),
                    None => promised < Some(message.ballot),
                };
                is_heard || changes
            });
            server.inbox.sort_by_key(hashed);
        }
        if !named {
            self.servers.sort_by_cached_key(hashed);
        }
    }
}

impl Writer {
    /// Whether an answer to this message still changes what the writer does.
    fn listens(&self, message: &Message) -> bool {
        self.ballot == message.ballot
            && match &self.phase {
                Phase::Preparing { promises, .. } => {
                    message.value.is_none() && promises.progress() == Progress::Open
                }
                // A late refusal may show that no server has it.
                Phase::Accepting { accepts } | Phase::Fencing { accepts, .. } => {
                    message.value.is_some() && accepts.progress() != Progress::Done
                }
                Phase::Idle | Phase::Admitted | Phase::Ended => false,
            }
    }
}

impl Model for Protocol {
    type State = World;
    type Event = Event;

    fn start(&self) -> World {
        let writer = |who: usize| Writer {
            phase: Phase::Idle,
            ballot: Ballot { counter: 0, writer: who as u64 },
            seen: 0,
            ballots_left: self.ballots[who],
        };
        let servers = std::array::from_fn(|_| Server::default());
        let (restarts_left, failures_left) = (self.restarts, self.failures);
        World { servers, writers: [writer(0), writer(1)], restarts_left, failures_left }
    }

    fn next(&self, world: &World, found: &mut Vec<(Event, World)>) {
        let mut add = |event: Event, mut next: World| {
            next.tidy(self.named, self.rules);
            found.push((event, next));
        };
        for who in 0..WRITERS {
            let mut next = world.clone();
            if let Some(event) = next.act(who, self) {
                add(event, next);
            }
        }
        for (at, server) in world.servers.iter().enumerate() {
            for message in 0..server.inbox.len() {
                let mut next = world.clone();
                let event = next.deliver(at, message, self.rules);
                add(event, next);
                let mut next = world.clone();
                if let Some(event) = next.fail(at, message) {
                    add(event, next);
                }
            }
            if world.restarts_left > 0 {
                let mut next = world.clone();
                next.restarts_left -= 1;
                next.servers[at].cell = Cell::default();
                next.servers[at].has_restarted = true;
                add(Event::Restarts(at), next);
            }
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        let admitted = world.writers.iter().filter(|it| it.phase == Phase::Admitted).count();
        if admitted > usize::from(self.limit) {
            return Some(format!("{admitted} checks are admitted, the limit is {}", self.limit));
        }
        let values = world.servers.iter().filter_map(|it| it.cell.accepted.as_ref());
        for (_, value) in values {
            if let Some(who) = value.content.iter().position(|charges| *charges > 1) {
                return Some(format!("the check of {} is charged twice", ["Ann", "Bob"][who]));
            }
        }
        None
    }
}
