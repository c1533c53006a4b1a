//! Asks the engine, within the time that the caller has.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{
    Answer, Check, CheckError, Decision, Engine, Op, Reply, Source, StoreError, Together,
};
use tokio::time::Instant;

use super::super::Shadow;
use super::super::answer::Status;
use super::super::request::Hits;
use super::super::targets::Counted;
use super::{Asked, cost};
use crate::gate::{Gate, Snapshot};
use crate::patience::there;

/// Who asks for one call.
#[derive(Debug)]
pub(in super::super) struct Asker<'a> {
    engine: &'a Engine,
    /// Whether refusals refuse nobody.
    is_shadow: bool,
    /// How long the caller waits, if it said so.
    patience: Option<Duration>,
    /// When that ends. Known from the first answer on that does not come at once: to look at the clock costs more than
    /// most answers.
    until: Option<Instant>,
    /// Who counts what was decided, and since when it is asked.
    told: Option<(&'a Gate, u64)>,
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Trouble {
    /// The question makes no sense.
    Bad(String),
    /// There is no such policy.
    Unknown(String),
    /// The store fails, and the policy then admits nothing. Never a refusal.
    Unavailable(String),
}

type Statuses<'a> = SmallVec<[Status<'a>; 2]>;

impl<'a> Asker<'a> {
    pub(in super::super) fn new(snapshot: &'a Snapshot, patience: Option<Duration>) -> Self {
        let is_shadow = snapshot.rls.manner.shadow != Shadow::Nobody;
        Self { engine: &snapshot.engine, is_shadow, patience, until: None, told: None }
    }

    /// The same, and what is decided is counted.
    pub(in super::super) const fn telling(self, gate: &'a Gate, since_us: u64) -> Self {
        Self { told: Some((gate, since_us)), ..self }
    }

    /// Tells of an answer that has a say in the whole: to what is to be spent, even if a whole that is refused already
    /// only looks at it, and to a look that refuses.
    fn tell(&self, counted: &Counted<'_>, cost: u64, answer: &Result<Answer<'_>, CheckError>) {
        let refuses = |it: &Answer<'_>| it.shadow_denied || !it.decision.allowed();
        let has_a_say = match counted.hits {
            Hits::Spend(_) => true,
            Hits::Peek => answer.as_ref().is_ok_and(refuses),
            Hits::GiveBack(_) => false,
        };
        if has_a_say {
            self.count(&counted.check(cost), answer);
        }
    }

    fn count(&self, check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) {
        let Some((gate, since_us)) = self.told else { return };
        match answer {
            Ok(answer)
                if self.is_shadow && !answer.decision.allowed() && !answer.fails_closed() =>
            {
                let decision = answer.decision.in_shadow();
                gate.tell(check, &Ok(Answer { decision, shadow_denied: true, ..answer.clone() }));
            }
            answer => gate.tell(check, answer),
        }
        gate.metrics().policy_took(check.policy, since_us);
    }

    /// Tells of several checks that were asked in one step.
    fn tell_all(
        &self,
        asked: &[Asked<'_, 'a>],
        cost: impl Fn(&Counted<'_>) -> u64,
        together: &Result<Together<'_>, CheckError>,
    ) {
        for (index, (_, counted)) in asked.iter().enumerate() {
            let cost = cost(counted);
            match together {
                Ok(together) => {
                    if let Some(answer) = together.answers.get(index) {
                        self.tell(counted, cost, &Ok(answer.clone()));
                    }
                }
                Err(error) => self.tell(counted, cost, &Err(error.clone())),
            }
        }
    }

    /// Tells of what is refused without being asked.
    pub(super) fn tell_blocked(&self, counted: &Counted<'_>, status: &Status<'_>) {
        let decision = Decision::refused(0, 0, None, status.reset_after_us);
        let answer = Answer {
            decision: if status.shadow_denied { decision.in_shadow() } else { decision },
            policy: counted.policy,
            binding: counted.policy,
            limit: None,
            source: Source::Store,
            store_error: None,
            shadow_denied: status.shadow_denied,
        };
        self.count(&counted.check(cost(counted)), &Ok(answer));
    }

    /// Whether all have an answer, without asking: what is asked in several steps is not charged in the first of them
    /// if a later one makes no sense.
    pub(super) fn validate(&self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        let valid = asked.iter().try_for_each(|(_, counted)| {
            self.engine.validate(&counted.check(cost(counted)), counted.hits.op())
        });
        valid.map_err(|error| Trouble::of(&error))
    }

    /// Spends all or nothing, in one atomic step.
    pub(super) async fn together(
        &mut self,
        asked: &[Asked<'_, 'a>],
    ) -> Result<Statuses<'a>, Trouble> {
        if asked.len() == 1 {
            return self.each(asked, Op::Take, cost).await;
        }
        if asked.iter().any(|(_, counted)| counted.own.is_some()) {
            return self.with_own(asked, Op::Take, cost).await;
        }
        let checks: SmallVec<[Check<'_>; 4]> =
            asked.iter().map(|(_, counted)| counted.check(cost(counted))).collect();
        let reply = self.engine.ask_together(&checks, Op::Take);
        let together = match self.in_time(reply).await {
            Some(together) => together,
            None => self.stand_in(asked, Op::Take, cost),
        };
        self.tell_all(asked, cost, &together);
        let answers = together.map_err(|error| Trouble::of(&error))?.answers;
        asked.iter().zip(&answers).map(|((_, counted), answer)| status(counted, answer)).collect()
    }

    /// Asks each by itself. All are under way before the first is waited for.
    pub(super) async fn each(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Statuses<'a>, Trouble> {
        let mut under_way = SmallVec::<[Option<Reply<'a, Answer<'a>, CheckError>>; 2]>::new();
        for (_, counted) in asked {
            let check = counted.check(cost(counted));
            under_way.push(counted.own.is_none().then(|| self.engine.ask(&check, op)));
        }
        let mut statuses = Statuses::new();
        for (one, reply) in asked.iter().zip(under_way) {
            let Some(reply) = reply else {
                statuses.extend(self.with_own(&[*one], op, &cost).await?);
                continue;
            };
            let answer = match self.in_time(reply).await {
                Some(answer) => answer,
                None => self.stand_in(&[*one], op, &cost).map(|mut it| it.answers.swap_remove(0)),
            };
            self.tell(one.1, cost(one.1), &answer);
            statuses.push(status(one.1, &answer.map_err(|error| Trouble::of(&error))?)?);
        }
        Ok(statuses)
    }

    /// The same where some have limits of their own.
    async fn with_own(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Statuses<'a>, Trouble> {
        let checks: SmallVec<[_; 4]> = asked
            .iter()
            .map(|(_, counted)| (counted.check(cost(counted)), counted.own.as_deref()))
            .collect();
        let engine = self.engine;
        let together = match self.in_time(engine.ask_together_with(&checks, op)).await {
            Some(together) => together,
            None => engine.answer_without_store(&checks, op),
        };
        self.tell_all(asked, &cost, &together);
        let together = together.map_err(|error| Trouble::of(&error))?;
        let told = asked.iter().zip(&together.answers);
        // Their names are known before they are asked.
        told.map(|((_, counted), answer)| settled(counted, answer, "")).collect()
    }

    /// Corrects counters when the decision is there, of which nobody is told.
    pub(super) async fn correct(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Statuses<'a>, Trouble> {
        let told = self.told.take();
        let corrected = self.each(asked, op, cost).await;
        self.told = told;
        corrected
    }

    /// What the policies say by themselves, when the caller's time is up.
    fn stand_in(
        &self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Together<'a>, CheckError> {
        if op == Op::Refund {
            let why = "nobody else can give back";
            return Err(CheckError::Store(StoreError::new(tidegate::StoreErrorKind::Timeout, why)));
        }
        let checks: SmallVec<[_; 4]> =
            asked.iter().map(|(_, counted)| (counted.check(cost(counted)), None)).collect();
        self.engine.answer_without_store(&checks, op)
    }

    /// The answer, unless the caller's time is up before it comes.
    async fn in_time<T: Unpin>(
        &mut self,
        mut reply: Reply<'_, T, CheckError>,
    ) -> Option<Result<T, CheckError>> {
        match (there(Pin::new(&mut reply)).await, self.patience) {
            (Poll::Ready(answer), _) => Some(answer),
            (Poll::Pending, None) => Some(reply.await),
            (Poll::Pending, Some(patience)) => {
                let until = *self.until.get_or_insert_with(|| Instant::now() + patience);
                tokio::time::timeout_at(until, reply).await.ok()
            }
        }
    }
}

fn status<'a>(counted: &Counted<'a>, answer: &Answer<'a>) -> Result<Status<'a>, Trouble> {
    settled(counted, answer, answer.binding)
}

fn settled<'a>(
    counted: &Counted<'a>,
    answer: &Answer<'_>,
    name: &'a str,
) -> Result<Status<'a>, Trouble> {
    if answer.fails_closed() {
        let policy = crate::text::printable(counted.policy);
        let why = format!("policy `{policy}` admits nothing while its store fails");
        return Err(Trouble::Unavailable(why));
    }
    let shown = answer.limit.as_deref().map(|decided| counted.shown_by(decided, name));
    Ok(Status::of(answer, shown))
}

impl Trouble {
    fn of(error: &CheckError) -> Self {
        match error {
            CheckError::UnknownPolicy(_) => Self::Unknown(error.to_string()),
            CheckError::Store(error) if error.kind() == tidegate::StoreErrorKind::BadRequest => {
                Self::Bad(error.to_string())
            }
            // Only the kind: where the store is, is nothing to callers.
            CheckError::Store(error) => Self::Unavailable(format!(
                "the store did not answer ({}), and nothing can stand in for it",
                error.kind().as_str()
            )),
            other => Self::Bad(other.to_string()),
        }
    }
}
