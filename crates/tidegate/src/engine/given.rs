//! A limit that comes with the question, instead of from a policy.

use std::convert::identity;

use tidegate_core::{Decision, Limit, Mode, Timestamp};

use super::{CheckError, Engine};
use crate::clock::Clock;
use crate::reply::Reply;
use crate::store::{
    KeyedLimit, Op, Scope, Source, StoreErrorKind, StoreReply, StoreRequest, StoreResult,
};

/// The answer for a limit that came with the question: [`Engine::answer_given`].
///
/// ```
/// use tidegate::{Clock, Engine, GivenAnswer, KeyedLimit, Limit, Op, Scope, Source, SystemClock};
///
/// let (engine, scope) = (Engine::builder().build()?, Scope::named("", "by request"));
/// let limit: Limit = "1/h".parse()?;
/// let given = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
/// let now = SystemClock.now();
/// let first: GivenAnswer = engine.answer_given(&given, 1, Op::Take, now).now()?;
/// let second = engine.answer_given(&given, 1, Op::Take, now).now()?;
/// assert!(first.decision.allowed() && !second.decision.allowed());
/// assert_eq!((second.source, second.store_error), (Source::Store, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenAnswer {
    /// What was decided.
    pub decision: Decision,
    /// Who decided.
    pub source: Source,
    /// What was wrong with the store, where it should have decided and did not.
    pub store_error: Option<StoreErrorKind>,
}

impl<C: Clock + 'static> Engine<C> {
    /// Answers for a limit that the caller brings: for doors whose clients send the limit with each request. While the
    /// store fails, this node's share of the limit is enforced in process, as for a policy by default. Counted apart
    /// from all policies, as long as the scope is not named like one. Who asks many questions in a row reads the time once
    /// for all of them, by the clock of the engine.
    ///
    /// ```
    /// # use tidegate::{Clock, Engine, KeyedLimit, Limit, Op, Scope, SystemClock};
    /// let engine = Engine::builder().build()?; // no policy is needed
    /// let (scope, limit): (_, Limit) = (Scope::named("", "by request"), "5/h".parse()?);
    /// let given = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
    /// let answer = engine.answer_given(&given, 2, Op::Take, SystemClock.now()).now()?;
    /// assert_eq!(answer.decision.remaining(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn answer_given(
        &self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> Reply<'_, GivenAnswer, CheckError> {
        let known = |decision: &Decision, source| GivenAnswer {
            decision: *decision,
            source,
            store_error: None,
        };
        self.answer_given_with(given, cost, op, now, known)
            .map_or_else(identity, |known| Reply::ready(Ok(known)))
    }

    /// [`Engine::answer_given`] for callers that ask many questions in a row: what the store decides now is handed to `known`
    /// where it lies, since to move it takes time. `Err` is the reply to any other question.
    ///
    /// ```
    /// # use tidegate::{Clock, Engine, KeyedLimit, Limit, Op, Scope, SystemClock};
    /// # let engine = Engine::builder().build()?;
    /// # let (scope, limit): (_, Limit) = (Scope::named("", "by request"), "5/h".parse()?);
    /// # let given = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
    /// let left = engine.answer_given_with(&given, 2, Op::Take, SystemClock.now(), |decision, _| decision.remaining());
    /// assert_eq!(left.ok(), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn answer_given_with<R>(
        &self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
        now: Timestamp,
        known: impl FnOnce(&Decision, Source) -> R,
    ) -> Result<R, Reply<'_, GivenAnswer, CheckError>> {
        let request =
            StoreRequest { mode: Mode::All, limits: std::slice::from_ref(given), cost, op };
        let mut reply = self.state.stores.plain.default_store().decide(&request, now);
        match reply.known() {
            Some(Ok(StoreReply { verdict, source, .. })) => Ok(known(&verdict.decision, *source)),
            _ => Err(self.given_without_reply(reply, given, cost, op, now)),
        }
    }

    /// The store has failed, or answers later.
    #[inline(never)]
    fn given_without_reply(
        &self,
        reply: StoreResult<StoreReply>,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
        now: Timestamp,
    ) -> Reply<'_, GivenAnswer, CheckError> {
        let later = match reply.split() {
            Ok(Ok(reply)) => return Reply::ready(Ok((&reply).into())),
            Ok(Err(error)) => {
                return Reply::ready(self.fall_back_given(given, cost, op, now, error));
            }
            Err(later) => later,
        };
        // Only needed if the store fails.
        let owned = OwnedKeyedLimit::from_given(given);
        Reply::later(async move {
            match later.await {
                Ok(reply) => Ok((&reply).into()),
                Err(error) => self.fall_back_given(&owned.given(), cost, op, now, error),
            }
        })
    }

    /// Prefetches the state of a key for [`Engine::answer_given`]: for callers that ask for many keys in a row.
    /// Spends nothing.
    ///
    /// ```
    /// # use tidegate::{Engine, Scope};
    /// let (engine, scope) = (Engine::builder().build()?, Scope::named("", "by request"));
    /// for key in ["ann", "ben", "cem"] {
    ///     engine.hint_given(&scope, key.as_bytes());
    /// }
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[inline]
    pub fn hint_given(&self, scope: &Scope, key: &[u8]) {
        self.state.stores.plain.default_store().prefetch(scope, key);
    }
}

impl From<&StoreReply> for GivenAnswer {
    #[inline]
    fn from(StoreReply { verdict, source, .. }: &StoreReply) -> Self {
        Self { decision: verdict.decision, source: *source, store_error: None }
    }
}

/// A question that outlives its caller.
struct OwnedKeyedLimit {
    scope: Scope,
    key: Box<[u8]>,
    limit: Limit,
}

impl OwnedKeyedLimit {
    fn from_given(given: &KeyedLimit<'_>) -> Self {
        Self { scope: given.scope.clone(), key: given.key.into(), limit: given.limit.clone() }
    }

    fn given(&self) -> KeyedLimit<'_> {
        KeyedLimit { scope: &self.scope, key: &self.key, limit: &self.limit }
    }
}
