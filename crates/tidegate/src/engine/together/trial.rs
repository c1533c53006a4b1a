//! Shadow policies among several checks: tried out beside the step, so that they cannot refuse it.

use super::Together;
use super::step::Step;
use crate::clock::Clock;
use crate::engine::{CheckError, Engine};
use crate::reply::Reply;
use crate::store::Charge;

/// A check of a shadow policy, as a step of its own. It waits for the others, and so borrows nothing.
pub(super) struct Trial<'e> {
    /// Where its answer stands.
    place: usize,
    step: Step<'e>,
    keys: Vec<Box<[u8]>>,
}

impl<'e> Trial<'e> {
    pub(super) fn new(place: usize, (step, keys): (Step<'e>, Vec<&[u8]>)) -> Self {
        Self { place, step, keys: keys.into_iter().map(Into::into).collect() }
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// Tries policies out once the others have been decided.
    pub(super) fn try_out<'e>(
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
        let ask = |Trial { place, mut step, keys }: Trial<'e>| {
            if !admitted {
                step.charge = Charge::Refused;
            }
            (place, self.decide_step(step, &keys).split())
        };
        // In ascending order of places, so that each finds those before it in theirs.
        let mut asked = trials.into_iter().map(ask).collect::<Vec<_>>().into_iter();
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
    pub(super) fn with_trials(
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
