//! A policy that was looked up, to be asked again and again.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use tidegate_core::Reservation;

use super::{Answer, CheckError, Engine, Key, PolicyView, Queued};
use crate::clock::{Clock, SystemClock};
use crate::permit::{Acquired, Held, Permit, PermitId, Places};
use crate::policy::{Compiled, CompiledKind, Instead, OnStoreError, PolicyKind};
use crate::reply::Reply;
use crate::store::{Op, ReserveRequest, Source};

/// A policy of an engine, found once: to ask it needs no lookup by name. It shows the policy too, as a [`PolicyView`].
///
/// ```
/// use tidegate::{Engine, Key, Op, Policy, PolicyHandle, PolicyKind};
///
/// let engine = Engine::builder()
///     .policy("api", "10/h")
///     .policy("export", "concurrency 1")
///     .policy("mail", Policy::shaper("2/s max-wait 5s"))
///     .build()?;
/// let api: PolicyHandle = engine.policy("api")?;
/// assert_eq!(api.check("user-42").now()?.decision.remaining(), 9);
/// assert_eq!(api.ask(Key::One(b"user-42"), 4, Op::Take).now()?.decision.remaining(), 5);
///
/// // What it is for is known before it is asked.
/// assert_eq!((api.name(), api.kind()), ("api", PolicyKind::Limits));
/// let export = engine.policy("export")?;
/// assert_eq!(export.kind(), PolicyKind::Concurrency);
/// let user = Key::One(b"user-42");
/// assert!(export.validate(user, Op::Take).is_err()); // it has to be acquired
/// let permit = export.acquire(user, 1).now()?.permit.ok_or("refused")?;
/// export.release(user, &permit.into_id()).now()?;
///
/// let mail = engine.policy("mail")?;
/// assert!(mail.reserve(user, 1).now()?.accepted());
/// mail.queue(user, 1).now()?.keep();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PolicyHandle<'e, C = SystemClock> {
    engine: &'e Engine<C>,
    view: PolicyView<'e>,
}

impl<C> Clone for PolicyHandle<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for PolicyHandle<'_, C> {}

impl<'e, C> Deref for PolicyHandle<'e, C> {
    type Target = PolicyView<'e>;

    fn deref(&self) -> &PolicyView<'e> {
        &self.view
    }
}

impl<C> fmt::Debug for PolicyHandle<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyHandle").field(&self.name()).finish()
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// The policy of a name, to be asked without another lookup.
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
    #[inline]
    pub fn policy(&self, name: &str) -> Result<PolicyHandle<'_, C>, CheckError> {
        let found = self.shared.policies.get(name).map(|policy| PolicyView { policy });
        let handle = found.map(|view| PolicyHandle { engine: self, view });
        handle.ok_or_else(|| CheckError::UnknownPolicy(name.to_owned()))
    }

    /// The policy at an [index](PolicyView::index): for those who have looked its name up before.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "10/h").policy("login", "5/h").build()?;
    /// let index = engine.policy("login")?.index();
    /// assert_eq!(engine.policy_at(index).map(|policy| policy.name()), Some("login"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn policy_at(&self, index: usize) -> Option<PolicyHandle<'_, C>> {
        let found = self.shared.policies.at(index).map(|policy| PolicyView { policy });
        found.map(|view| PolicyHandle { engine: self, view })
    }
}

impl<'e, C: Clock + 'static> PolicyHandle<'e, C> {
    /// [`Engine::check`].
    pub fn check(&self, key: impl AsRef<[u8]>) -> Reply<'e, Answer<'e>, CheckError> {
        self.ask(Key::One(key.as_ref()), 1, Op::Take)
    }

    /// [`Engine::ask`].
    #[inline]
    pub fn ask(&self, key: Key<'_>, cost: u64, op: Op) -> Reply<'e, Answer<'e>, CheckError> {
        match self.can_do(op) {
            Ok(()) => {
                let decided = self.engine.decide(self.compiled(), key, cost, op);
                decided.then(|decided| decided.map(|it| it.answer))
            }
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// [`Engine::validate`].
    pub fn validate(&self, key: Key<'_>, op: Op) -> Result<(), CheckError> {
        self.can_do(op)?;
        let policy = self.compiled();
        if self.kind() == PolicyKind::Shaper {
            return Err(CheckError::Shapes(policy.name()));
        }
        let instead = policy.instead_for(key, &self.engine.shared.clock);
        if let Some(Instead::Allow | Instead::Block) = instead {
            return Ok(()); // answered without a limit, whatever the limits count
        }
        let mut keys = policy.members().iter().map(|(_, member)| member.key.as_deref());
        keys.try_for_each(|name| key.find(policy, name).map(drop))
    }

    /// [`Engine::acquire_for`].
    pub fn acquire(&self, key: Key<'_>, cost: u64) -> Reply<'e, Acquired<Answer<'e>>, CheckError> {
        let (engine, policy) = (self.engine, self.compiled());
        let keys: Vec<_> = held_keys(policy, key).collect();
        engine.decide(policy, key, cost, Op::Take).then(move |decided| {
            let decided = decided?;
            let held = |(index, id): (usize, u64)| {
                let (scope, member) = policy.members().get(index)?;
                let (scope, limit) = (scope.clone(), member.limit.clone());
                let (places, key) = (Places { index, id, cost }, keys.get(index)?.clone()?);
                Some(Held { places, scope, key, limit })
            };
            let answer = decided.answer;
            let stands_in = answer.source == Source::Local;
            let held = decided.permits.into_iter().filter_map(held).collect();
            let permit = || Permit::new(engine.holder(stands_in), held);
            let permit = answer.decision.allowed().then(permit);
            Ok(Acquired { answer, permit: permit.map(|permit| permit.standing_in(stands_in)) })
        })
    }

    /// [`Engine::release`].
    pub fn release(&self, key: Key<'_>, permit: &PermitId) -> Reply<'e, (), CheckError> {
        let policy = self.compiled();
        let keys: Vec<_> = held_keys(policy, key).collect();
        let store = self.engine.holder(permit.stands_in());
        let mut under_way = Vec::new();
        for &places in permit.places() {
            // A limit that the policy has no more is forgotten with its lease.
            let Some((scope, member)) = policy.members().get(places.index) else { continue };
            let Some(Some(key)) = keys.get(places.index).cloned() else { continue };
            let (scope, limit) = (scope.clone(), member.limit.clone());
            match (Held { places, scope, key, limit }).release(&*store).split() {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Reply::ready(Err(CheckError::Store(error))),
                Err(later) => under_way.push(later),
            }
        }
        if under_way.is_empty() {
            return Reply::ready(Ok(()));
        }
        Reply::later(async {
            for later in under_way {
                later.await.map_err(CheckError::Store)?;
            }
            Ok(())
        })
    }

    /// [`Engine::reserve`].
    pub fn reserve(&self, key: Key<'_>, cost: u64) -> Reply<'e, Reservation, CheckError> {
        self.queue(key, cost).then(|queued| {
            let queued = queued?;
            let reservation = queued.reservation();
            queued.keep();
            Ok(reservation)
        })
    }

    /// [`Engine::queue`].
    pub fn queue(&self, key: Key<'_>, cost: u64) -> Reply<'e, Queued, CheckError> {
        let policy = self.compiled();
        let CompiledKind::Shaper(scope, shaper) = &policy.kind else {
            return Reply::ready(Err(CheckError::DoesNotShape(policy.name())));
        };
        let found = match key.find(policy, None) {
            Ok(found) => found,
            Err(error) => return Reply::ready(Err(error)),
        };
        let known = match policy.instead_for(key, &self.engine.shared.clock) {
            Some(Instead::Allow) => Reservation::unlimited(),
            Some(Instead::Block) if policy.shadow => Reservation::blocked().in_shadow(),
            Some(Instead::Block) => Reservation::blocked(),
            Some(Instead::Limit(_)) | None => {
                let request = ReserveRequest { scope, key: found, shaper, cost, cancel: None };
                return self.engine.shape(policy, &request);
            }
        };
        Reply::ready(Ok(Queued::without_turn(known, Source::Store)))
    }

    /// How long a caller is asked to wait, where this error means that the policy turns everybody away while its store
    /// fails. A failure is no refusal: with HTTP a 503, not a 429.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{CheckError, Engine, OnStoreError, Policy, StoreError, StoreErrorKind};
    /// let export = Policy::shaper("2/s max-wait 5s").on_store_error(OnStoreError::DENY);
    /// let engine = Engine::builder().policy("export", export).policy("api", "5/s").build()?;
    /// let error = CheckError::Store(StoreError::new(StoreErrorKind::Timeout, "no answer"));
    /// assert_eq!(engine.policy("export")?.fails_closed(&error), Some(Duration::from_secs(60)));
    /// assert_eq!(engine.policy("api")?.fails_closed(&error), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fails_closed(&self, error: &CheckError) -> Option<Duration> {
        let error = error.store_failure()?;
        match self.compiled().on_failure(error) {
            OnStoreError::Deny { retry_after } => Some(retry_after),
            OnStoreError::Allow | OnStoreError::Local => None,
        }
    }

    /// Whether it can be asked to do `op`: a check could not give back a place that it took.
    fn can_do(&self, op: Op) -> Result<(), CheckError> {
        if op == Op::Take && self.kind() == PolicyKind::Concurrency {
            return Err(CheckError::NeedsAcquire(self.compiled().name()));
        }
        Ok(())
    }

    pub(super) const fn compiled(&self) -> &'e Compiled {
        self.view.policy
    }
}

/// The key that each limit of a policy counts.
fn held_keys<'a>(
    policy: &'a Compiled,
    key: Key<'a>,
) -> impl Iterator<Item = Option<Box<[u8]>>> + use<'a> {
    let members = policy.members().iter();
    members.map(move |(_, member)| key.get(member.key.as_deref()).map(Into::into))
}
