//! What several checks ask of a store in one step, and the checks of shadow policies beside it.

use std::num::NonZeroU32;

use tidegate_core::{Decision, Limit, Verdict};

use super::decide::Limits;
use super::{Answer, BindingLimit, CheckError, Engine, Together};
use crate::clock::Clock;
use crate::policy::Compiled;
use crate::reply::Reply;
use crate::store::{Charge, Scope, Source, StoreErrorKind, StoreReply};

/// What several checks ask of a store.
pub(super) struct Step<'e> {
    pub(super) parts: Vec<CheckPart<'e>>,
    pub(super) counts: Vec<Count<'e>>,
    pub(super) charge: Charge,
}

/// One check.
pub(super) enum CheckPart<'e> {
    /// An override has the answer.
    Known(Answer<'e>),
    /// The limits of the policy, and for each which count it is.
    Counted(Limits<'e>, Vec<usize>),
}

/// One limit for one key, and all that the checks want of it.
pub(super) struct Count<'e> {
    pub(super) scope: &'e Scope,
    pub(super) limit: BindingLimit<'e>,
    /// The limit that the store counts instead, because units are leased.
    pub(super) leased: Option<Limit>,
    pub(super) policy: &'e Compiled,
    /// Which part has it, and as which of its limits.
    pub(super) position: (usize, usize),
    pub(super) cost: u64,
}

impl<'e> Step<'e> {
    /// The index in `counts` of a limit and key. Equals the number of counts if it is not there yet.
    pub(super) fn count_index(&self, scope: &Scope, key: &[u8], keys: &[&[u8]]) -> usize {
        let mut counts = self.counts.iter().zip(keys);
        let known = counts.position(|(count, known)| count.scope == scope && *known == key);
        known.unwrap_or(keys.len())
    }

    /// Parts of a share have room for a single check. What several need at once fits in, where it fits into the whole limit.
    pub(super) fn make_room(&mut self) {
        for count in &mut self.counts {
            let (part, index) = count.position;
            if let Some(CheckPart::Counted(limits, _)) = self.parts.get(part)
                && limits.policy.share.is_some()
                && let Some(roomy) = limits.in_force_with_room(index, count.cost)
            {
                count.limit = roomy;
            }
        }
    }

    /// What this node may grant by itself.
    pub(super) fn share_of(&self, count: &Count<'e>, nodes: NonZeroU32) -> Limit {
        let (part, index) = count.position;
        match self.parts.get(part) {
            Some(CheckPart::Counted(limits, _)) => limits.share_of(index, nodes),
            Some(CheckPart::Known(_)) | None => count.limit.share(nodes),
        }
    }

    pub(super) fn answer(&self, decisions: &[Decision]) -> Result<Together<'e>, CheckError> {
        self.answers(decisions, (Source::Store, None), |_| None)
    }

    /// One answer per check: its binding limit's, or what is assumed instead.
    pub(super) fn answers(
        &self,
        decisions: &[Decision],
        (source, store_error): (Source, Option<StoreErrorKind>),
        assume: impl Fn(&Limits<'e>) -> Option<StoreReply>,
    ) -> Result<Together<'e>, CheckError> {
        let answer = |part: &CheckPart<'e>| match part {
            CheckPart::Known(answer) => Ok(answer.clone()),
            CheckPart::Counted(limits, indexes) => {
                let members = indexes.iter().zip(limits.members);
                let each = members.map(|(index, (scope, _))| (decisions[*index], scope.factor()));
                let decided = Verdict::of_all(each);
                let reply = assume(limits)
                    .or(decided
                        .map(|verdict| StoreReply { source, ..StoreReply::by_store(verdict) }));
                let missing = || CheckError::UnknownPolicy(limits.policy.name());
                let answer = limits.answer(&mut reply.ok_or_else(missing)?);
                answer.map(|answer| Answer { store_error, ..answer })
            }
        };
        let answers = self.parts.iter().map(answer).collect::<Result<_, _>>()?;
        Ok(Together { answers })
    }
}

/// A check of a shadow policy, as a step of its own. It waits for the other checks, and so owns its keys.
pub(super) struct ShadowCheck<'e> {
    /// The index of its answer.
    index: usize,
    step: Step<'e>,
    keys: Vec<Box<[u8]>>,
}

impl<'e> ShadowCheck<'e> {
    pub(super) fn new(index: usize, (step, keys): (Step<'e>, Vec<&[u8]>)) -> Self {
        Self { index, step, keys: keys.into_iter().map(Into::into).collect() }
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// Asks for all of them at once, and inserts their answers.
    pub(super) fn insert_shadow_answers<'e>(
        &'e self,
        mut together: Together<'e>,
        shadow_checks: Vec<ShadowCheck<'e>>,
    ) -> Reply<'e, Together<'e>, CheckError> {
        let admitted = together.admitted();
        let decide = |ShadowCheck { index, mut step, keys }: ShadowCheck<'e>| {
            if !admitted {
                step.charge = Charge::Refused;
            }
            (index, self.decide_step(step, &keys).split())
        };
        // In ascending order of indexes, so that the answers before each are in their places.
        let mut asked = shadow_checks.into_iter().map(decide).collect::<Vec<_>>().into_iter();
        while let Some((index, reply)) = asked.next() {
            match reply {
                Ok(Ok(answered)) => together.insert(index, answered),
                Ok(Err(error)) => return Reply::failed(error),
                Err(later) => {
                    return Reply::later(async move {
                        together.insert(index, later.await?);
                        for (index, reply) in asked {
                            let answered = match reply {
                                Ok(answered) => answered,
                                Err(later) => later.await,
                            };
                            together.insert(index, answered?);
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
    /// The same with the answers of shadow policies.
    pub(super) fn with_shadow_checks(
        mut self,
        shadow_checks: Vec<ShadowCheck<'e>>,
        answer: impl Fn(&Step<'e>, &[Box<[u8]>]) -> Result<Self, CheckError>,
    ) -> Result<Self, CheckError> {
        let admitted = self.admitted();
        for ShadowCheck { index, mut step, keys } in shadow_checks {
            if !admitted {
                step.charge = Charge::Refused;
            }
            self.insert(index, answer(&step, &keys)?);
        }
        Ok(self)
    }

    fn insert(&mut self, index: usize, answered: Self) {
        for answer in answered.answers {
            self.answers.insert(index.min(self.answers.len()), answer);
        }
    }
}
