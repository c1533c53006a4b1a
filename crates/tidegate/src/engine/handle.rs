//! A policy found once, to be kept.

use std::fmt;

use super::policies::{PolicyRef, PolicyView};
use super::{Answer, CheckError, Engine, Key};
use crate::clock::{Clock, SystemClock};
use crate::key::AsKey;
use crate::policy::PolicyKind;
use crate::reply::Reply;
use crate::store::Op;

/// A policy of an engine, found once and kept: to ask it needs no lookup by name. Made by [`Engine::policy`], and cheap to
/// clone; it keeps its engine alive.
///
/// It stays with its engine. After a [reload](Engine::successor), take the handle of the next engine: this one goes on with
/// the policy as it was. Both count in the same counters.
///
/// ```
/// use tidegate::{Engine, Key, Op, PolicyHandle};
///
/// struct App {
///     api: PolicyHandle,
/// }
///
/// let engine = Engine::builder().policy("api", "10/h").build()?;
/// let app = App { api: engine.policy("api")? };
/// assert_eq!(app.api.check("user-42").now()?.decision.remaining(), 9);
/// assert_eq!(app.api.ask(Key::One(b"user-42"), 4, Op::Take).now()?.decision.remaining(), 5);
///
/// // After a reload:
/// let next = engine.successor().policy("api", "7/h").build()?;
/// let before = std::mem::replace(&mut app.api.clone(), next.policy("api")?);
/// assert_eq!(before.check("user-42").now()?.decision.limit(), 10);
/// assert_eq!(next.policy("api")?.check("user-42").now()?.decision.limit(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PolicyHandle<C = SystemClock> {
    engine: Engine<C>,
    /// Of the policy in its engine, whose policies never change.
    index: usize,
}

impl<C: Clock + 'static> Engine<C> {
    /// The policy of a name, to be kept and asked without another lookup.
    ///
    /// ```
    /// # use tidegate::{CheckError, Engine};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let api = engine.policy("api")?;
    /// for user in ["ann", "ben"] {
    ///     assert!(api.check(user).now()?.decision.allowed());
    /// }
    /// assert_eq!(engine.policy("apj").err(), Some(CheckError::UnknownPolicy("apj".into())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(&self, name: &str) -> Result<PolicyHandle<C>, CheckError> {
        let index = self.policy_ref(name)?.index();
        Ok(PolicyHandle { engine: self.clone(), index })
    }
}

impl<C: Clock + 'static> PolicyHandle<C> {
    /// Spends one unit of `key`, if there is one: [`Engine::check`].
    pub fn check(&self, key: impl AsKey) -> Reply<'_, Answer<'_>, CheckError> {
        self.as_ref().check(key)
    }

    /// Answers a question about the policy: [`Engine::ask`].
    pub fn ask(&self, key: Key<'_>, cost: u64, op: Op) -> Reply<'_, Answer<'_>, CheckError> {
        self.as_ref().ask(key, cost, op)
    }

    /// The policy's name.
    ///
    /// ```
    /// # use tidegate::{Engine, PolicyKind};
    /// let engine = Engine::builder().policy("export", "concurrency 2").build()?;
    /// let export = engine.policy("export")?;
    /// assert_eq!((export.name(), export.kind()), ("export", PolicyKind::Concurrency));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> &str {
        self.as_ref().view.name()
    }

    /// What it is asked for.
    ///
    /// ```
    /// # use tidegate::{Engine, PolicyKind};
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// assert_eq!(engine.policy("api")?.kind(), PolicyKind::Limits);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn kind(&self) -> PolicyKind {
        self.as_ref().kind()
    }

    /// All else that a policy can be asked: to acquire permits, to reserve, what it consists of.
    ///
    /// ```
    /// # use tidegate::{Engine, Key};
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let export = engine.policy("export")?;
    /// let held = export.as_ref().acquire(Key::One(b"user-42"), 1).now()?;
    /// assert!(held.permit.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn as_ref(&self) -> PolicyRef<'_, C> {
        let policy = self.engine.state.policies.known(self.index);
        PolicyRef { engine: &self.engine, view: PolicyView { policy } }
    }
}

impl<C> Clone for PolicyHandle<C> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), index: self.index }
    }
}

impl<C> fmt::Debug for PolicyHandle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.engine.state.policies.known(self.index);
        f.debug_tuple("PolicyHandle").field(&policy.name).finish()
    }
}
