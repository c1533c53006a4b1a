//! What several checks ask of a store in one step, and the shadow policies that are tried out beside it.

use std::num::NonZeroU32;

use tidegate_core::{Decision, Limit, Verdict};

use super::Together;
use crate::clock::Clock;
use crate::engine::decide::Limits;
use crate::engine::{Answer, BindingLimit, CheckError, Engine};
use crate::policy::Compiled;
use crate::reply::Reply;
use crate::store::{Charge, Scope, Source, StoreErrorKind, StoreReply};

/// What several checks ask of a store.
pub(in crate::engine) struct Step<'e> {
    pub(in crate::engine) parts: Vec<CheckPart<'e>>,
    pub(in crate::engine) counts: Vec<Count<'e>>,
    pub(in crate::engine) charge: Charge,
}

/// One check.
pub(in crate::engine) enum CheckPart<'e> {
    /// An override has the answer.
    Known(Answer<'e>),
    /// The limits of the policy, and for each which count it is.
    Counted(Limits<'e>, Vec<usize>),
}

/// One limit for one key, and all that the checks want of it.
pub(in crate::engine) struct Count<'e> {
    pub(in crate::engine) scope: &'e Scope,
    pub(in crate::engine) limit: BindingLimit<'e>,
    /// What the store keeps instead of the limit.
    pub(in crate::engine) kept: Option<Limit>,
    pub(in crate::engine) policy: &'e Compiled,
    /// Which part has it, and as which of its limits.
    pub(in crate::engine) place: (usize, usize),
    pub(in crate::engine) cost: u64,
}

impl<'e> Step<'e> {
    /// Where a limit is counted for a key, or will be.
    pub(in crate::engine) fn place_of(&self, scope: &Scope, key: &[u8], keys: &[&[u8]]) -> usize {
        let mut counts = self.counts.iter().zip(keys);
        let known = counts.position(|(count, known)| count.scope == scope && *known == key);
        known.unwrap_or(keys.len())
    }

    /// What this node may grant by itself.
    pub(in crate::engine) fn share_of(&self, count: &Count<'e>, nodes: NonZeroU32) -> Limit {
        let (part, index) = count.place;
        match self.parts.get(part) {
            Some(CheckPart::Counted(limits, _)) => limits.share_of(index, nodes),
            Some(CheckPart::Known(_)) | None => count.limit.share(nodes),
        }
    }

    pub(in crate::engine) fn answer(
        &self,
        decisions: &[Decision],
    ) -> Result<Together<'e>, CheckError> {
        self.answers(decisions, (Source::Store, None), |_| None)
    }

    /// One answer per check: its binding limit's, or what is assumed instead.
    pub(in crate::engine) fn answers(
        &self,
        decisions: &[Decision],
        (source, store_error): (Source, Option<StoreErrorKind>),
        assume: impl Fn(&Limits<'e>) -> Option<StoreReply>,
    ) -> Result<Together<'e>, CheckError> {
        let answer = |part: &CheckPart<'e>| match part {
            CheckPart::Known(answer) => Ok(answer.clone()),
            CheckPart::Counted(limits, places) => {
                let decided = Verdict::of_all(places.iter().map(|place| decisions[*place]));
                let reply = assume(limits)
                    .or(decided
                        .map(|verdict| StoreReply { source, ..StoreReply::by_store(verdict) }));
                let missing = || CheckError::UnknownPolicy(limits.policy.name());
                let decided = limits.answer(reply.ok_or_else(missing)?);
                decided.map(|decided| Answer { store_error, ..decided.answer })
            }
        };
        let answers = self.parts.iter().map(answer).collect::<Result<_, _>>()?;
        Ok(Together { answers })
    }
}

/// A check of a shadow policy, as a step of its own. It waits for the others, and so borrows nothing.
pub(in crate::engine) struct Trial<'e> {
    /// Where its answer stands.
    place: usize,
    step: Step<'e>,
    keys: Vec<Box<[u8]>>,
}

impl<'e> Trial<'e> {
    pub(in crate::engine) fn new(place: usize, (step, keys): (Step<'e>, Vec<&[u8]>)) -> Self {
        Self { place, step, keys: keys.into_iter().map(Into::into).collect() }
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// Tries policies out once the others have been decided.
    pub(in crate::engine) fn try_out<'e>(
        &'e self,
        others: Reply<'e, Together<'e>, CheckError>,
        trials: Vec<Trial<'e>>,
    ) -> Reply<'e, Together<'e>, CheckError> {
        match others.split() {
            Ok(Ok(together)) => self.add_trials(together, trials),
            Ok(Err(error)) => Reply::ready(Err(error)),
            Err(later) => Reply::later(async move { self.add_trials(later.await?, trials).await }),
        }
    }

    /// Asks for all of them at once, and puts their answers where they belong.
    fn add_trials<'e>(
        &'e self,
        mut together: Together<'e>,
        trials: Vec<Trial<'e>>,
    ) -> Reply<'e, Together<'e>, CheckError> {
        let admitted = together.admitted();
        let decide = |Trial { place, mut step, keys }: Trial<'e>| {
            if !admitted {
                step.charge = Charge::Refused;
            }
            (place, self.decide_step(step, &keys).split())
        };
        // In ascending order of places, so that each finds those before it in theirs.
        let mut asked = trials.into_iter().map(decide).collect::<Vec<_>>().into_iter();
        while let Some((place, reply)) = asked.next() {
            match reply {
                Ok(Ok(tried)) => together.insert(place, tried),
                Ok(Err(error)) => return Reply::ready(Err(error)),
                Err(later) => {
                    return Reply::later(async move {
                        together.insert(place, later.await?);
                        for (place, reply) in asked {
                            let tried = match reply {
                                Ok(tried) => tried,
                                Err(later) => later.await,
                            };
                            together.insert(place, tried?);
                        }
                        Ok(together)
                    });
                }
            }
        }
        Reply::ready(Ok(together))
    }
}

impl<'e> Together<'e> {
    /// The same with those that are tried out, each answered by itself.
    pub(in crate::engine) fn with_trials(
        mut self,
        trials: Vec<Trial<'e>>,
        answer: impl Fn(&Step<'e>, &[Box<[u8]>]) -> Result<Self, CheckError>,
    ) -> Result<Self, CheckError> {
        let admitted = self.admitted();
        for Trial { place, mut step, keys } in trials {
            if !admitted {
                step.charge = Charge::Refused;
            }
            self.insert(place, answer(&step, &keys)?);
        }
        Ok(self)
    }

    fn insert(&mut self, place: usize, tried: Self) {
        for answer in tried.answers {
            self.answers.insert(place.min(self.answers.len()), answer);
        }
    }
}
