//! Decides a whole request. All binding descriptors are charged in one atomic step. Quotas are charged before it, since
//! one quota alone refuses nothing; if the request is refused, they are refunded.

use smallvec::SmallVec;
use tidegate::{Answer, Clock, Op, Reply, Source, SystemClock};

use super::answer::{Code, DescriptorAnswer, RlsAnswer};
use super::request::{BadRequest, Hits, Request};
use super::targets::{self, CountedTarget, Role, Target};
use super::{AnswerStyle, Shadow};
use crate::service::{Call, Question, Record, Unanswered};
use tidegate_config::envoy::Unit;

/// A counter and the index of its descriptor.
type Indexed<'t, 'a> = (usize, &'t CountedTarget<'a>);

type Statuses<'a> = SmallVec<[DescriptorAnswer<'a>; 2]>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DecideError {
    BadRequest(String),
    UnknownPolicy(String),
    /// The store failed, and the policy fails closed. Never reported as a refusal.
    Unavailable(String),
}

impl From<Unanswered> for DecideError {
    fn from(why: Unanswered) -> Self {
        let detail = why.detail();
        match why {
            Unanswered::UnknownPolicy { .. } => Self::UnknownPolicy(detail),
            Unanswered::BadQuestion(_) => Self::BadRequest(detail),
            Unanswered::StoreFailed(_) | Unanswered::FailedClosed { .. } => {
                Self::Unavailable(detail)
            }
        }
    }
}

pub(super) async fn decide<'a>(
    call: Call<'a>,
    request: &Request<'a>,
) -> Result<RlsAnswer<'a>, DecideError> {
    let in_force = call.in_force();
    let targets = targets::resolve(in_force, request)
        .map_err(|BadRequest(why)| DecideError::BadRequest(why))?;
    let style = in_force.rls.style;
    let call = call.in_shadow(style.shadow != Shadow::Off);
    let statuses = targets.iter().map(initial_status).collect();
    let mut decider = RequestDecider { call, style, statuses, refused: false };
    decider.decide(&targets).await?;
    decider.record_blocked(&targets);
    if style.shadow == Shadow::AllDoors {
        decider.report_shadow_refusals(&targets);
    }
    let RequestDecider { statuses, refused, .. } = decider;
    let overall = Code::from_allowed(!refused || style.shadow != Shadow::Off);
    let mut answer = RlsAnswer { overall, statuses, headers: SmallVec::new() };
    answer.add_headers(style.adds_headers);
    Ok(answer)
}

/// The state of one decision.
struct RequestDecider<'a> {
    call: Call<'a>,
    style: AnswerStyle,
    statuses: Statuses<'a>,
    /// Whether the request is refused so far.
    refused: bool,
}

impl<'a> RequestDecider<'a> {
    async fn decide(&mut self, targets: &[Target<'a>]) -> Result<(), DecideError> {
        if let [Target::Counted(only)] = targets
            && only.role == Role::Binds
            && only.hits.spends()
        {
            return self.take_together(&[(0, only)]).await;
        }
        let select = |wanted: fn(&CountedTarget<'_>) -> bool| -> SmallVec<[Indexed<'_, 'a>; 4]> {
            let counted = targets.iter().enumerate().filter_map(|(index, target)| match target {
                Target::Counted(counted) => Some((index, counted)),
                Target::NoLimit | Target::Unlimited | Target::Blocked { .. } => None,
            });
            counted.filter(|(_, counted)| wanted(counted)).collect()
        };
        let (all, bound) =
            (select(|_| true), select(|it| it.role == Role::Binds && it.hits.spends()));
        // A single atomic step validates everything before it charges.
        if !self.style.is_atomic || bound.len() < all.len() {
            self.validate(&all)?;
        }
        self.peek_each(&select(|it| it.hits == Hits::Peek)).await?;
        self.refused = self.is_over(targets, Role::Binds);
        let quotas = select(|it| it.role == Role::Quota && it.hits.spends());
        let takes = !self.refused || !self.style.is_atomic;
        self.take_each(&quotas).await?;
        self.refused |= self.is_over(targets, Role::Quota);
        self.take_together(&bound).await?;
        if takes && self.refused && self.style.is_atomic {
            self.refund_quotas(&quotas).await;
        }
        self.refund(&select(|it| matches!(it.hits, Hits::Refund(_)))).await
    }

    /// Records refusals by blocking rules, which the engine is not asked about.
    fn record_blocked(&self, targets: &[Target<'a>]) {
        for (target, status) in targets.iter().zip(&self.statuses) {
            if let Target::Blocked { counted, .. } = target {
                let (key, is_shadow) = (counted.key(), status.shadow_denied);
                self.call.refuse(counted.name, key, cost(counted), is_shadow);
            }
        }
    }

    /// Global shadow mode changes only the overall code; a shadow rule also changes its status.
    fn report_shadow_refusals(&mut self, targets: &[Target<'_>]) {
        for (target, status) in targets.iter().zip(&mut self.statuses) {
            if status.shadow_denied && target.counted().is_some_and(|counted| !counted.is_shadow) {
                status.code = Code::OverLimit;
            }
        }
    }

    /// Whether the statuses refuse the request: one binding refusal does, quotas only if all refuse.
    fn is_over(&self, targets: &[Target<'_>], role: Role) -> bool {
        let pairs = targets.iter().zip(&self.statuses);
        let mut over = pairs
            .filter(|(target, _)| target.role() == Some(role))
            .map(|(_, status)| status.code == Code::OverLimit)
            .peekable();
        match role {
            Role::Binds => over.any(|over| over),
            Role::Quota => over.peek().is_some() && over.all(|over| over),
        }
    }

    /// Peeks whether one more hit would be allowed. Counters with nothing left are peeked again with cost 1, to learn
    /// when one will be.
    async fn peek_each(&mut self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        self.update_each(counters, Op::Peek, |_| 0).await?;
        let has_nothing_left = |(index, _): &&Indexed<'_, '_>| {
            let status = &self.statuses[*index];
            status.code == Code::Ok && !status.shadow_denied && status.remaining < status.cost
        };
        let spent: SmallVec<[Indexed<'_, 'a>; 4]> =
            counters.iter().filter(has_nothing_left).copied().collect();
        self.update_each(&spent, Op::Peek, |_| 1).await?;
        self.add_back_cost(&spent, |_| 1);
        Ok(())
    }

    /// Charges the binding counters, all or none; only peeks if the request is already refused.
    async fn take_together(&mut self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        if counters.is_empty() {
            return Ok(());
        }
        if self.refused || !self.style.is_atomic || counters.len() == 1 {
            self.take_each(counters).await?;
        } else {
            let statuses = self.check_in_one_step(counters, Op::Take, cost, record).await?;
            for ((index, _), status) in counters.iter().zip(statuses) {
                self.statuses[*index] = status;
            }
        }
        let over = |(index, _): &Indexed<'_, '_>| self.statuses[*index].code == Code::OverLimit;
        self.refused |= counters.iter().any(over);
        Ok(())
    }

    /// Charges each counter separately; only peeks if the request is already refused.
    async fn take_each(&mut self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        if self.refused && self.style.is_atomic {
            self.update_each(counters, Op::Peek, cost).await?;
            self.add_back_cost(counters, cost);
            return Ok(());
        }
        self.update_each(counters, Op::Take, cost).await?;
        if !self.style.is_atomic {
            self.take_remaining(counters).await?;
        }
        Ok(())
    }

    /// Takes what is left of limits that refused a larger cost.
    async fn take_remaining(&mut self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        for (index, counted) in counters {
            let status = self.statuses[*index];
            let is_over = status.code == Code::OverLimit || status.shadow_denied;
            let rest = u64::from(status.remaining / status.cost);
            if is_over && rest > 0 {
                let counter = &[(*index, *counted)];
                self.check_each(counter, Op::Take, |_| rest, |_| Record::Never).await?;
                self.statuses[*index].remaining %= status.cost;
            }
        }
        Ok(())
    }

    /// Refunds the quotas of a refused request. A failed refund does not change the answer.
    async fn refund_quotas(&mut self, counters: &[Indexed<'_, 'a>]) {
        // While the store fails, nothing is charged there.
        let charged = |(index, _): &&Indexed<'_, '_>| {
            let status = &self.statuses[*index];
            let by_store = matches!(status.source, Some(Source::Store | Source::Lease));
            status.code == Code::Ok && by_store
        };
        let charged: SmallVec<[Indexed<'_, 'a>; 4]> =
            counters.iter().filter(charged).copied().collect();
        match self.check_each(&charged, Op::Refund, cost, |_| Record::Never).await {
            Ok(_) => self.add_back_cost(&charged, cost),
            Err(error) => tracing::debug!(?error, "could not refund a refused request"),
        }
    }

    /// Refunds what the request asks for; only peeks if it is refused.
    async fn refund(&mut self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        if self.refused {
            self.update_each(counters, Op::Peek, |_| 0).await
        } else {
            self.update_each(counters, Op::Refund, cost).await
        }
    }

    async fn update_each(
        &mut self,
        counters: &[Indexed<'_, 'a>],
        op: Op,
        cost: impl Fn(&CountedTarget<'_>) -> u64,
    ) -> Result<(), DecideError> {
        let statuses = self.check_each(counters, op, cost, record).await?;
        for ((index, _), status) in counters.iter().zip(statuses) {
            self.statuses[*index] = status;
        }
        Ok(())
    }

    /// Validates all questions first, so that an invalid one does not leave earlier ones charged.
    fn validate(&self, counters: &[Indexed<'_, 'a>]) -> Result<(), DecideError> {
        for (_, counted) in counters {
            let policy = match counted.policy {
                Some(policy) => policy,
                None => self.call.lookup(counted.name)?,
            };
            let (key, op) = (counted.key(), counted.hits.op());
            Question::new(policy, key, cost(counted), op).validate()?;
        }
        Ok(())
    }

    /// Checks each counter separately. All checks are started before the first is awaited.
    async fn check_each(
        &self,
        counters: &[Indexed<'_, 'a>],
        op: Op,
        cost: impl Fn(&CountedTarget<'_>) -> u64,
        record: fn(&CountedTarget<'_>) -> Record,
    ) -> Result<Statuses<'a>, DecideError> {
        let mut under_way = SmallVec::<[Option<Reply<'a, Answer<'a>, Unanswered>>; 2]>::new();
        for (_, counted) in counters {
            under_way.push(match counted.request_limit {
                None => {
                    let question = self.question(counted, op, cost(counted), record)?;
                    Some(self.call.check(&question))
                }
                Some(_) => None,
            });
        }
        let mut statuses = Statuses::new();
        for (one, reply) in counters.iter().zip(under_way) {
            let Some(reply) = reply else {
                statuses.extend(self.check_in_one_step(&[*one], op, &cost, record).await?);
                continue;
            };
            let answer = Unanswered::unless_decided(reply.await?)?;
            statuses.push(status(one.1, &answer, answer.binding));
        }
        Ok(statuses)
    }

    /// Checks all counters in one step, including those with a limit sent by the request.
    async fn check_in_one_step(
        &self,
        counters: &[Indexed<'_, 'a>],
        op: Op,
        cost: impl Fn(&CountedTarget<'_>) -> u64,
        record: fn(&CountedTarget<'_>) -> Record,
    ) -> Result<Statuses<'a>, DecideError> {
        let mut questions = SmallVec::<[Question<'_, '_>; 4]>::new();
        for (_, counted) in counters {
            let question = self.question(counted, op, cost(counted), record)?;
            questions.push(Question { limit: counted.request_limit.as_deref(), ..question });
        }
        let answers = self.call.check_together(&questions, op).await?;
        let mut statuses = Statuses::new();
        for ((_, counted), answer) in counters.iter().zip(answers) {
            let answer = Unanswered::unless_decided(answer)?;
            // A limit sent with the request has no configured name.
            let policy = counted.policy.filter(|_| counted.request_limit.is_none());
            let name = policy.map_or("", |policy| policy.limit_name(answer.binding));
            statuses.push(status(counted, &answer, name));
        }
        Ok(statuses)
    }

    fn question<'t>(
        &self,
        counted: &'t CountedTarget<'a>,
        op: Op,
        cost: u64,
        record: fn(&CountedTarget<'_>) -> Record,
    ) -> Result<Question<'a, 't>, DecideError> {
        let policy = match counted.policy {
            Some(policy) => policy,
            None => self.call.policy(counted.name, op)?,
        };
        let question = Question::new(policy, counted.key(), cost, op);
        Ok(Question { record: record(counted), ..question })
    }

    /// Adds the cost of a peek back, so that `remaining` is what is left now.
    fn add_back_cost(
        &mut self,
        counters: &[Indexed<'_, 'a>],
        cost: impl Fn(&CountedTarget<'_>) -> u64,
    ) {
        for (index, counted) in counters {
            let status = &mut self.statuses[*index];
            // When the policy fails open, `remaining` does not include the cost.
            let is_charged = status.source != Some(Source::FailOpen) && !status.shadow_denied;
            if status.code == Code::Ok && is_charged {
                let cost = u32::try_from(cost(counted)).unwrap_or(u32::MAX);
                let cost = cost.saturating_mul(status.cost);
                status.remaining = status.remaining.saturating_add(cost);
            }
        }
    }
}

fn status<'a>(
    counted: &CountedTarget<'a>,
    answer: &Answer<'_>,
    name: &'a str,
) -> DescriptorAnswer<'a> {
    let displayed = answer.limit.as_deref().map(|decided| counted.displayed_limit(decided, name));
    let cost = counted.policy.map_or(1, |policy| policy.cost_of(answer.binding));
    DescriptorAnswer::from_answer(answer, displayed, cost)
}

/// Records answers that affect the request: all charges, even if only peeked because the request is refused already,
/// and peeks that refuse.
const fn record(counted: &CountedTarget<'_>) -> Record {
    match counted.hits {
        Hits::Spend(_) => Record::Always,
        Hits::Peek => Record::IfRefused,
        Hits::Refund(_) => Record::Never,
    }
}

fn cost(counted: &CountedTarget<'_>) -> u64 {
    match counted.hits {
        Hits::Spend(hits) | Hits::Refund(hits) => hits,
        Hits::Peek => 0,
    }
}

/// The status before the engine is asked.
fn initial_status<'a>(target: &Target<'a>) -> DescriptorAnswer<'a> {
    match target {
        Target::NoLimit | Target::Counted(_) => DescriptorAnswer::NO_LIMIT,
        Target::Unlimited => DescriptorAnswer::UNLIMITED,
        Target::Blocked { counted, unit, is_shadow } => DescriptorAnswer {
            code: Code::from_allowed(*is_shadow),
            limit: counted.displayed,
            reset_after_us: until_next(*unit),
            shadow_denied: *is_shadow,
            ..DescriptorAnswer::NO_LIMIT
        },
    }
}

/// Microseconds until the current unit ends.
fn until_next(unit: Unit) -> u64 {
    let unit_us = unit.seconds() * 1_000_000;
    unit_us - SystemClock.now().as_micros() % unit_us
}

#[cfg(test)]
mod tests;
