//! What several checks ask of a store, and what its answers mean to each of them.

use std::num::NonZeroU32;

use tidegate_core::{Decision, Limit, Verdict};

use super::Together;
use crate::engine::settle::Limits;
use crate::engine::{Answer, BindingLimit, CheckError};
use crate::policy::Compiled;
use crate::store::{Charge, Scope, Source, StoreErrorKind, StoreReply};

/// What several checks ask of a store.
pub(super) struct Step<'e> {
    pub(super) parts: Vec<Part<'e>>,
    pub(super) counts: Vec<Count<'e>>,
    pub(super) charge: Charge,
}

/// One check.
pub(super) enum Part<'e> {
    /// An override has the answer.
    Known(Answer<'e>),
    /// The limits of the policy, and for each which count it is.
    Counted(Limits<'e>, Vec<usize>),
}

/// One limit for one key, and all that the checks want of it.
pub(super) struct Count<'e> {
    pub(super) scope: &'e Scope,
    pub(super) limit: BindingLimit<'e>,
    /// What the store keeps instead of the limit.
    pub(super) kept: Option<Limit>,
    pub(super) policy: &'e Compiled,
    /// Which part has it, and as which of its limits.
    pub(super) place: (usize, usize),
    pub(super) cost: u64,
}

impl<'e> Step<'e> {
    /// Where a limit is counted for a key, or will be.
    pub(super) fn place_of(&self, scope: &Scope, key: &[u8], keys: &[&[u8]]) -> usize {
        let mut counts = self.counts.iter().zip(keys);
        let known = counts.position(|(count, known)| count.scope == scope && *known == key);
        known.unwrap_or(keys.len())
    }

    /// What this node may grant by itself.
    pub(super) fn share_of(&self, count: &Count<'e>, nodes: NonZeroU32) -> Limit {
        let (part, index) = count.place;
        match self.parts.get(part) {
            Some(Part::Counted(limits, _)) => limits.share_of(index, nodes),
            Some(Part::Known(_)) | None => count.limit.share(nodes),
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
        let answer = |part: &Part<'e>| match part {
            Part::Known(answer) => Ok(answer.clone()),
            Part::Counted(limits, places) => {
                let decided = Verdict::of_all(places.iter().map(|place| decisions[*place]));
                let settled = assume(limits)
                    .or(decided
                        .map(|verdict| StoreReply { source, ..StoreReply::by_store(verdict) }));
                let missing = || CheckError::UnknownPolicy(limits.policy.name());
                let decided = limits.answer(settled.ok_or_else(missing)?);
                decided.map(|decided| Answer { store_error, ..decided.answer })
            }
        };
        let answers = self.parts.iter().map(answer).collect::<Result<_, _>>()?;
        Ok(Together { answers })
    }
}
