//! The engine: named policies over one store. Every door goes through it.

mod answer;
mod binding;
mod error;
mod given;
mod handle;
mod in_force;
mod loaded;
mod overrides;
mod policies;
mod question;
mod queued;
mod refund;
mod settle;
mod stores;
mod successor;
mod together;
mod view;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::{LimitError, Reservation};

pub use answer::Answer;
pub use binding::BindingLimit;
pub use error::{BuildError, CheckError};
pub use handle::PolicyHandle;
use loaded::{Loaded, Table};
pub use overrides::{OverrideError, RunTimeOverrides};
use policies::Policies;
pub use question::{Check, Key, Question};
pub use queued::Queued;
use stores::Stores;
use successor::Kept;
pub use together::Together;
pub use view::PolicyView;

use crate::clock::{Clock, SystemClock};
use crate::permit::{Acquired, PermitId};
use crate::policy::{Policy, PolicyProblem};
use crate::reply::Reply;
#[cfg(feature = "leases")]
use crate::store::leases::{LeaseStats, Leases};
use crate::store::memory::MemoryStore;
use crate::store::{Op, Store};

/// Named policies over one store. Clones share everything.
///
/// ```
/// use tidegate::{Engine, Policy};
///
/// let engine = Engine::builder()
///     .policy("api", "100/min burst 20")
///     .policy("plan", Policy::all().limit("second", "10/s").limit("day", "fixed-window 10000/day"))
///     .build()?;
///
/// let answer = engine.check("plan", "user-42").now()?;
/// assert!(answer.decision.allowed());
/// assert_eq!(answer.binding, "second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine<C = SystemClock> {
    shared: Arc<Shared<C>>,
}

#[derive(Debug)]
struct Shared<C> {
    stores: Stores<C>,
    /// Stands in for the store while that fails, with this node's share of each limit.
    local: Arc<MemoryStore>,
    /// How many nodes share the store; by default what that says.
    nodes: Option<NonZeroU32>,
    clock: Arc<C>,
    policies: Policies,
    /// What the policies have been told at run time.
    loaded: Loaded,
}

/// Builds an [`Engine`].
///
/// ```
/// use tidegate::{Engine, ManualClock, MemoryStore};
///
/// let engine = Engine::builder()
///     .store(MemoryStore::with_max_bytes(16 << 20))
///     .clock(ManualClock::default())
///     .policy("api", "100/min burst 20")
///     .policy("login", "sliding-log 5/h")
///     .build()?;
/// assert_eq!(engine.check("login", "user-42").now()?.decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder builds nothing by itself"]
pub struct EngineBuilder<C = SystemClock> {
    store: Option<Arc<dyn Store>>,
    /// What the engine before had besides its store; empty for the first.
    kept: Kept,
    nodes: Option<NonZeroU32>,
    clock: Arc<C>,
    policies: Vec<(String, Result<Policy, LimitError>)>,
}

impl<C> Clone for Engine<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl Engine {
    /// An engine to be filled with policies.
    ///
    /// ```
    /// # use tidegate::{CheckError, Engine};
    /// let empty = Engine::builder().build()?;
    /// let unknown = CheckError::UnknownPolicy("api".into());
    /// assert_eq!(empty.check("api", "user-42").now(), Err(unknown));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn builder() -> EngineBuilder {
        let (kept, clock) = (Kept::default(), Arc::new(SystemClock));
        EngineBuilder { store: None, kept, nodes: None, clock, policies: Vec::new() }
    }
}

impl<C: Clock> EngineBuilder<C> {
    /// Keeps state in a store that others may share; by default in memory.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Engine, MemoryStore};
    /// let store = Arc::new(MemoryStore::default());
    /// let before = Engine::builder().store(store.clone()).policy("api", "1/h").build()?;
    /// assert!(before.check("api", "user-42").now()?.decision.allowed());
    /// // Built anew with other policies, as on a reload: what was spent stays spent.
    /// let after = Engine::builder().store(store).policy("api", "1/day").build()?;
    /// assert!(!after.check("api", "user-42").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self.kept = Kept::default(); // it was of another store
        self
    }

    /// How many nodes share the store: what part of each limit this one may grant by itself while the store fails.
    /// By default as many as the [store](Store::nodes) last knew of, and one where it knows of none.
    ///
    /// ```
    /// # use tidegate::{Engine, Source};
    /// # use tidegate::{StoreRequest, ReserveReply, Reply, StoreReply, Store, StoreError, Timestamp, StoreErrorKind, ReserveRequest};
    /// # #[derive(Debug)]
    /// # struct Down;
    /// # impl Store for Down {
    /// #     fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> Reply<'static, StoreReply, StoreError> {
    /// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
    /// #     }
    /// #     fn reserve(&self, _: &ReserveRequest<'_>, _: Timestamp) -> Reply<'static, ReserveReply, StoreError> {
    /// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
    /// #     }
    /// # }
    /// let engine = Engine::builder()
    ///     .store(Down) // one that never answers
    ///     .nodes("4".parse()?)
    ///     .policy("api", "fixed-window 100/h")
    ///     .build()?;
    /// let answer = engine.check("api", "user-42").now()?;
    /// assert_eq!((answer.source, answer.decision.limit()), (Source::Local, 25));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(mut self, nodes: NonZeroU32) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Takes time from another clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, ManualClock};
    /// let clock = ManualClock::default();
    /// let engine = Engine::builder().clock(clock.clone()).policy("api", "1/h").build()?;
    /// assert!(engine.check("api", "user-42").now()?.decision.allowed());
    /// clock.advance(Duration::from_secs(3600)); // a test need not wait
    /// assert!(engine.check("api", "user-42").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> EngineBuilder<D> {
        let Self { store, kept, nodes, policies, .. } = self;
        // What has a life has it by the other clock: it is loaded anew.
        let kept = Kept { table: Table::default(), ..kept };
        EngineBuilder { store, kept, nodes, clock: Arc::new(clock), policies }
    }

    /// Adds a policy: a limit, the text of one, or a [`Policy`]. A name that is there already is replaced.
    ///
    /// ```
    /// # use tidegate::{Engine, Limit, Policy};
    /// let limit: Limit = "5/h".parse()?;
    /// let engine = Engine::builder()
    ///     .policy("text", "5/h")
    ///     .policy("limit", limit)
    ///     .policy("policy", Policy::any().limit("hour", "5/h").limit("day", "20/day"))
    ///     .build()?;
    /// assert!(engine.policies().map(|policy| policy.name()).eq(["limit", "policy", "text"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(
        mut self,
        name: impl Into<String>,
        policy: impl TryInto<Policy, Error: Into<LimitError>>,
    ) -> Self {
        self.policies.push((name.into(), policy.try_into().map_err(Into::into)));
        self
    }

    /// The engine; an error for the first policy that makes no sense.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let built = Engine::builder().policy("api", "100/fortnight").build();
    /// assert!(built.is_err_and(|error| error.policy == "api"));
    /// ```
    pub fn build(self) -> Result<Engine<C>, BuildError>
    where
        C: 'static,
    {
        let mut policies = BTreeMap::new();
        for (name, policy) in self.policies {
            let compiled =
                policy.map_err(PolicyProblem::Limit).and_then(|policy| policy.compile(&name));
            let compiled =
                compiled.map_err(|problem| BuildError { policy: name.clone(), problem })?;
            policies.insert(name, compiled);
        }
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::default()));
        let Kept { local, known, table } = self.kept;
        let local = local.unwrap_or_default();
        let (nodes, clock) = (self.nodes, self.clock);
        let policies = Policies::new(policies);
        let stores = Stores::new(store, known, &clock, policies.iter());
        let loaded = Loaded::of(table, &policies);
        let shared = Shared { stores, local, nodes, clock, policies, loaded };
        Ok(Engine { shared: Arc::new(shared) })
    }
}

#[cfg(feature = "leases")]
impl<C: Clock + 'static> Engine<C> {
    /// What leases have done so far; nothing where there are none.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/s").build()?;
    /// assert_eq!(engine.lease_stats().requests, 0); // a store in memory needs no leases
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn lease_stats(&self) -> LeaseStats {
        let sum = |sum: LeaseStats, one: LeaseStats| LeaseStats {
            keys: sum.keys + one.keys,
            requests: sum.requests + one.requests,
            granted: sum.granted + one.granted,
            returned: sum.returned + one.returned,
            decided: sum.decided + one.decided,
        };
        self.shared.stores.leases().map(Leases::stats).fold(LeaseStats::default(), sum)
    }

    /// Gives all leases back: before the process ends, so that others can have what is left of them.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// # let engine = Engine::builder().policy("api", "5/s").build()?;
    /// engine.release_leases();
    /// # assert_eq!(engine.lease_stats().keys, 0);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn release_leases(&self) {
        self.shared.stores.leases().for_each(Leases::release);
    }
}

impl<C: Clock + 'static> Engine<C> {
    /// Spends one unit of `key` under a policy, if there is one.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("login", "1/h").build()?;
    /// assert!(engine.check("login", "user-42").now()?.decision.allowed());
    /// assert!(!engine.check("login", "user-42").now()?.decision.allowed()); // a refusal is no error
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, policy: &str, key: impl AsRef<[u8]>) -> Reply<'_, Answer<'_>, CheckError> {
        self.ask(&Check { policy, key: Key::One(key.as_ref()), cost: 1 }, Op::Take)
    }

    /// Answers a question: takes, peeks, refunds or resets, over all limits of the policy in one atomic step. What a
    /// refund gives back where limits differ or have changed, [`Op::Refund`] tells.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Op};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let check = Check { policy: "api", key: Key::One(b"user-42"), cost: 4 };
    /// assert_eq!(engine.ask(&check, Op::Take).now()?.decision.remaining(), 6);
    /// assert_eq!(engine.ask(&check, Op::Peek).now()?.decision.remaining(), 2); // if it were taken
    /// assert_eq!(engine.ask(&check, Op::Refund).now()?.decision.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask(&self, check: &Check<'_>, op: Op) -> Reply<'_, Answer<'_>, CheckError> {
        match self.policy(check.policy) {
            Ok(policy) => policy.ask(check.key, check.cost, op),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// Whether a question has an answer, without asking it: for those who want to charge several or none.
    ///
    /// ```
    /// # use tidegate::{Check, CheckError, Engine, Key, Op};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let check = |policy| Check { policy, key: Key::One(b"user-42"), cost: 1 };
    /// let batch = [check("api"), check("apj")];
    /// let valid = batch.iter().try_for_each(|check| engine.validate(check, Op::Take));
    /// assert_eq!(valid, Err(CheckError::UnknownPolicy("apj".into()))); // before anything is spent
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn validate(&self, check: &Check<'_>, op: Op) -> Result<(), CheckError> {
        self.policy(check.policy)?.validate(check.key, op)
    }

    /// Like [`Engine::check`], for policies that limit concurrency: places are given back when the permit is
    /// dropped, or when their lease ends. Where no limit had a say, or a [shadow](Policy::shadow) policy would have
    /// refused, the permit holds no place.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let held = engine.acquire("export", "user-42").now()?;
    /// assert!(held.permit.is_some());
    /// assert!(!engine.acquire("export", "user-42").now()?.answer.decision.allowed());
    /// drop(held);
    /// assert!(engine.acquire("export", "user-42").now()?.answer.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(
        &self,
        policy: &str,
        key: impl AsRef<[u8]>,
    ) -> Reply<'_, Acquired<Answer<'_>>, CheckError> {
        self.acquire_for(&Check { policy, key: Key::One(key.as_ref()), cost: 1 })
    }

    /// [`Engine::acquire`], for several identifiers or several places at once.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key};
    /// let engine = Engine::builder().policy("export", "concurrency 3 lease 30s").build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 2 };
    /// let held = engine.acquire_for(&check).now()?;
    /// assert_eq!(held.answer.decision.remaining(), 1);
    /// assert!(engine.acquire_for(&check).now()?.permit.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_for(&self, check: &Check<'_>) -> Reply<'_, Acquired<Answer<'_>>, CheckError> {
        match self.policy(check.policy) {
            Ok(policy) => policy.acquire(check.key, check.cost),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// Gives back what a permit held, however many places that were: the cost of the check does not matter here. To do
    /// so twice does no harm, as ids do not repeat; so a release that failed may be sent again.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Permit};
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// let id = engine.acquire_for(&check).now()?.permit.map(Permit::into_id).unwrap();
    /// engine.release(&check, &id).now()?;
    /// engine.release(&check, &id).now()?;
    /// assert!(engine.acquire_for(&check).now()?.answer.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&self, check: &Check<'_>, permit: &PermitId) -> Reply<'_, (), CheckError> {
        match self.policy(check.policy) {
            Ok(policy) => policy.release(check.key, permit),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// The store that permits are kept in.
    fn holder(&self, stands_in: bool) -> Arc<dyn Store> {
        if stands_in { self.shared.local.clone() } else { self.shared.stores.plain.store.clone() }
    }

    /// Takes a place in a shaper's queue. The caller waits, unless the policy is a [shadow](Policy::shadow): then every
    /// place is at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Check, Engine, Key, ManualClock, Policy};
    /// let engine = Engine::builder()
    ///     .clock(ManualClock::default())
    ///     .policy("export", Policy::shaper("2/s max-wait 5s"))
    ///     .build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// assert_eq!(engine.reserve(&check).now()?.delay(), Duration::ZERO);
    /// assert_eq!(engine.reserve(&check).now()?.delay(), Duration::from_millis(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, check: &Check<'_>) -> Reply<'_, Reservation, CheckError> {
        match self.policy(check.policy) {
            Ok(policy) => policy.reserve(check.key, check.cost),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    /// The policies by name, in order.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("login", "5/h").policy("api", "100/min").build()?;
    /// let names: Vec<&str> = engine.policies().map(|policy| policy.name()).collect();
    /// assert_eq!(names, ["api", "login"]);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn policies(&self) -> impl Iterator<Item = PolicyView<'_>> {
        self.shared.policies.iter().map(|policy| PolicyView { policy })
    }

    /// Whether all is counted in this process.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// assert!(Engine::builder().build()?.is_local());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn is_local(&self) -> bool {
        self.shared.stores.plain.store.extensions().is_local()
    }

    /// How many nodes share the store, as far as is known.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// assert_eq!(Engine::builder().nodes("3".parse()?).build()?.nodes().get(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(&self) -> NonZeroU32 {
        let Shared { nodes, stores, .. } = &*self.shared;
        nodes
            .or_else(|| stores.plain.store.extensions().coordination?.nodes())
            .unwrap_or(NonZeroU32::MIN)
    }
}
