//! What an [`Engine`] is asked, and what it answers: policies by name, over one store.
//!
//! - A [`Check`] names a policy, a [`Key`] and a cost; an [`Op`] says what to do with them.
//! - A [`Reply`] is an [`Answer`] that is known now, or a future of it. A [`CheckError`] is a question without an answer.
//! - [`PolicyHandle`] is a policy that was looked up once, to be kept; [`PolicyRef`] is borrowed, and [`PolicyView`] shows it.
//! - [`Permit`]s belong to limits on concurrency, and a [`Queued`] place to a shaper.
//! - [`Together`] is the answer to several checks in one step, [`GivenAnswer`] that to a limit which came with the question.
//! - [`RunTimeOverrides`] change what single keys get while the engine runs.

mod answer;
mod builder;
mod decide;
mod error;
mod fallback;
mod given;
mod handle;
mod in_force;
mod overrides;
mod policies;
mod question;
mod queued;
mod shares;
mod step;
mod stores;
mod together;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::Reservation;

pub use answer::{Answer, BindingLimit};
pub use builder::EngineBuilder;
pub use error::{BuildError, CheckError};
pub use given::GivenAnswer;
pub use handle::PolicyHandle;
pub(crate) use in_force::OwnLimits;
use overrides::LoadedOverrides;
pub use overrides::{OverrideError, RunTimeOverrides};
use policies::Policies;
pub use policies::{PolicyRef, PolicyView};
pub(crate) use question::GLOBAL;
pub use question::{Check, Key, Question};
pub use queued::Queued;
pub use shares::ShareStatus;
pub(crate) use shares::Shares;
use stores::Stores;
pub use together::Together;

use crate::clock::{Clock, SystemClock};
use crate::key::AsKey;
use crate::permit::Holder;
pub use crate::permit::{Acquired, BadPermitId, Permit, PermitId, Released, Renewed};
pub use crate::reply::{Later, Reply, UnderWay};
use crate::store::Store;
#[cfg(feature = "leases")]
use crate::store::leases::{LeaseStats, Leases};
use crate::store::memory::MemoryStore;
pub use crate::store::{Op, Source};

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
    state: Arc<EngineState<C>>,
}

#[derive(Debug)]
struct EngineState<C> {
    stores: Stores<C>,
    /// Stands in for the store while that fails, with this node's share of each limit.
    local: Arc<LocalStore>,
    /// How many nodes share the store; by default the store's own count.
    nodes: Option<NonZeroU32>,
    clock: Arc<C>,
    policies: Policies,
    overrides: LoadedOverrides,
}

/// What this node counts by itself while the store fails.
#[derive(Debug)]
struct LocalStore {
    store: Arc<MemoryStore>,
    /// Tells its permits from those of other nodes. Random, and so another one after a restart.
    node: u64,
}

impl Default for LocalStore {
    fn default() -> Self {
        let node = RandomState::new().build_hasher().finish();
        Self { store: Arc::default(), node }
    }
}

impl<C> Clone for Engine<C> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
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
        self.state.stores.leases().map(Leases::stats).fold(LeaseStats::default(), sum)
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
        self.state.stores.leases().for_each(Leases::release);
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
    pub fn check(&self, policy: &str, key: impl AsKey) -> Reply<'_, Answer<'_>, CheckError> {
        self.ask(&Check { policy, key: Key::One(key.as_key().as_ref()), cost: 1 }, Op::Take)
    }

    /// Answers a question: takes, peeks, refunds or resets, over all limits of the policy in one atomic step. [`Op::Refund`]
    /// describes what is given back where limits differ or have changed.
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
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.ask(check.key, check.cost, op))
    }

    /// Whether a question can be asked, without asking it: for callers that charge several or none.
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
        self.policy_ref(check.policy)?.validate(check.key, check.cost, op)
    }

    /// Like [`Engine::check`], for policies that limit concurrency: the permit is released when it is dropped, or when its
    /// lease ends. If no limit applied, or a [shadow](crate::Policy::shadow) policy would have refused, the permit holds
    /// nothing.
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
        key: impl AsKey,
    ) -> Reply<'_, Acquired<Answer<'_>>, CheckError> {
        self.acquire_for(&Check { policy, key: Key::One(key.as_key().as_ref()), cost: 1 })
    }

    /// [`Engine::acquire`], for several identifiers or a cost above 1.
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
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.acquire(check.key, check.cost))
    }

    /// Releases a permit, whatever its cost: that of the check does not matter here. Releasing twice does no harm, as ids
    /// do not repeat; so a release that failed may be sent again. Any node with the same store can release it, also after
    /// limits were added to the policy, removed or reordered; what was found is [`Released`].
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
    pub fn release(&self, check: &Check<'_>, permit: &PermitId) -> Reply<'_, Released, CheckError> {
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.release(check.key, permit))
    }

    /// Gives a permit a whole lease from now, if it is still held. Like a release, it works on any node with the same store,
    /// and the check's cost does not matter. A [`Permit`] renews itself; this is for its [id](Permit::into_id).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Check, Engine, Key, ManualClock, Permit, Renewed};
    /// let clock = ManualClock::default();
    /// let engine =
    ///     Engine::builder().clock(clock.clone()).policy("export", "concurrency 1 lease 30s").build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// let id = engine.acquire_for(&check).now()?.permit.map(Permit::into_id).unwrap();
    /// clock.advance(Duration::from_secs(20));
    /// assert_eq!(engine.renew(&check, &id).now()?, Renewed::For(Duration::from_secs(30)));
    /// clock.advance(Duration::from_secs(20));
    /// assert!(engine.acquire_for(&check).now()?.permit.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn renew(&self, check: &Check<'_>, permit: &PermitId) -> Reply<'_, Renewed, CheckError> {
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.renew(check.key, permit))
    }

    /// The store that permits are kept in; `None` if it is another node's.
    fn store_of(&self, holder: Holder) -> Option<Arc<dyn Store>> {
        let EngineState { stores, local, .. } = &*self.state;
        match holder {
            Holder::Store => Some(stores.plain.store.clone()),
            Holder::Node(node) => (node == local.node).then(|| local.store.clone() as _),
        }
    }

    /// Makes a reservation in a shaper's queue. The caller waits for its delay, which is zero if the policy is a
    /// [shadow](crate::Policy::shadow).
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
        self.policy_ref(check.policy)
            .map_or_else(Reply::failed, |policy| policy.reserve(check.key, check.cost))
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
        self.state.policies.iter().map(|policy| PolicyView { policy })
    }

    /// Whether all is counted in this process.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// assert!(Engine::builder().build()?.is_local());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn is_local(&self) -> bool {
        self.state.stores.plain.store.extensions().is_local()
    }

    /// The instant by the engine's clock.
    #[cfg(feature = "tower")]
    pub(crate) fn now(&self) -> tidegate_core::Timestamp {
        self.state.clock.now()
    }

    /// How many nodes share the store, as far as is known.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// assert_eq!(Engine::builder().nodes("3".parse()?).build()?.nodes().get(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(&self) -> NonZeroU32 {
        let EngineState { nodes, stores, .. } = &*self.state;
        nodes
            .or_else(|| stores.plain.store.extensions().coordination?.nodes())
            .unwrap_or(NonZeroU32::MIN)
    }
}
