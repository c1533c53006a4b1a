//! Counting the answers of one round, and what they mean. Pure: the backend and the model use the same.

use crate::ballot::Ballot;
use crate::value::{Descent, Value};

/// More than half.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// How far a round is for one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It depends on the answers that are still to come.
    Open,
    /// A majority agrees.
    Done,
    /// No majority can agree any more.
    Lost,
}

/// A value that a server has accepted, and at which ballot.
pub(crate) type Accepted<T> = (Ballot, Value<T>);

/// The answers to "promise this ballot" for one item.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Promises<T> {
    nodes: usize,
    answered: usize,
    promised: usize,
    /// The furthest value among those who promised.
    best: Option<Accepted<T>>,
    /// How many of them have it.
    with_best: usize,
    /// Whether another writer is ahead.
    pub(crate) is_refused: bool,
}

impl<T> Promises<T> {
    pub(crate) const fn new(nodes: usize) -> Self {
        let (answered, promised, with_best) = (0, 0, 0);
        Self { nodes, answered, promised, best: None, with_best, is_refused: false }
    }

    /// A server that counts has promised, and told what it has accepted.
    pub(crate) fn promised(&mut self, accepted: Option<Accepted<T>>) {
        self.answered += 1;
        self.promised += 1;
        let Some(accepted) = accepted else { return };
        match self.best.as_ref().map(|(best, _)| accepted.0.cmp(best)) {
            Some(std::cmp::Ordering::Less) => {}
            Some(std::cmp::Ordering::Equal) => self.with_best += 1,
            Some(std::cmp::Ordering::Greater) | None => {
                (self.best, self.with_best) = (Some(accepted), 1);
            }
        }
    }

    /// A server has promised a higher ballot to another writer.
    pub(crate) fn refused(&mut self) {
        self.answered += 1;
        self.is_refused = true;
    }

    /// A server does not count, or does not answer.
    pub(crate) fn missing(&mut self) {
        self.answered += 1;
    }

    pub(crate) const fn progress(&self) -> Progress {
        let majority = majority(self.nodes);
        if self.promised >= majority {
            return Progress::Done;
        }
        let may_promise = self.promised + self.nodes.saturating_sub(self.answered);
        if may_promise >= majority { Progress::Open } else { Progress::Lost }
    }

    /// Whether a majority has answered, and another writer is ahead at one of it; or no answer matters any more.
    pub(crate) fn is_heard(&self) -> bool {
        let is_outrun = self.is_refused && self.answered >= majority(self.nodes);
        is_outrun || self.progress() != Progress::Open
    }

    /// The value to carry forward. It may be one that only a minority has accepted: a refusal that is decided on it can
    /// refuse too much, never too little, and an admission makes it part of what a majority accepts.
    pub(crate) const fn best(&self) -> Option<&Accepted<T>> {
        self.best.as_ref()
    }

    pub(crate) fn into_best(self) -> Option<Accepted<T>> {
        self.best
    }

    /// Whether the furthest value is one that a majority has accepted, at this ballot or a later one: then no later writer
    /// can carry forward what was accepted before.
    fn is_settled_since(&self, ballot: Ballot) -> bool {
        let is_since = self.best.as_ref().is_some_and(|(best, _)| *best >= ballot);
        is_since && self.with_best >= majority(self.nodes)
    }
}

/// The answers to "accept this value at this ballot" for one item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Accepts {
    nodes: usize,
    answered: usize,
    accepted: usize,
    /// Servers that have the value or may have it, and do not count.
    stray: usize,
}

/// What has become of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// A majority has accepted it.
    Written,
    /// No server has it, nor ever will.
    NotWritten,
    /// Some server has it or may have it: another writer may carry it forward.
    Undecided,
}

impl Accepts {
    pub(crate) const fn new(nodes: usize) -> Self {
        Self { nodes, answered: 0, accepted: 0, stray: 0 }
    }

    /// A server has accepted it.
    pub(crate) const fn accepted(&mut self, counts: bool) {
        self.answered += 1;
        if counts {
            self.accepted += 1;
        } else {
            self.stray += 1;
        }
    }

    /// A server has certainly not accepted it.
    pub(crate) const fn refused(&mut self) {
        self.answered += 1;
    }

    /// A server may have accepted it.
    pub(crate) const fn unknown(&mut self) {
        self.answered += 1;
        self.stray += 1;
    }

    pub(crate) const fn progress(&self) -> Progress {
        let majority = majority(self.nodes);
        if self.accepted >= majority {
            return Progress::Done;
        }
        let may_accept = self.accepted + self.nodes.saturating_sub(self.answered);
        if may_accept >= majority { Progress::Open } else { Progress::Lost }
    }

    /// What is known when nobody waits for further answers.
    pub(crate) const fn outcome(&self) -> Outcome {
        if self.accepted >= majority(self.nodes) {
            return Outcome::Written;
        }
        let is_nowhere = self.answered == self.nodes && self.accepted + self.stray == 0;
        if is_nowhere { Outcome::NotWritten } else { Outcome::Undecided }
    }

    /// Whether a majority has answered, or none can agree any more.
    pub(crate) const fn is_heard(&self) -> bool {
        self.answered >= majority(self.nodes) || matches!(self.progress(), Progress::Lost)
    }

    pub(crate) const fn is_answered(&self) -> bool {
        self.answered >= self.nodes
    }
}

/// What a later majority says about a write of ours that was undecided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resolution {
    /// Whether the furthest value is made of our write; `Unknown` ends the search.
    pub(crate) descent: Descent,
    /// Whether a majority has to accept that value once more, at the new ballot, before this can be relied on. Without
    /// that, a server that is not heard of now could bring our write back after it was decided again, or a newer writer
    /// could go on from a value without it.
    pub(crate) needs_fence: bool,
}

/// Reads the promises of a majority for what has become of our write.
pub(crate) fn resolve<T>(ours: Ballot, promises: &Promises<T>) -> Resolution {
    let best = promises.best().map(|(_, value)| &value.lineage);
    let descent = best.map_or(Descent::No, |lineage| lineage.descends_from(ours));
    Resolution { descent, needs_fence: !promises.is_settled_since(ours) }
}
