//! The decision on a whole request. All descriptors that bind are one atomic step. Quotas are asked before it, since one
//! alone refuses nothing; what a refused request was charged there is given back.

use smallvec::SmallVec;
use tidegate::{Answer, Clock, Op, Reply, Source, SystemClock};

use super::answer::{Code, Ruling, Status};
use super::request::{Bad, Hits, Request};
use super::targets::{self, Counted, Role, Target};
use super::{Manner, Shadow};
use crate::service::{Call, Question, Record, Unanswered};
use tidegate_config::envoy::Unit;

/// A counter, and which descriptor it is for.
type Asked<'t, 'a> = (usize, &'t Counted<'a>);

type Statuses<'a> = SmallVec<[Status<'a>; 2]>;

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trouble {
    /// The question makes no sense.
    Bad(String),
    /// There is no such policy.
    Unknown(String),
    /// The store fails, and the policy then admits nothing. Never a refusal.
    Unavailable(String),
}

impl From<Unanswered> for Trouble {
    fn from(why: Unanswered) -> Self {
        let detail = why.detail();
        match why {
            Unanswered::UnknownPolicy { .. } => Self::Unknown(detail),
            Unanswered::BadQuestion(_) => Self::Bad(detail),
            Unanswered::StoreFailed(_) | Unanswered::FailedClosed { .. } => {
                Self::Unavailable(detail)
            }
        }
    }
}

/// Answers a request.
pub(super) async fn decide<'a>(
    call: Call<'a>,
    request: &Request<'a>,
) -> Result<Ruling<'a>, Trouble> {
    let in_force = call.in_force();
    let targets = targets::resolve(in_force, request).map_err(|Bad(why)| Trouble::Bad(why))?;
    let manner = in_force.rls.manner;
    let call = call.in_shadow(manner.shadow != Shadow::Nobody);
    let statuses = targets.iter().map(known).collect();
    let mut deciding = Deciding { call, manner, statuses, refused: false };
    deciding.decide(&targets).await?;
    deciding.record_blocked(&targets);
    if manner.shadow == Shadow::Everybody {
        deciding.say_what_would_be_over(&targets);
    }
    let Deciding { statuses, refused, .. } = deciding;
    let overall = Code::from_allowed(!refused || manner.shadow != Shadow::Nobody);
    let mut ruling = Ruling { overall, statuses, headers: SmallVec::new() };
    ruling.add_headers(manner.adds_headers);
    Ok(ruling)
}

/// A request that is being decided.
struct Deciding<'a> {
    call: Call<'a>,
    manner: Manner,
    statuses: Statuses<'a>,
    /// Whether the whole is refused, as far as is known.
    refused: bool,
}

impl<'a> Deciding<'a> {
    async fn decide(&mut self, targets: &[Target<'a>]) -> Result<(), Trouble> {
        if let [Target::Counted(only)] = targets
            && only.role == Role::Binds
            && only.hits.spends()
        {
            return self.take_together(&[(0, only)]).await;
        }
        let those = |wanted: fn(&Counted<'_>) -> bool| -> SmallVec<[Asked<'_, 'a>; 4]> {
            let counted = targets.iter().enumerate().filter_map(|(index, target)| match target {
                Target::Counted(counted) => Some((index, counted)),
                Target::NoLimit | Target::Unlimited | Target::Blocked { .. } => None,
            });
            counted.filter(|(_, counted)| wanted(counted)).collect()
        };
        let (all, bound) =
            (those(|_| true), those(|it| it.role == Role::Binds && it.hits.spends()));
        // One step looks at all by itself before it charges any.
        if !self.manner.is_atomic || bound.len() < all.len() {
            self.validate(&all)?;
        }
        self.look(&those(|it| it.hits == Hits::Peek)).await?;
        self.refused = self.is_over(targets, Role::Binds);
        let quotas = those(|it| it.role == Role::Quota && it.hits.spends());
        let takes = !self.refused || !self.manner.is_atomic;
        self.take_each(&quotas).await?;
        self.refused |= self.is_over(targets, Role::Quota);
        self.take_together(&bound).await?;
        if takes && self.refused && self.manner.is_atomic {
            self.untake(&quotas).await;
        }
        self.give_back(&those(|it| matches!(it.hits, Hits::GiveBack(_)))).await
    }

    /// Records what was refused without being asked.
    fn record_blocked(&self, targets: &[Target<'a>]) {
        for (target, status) in targets.iter().zip(&self.statuses) {
            if let Target::Blocked { counted, .. } = target {
                let (key, is_shadow) = (counted.key(), status.shadow_denied);
                self.call.refuse(counted.name, key, cost(counted), is_shadow);
            }
        }
    }

    /// A shadow of everything flips the whole alone, unlike one of a rule.
    fn say_what_would_be_over(&mut self, targets: &[Target<'_>]) {
        for (target, status) in targets.iter().zip(&mut self.statuses) {
            if status.shadow_denied && target.counted().is_some_and(|counted| !counted.is_shadow) {
                status.code = Code::OverLimit;
            }
        }
    }

    /// Whether what is known refuses the whole: one that binds does, quotas only all together.
    fn is_over(&self, targets: &[Target<'_>], role: Role) -> bool {
        let those = targets.iter().zip(&self.statuses);
        let mut over = those
            .filter(|(target, _)| target.role() == Some(role))
            .map(|(_, status)| status.code == Code::OverLimit)
            .peekable();
        match role {
            Role::Binds => over.any(|over| over),
            Role::Quota => over.peek().is_some() && over.all(|over| over),
        }
    }

    /// Looks whether one more would be admitted, and spends nothing. Where anything is left one would be, and all is told
    /// as it is now; only those that have nothing left are asked when one will be.
    async fn look(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        self.ask_each(asked, Op::Peek, |_| 0).await?;
        let has_nothing_left = |(index, _): &&Asked<'_, '_>| {
            let status = &self.statuses[*index];
            status.code == Code::Ok && !status.shadow_denied && status.remaining == 0
        };
        let spent: SmallVec<[Asked<'_, 'a>; 4]> =
            asked.iter().filter(has_nothing_left).copied().collect();
        self.ask_each(&spent, Op::Peek, |_| 1).await?;
        self.uncharge(&spent, |_| 1);
        Ok(())
    }

    /// Spends what binds, all or nothing; a whole that is refused already only looks.
    async fn take_together(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if asked.is_empty() {
            return Ok(());
        }
        if self.refused || !self.manner.is_atomic {
            self.take_each(asked).await?;
        } else {
            let statuses = self.together(asked).await?;
            for ((index, _), status) in asked.iter().zip(statuses) {
                self.statuses[*index] = status;
            }
        }
        let over = |(index, _): &Asked<'_, '_>| self.statuses[*index].code == Code::OverLimit;
        self.refused |= asked.iter().any(over);
        Ok(())
    }

    /// Spends each by itself; for a whole that is refused already only looks.
    async fn take_each(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if self.refused && self.manner.is_atomic {
            self.ask_each(asked, Op::Peek, cost).await?;
            self.uncharge(asked, cost);
            return Ok(());
        }
        self.ask_each(asked, Op::Take, cost).await?;
        if !self.manner.is_atomic {
            self.drain(asked).await?;
        }
        Ok(())
    }

    /// Takes what is left of limits that have refused more than that.
    async fn drain(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        for (index, counted) in asked {
            let status = self.statuses[*index];
            let is_over = status.code == Code::OverLimit || status.shadow_denied;
            if is_over && status.remaining > 0 {
                let rest = u64::from(status.remaining);
                self.correct(&[(*index, *counted)], Op::Take, |_| rest).await?;
                self.statuses[*index].remaining = 0;
            }
        }
        Ok(())
    }

    /// Gives back what a request was charged before it turned out to be refused. The ruling stands if that fails.
    async fn untake(&mut self, asked: &[Asked<'_, 'a>]) {
        // While the store fails nothing was charged there.
        let charged = |(index, _): &&Asked<'_, '_>| {
            let status = &self.statuses[*index];
            let by_store = matches!(status.source, Some(Source::Store | Source::Lease));
            status.code == Code::Ok && by_store
        };
        let charged: SmallVec<[Asked<'_, 'a>; 4]> = asked.iter().filter(charged).copied().collect();
        match self.correct(&charged, Op::Refund, cost).await {
            Ok(_) => self.uncharge(&charged, cost),
            Err(trouble) => tracing::debug!(?trouble, "a refused request's charge stays"),
        }
    }

    /// Gives back what the request wants given back; a refused one only looks.
    async fn give_back(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if self.refused {
            self.ask_each(asked, Op::Peek, |_| 0).await
        } else {
            self.ask_each(asked, Op::Refund, cost).await
        }
    }

    async fn ask_each(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<(), Trouble> {
        let statuses = self.each(asked, op, cost, record).await?;
        for ((index, _), status) in asked.iter().zip(statuses) {
            self.statuses[*index] = status;
        }
        Ok(())
    }

    /// Whether all have an answer, without asking: what is asked in several steps is not charged in the first of them
    /// if a later one makes no sense.
    fn validate(&self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        for (_, counted) in asked {
            let policy = match counted.policy {
                Some(policy) => policy,
                None => self.call.lookup(counted.name)?,
            };
            let (key, op) = (counted.key(), counted.hits.op());
            self.call.validate(&Question::new(policy, key, cost(counted), op))?;
        }
        Ok(())
    }

    /// Spends all or nothing, in one atomic step.
    async fn together(&self, asked: &[Asked<'_, 'a>]) -> Result<Statuses<'a>, Trouble> {
        if asked.len() == 1 {
            return self.each(asked, Op::Take, cost, record).await;
        }
        self.in_one_step(asked, Op::Take, cost, record).await
    }

    /// Asks each by itself. All are under way before the first is waited for.
    async fn each(
        &self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
        record: fn(&Counted<'_>) -> Record,
    ) -> Result<Statuses<'a>, Trouble> {
        let mut under_way = SmallVec::<[Option<Reply<'a, Answer<'a>, Unanswered>>; 2]>::new();
        for (_, counted) in asked {
            under_way.push(match counted.own {
                None => {
                    let question = self.question(counted, op, cost(counted), record)?;
                    Some(self.call.check(&question))
                }
                Some(_) => None,
            });
        }
        let mut statuses = Statuses::new();
        for (one, reply) in asked.iter().zip(under_way) {
            let Some(reply) = reply else {
                statuses.extend(self.in_one_step(&[*one], op, &cost, record).await?);
                continue;
            };
            let answer = Unanswered::unless_decided(reply.await?)?;
            statuses.push(status(one.1, &answer, answer.binding));
        }
        Ok(statuses)
    }

    /// Asks in one step, also where some bring limits of their own.
    async fn in_one_step(
        &self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
        record: fn(&Counted<'_>) -> Record,
    ) -> Result<Statuses<'a>, Trouble> {
        let mut questions = SmallVec::<[Question<'_, '_>; 4]>::new();
        for (_, counted) in asked {
            let question = self.question(counted, op, cost(counted), record)?;
            questions.push(Question { limit: counted.own.as_deref(), ..question });
        }
        let answers = self.call.check_together(&questions, op).await?;
        let mut statuses = Statuses::new();
        for ((_, counted), answer) in asked.iter().zip(answers) {
            let answer = Unanswered::unless_decided(answer)?;
            // Where there is a limit of its own, its name is known before it is asked.
            let policy = counted.policy.filter(|_| counted.own.is_none());
            let name = policy.map_or("", |policy| policy.limit_name(answer.binding));
            statuses.push(status(counted, &answer, name));
        }
        Ok(statuses)
    }

    /// Corrects counters when the decision is there, which is not recorded.
    async fn correct(
        &self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Statuses<'a>, Trouble> {
        self.each(asked, op, cost, |_| Record::Never).await
    }

    fn question<'t>(
        &self,
        counted: &'t Counted<'a>,
        op: Op,
        cost: u64,
        record: fn(&Counted<'_>) -> Record,
    ) -> Result<Question<'a, 't>, Trouble> {
        let policy = match counted.policy {
            Some(policy) => policy,
            None => self.call.policy(counted.name, op)?,
        };
        let question = Question::new(policy, counted.key(), cost, op);
        Ok(Question { record: record(counted), ..question })
    }

    /// Answers what is left now, where the answer was what would be left.
    fn uncharge(&mut self, asked: &[Asked<'_, 'a>], cost: impl Fn(&Counted<'_>) -> u64) {
        for (index, counted) in asked {
            let status = &mut self.statuses[*index];
            // Who is let through while the store fails is answered as if nothing had been spent.
            let is_charged = status.source != Some(Source::FailOpen) && !status.shadow_denied;
            if status.code == Code::Ok && is_charged {
                let cost = u32::try_from(cost(counted)).unwrap_or(u32::MAX);
                status.remaining = status.remaining.saturating_add(cost);
            }
        }
    }
}

fn status<'a>(counted: &Counted<'a>, answer: &Answer<'_>, name: &'a str) -> Status<'a> {
    let shown = answer.limit.as_deref().map(|decided| counted.shown_by(decided, name));
    Status::from_answer(answer, shown)
}

/// An answer is recorded that has a say in the whole: to what is to be spent, even if a whole that is refused already only
/// looks at it, and to a look that refuses.
const fn record(counted: &Counted<'_>) -> Record {
    match counted.hits {
        Hits::Spend(_) => Record::Always,
        Hits::Peek => Record::IfRefused,
        Hits::GiveBack(_) => Record::Never,
    }
}

fn cost(counted: &Counted<'_>) -> u64 {
    match counted.hits {
        Hits::Spend(hits) | Hits::GiveBack(hits) => hits,
        Hits::Peek => 0,
    }
}

/// What can be answered without asking.
fn known<'a>(target: &Target<'a>) -> Status<'a> {
    match target {
        Target::NoLimit | Target::Counted(_) => Status::NO_LIMIT,
        Target::Unlimited => Status::UNLIMITED,
        Target::Blocked { counted, unit, is_shadow } => Status {
            code: Code::from_allowed(*is_shadow),
            limit: counted.shown,
            reset_after_us: until_next(*unit),
            shadow_denied: *is_shadow,
            ..Status::NO_LIMIT
        },
    }
}

/// How long the present unit lasts.
fn until_next(unit: Unit) -> u64 {
    let unit_us = unit.seconds() * 1_000_000;
    unit_us - SystemClock.now().as_micros() % unit_us
}

#[cfg(test)]
mod tests;
