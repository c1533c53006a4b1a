//! A limit that comes with the question, instead of from a policy.

use tidegate_core::{Limit, Mode};

use super::{Answer, CheckError, Engine};
use crate::clock::Clock;
use crate::reply::Reply;
use crate::store::{KeyedLimit, Op, Scope, StoreError, StoreErrorKind, StoreReply, StoreRequest};

impl<C: Clock + 'static> Engine<C> {
    /// Answers for a limit that the caller brings: for doors whose clients send the limit with each request. While the
    /// store fails, this node's share of the limit is enforced in process, as for a policy by default. Counted apart from all policies, as long as the scope is not named like one.
    ///
    /// ```
    /// # use tidegate::{Engine, KeyedLimit, Limit, Op, Scope};
    /// let engine = Engine::builder().build()?; // no policy is needed
    /// let (scope, limit): (_, Limit) = (Scope::named("", "by request"), "5/h".parse()?);
    /// let given = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
    /// let reply = engine.ask_given(&given, 2, Op::Take).now()?;
    /// assert_eq!(reply.verdict.decision.remaining(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn ask_given(
        &self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'_, StoreReply, StoreError> {
        self.decide_given(given, cost, op).then(|decided| match decided {
            Ok((reply, _)) => Ok(reply),
            Err(CheckError::Store(error)) => Err(error),
            Err(other) => Err(StoreError::new(StoreErrorKind::BadRequest, other.to_string())),
        })
    }

    /// The same as an [`Answer`], under a name that stands for all such limits.
    ///
    /// ```
    /// # use tidegate::{Engine, KeyedLimit, Limit, Op, Scope, Source};
    /// let engine = Engine::builder().build()?;
    /// let (scope, limit): (_, Limit) = (Scope::named("", "by request"), "5/h".parse()?);
    /// let given = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
    /// let answer = engine.answer_given("by request", &given, 2, Op::Take).now()?;
    /// assert_eq!((answer.policy, answer.decision.remaining()), ("by request", 3));
    /// assert_eq!((answer.source, answer.store_error), (Source::Store, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn answer_given<'e>(
        &'e self,
        name: &'e str,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'e, Answer<'e>, CheckError> {
        self.decide_given(given, cost, op).then(move |decided| {
            let (StoreReply { verdict, source, .. }, store_error) = decided?;
            let (decision, limit) = (verdict.decision, None);
            let (policy, binding) = (name, name);
            Ok(Answer {
                decision,
                policy,
                binding,
                limit,
                source,
                store_error,
                shadow_denied: false,
            })
        })
    }

    #[inline]
    fn decide_given(
        &self,
        given: &KeyedLimit<'_>,
        cost: u64,
        op: Op,
    ) -> Reply<'_, Given, CheckError> {
        let now = self.state.clock.now();
        let request =
            StoreRequest { mode: Mode::All, limits: std::slice::from_ref(given), cost, op };
        match self.state.stores.plain.default_store().decide(&request, now).split() {
            Ok(Ok(reply)) => Reply::ready(Ok((reply, None))),
            Ok(Err(error)) => Reply::ready(self.fall_back_given(given, cost, op, now, error)),
            Err(later) => {
                // Only needed if the store fails.
                let owned = OwnedKeyedLimit::from_given(given);
                Reply::later(async move {
                    match later.await {
                        Ok(reply) => Ok((reply, None)),
                        Err(error) => self.fall_back_given(&owned.given(), cost, op, now, error),
                    }
                })
            }
        }
    }

    /// Prefetches the state of a key for [`Engine::ask_given`]: for callers that ask for many keys in a row. Spends
    /// nothing.
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

/// What was decided, and what was wrong with the store where that did not.
pub(super) type Given = (StoreReply, Option<StoreErrorKind>);

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
