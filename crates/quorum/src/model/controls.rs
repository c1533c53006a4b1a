//! What others do instead, as small models: each breaks its limit.

use std::fmt;

use super::explore::Model;

const WRITERS: [&str; 3] = ["Ann", "Bob", "Cy"];
const SERVERS: [&str; 3] = ["A", "B", "C"];

/// Each server counts by itself, and a check is admitted if two of three admit it. The limit is 2, and three ask.
pub(crate) struct VoteOverCounters;

#[derive(Clone, Hash, Default)]
pub(crate) struct Votes {
    counts: [u8; 3],
    /// For each writer, what each server has said.
    said: [[Option<bool>; 3]; 3],
}

#[derive(Clone, Copy)]
pub(crate) struct Vote {
    who: usize,
    at: usize,
    admits: bool,
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.admits { "admits" } else { "refuses" };
        write!(f, "server {} {verb} the check of {}", SERVERS[self.at], WRITERS[self.who])
    }
}

impl Model for VoteOverCounters {
    type State = Votes;
    type Event = Vote;

    fn start(&self) -> Votes {
        Votes::default()
    }

    fn next(&self, state: &Votes, found: &mut Vec<(Vote, Votes)>) {
        for who in 0..3 {
            for at in 0..3 {
                if state.said[who][at].is_some() {
                    continue;
                }
                let mut next = state.clone();
                let admits = state.counts[at] < 2;
                next.said[who][at] = Some(admits);
                next.counts[at] += u8::from(admits);
                found.push((Vote { who, at, admits }, next));
            }
        }
    }

    fn violation(&self, state: &Votes) -> Option<String> {
        let admits = |said: &&[Option<bool>; 3]| {
            said.iter().filter(|vote| **vote == Some(true)).count() >= 2
        };
        let admitted = state.said.iter().filter(admits).count();
        (admitted > 2).then(|| format!("{admitted} checks are admitted, the limit is 2"))
    }
}

/// A lock that two of three servers grant and that expires, in the manner of Redlock; whoever has it reads the counter,
/// decides, and writes it back. The limit is 1, and two ask.
pub(crate) struct LockThatExpires;

#[derive(Clone, Hash, Default)]
pub(crate) struct Locks {
    holders: [Option<usize>; 3],
    counter: u8,
    steps: [Step; 2],
}

#[derive(Clone, Copy, PartialEq, Hash, Default)]
enum Step {
    #[default]
    Locking,
    Locked,
    Read(u8),
    Admitted,
    Refused,
}

#[derive(Clone, Copy)]
pub(crate) enum LockEvent {
    Granted(usize, usize),
    Expires(usize),
    Holds(usize),
    Reads(usize, u8),
    Writes(usize, u8),
    Refuses(usize),
}

impl fmt::Display for LockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Granted(at, who) => {
                write!(f, "server {} grants the lock to {}", SERVERS[at], WRITERS[who])
            }
            Self::Expires(at) => write!(f, "the lock on server {} expires", SERVERS[at]),
            Self::Holds(who) => {
                write!(f, "{} holds the lock: a majority has granted it", WRITERS[who])
            }
            Self::Reads(who, count) => write!(f, "{} reads the counter: {count}", WRITERS[who]),
            Self::Writes(who, count) => {
                write!(f, "{} writes the counter, {count}, and admits", WRITERS[who])
            }
            Self::Refuses(who) => write!(f, "{} refuses", WRITERS[who]),
        }
    }
}

impl Model for LockThatExpires {
    type State = Locks;
    type Event = LockEvent;

    fn start(&self) -> Locks {
        Locks::default()
    }

    fn next(&self, state: &Locks, found: &mut Vec<(LockEvent, Locks)>) {
        for at in 0..3 {
            if state.holders[at].is_some() {
                let mut next = state.clone();
                next.holders[at] = None;
                found.push((LockEvent::Expires(at), next));
            }
        }
        for who in 0..2 {
            let held = state.holders.iter().filter(|holder| **holder == Some(who)).count();
            let mut step = |event: LockEvent, change: &dyn Fn(&mut Locks)| {
                let mut next = state.clone();
                change(&mut next);
                found.push((event, next));
            };
            match state.steps[who] {
                Step::Locking if held >= 2 => {
                    step(LockEvent::Holds(who), &|it| it.steps[who] = Step::Locked);
                }
                Step::Locking => {
                    for at in (0..3).filter(|at| state.holders[*at].is_none()) {
                        step(LockEvent::Granted(at, who), &|it| it.holders[at] = Some(who));
                    }
                }
                Step::Locked => {
                    let count = state.counter;
                    step(LockEvent::Reads(who, count), &|it| it.steps[who] = Step::Read(count));
                }
                Step::Read(0) => step(LockEvent::Writes(who, 1), &|it| {
                    (it.counter, it.steps[who]) = (1, Step::Admitted);
                }),
                Step::Read(_) => {
                    step(LockEvent::Refuses(who), &|it| it.steps[who] = Step::Refused);
                }
                Step::Admitted | Step::Refused => {}
            }
        }
    }

    fn violation(&self, state: &Locks) -> Option<String> {
        let admitted = state.steps.iter().filter(|step| **step == Step::Admitted).count();
        (admitted > 1).then(|| format!("{admitted} checks are admitted, the limit is 1"))
    }
}
