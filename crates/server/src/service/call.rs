//! One request at a door, and its questions.

use std::net::IpAddr;
use std::time::Duration;

use tidegate::{
    Acquired, Answer, CheckError, Clock, Decision, GivenAnswer, Key, KeyedLimit, Later, Limit, Op,
    PermitId, Queued, Released, Renewed, Reply, Source, StoreError, StoreErrorKind, SystemClock,
    Timestamp,
};

use super::{Asked, CheckService, Handle, InForce, Unanswered, steady_us};
use crate::logs::RequestId;
use crate::metrics::{Counters, Door, Outcome, Status};
use tidegate_config::BY_REQUEST;
use tidegate_request::{AmbiguousRequest, ClientRequest, RouteMatch};

/// One request at one door: one configuration, one start time. `Copy`, so that late answers can move it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'s> {
    pub(super) service: &'s CheckService,
    pub(super) in_force: &'s InForce,
    pub(super) timing: Timing,
    pub(super) since_us: u64,
    pub(super) began: Timestamp,
    pub(super) timeout: Option<Duration>,
    pub(super) is_shadow: bool,
}

/// What is timed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timing {
    /// Each answer, for the door and the policy.
    Each(Door),
    /// The policy only: the [pipeline](super::Pipeline) times the door.
    OnlyPolicy,
    Nothing,
}

/// What a door asks. Copied only if its answer comes later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'s, 'q> {
    pub(crate) policy: Handle<'s>,
    pub(crate) key: Key<'q>,
    pub(crate) cost: u64,
    pub(crate) op: Op,
    /// Replaces the only limit of the policy, in [`Call::check_together`].
    pub(crate) limit: Option<&'s Limit>,
    pub(crate) record: Record,
    /// The request behind it, if the door saw one.
    pub(crate) request: Option<SeenRequest<'s, 'q>>,
}

/// The request that a question is about, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenRequest<'s, 'q> {
    pub(crate) client: IpAddr,
    pub(crate) method: &'q str,
    /// Without the query, which may hold secrets.
    pub(crate) path: &'q str,
    pub(crate) route: Option<&'s str>,
    pub(crate) id: Option<RequestId<&'q str>>,
}

impl<'s, 'q> SeenRequest<'s, 'q> {
    pub(crate) fn new(seen: &'q ClientRequest<'_>, found: &RouteMatch<'s>) -> Self {
        let (client, method, path) = (seen.client, &*seen.method, seen.path.counted());
        let id = RequestId::brought(&seen.headers);
        Self { client, method, path, route: found.route.name, id }
    }

    /// The same with this id.
    pub(crate) const fn with_id(self, id: RequestId<&'q str>) -> Self {
        Self { id: Some(id), ..self }
    }
}

/// Whether a question is recorded: counted, logged, traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    Always,
    IfRefused,
    Never,
}

impl Record {
    /// Only a take is recorded: a peek, a refund or a reset decides nothing.
    const fn for_op(op: Op) -> Self {
        if matches!(op, Op::Take) { Self::Always } else { Self::Never }
    }
}

impl<'s, 'q> Question<'s, 'q> {
    pub(crate) const fn new(policy: Handle<'s>, key: Key<'q>, cost: u64, op: Op) -> Self {
        Self { policy, key, cost, op, limit: None, record: Record::for_op(op), request: None }
    }

    /// The same, about a request.
    pub(crate) const fn about(self, request: SeenRequest<'s, 'q>) -> Self {
        Self { request: Some(request), ..self }
    }

    /// Checks it without asking it.
    pub(crate) fn validate(&self) -> Result<(), Unanswered> {
        self.policy.validate(self.key, self.cost, self.op).map_err(Unanswered::new)
    }

    fn asked(&self, in_force: &'s InForce) -> Asked<'s, 'q> {
        let (name, counters) = (self.policy.name(), self.policy.counters());
        let (client_ip, request) = (&in_force.http.client_ip, self.request);
        let (is_in_quorum, key, cost) = (self.policy.is_in_quorum(), self.key, self.cost);
        Asked { name, counters, key, request, client_ip, is_in_quorum, cost }
    }

    fn to_library(self) -> tidegate::Question<'s, 'q> {
        let policy = self.policy.policy();
        tidegate::Question { policy, key: self.key, cost: self.cost, limit: self.limit }
    }
}

impl<'s> Call<'s> {
    pub(super) fn begin(service: &'s CheckService, in_force: &'s InForce, door: Door) -> Self {
        let (began, since_us) = (SystemClock.now(), steady_us());
        let timing = Timing::Each(door);
        Self { service, in_force, timing, since_us, began, timeout: None, is_shadow: false }
    }

    /// Sets the timeout of the caller.
    pub(crate) const fn within(self, timeout: Option<Duration>) -> Self {
        Self { timeout, ..self }
    }

    /// In shadow mode refusals are recorded as `shadow_denied`.
    pub(crate) const fn in_shadow(self, is_shadow: bool) -> Self {
        Self { is_shadow, ..self }
    }

    /// The time before the decision. With a later time the end of a window could seem to lie in the next window.
    pub(crate) const fn began(&self) -> Timestamp {
        self.began
    }

    pub(crate) const fn in_force(&self) -> &'s InForce {
        self.in_force
    }

    /// The only lookup by name. An unknown policy counts as an error if `op` is a take.
    #[inline]
    pub(crate) fn policy(self, name: &str, op: Op) -> Result<Handle<'s>, Unanswered> {
        self.in_force.policy(name).ok_or_else(|| self.unknown(name, op))
    }

    /// The policy and key of a request, by its route or by this policy. A token that counts as none is counted.
    pub(crate) fn find<'a>(
        self,
        request: &ClientRequest<'_>,
        policy: Option<&'a str>,
    ) -> Result<Option<RouteMatch<'a>>, AmbiguousRequest>
    where
        's: 'a,
    {
        let found = self.in_force.http.routes.find(request, policy);
        if let Some(why) = request.bad_token() {
            self.service.metrics.bad_token(why);
        }
        found
    }

    /// The policy of a route.
    pub(crate) fn routed(self, found: &RouteMatch<'_>) -> Result<Handle<'s>, Unanswered> {
        self.in_force.routed(found).ok_or_else(|| self.unknown(found.policy, Op::Take))
    }

    /// Like [`policy`](Self::policy), without counting: for one of several questions, none of which is asked if one is bad.
    pub(crate) fn lookup(self, name: &str) -> Result<Handle<'s>, Unanswered> {
        self.in_force.policy(name).ok_or_else(|| self.in_force.unknown(name))
    }

    #[cold]
    fn unknown(self, name: &str, op: Op) -> Unanswered {
        if op == Op::Take {
            let counters = self.service.metrics.unknown();
            self.service.metrics.record(counters, &failed(None));
            self.took(counters);
        }
        self.in_force.unknown(name)
    }

    /// Takes, peeks, refunds or resets. An answer that is known now is returned without a future.
    #[inline]
    pub(crate) fn check(self, question: &Question<'s, '_>) -> Reply<'s, Answer<'s>, Unanswered> {
        let Question { policy, key, cost, op, .. } = *question;
        match policy.ask(key, cost, op).split() {
            Ok(answer) => Reply::ready(self.finish(question, answer)),
            Err(later) => {
                let question = OwnedQuestion::from(question);
                Reply::later(async move {
                    let answer = self.in_time(later).await;
                    question.with(|question| {
                        let answer = answer.unwrap_or_else(|| self.without_store(question));
                        self.finish(question, answer)
                    })
                })
            }
        }
    }

    /// Takes or peeks all in one atomic step: all are charged, or none. Returns one answer per question.
    pub(crate) async fn check_together(
        self,
        questions: &[Question<'s, '_>],
        op: Op,
    ) -> Result<Vec<Answer<'s>>, Unanswered> {
        let engine = &self.in_force.engine;
        let asked: Vec<_> = questions.iter().map(|question| question.to_library()).collect();
        let together = match engine.decide_together(&asked, op).split() {
            Ok(together) => together,
            Err(later) => match self.in_time(later).await {
                Some(together) => together,
                None => engine.decide_without_store(&asked, op),
            },
        };
        match &together {
            Ok(together) => {
                for (question, answer) in questions.iter().zip(&together.answers) {
                    self.record(
                        question.record,
                        &question.asked(self.in_force),
                        Outcome::from(answer),
                    );
                }
            }
            Err(error) => {
                for question in questions {
                    self.record(question.record, &question.asked(self.in_force), outcome_of(error));
                }
            }
        }
        together.map(|it| it.answers).map_err(Unanswered::new)
    }

    /// Acquires permits of a concurrency limit.
    pub(crate) fn acquire(
        self,
        question: &Question<'s, '_>,
    ) -> Reply<'s, Acquired<Answer<'s>>, Unanswered> {
        match question.policy.acquire(question.key, question.cost).split() {
            Ok(acquired) => Reply::ready(self.finish_acquired(question, acquired)),
            Err(later) => {
                let question = OwnedQuestion::from(question);
                Reply::later(async move {
                    let acquired = later.await;
                    question.with(|question| self.finish_acquired(question, acquired))
                })
            }
        }
    }

    fn finish_acquired(
        self,
        question: &Question<'s, '_>,
        acquired: Result<Acquired<Answer<'s>>, CheckError>,
    ) -> Result<Acquired<Answer<'s>>, Unanswered> {
        let (answer, permit) = match acquired {
            Ok(Acquired { answer, permit }) => (Ok(answer), permit),
            Err(error) => (Err(error), None),
        };
        let answer = self.finish(question, answer)?;
        Ok(Acquired { answer, permit })
    }

    /// Releases permits. Only a failure of the store is counted.
    pub(crate) async fn release(
        self,
        policy: Handle<'s>,
        key: Key<'_>,
        permit: &PermitId,
    ) -> Result<Released, Unanswered> {
        policy.release(key, permit).await.map_err(|error| self.unanswered(error))
    }

    /// Renews permits. Only a failure of the store is counted.
    pub(crate) async fn renew(
        self,
        policy: Handle<'s>,
        key: Key<'_>,
        permit: &PermitId,
    ) -> Result<Renewed, Unanswered> {
        policy.renew(key, permit).await.map_err(|error| self.unanswered(error))
    }

    fn unanswered(&self, error: CheckError) -> Unanswered {
        if let Some(failure) = error.store_failure() {
            self.service.metrics.store_failed(failure.kind());
        }
        Unanswered::new(error)
    }

    /// Reserves a place in the queue of a shaper. It is returned unless it is kept.
    pub(crate) async fn reserve(self, question: &Question<'s, '_>) -> Result<Queued, Unanswered> {
        let policy = &question.policy;
        let queued = policy.queue(question.key, question.cost).await;
        let outcome = match &queued {
            Ok(queued) => {
                let reservation = queued.reservation();
                let status = if reservation.shadow_denied() {
                    Status::ShadowDenied
                } else {
                    Status::from_allowed(reservation.accepted())
                };
                Outcome {
                    status,
                    source: Some(queued.source()),
                    store_error: queued.store_error(),
                    binding: policy.name(),
                    remaining: None,
                    retry_after_us: reservation.retry_after_us(),
                }
            }
            Err(error) => {
                let source = policy.fails_closed(error).map(|_| Source::FailClosed);
                Outcome { source, ..outcome_of(error) }
            }
        };
        self.record(question.record, &question.asked(self.in_force), outcome);
        queued.map_err(|error| Unanswered::from_queue(policy, error))
    }

    /// Takes, peeks or refunds with a limit that came with the request. What the store decides now is handed to `known`; `Err`
    /// is the reply to any other question.
    #[inline]
    pub(crate) fn check_given<R>(
        self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
        known: impl FnOnce(&Decision) -> R,
    ) -> Result<R, Reply<'s, Decision, Unanswered>> {
        let engine = &self.in_force.engine;
        let known = |decision: &Decision, source| {
            self.record_given(given.key, cost, op, Outcome::by_request(decision, source));
            known(decision)
        };
        engine.answer_given_with(given, cost, op, self.began, known).map_err(|reply| {
            match reply.split() {
                Ok(answer) => Reply::ready(self.finish_given(given.key, cost, op, answer)),
                Err(later) => {
                    let key = Box::<[u8]>::from(given.key);
                    Reply::later(async move { self.finish_given(&key, cost, op, later.await) })
                }
            }
        })
    }

    fn finish_given(
        &self,
        key: &[u8],
        cost: u64,
        op: Op,
        answer: Result<GivenAnswer, CheckError>,
    ) -> Result<Decision, Unanswered> {
        let outcome = answer.as_ref().map_or_else(outcome_of, |answer| {
            let outcome = Outcome::by_request(&answer.decision, answer.source);
            Outcome { store_error: answer.store_error, ..outcome }
        });
        self.record_given(key, cost, op, outcome);
        answer.map(|it| it.decision).map_err(Unanswered::new)
    }

    #[inline]
    fn record_given(&self, key: &[u8], cost: u64, op: Op, outcome: Outcome<'_>) {
        let counters = self.service.metrics.by_request();
        let asked = self.asked(BY_REQUEST, counters, Key::One(key), cost);
        self.record(Record::for_op(op), &asked, outcome);
    }

    /// Records a refusal by a rule that blocks everything: no store is asked.
    pub(crate) fn refuse(self, name: &'s str, key: Key<'_>, cost: u64, is_shadow: bool) {
        let unknown = || self.service.metrics.unknown();
        let counters = self.in_force.counters_of(name).map_or_else(unknown, |it| &**it);
        let outcome = Outcome {
            status: if is_shadow { Status::ShadowDenied } else { Status::Denied },
            source: Some(Source::Store),
            store_error: None,
            binding: name,
            remaining: Some(0),
            retry_after_us: None,
        };
        self.record(Record::Always, &self.asked(name, counters, key, cost), outcome);
    }

    /// A question without a policy handle, as it is recorded.
    const fn asked<'q>(
        self,
        name: &'s str,
        counters: &'s Counters,
        key: Key<'q>,
        cost: u64,
    ) -> Asked<'s, 'q> {
        let client_ip = &self.in_force.http.client_ip;
        // A limit that came with the request is counted by the main store.
        Asked { name, counters, key, request: None, client_ip, is_in_quorum: false, cost }
    }

    /// The answer, or `None` after the timeout of the caller.
    async fn in_time<T, E>(self, later: Later<'_, T, E>) -> Option<Result<T, E>> {
        let Some(timeout) = self.timeout else { return Some(later.await) };
        let spent = Duration::from_micros(steady_us().saturating_sub(self.since_us));
        tokio::time::timeout(timeout.saturating_sub(spent), later).await.ok()
    }

    /// The decision of the failure policy after the timeout of the caller.
    fn without_store(self, question: &Question<'s, '_>) -> Result<Answer<'s>, CheckError> {
        let asked = [question.to_library()];
        let mut together = self.in_force.engine.decide_without_store(&asked, question.op)?;
        let none = || CheckError::UnknownPolicy(question.policy.name().to_owned());
        together.answers.pop().ok_or_else(none)
    }

    #[inline]
    fn finish(
        self,
        question: &Question<'s, '_>,
        answer: Result<Answer<'s>, CheckError>,
    ) -> Result<Answer<'s>, Unanswered> {
        let outcome = answer.as_ref().map_or_else(outcome_of, Outcome::from);
        if outcome.status == Status::Denied && question.record == Record::Always {
            self.explain_refused_url(question, outcome.binding);
        }
        self.record(question.record, &question.asked(self.in_force), outcome);
        answer.map_err(Unanswered::new)
    }

    /// A fast URL is refused only because very many ask for it: whoever set the limit may not have meant that.
    #[cold]
    fn explain_refused_url(self, question: &Question<'s, '_>, binding: &str) {
        if let Some((url, units)) = question.policy.refused_fast_url(binding, question.key) {
            self.service.events.refused_fast_url(question.policy.name(), url, units);
        }
    }

    /// Every question ends here.
    #[inline]
    fn record(&self, record: Record, asked: &Asked<'s, '_>, mut outcome: Outcome<'_>) {
        let is_refused =
            matches!(outcome.status, Status::Denied | Status::ShadowDenied) || outcome.is_closed();
        match record {
            Record::Never => return,
            Record::IfRefused if !is_refused => return,
            Record::IfRefused | Record::Always => {}
        }
        if self.is_shadow && outcome.status == Status::Denied {
            outcome.status = Status::ShadowDenied;
        }
        self.service.record(asked, &outcome);
        self.took(asked.counters);
    }

    #[inline]
    fn took(&self, counters: &Counters) {
        let metrics = &self.service.metrics;
        match self.timing {
            Timing::Each(door) => metrics.took(Some(door), counters, self.since_us),
            Timing::OnlyPolicy => metrics.took(None, counters, self.since_us),
            Timing::Nothing => {}
        }
    }
}

fn outcome_of<'a>(error: &CheckError) -> Outcome<'a> {
    // A question that makes no sense is no failure of the store.
    failed(error.store_failure().map(StoreError::kind))
}

const fn failed(store_error: Option<StoreErrorKind>) -> Outcome<'static> {
    let (status, source, binding) = (Status::Error, None, "");
    Outcome { status, source, store_error, binding, remaining: None, retry_after_us: None }
}

/// A question that outlives the buffers of its request.
struct OwnedQuestion<'s> {
    question: Question<'s, 'static>,
    key: OwnedKey,
    request: Option<OwnedRequest<'s>>,
}

struct OwnedRequest<'s> {
    client: IpAddr,
    method: Box<str>,
    path: Box<str>,
    route: Option<&'s str>,
    id: Option<RequestId<Box<str>>>,
}

impl<'s> From<SeenRequest<'s, '_>> for OwnedRequest<'s> {
    fn from(SeenRequest { client, method, path, route, id }: SeenRequest<'s, '_>) -> Self {
        let id = id.map(RequestId::into_owned);
        Self { client, method: method.into(), path: path.into(), route, id }
    }
}

impl<'s> OwnedRequest<'s> {
    fn seen(&self) -> SeenRequest<'s, '_> {
        let Self { client, method, path, route, id } = self;
        let id = id.as_ref().map(RequestId::borrowed);
        SeenRequest { client: *client, method, path, route: *route, id }
    }
}

enum OwnedKey {
    One(Box<[u8]>),
    Named(Vec<(Box<str>, Box<[u8]>)>),
}

impl<'s> From<&Question<'s, '_>> for OwnedQuestion<'s> {
    fn from(question: &Question<'s, '_>) -> Self {
        let key = match question.key {
            Key::One(key) => OwnedKey::One(key.into()),
            Key::Named(named) => {
                let owned = |(name, key): &(&str, &[u8])| ((*name).into(), (*key).into());
                OwnedKey::Named(named.iter().map(owned).collect())
            }
        };
        let Question { policy, cost, op, limit, record, request, .. } = *question;
        let (no_key, no_request) = (Key::One(&[]), None);
        let question =
            Question { policy, key: no_key, cost, op, limit, record, request: no_request };
        Self { question, key, request: request.map(OwnedRequest::from) }
    }
}

impl<'s> OwnedQuestion<'s> {
    fn with<R>(&self, then: impl FnOnce(&Question<'s, '_>) -> R) -> R {
        let request = self.request.as_ref().map(OwnedRequest::seen);
        match &self.key {
            OwnedKey::One(key) => then(&Question { key: Key::One(key), request, ..self.question }),
            OwnedKey::Named(named) => {
                let named: Vec<(&str, &[u8])> =
                    named.iter().map(|(name, key)| (&**name, &**key)).collect();
                then(&Question { key: Key::Named(&named), request, ..self.question })
            }
        }
    }
}
