//! The policies of an engine: by name and by number, as they are shown, and as they are asked.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use rapidhash::RapidHashMap;
use tidegate_core::{LeakyBucket, LeaseError, Limit, Mode, Reservation, Terms};

use super::decide::Decided;
use super::{Answer, CheckError, Engine, Key, OwnLimits, Queued, ShareStatus, Shares};
use crate::clock::{Clock, SystemClock};
use crate::key::AsKey;
use crate::permit::{Acquired, Held, HeldPermits, Holder, Permit, PermitId, Released, Renewed};
use crate::policy::Share;
use crate::policy::{
    Compiled, CompiledKind, Member, OnStoreError, OverrideInForce, Percent, PolicyKind,
};
use crate::reply::Reply;
use crate::store::{Op, Replicas, ReserveRequest, Source, StoreReply, StoreResult};

/// Policies in the order of their names. A check finds its own with one hash.
#[derive(Debug)]
pub(super) struct Policies {
    in_order: Vec<Compiled>,
    by_name: RapidHashMap<Box<str>, usize>,
}

impl Policies {
    pub(super) fn new(named: BTreeMap<String, Compiled>) -> Self {
        let number =
            |(index, (_, policy)): (usize, (String, Compiled))| Compiled { index, ..policy };
        let in_order: Vec<_> = named.into_iter().enumerate().map(number).collect();
        let by_name = in_order.iter().map(|policy| (policy.name.clone(), policy.index)).collect();
        Self { in_order, by_name }
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Compiled> {
        self.by_name.get(name).and_then(|index| self.in_order.get(*index))
    }

    pub(super) fn at(&self, index: usize) -> Option<&Compiled> {
        self.in_order.get(index)
    }

    /// One that is there.
    #[inline]
    pub(super) fn known(&self, index: usize) -> &Compiled {
        &self.in_order[index]
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Compiled> {
        self.in_order.iter()
    }
}

/// A policy as an engine holds it, to be shown.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Engine, Mode, Policy, PolicyKind, PolicyView};
///
/// let engine = Engine::builder()
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("plan", Policy::all().limit("second", "10/s").limit("day", "fixed-window 9/day"))
///     .build()?;
/// let views: Vec<PolicyView> = engine.policies().collect();
/// assert_eq!((views[0].name(), views[0].mode()), ("export", None));
/// assert_eq!(views[0].kind(), PolicyKind::Shaper);
/// assert!(views[0].shaper().is_some_and(|shaper| shaper.max_wait() == Duration::from_secs(5)));
/// assert_eq!((views[1].name(), views[1].mode()), ("plan", Some(Mode::All)));
/// assert!(views[1].members().map(|member| member.limit.units()).eq([10, 9]));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PolicyView<'a> {
    pub(super) policy: &'a Compiled,
}

impl<'a> PolicyView<'a> {
    /// The policy's name.
    pub const fn name(&self) -> &'a str {
        &self.policy.name
    }

    /// Its index among the [policies](crate::Engine::policies) of its engine: for those who keep something of their own
    /// beside each.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/s").policy("login", "5/h").build()?;
    /// let asked = vec![0; engine.policies().count()];
    /// assert_eq!(asked[engine.policy_ref("login")?.index()], 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn index(&self) -> usize {
        self.policy.index
    }

    /// What it is asked for.
    pub const fn kind(&self) -> PolicyKind {
        self.policy.purpose
    }

    /// How its limits make one answer; `None` for a shaper.
    pub const fn mode(&self) -> Option<Mode> {
        match &self.policy.kind {
            CompiledKind::Limits { mode, .. } => Some(*mode),
            CompiledKind::Shaper(..) => None,
        }
    }

    /// Its limits, in declared order; none for a shaper.
    pub fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.policy.members().iter().map(|(_, member)| member)
    }

    /// How many units of the limit that [binds](Answer::binding) an answer each unit of the check's cost takes.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::all().limit("requests", "100/min").limit("units", "500/min").cost("units", 10);
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// let (plan, answer) = (engine.policy_ref("plan")?, engine.check("plan", "user-42").now()?);
    /// assert_eq!((answer.binding, plan.cost_of(answer.binding)), ("units", 10));
    /// assert_eq!(plan.cost_of("requests"), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost_of(&self, binding: &str) -> u64 {
        let binds = |(_, member): &&(_, Member)| member.name == binding;
        let found = match self.policy.members() {
            [only] => Some(only),
            several => several.iter().find(binds),
        };
        found.map_or(1, |(_, member)| member.cost.get())
    }

    /// Whether a store that spreads keys over nodes keeps all keys of the policy on one: where its limits count several
    /// identifiers, or where it shares a [tag](crate::Policy::tagged).
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let signup = Policy::all().limit_by("ip", "ip", "3/h").limit_by("mail", "domain", "50/h");
    /// let engine = Engine::builder().policy("api", "5/s").policy("signup", signup).build()?;
    /// assert!(engine.policies().map(|policy| policy.is_together()).eq([false, true]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn is_together(&self) -> bool {
        self.policy.members().iter().any(|(scope, _)| scope.is_together())
    }

    /// Whose limit its tenants share, and what tells them apart; `None` if it is no [share](crate::Policy::share).
    ///
    /// ```
    /// # use tidegate::{Engine, Policy, Share};
    /// let total = Policy::all().limit_by("", "global", "100/s");
    /// let share = Share::of("total", "tenant");
    /// let engine = Engine::builder().policy("total", total).policy("api", Policy::share(share.clone())).build()?;
    /// assert_eq!(engine.policy_ref("api")?.share(), Some(&share));
    /// assert_eq!((share.shared(), share.by()), ("total", "tenant"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn share(&self) -> Option<&'a Share> {
        self.policy.share.as_ref().map(Shares::share)
    }

    /// How its tenants share its limit just now; `None` if it is no [share](crate::Policy::share).
    ///
    /// ```
    /// # use tidegate::{Engine, Policy, Share};
    /// let total = Policy::all().limit_by("", "global", "100/s");
    /// let tenants = Policy::share(Share::of("total", "tenant"));
    /// let engine = Engine::builder().policy("total", total).policy("tenants", tenants).build()?;
    /// let is_share = engine.policies().map(|policy| policy.share_status().is_some());
    /// assert!(is_share.eq([true, false])); // tenants, total
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn share_status(&self) -> Option<ShareStatus> {
        self.policy.share.as_ref().map(Shares::status)
    }

    /// Whether it is only [tried out](crate::Policy::shadow).
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let beta = Policy::all().limit("", "10/s").shadow(true);
    /// let engine = Engine::builder().policy("api", "5/s").policy("beta", beta).build()?;
    /// assert!(engine.policies().map(|policy| policy.is_shadow()).eq([false, true]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub const fn is_shadow(&self) -> bool {
        self.policy.options.shadow
    }

    /// The part of all callers that it is [enforced](crate::Policy::enforce) for; `None` where that is not limited.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let beta = Policy::all().limit("", "10/s").enforce("0.5%");
    /// let engine = Engine::builder().policy("api", "5/s").policy("beta", beta).build()?;
    /// let parts: Vec<_> = engine.policies().map(|policy| policy.enforce()).collect();
    /// assert_eq!(parts, [None, Some("0.5%".parse()?)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn enforce(&self) -> Option<Percent> {
        self.policy.options.enforce
    }

    /// What it answers while the store does not. A [share](crate::Policy::share) that was given nothing answers as the
    /// policy that it shares.
    ///
    /// ```
    /// # use tidegate::{Engine, OnStoreError, Policy};
    /// let login = Policy::all().limit("", "5/h").on_store_error(OnStoreError::DENY);
    /// let engine = Engine::builder().policy("api", "5/s").policy("login", login).build()?;
    /// let answers = engine.policies().map(|policy| policy.on_store_error());
    /// assert!(answers.eq([OnStoreError::Local, OnStoreError::DENY]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn on_store_error(&self) -> OnStoreError {
        self.policy.on_store_error()
    }

    /// The replicas that have to [confirm](crate::Policy::replicas) a charge; `None` if none has to.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy, Replicas};
    /// let sms = Policy::all().limit("", "5/day").replicas(Replicas::default());
    /// let engine = Engine::builder().policy("api", "5/s").policy("sms", sms).build()?;
    /// assert!(engine.policies().map(|policy| policy.replicas().is_some()).eq([false, true]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub const fn replicas(&self) -> Option<Replicas> {
        self.policy.options.replicas
    }

    /// Whether a [quorum](crate::Policy::quorum) is to count it.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let payout = Policy::all().limit("", "5/day").quorum(true);
    /// let engine = Engine::builder().policy("api", "5/s").policy("payout", payout).build()?;
    /// assert!(engine.policies().map(|policy| policy.is_in_quorum()).eq([false, true]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub const fn is_in_quorum(&self) -> bool {
        self.policy.options.quorum
    }

    /// How long a state of its limits [matters](tidegate_core::Limit::state_life_max) at most.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::all().limit("second", "10/s").limit("hour", "fixed-window 99/h");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// assert_eq!(engine.policy_ref("plan")?.state_life_max(), Duration::from_hours(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state_life_max(&self) -> Duration {
        match &self.policy.kind {
            CompiledKind::Shaper(_, shaper) => shaper.state_life_max(),
            CompiledKind::Limits { members, .. } => {
                let lives = members.iter().map(|(_, member)| member.limit.state_life_max());
                lives.max().unwrap_or_default()
            }
        }
    }

    /// Why a policy that asks for leases runs without, where it does: its burst or period is too small for them.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let tight = Policy::all().limit("", "1/s burst 1").lease(true);
    /// let engine = Engine::builder().policy("tight", tight).build()?;
    /// let problems: Vec<_> = engine.policies().filter_map(|policy| policy.lease_problem()).collect();
    /// assert_eq!(problems.len(), 1);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn lease_problem(&self) -> Option<LeaseError> {
        let limits = self.policy.members().iter();
        let limits = limits.map(|(scope, member)| (&member.limit, scope.factor()));
        let terms = self.policy.options.lease.then(|| Terms::weighted(limits))?;
        terms.err()
    }

    /// The shaper, if it is one.
    pub const fn shaper(&self) -> Option<&'a LeakyBucket> {
        match &self.policy.kind {
            CompiledKind::Shaper(_, limit) => Some(limit),
            CompiledKind::Limits { .. } => None,
        }
    }
}

/// A policy of an engine, found once and borrowed from it: what a [`PolicyHandle`](crate::PolicyHandle) asks, and for
/// those who look a policy up for each request. It shows the policy too, as a [`PolicyView`].
///
/// ```
/// use tidegate::{Engine, Key, Op, Policy, PolicyKind, PolicyRef, Renewed};
///
/// let engine = Engine::builder()
///     .policy("api", "10/h")
///     .policy("export", "concurrency 1")
///     .policy("mail", Policy::shaper("2/s max-wait 5s"))
///     .build()?;
/// let api: PolicyRef = engine.policy_ref("api")?;
/// assert_eq!(api.check("user-42").now()?.decision.remaining(), 9);
/// assert_eq!(api.ask(Key::One(b"user-42"), 4, Op::Take).now()?.decision.remaining(), 5);
///
/// // What it is for is known before it is asked.
/// assert_eq!((api.name(), api.kind()), ("api", PolicyKind::Limits));
/// let export = engine.policy_ref("export")?;
/// assert_eq!(export.kind(), PolicyKind::Concurrency);
/// let user = Key::One(b"user-42");
/// assert!(export.validate(user, 1, Op::Take).is_err()); // it has to be acquired
/// let permit = export.acquire(user, 1).now()?.permit.ok_or("refused")?;
/// let id = permit.into_id();
/// assert!(matches!(export.renew(user, &id).now()?, Renewed::For(_))); // once more for its whole lease
/// export.release(user, &id).now()?;
///
/// let mail = engine.policy_ref("mail")?;
/// assert!(mail.reserve(user, 1).now()?.accepted());
/// mail.queue(user, 1).now()?.keep();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PolicyRef<'e, C = SystemClock> {
    pub(crate) engine: &'e Engine<C>,
    pub(super) view: PolicyView<'e>,
}

impl<C> Clone for PolicyRef<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for PolicyRef<'_, C> {}

impl<'e, C> Deref for PolicyRef<'e, C> {
    type Target = PolicyView<'e>;

    fn deref(&self) -> &PolicyView<'e> {
        &self.view
    }
}

impl<C> fmt::Debug for PolicyRef<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyRef").field(&self.name()).finish()
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// [`Engine::policy`], borrowed: for those who look a policy up for each request.
    ///
    /// ```
    /// # use tidegate::{CheckError, Engine};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// assert!(engine.policy_ref("api")?.check("user-42").now()?.decision.allowed());
    /// assert_eq!(engine.policy_ref("apj").err(), Some(CheckError::UnknownPolicy("apj".into())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn policy_ref(&self, name: &str) -> Result<PolicyRef<'_, C>, CheckError> {
        let found = self.state.policies.get(name).map(|policy| PolicyView { policy });
        let found = found.map(|view| PolicyRef { engine: self, view });
        found.ok_or_else(|| CheckError::UnknownPolicy(name.to_owned()))
    }

    /// The policy at an [index](PolicyView::index): for those who have looked its name up before.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "10/h").policy("login", "5/h").build()?;
    /// let index = engine.policy_ref("login")?.index();
    /// assert_eq!(engine.policy_at(index).map(|policy| policy.name()), Some("login"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn policy_at(&self, index: usize) -> Option<PolicyRef<'_, C>> {
        let found = self.state.policies.at(index).map(|policy| PolicyView { policy });
        found.map(|view| PolicyRef { engine: self, view })
    }
}

impl<'e, C: Clock + 'static> PolicyRef<'e, C> {
    /// [`Engine::check`].
    pub fn check(&self, key: impl AsKey) -> Reply<'e, Answer<'e>, CheckError> {
        self.ask(Key::One(key.as_key().as_ref()), 1, Op::Take)
    }

    /// [`Engine::ask`].
    #[inline]
    pub fn ask(&self, key: Key<'_>, cost: u64, op: Op) -> Reply<'e, Answer<'e>, CheckError> {
        match self.can_do(op) {
            Ok(()) => self.engine.decide(self.compiled(), key, cost, op),
            Err(error) => Reply::failed(error),
        }
    }

    /// [`Engine::validate`].
    pub fn validate(&self, key: Key<'_>, cost: u64, op: Op) -> Result<(), CheckError> {
        self.can_do(op)?;
        let policy = self.compiled();
        policy.check_cost(cost)?;
        if self.kind() == PolicyKind::Shaper {
            return Err(CheckError::Shapes(policy.name()));
        }
        let own = self.engine.override_for(policy, key);
        if let Some(OverrideInForce::Allow | OverrideInForce::Block) = own {
            return Ok(()); // answered without a limit, whatever the limits count
        }
        let mut keys = policy.members().iter().map(|(_, member)| member.key.as_deref());
        keys.try_for_each(|name| key.find(policy, name).map(drop))
    }

    /// [`Engine::acquire_for`].
    pub fn acquire(&self, key: Key<'_>, cost: u64) -> Reply<'e, Acquired<Answer<'e>>, CheckError> {
        let (engine, policy) = (self.engine, self.compiled());
        let keys: Vec<_> = held_keys(policy, key).collect();
        let (own, asked_us) = (self.own_limits(key), engine.state.clock.steady_us());
        engine.decide(policy, key, cost, Op::Take).then(move |decided: Result<_, _>| {
            let Decided { answer, permits } = decided?;
            let held = |(index, id): (usize, u64)| {
                let (scope, member) = policy.members().get(index)?;
                let (cost, scope) = (scope.cost(cost), scope.clone());
                let limit = own.get(index).map_or(&member.limit, |own| own).clone();
                Some(Held { id: id.into(), cost, scope, key: keys.get(index)?.clone()?, limit })
            };
            let holder = match answer.source {
                Source::Local => Holder::Node(engine.state.local.node),
                _ => Holder::Store,
            };
            let held = permits.into_iter().filter_map(held).collect();
            let permit = engine.store_of(holder).map(|store| Permit::new(store, held, holder));
            let permit = permit.filter(|_| answer.decision.allowed());
            let permit = permit.map(|permit| permit.renewed(&engine.state.clock, asked_us));
            Ok(Acquired { answer, permit })
        })
    }

    /// [`Engine::release`].
    pub fn release(&self, key: Key<'_>, permit: &PermitId) -> Reply<'e, Released, CheckError> {
        let Some(store) = self.engine.store_of(permit.holder) else {
            return Reply::ready(Ok(Released::OtherNode));
        };
        let held = match self.held_under(key, permit) {
            Ok(held) => held,
            Err(error) => return Reply::failed(error),
        };
        let none = match (permit.held.is_empty(), held.is_empty()) {
            (true, _) => Released::Yes,
            (false, true) => Released::UnknownLimit,
            (false, false) => Released::NotHeld,
        };
        let now = self.engine.state.clock.now();
        let found = which_were_held(&held, |held| held.release(&*store, now));
        found.then(move |found| Ok(if found?.contains(&true) { Released::Yes } else { none }))
    }

    /// [`Engine::renew`].
    pub fn renew(&self, key: Key<'_>, permit: &PermitId) -> Reply<'e, Renewed, CheckError> {
        let Some(store) = self.engine.store_of(permit.holder) else {
            return Reply::ready(Ok(Renewed::OtherNode));
        };
        let held = match self.held_under(key, permit) {
            Ok(held) => held,
            Err(error) => return Reply::failed(error),
        };
        let leases = held.iter().map(|held| &held.limit);
        // A permit without places has nothing to renew, and is asked for again as one with places would be.
        let all = self.compiled().members().iter().map(|(_, member)| &member.limit);
        let all = all.filter(|limit| permit.held.is_empty() && limit.grants_permits());
        let Some(ttl) = leases.chain(all).map(Limit::period).min() else {
            return Reply::ready(Ok(Renewed::UnknownLimit));
        };
        let now = self.engine.state.clock.now();
        let found = which_were_held(&held, |held| held.renew(&*store, now));
        found.then(move |found| {
            let is_held = found?.into_iter().all(|is_held| is_held);
            Ok(if is_held { Renewed::For(ttl) } else { Renewed::NotHeld })
        })
    }

    /// The key's own limits, instead of the policy's.
    fn own_limits(&self, key: Key<'_>) -> OwnLimits<'e> {
        let (policy, clock) = (self.compiled(), &self.engine.state.clock);
        let only = match policy.override_for(key, clock) {
            Some(OverrideInForce::Limit(limit)) => Some(limit),
            Some(OverrideInForce::Allow | OverrideInForce::Block) | None => None,
        };
        policy.own_limits(key, only, clock)
    }

    /// What a permit holds under the limits that the policy has now, found by their names.
    fn held_under(&self, key: Key<'_>, permit: &PermitId) -> Result<Vec<Held>, CheckError> {
        let policy = self.compiled();
        let own = self.own_limits(key);
        let mut all = Vec::with_capacity(permit.held.len());
        for HeldPermits { limit: name, id, cost } in &permit.held {
            let is_named = |(_, (_, member)): &(usize, &(_, Member))| {
                member.name == *name && member.limit.grants_permits()
            };
            // A limit that the policy has no more is forgotten with its lease.
            let found = policy.members().iter().enumerate().find(is_named);
            let Some((index, (scope, member))) = found else { continue };
            let key = key.find(policy, member.key.as_deref())?.into();
            let limit = own.get(index).map_or(&member.limit, |own| own).clone();
            let scope = scope.clone();
            all.push(Held { id: (*id).into(), cost: *cost, scope, key, limit });
        }
        Ok(all)
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
            return Reply::failed(CheckError::DoesNotShape(policy.name()));
        };
        let found = match key.find(policy, None) {
            Ok(found) => found,
            Err(error) => return Reply::failed(error),
        };
        let in_shadow = policy.is_shadow_for(key);
        let known = match policy.override_for(key, &self.engine.state.clock) {
            Some(OverrideInForce::Allow) => Reservation::unlimited(),
            Some(OverrideInForce::Block) if in_shadow => Reservation::blocked().in_shadow(),
            Some(OverrideInForce::Block) => Reservation::blocked(),
            Some(OverrideInForce::Limit(_)) | None => {
                let request = ReserveRequest { scope, key: found, shaper, cost, cancel: None };
                return self.engine.shape(policy, &request, in_shadow);
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
    /// assert_eq!(engine.policy_ref("export")?.fails_closed(&error), Some(Duration::from_secs(60)));
    /// assert_eq!(engine.policy_ref("api")?.fails_closed(&error), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fails_closed(&self, error: &CheckError) -> Option<Duration> {
        let error = error.store_failure()?;
        match self.compiled().on_failure(error) {
            OnStoreError::Deny { retry_after } => Some(retry_after),
            OnStoreError::Allow | OnStoreError::Local => None,
        }
    }

    /// Whether it can be asked to do `op`: a check could not release a permit that it took.
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

/// Asks the store about each permit, and answers which of them it found held.
fn which_were_held<'e>(
    held: &[Held],
    ask: impl Fn(&Held) -> StoreResult<StoreReply>,
) -> Reply<'e, Vec<bool>, CheckError> {
    let is_held = |reply: StoreReply| !reply.permits.is_empty();
    let (mut found, mut pending) = (Vec::with_capacity(held.len()), Vec::new());
    for held in held {
        match ask(held).split() {
            Ok(Ok(reply)) => found.push(is_held(reply)),
            Ok(Err(error)) => return Reply::failed(error.into()),
            Err(later) => pending.push(later),
        }
    }
    if pending.is_empty() {
        return Reply::ready(Ok(found));
    }
    Reply::later(async move {
        for later in pending {
            found.push(is_held(later.await?));
        }
        Ok(found)
    })
}

/// The key that each limit of a policy counts.
fn held_keys<'a>(
    policy: &'a Compiled,
    key: Key<'a>,
) -> impl Iterator<Item = Option<Box<[u8]>>> + use<'a> {
    let members = policy.members().iter();
    members.map(move |(_, member)| key.get(member.key.as_deref()).map(Into::into))
}
