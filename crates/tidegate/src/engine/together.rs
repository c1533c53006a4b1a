//! Several questions in one step: all are charged or none, and each has its answer.

use tidegate_core::{Decision, Limit, Mode, Timestamp};

use super::decide::{Limits, without_limit};
use super::fallback::fallback_for;
use super::in_force::InForce;
use super::step::{CheckPart, Count, ShadowCheck, Step};
use super::{Answer, BindingLimit, Check, CheckError, Engine, Question, shares};
use crate::clock::Clock;
use crate::policy::{CompiledKind, OverrideInForce, PolicyKind};
use crate::reply::Reply;
use crate::store::{
    Charge, KeyedLimit, LimitCharge, MultiCharge, Op, Store, StoreError, StoreErrorKind,
};

/// The answers to several checks that were asked in one step.
///
/// ```
/// use tidegate::{Check, Engine, Key, Op, Together};
///
/// let engine = Engine::builder().policy("route", "100/s").policy("client", "1/h").build()?;
/// let checks = [
///     Check { policy: "route", key: Key::One(b"/search"), cost: 1 },
///     Check { policy: "client", key: Key::One(b"user-42"), cost: 1 },
/// ];
/// let first: Together = engine.ask_together(&checks, Op::Take).now()?;
/// assert!(first.admitted());
/// let second = engine.ask_together(&checks, Op::Take).now()?;
/// assert!(!second.admitted());
/// assert_eq!(second.answers[0].decision.remaining(), 99); // the client is over, and the route not charged
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Together<'a> {
    /// One per check, in order.
    pub answers: Vec<Answer<'a>>,
}

impl Together<'_> {
    /// Whether the whole is admitted: every check is, and all have been charged.
    pub fn admitted(&self) -> bool {
        self.answers.iter().all(|answer| answer.decision.allowed())
    }
}

/// A step, and the keys of its counts.
type Gathered<'e, 'c> = (Step<'e>, Vec<&'c [u8]>);

impl<C: Clock + 'static> Engine<C> {
    /// Takes or peeks several checks, of any policies and identifiers, in one atomic step: all of them are charged, or
    /// none is. Each has an answer of its own. If the whole is refused, those that would have been admitted answer what
    /// they have left.
    ///
    /// The costs of several checks for one limit and key are added up, and each gets the same answer. A key that is always
    /// allowed does not matter; one that is blocked refuses the whole. Policies of [`Policy::any`](crate::Policy::any),
    /// shapers and concurrency limits cannot be combined with others. On a cluster all policies need one
    /// [tag](crate::Policy::tagged).
    ///
    /// [Shadow](crate::Policy::shadow) policies do not affect the whole. Each is checked on its own after the others have
    /// been decided, and charged only if those are admitted.
    ///
    /// While the store fails, each policy's fallback answers its own checks, and nothing is charged unless all admit.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Op};
    /// let engine = Engine::builder().policy("sms", "5/day").policy("cents", "100/day").build()?;
    /// let send = |messages, cents| {
    ///     let sms = Check { policy: "sms", key: Key::One(b"+49 30 1234"), cost: messages };
    ///     let budget = Check { policy: "cents", key: Key::One(b"shop-7"), cost: cents };
    ///     let together = engine.ask_together(&[sms, budget], Op::Take).now();
    ///     together.map(|it| (it.admitted(), it.answers.iter().map(|answer| answer.decision.remaining()).collect()))
    /// };
    /// assert_eq!(send(2, 60)?, (true, vec![3, 40]));
    /// assert_eq!(send(2, 60)?, (false, vec![3, 40])); // too dear, so that no message is counted
    /// assert_eq!(send(2, 0)?, (true, vec![1, 40]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask_together<'c>(
        &self,
        checks: &[Check<'c>],
        op: Op,
    ) -> Reply<'_, Together<'_>, CheckError> {
        let question = |check: &Check<'c>| {
            Ok(Question::new(self.policy_ref(check.policy)?, check.key, check.cost))
        };
        let questions = checks.iter().map(question).collect::<Result<Vec<_>, CheckError>>();
        questions.map_or_else(Reply::failed, |questions| self.decide_together(&questions, op))
    }

    /// [`Engine::ask_together`] for policies that were looked up already, where a question may bring a limit of its own.
    ///
    /// ```
    /// # use tidegate::{Engine, Key, Op, Question};
    /// let engine = Engine::builder().policy("sms", "5/day").policy("cents", "100/day").build()?;
    /// let sms = Question::new(engine.policy_ref("sms")?, Key::One(b"+49 30 1234"), 1);
    /// let cents = Question::new(engine.policy_ref("cents")?, Key::One(b"shop-7"), 101);
    /// let together = engine.decide_together(&[sms, cents], Op::Take).now()?;
    /// assert!(!together.admitted());
    /// assert_eq!(together.answers[0].decision.remaining(), 5); // not charged
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_together<'e>(
        &'e self,
        questions: &[Question<'e, '_, C>],
        op: Op,
    ) -> Reply<'e, Together<'e>, CheckError> {
        if let ([Question { policy, key, cost, limit: None }], Op::Take | Op::Peek) =
            (questions, op)
        {
            let alone = |answer| Together { answers: vec![answer] };
            return policy.ask(*key, *cost, op).then(move |answer| answer.map(alone));
        }
        match charge_of(op).and_then(|charge| self.gather_all(questions, charge)) {
            Ok(((step, keys), shadow_checks)) => {
                let reply = self.decide_step(step, &keys);
                if shadow_checks.is_empty() {
                    return reply;
                }
                reply.and_then(move |others| self.insert_shadow_answers(others, shadow_checks))
            }
            Err(error) => Reply::failed(error),
        }
    }

    /// What [`Engine::decide_together`] would answer while the store fails, without asking it: for callers whose own
    /// deadline ends before the store's.
    ///
    /// ```
    /// # use tidegate::{Engine, Key, Op, Question, Source};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let question = Question::new(engine.policy_ref("api")?, Key::One(b"user-42"), 1);
    /// let together = engine.decide_without_store(&[question], Op::Take)?;
    /// assert_eq!(together.answers[0].source, Source::Local);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_without_store<'e>(
        &'e self,
        questions: &[Question<'e, '_, C>],
        op: Op,
    ) -> Result<Together<'e>, CheckError> {
        let timed_out = || StoreError::new(StoreErrorKind::Timeout, "the caller's time is up");
        fallback_for(op, timed_out())?;
        let ((step, keys), shadow_checks) = self.gather_all(questions, charge_of(op)?)?;
        let now = self.state.clock.now();
        let together = self.fall_back_together(&step, &keys, now, timed_out())?;
        together.with_shadow_checks(shadow_checks, |step, keys| {
            self.fall_back_together(step, keys, now, timed_out())
        })
    }

    /// The step of all enforced checks, and the checks in shadow beside it.
    fn gather_all<'e, 'c>(
        &'e self,
        questions: &[Question<'e, 'c, C>],
        charge: Charge,
    ) -> Result<(Gathered<'e, 'c>, Vec<ShadowCheck<'e>>), CheckError> {
        let is_shadow =
            |question: &Question<'_, '_, C>| question.policy.compiled().is_shadow_for(question.key);
        let gathered = self.gather(questions.iter().filter(|it| !is_shadow(it)), charge)?;
        let mut shadow_checks = Vec::new();
        for (index, check) in questions.iter().enumerate().filter(|(_, it)| is_shadow(it)) {
            if shadow_checks.len() == MultiCharge::MAX_LIMITS {
                return Err(CheckError::TooManyTogether);
            }
            shadow_checks.push(ShadowCheck::new(index, self.gather([check], charge)?));
        }
        Ok((gathered, shadow_checks))
    }

    /// Builds the step of some questions. Asks nothing.
    fn gather<'e, 'c, 'l>(
        &'e self,
        questions: impl IntoIterator<Item = &'l Question<'e, 'c, C>>,
        charge: Charge,
    ) -> Result<Gathered<'e, 'c>, CheckError>
    where
        'c: 'l,
        'e: 'l,
    {
        let mut step = Step { parts: Vec::new(), counts: Vec::new(), charge };
        let mut keys = Vec::new();
        for question in questions {
            let limits = match self.part_of(question, charge)? {
                Ok(limits) => limits,
                Err(known) => {
                    if !known.decision.allowed() {
                        step.charge = Charge::Refused;
                    }
                    step.parts.push(CheckPart::Known(known));
                    continue;
                }
            };
            let mut indexes = Vec::with_capacity(limits.members.len());
            let part = step.parts.len();
            for (index, (scope, member)) in limits.members.iter().enumerate() {
                let key = if limits.in_rest() && index == shares::OWN {
                    shares::REST_KEY
                } else {
                    question.key.find(limits.policy, member.key.as_deref())?
                };
                let at = step.count_index(scope, key, &keys);
                if at == keys.len() {
                    if at == MultiCharge::MAX_LIMITS {
                        return Err(CheckError::TooManyTogether);
                    }
                    keys.push(key);
                    step.counts.push(self.count_of(&limits, (part, index)));
                }
                let count = &mut step.counts[at];
                if *count.limit != *limits.limit_of(index) {
                    let (mine, cost) = (self.count_of(&limits, (part, index)), count.cost);
                    // Parts of a share get the room that they need below: only their pace differs.
                    let are_parts = limits.policy.share.is_some() && count.policy.share.is_some();
                    let is_slower = mine.limit.units() < count.limit.units();
                    if is_within(&mine.limit, &count.limit) || (are_parts && is_slower) {
                        *count = Count { cost, ..mine };
                    } else if !are_parts && !is_within(&count.limit, &mine.limit) {
                        let why = "two limits for one key in one step, and neither is the tighter";
                        return Err(StoreError::bad_request(why).into());
                    }
                }
                count.cost = count.cost.saturating_add(scope.cost(question.cost));
                indexes.push(at);
            }
            step.parts.push(CheckPart::Counted(limits, indexes));
        }
        step.make_room();
        Ok((step, keys))
    }

    /// The limits of one check, or the answer if an override has it.
    fn part_of<'e>(
        &'e self,
        question: &Question<'e, '_, C>,
        charge: Charge,
    ) -> Result<Result<Limits<'e>, Answer<'e>>, CheckError> {
        let Question { policy, key, cost, limit: own } = *question;
        let policy = policy.compiled();
        let CompiledKind::Limits { mode, members, adaptive, .. } = &policy.kind else {
            return Err(CheckError::Shapes(policy.name()));
        };
        policy.check_cost(cost)?;
        if policy.purpose == PolicyKind::Concurrency {
            return Err(CheckError::NeedsAcquire(policy.name()));
        }
        if *mode == Mode::Any {
            return Err(CheckError::Chooses(policy.name()));
        }
        if own.is_some() && members.len() > 1 {
            let why = "a limit of its own goes with a policy of one limit";
            return Err(StoreError::bad_request(why).into());
        }
        let in_shadow = policy.is_shadow_for(key);
        let own = match self.override_for(policy, key) {
            None => own.map(BindingLimit::of_policy),
            Some(OverrideInForce::Limit(limit)) => Some(limit),
            Some(OverrideInForce::Allow) => {
                return Ok(Err(without_limit(policy, Decision::unlimited(), in_shadow)));
            }
            Some(OverrideInForce::Block) => {
                return Ok(Err(without_limit(policy, Decision::blocked(), in_shadow)));
            }
        };
        let own = policy.own_limits(key, own, &self.state.clock);
        let (in_force, tenant) = match &policy.share {
            None => (InForce::find(*adaptive, members, key, &own), None),
            Some(shares) => {
                let op = if charge == Charge::Never { Op::Peek } else { Op::Take };
                self.tenant_limits(policy, shares, key, cost, op)
            }
        };
        let limits =
            Limits { policy, mode: *mode, members, own, in_force, tenant: None, in_shadow };
        Ok(Ok(limits.of_tenant(tenant)))
    }

    #[cfg_attr(not(feature = "leases"), allow(clippy::unused_self, reason = "nothing is leased"))]
    fn count_of<'e>(&self, limits: &Limits<'e>, position: (usize, usize)) -> Count<'e> {
        let (_, index) = position;
        let (policy, limit) = (limits.policy, limits.binding(index));
        let (scope, _) = &limits.members[index];
        #[cfg(feature = "leases")]
        let leased = {
            let all = limits.members.iter().enumerate();
            let all = all.map(|(index, (scope, _))| (limits.limit_of(index), scope.factor()));
            // From the policy's own store, whichever store decides the step.
            self.state.stores.for_policy(policy).leased_limit(policy, &limit, all)
        };
        #[cfg(not(feature = "leases"))]
        let leased = None;
        Count { scope, leased, limit, policy, position, cost: 0 }
    }

    /// Asks the store once, and turns its reply into answers.
    pub(super) fn decide_step<'e>(
        &'e self,
        step: Step<'e>,
        keys: &[impl AsRef<[u8]>],
    ) -> Reply<'e, Together<'e>, CheckError> {
        if step.counts.is_empty() {
            return Reply::ready(step.answer(&[]));
        }
        let now = self.state.clock.now();
        let store = &self.state.stores.for_all(step.counts.iter().map(|count| count.policy)).store;
        let limits = step.counts.iter().zip(keys).map(|(count, key)| {
            let limit = count.leased.as_ref().unwrap_or(&count.limit);
            LimitCharge {
                keyed: KeyedLimit { scope: count.scope, key: key.as_ref(), limit },
                cost: count.cost,
            }
        });
        let limits: Vec<_> = limits.collect();
        let reply = store.decide_each(&MultiCharge { limits: &limits, charge: step.charge }, now);
        drop(limits);
        match reply.split() {
            Ok(reply) => Reply::ready(self.answer_together(&step, keys, now, reply)),
            Err(later) => {
                // Only needed if the store fails.
                let keys: Vec<Box<[u8]>> = keys.iter().map(|key| key.as_ref().into()).collect();
                Reply::later(async move {
                    let reply = later.await;
                    self.answer_together(&step, &keys, now, reply)
                })
            }
        }
    }

    fn answer_together<'e>(
        &'e self,
        step: &Step<'e>,
        keys: &[impl AsRef<[u8]>],
        now: Timestamp,
        reply: Result<Vec<Decision>, StoreError>,
    ) -> Result<Together<'e>, CheckError> {
        let count = step.counts.len();
        let complete = reply.and_then(|decisions| match decisions.len() {
            answered if answered == count => Ok(decisions),
            _ => Err(StoreError::new(StoreErrorKind::Protocol, "not one answer for each limit")),
        });
        match complete {
            Ok(decisions) => step.answer(&decisions),
            Err(error) => self.fall_back_together(step, keys, now, error),
        }
    }
}

/// Whether a limit never admits what the other would not.
fn is_within(limit: &Limit, other: &Limit) -> bool {
    limit.algorithm() == other.algorithm()
        && limit.period() == other.period()
        && limit.units() <= other.units()
        && limit.ceiling() <= other.ceiling()
}

/// Several checks can be taken or peeked in one step, and nothing else.
fn charge_of(op: Op) -> Result<Charge, CheckError> {
    match op {
        Op::Take => Ok(Charge::IfAllAdmit),
        Op::Peek => Ok(Charge::Never),
        _ => {
            let why = "several checks can be taken or peeked in one step, and nothing else";
            Err(StoreError::bad_request(why).into())
        }
    }
}
