//! Builds an engine: the first one, or the successor of one that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate_core::LimitError;

use super::overrides::{LoadedOverrides, LoadedTable};
use super::policies::Policies;
use super::shares::{self, Divided};
use super::stores::{StoreVariants, Stores};
use super::{BuildError, Engine, EngineState, LocalStore};
use crate::clock::{Clock, SystemClock};
use crate::policy::{Compiled, Policy, PolicyProblem};
use crate::store::Store;
use crate::store::memory::MemoryStore;

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
    /// What the previous engine had besides its store; empty for the first.
    inherited: Inherited,
    nodes: Option<NonZeroU32>,
    clock: Arc<C>,
    policies: Vec<NamedPolicy>,
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
        let (inherited, clock) = (Inherited::default(), Arc::new(SystemClock));
        EngineBuilder { store: None, inherited, nodes: None, clock, policies: Vec::new() }
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
        self.inherited = Inherited::default(); // of another store
        self
    }

    /// How many nodes share the store: it sets the share of each limit that this node may grant while the store fails.
    /// By default the last count of the [store](crate::Coordination::nodes), and one if there is none.
    ///
    /// ```
    /// # use tidegate::{Engine, Source};
    /// # use tidegate::{StoreRequest, ReserveReply, Reply, StoreReply, StoreResult, Store, StoreError, Timestamp, StoreErrorKind, ReserveRequest};
    /// # #[derive(Debug)]
    /// # struct Down;
    /// # impl Store for Down {
    /// #     fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> StoreResult<StoreReply> {
    /// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
    /// #     }
    /// #     fn reserve(&self, _: &ReserveRequest<'_>, _: Timestamp) -> StoreResult<ReserveReply> {
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
        let Self { store, inherited, nodes, policies, .. } = self;
        // Lives were measured by the other clock: the table is loaded anew.
        let (table, divided) = (LoadedTable::default(), Vec::new());
        let inherited = Inherited { table, divided, ..inherited };
        EngineBuilder { store, inherited, nodes, clock: Arc::new(clock), policies }
    }

    /// Adds a policy: a limit, the text of one, a rate, or a [`Policy`]. A name that is there already is an error.
    ///
    /// ```
    /// # use tidegate::{BuildError, Engine, Limit, Policy, PolicyProblem};
    /// let limit: Limit = "5/h".parse()?;
    /// let builder = Engine::builder()
    ///     .policy("text", "5/h")
    ///     .policy("limit", limit)
    ///     .policy("rate", Limit::per_hour(5))
    ///     .policy("policy", Policy::any().limit("hour", "5/h").limit("day", "20/day"));
    /// let twice = BuildError { policy: "text".to_owned(), problem: PolicyProblem::DefinedTwice };
    /// assert_eq!(builder.policy("text", "9/h").build().err(), Some(twice));
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
        let mut policies: BTreeMap<String, Compiled> = BTreeMap::new();
        let is_share = |(_, policy): &&NamedPolicy| share_of(policy).is_some();
        let shares = self.policies.iter().filter(is_share).map(|(name, _)| name.clone());
        let shares: BTreeSet<String> = shares.collect();
        for (name, policy) in in_order(self.policies) {
            let compiled = policy.map_err(PolicyProblem::Limit).and_then(|policy| {
                if let Some(of) = policy.share_of().filter(|of| shares.contains(*of)) {
                    return Err(PolicyProblem::ShareOfShare(of.to_owned()));
                }
                let shared = policy.share_of().and_then(|of| policies.get(of));
                policy.compile(&name, shared)
            });
            let invalid = |problem| BuildError { policy: name.clone(), problem };
            let compiled = compiled.map_err(invalid)?;
            if policies.contains_key(&name) {
                return Err(invalid(PolicyProblem::DefinedTwice));
            }
            policies.insert(name, compiled);
        }
        let all = policies.values_mut().filter_map(|policy| policy.share.as_mut());
        shares::join(all, &self.inherited.divided);
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::default()));
        let Inherited { local, variants, table, divided: _ } = self.inherited;
        let local = local.unwrap_or_default();
        let (nodes, clock) = (self.nodes, self.clock);
        let policies = Policies::new(policies);
        let stores = Stores::new(store, variants, &clock, policies.iter());
        let hasher = stores.plain.store.extensions().key_hasher.cloned();
        let overrides = LoadedOverrides::from_table(table, &policies, hasher);
        let state = EngineState { stores, local, nodes, clock, policies, overrides };
        Ok(Engine { state: Arc::new(state) })
    }
}

type NamedPolicy = (String, Result<Policy, LimitError>);

fn share_of(policy: &Result<Policy, LimitError>) -> Option<&str> {
    policy.as_ref().ok().and_then(Policy::share_of)
}

/// Shares behind the policies that they share. In a store that spreads keys over nodes, both are kept on one.
fn in_order(policies: Vec<NamedPolicy>) -> impl Iterator<Item = NamedPolicy> {
    let shared = policies.iter().filter_map(|(_, policy)| share_of(policy));
    let shared: BTreeSet<String> = shared.map(str::to_owned).collect();
    let (shares, others): (Vec<_>, Vec<_>) =
        policies.into_iter().partition(|(_, policy)| share_of(policy).is_some());
    let tagged = move |(name, policy): NamedPolicy| {
        let policy = policy.map(|it| if shared.contains(&name) { it.shared_as(&name) } else { it });
        (name, policy)
    };
    others.into_iter().map(tagged).chain(shares)
}

/// What an engine leaves to its successor besides its store.
#[derive(Debug, Default)]
struct Inherited {
    /// What was counted while the store failed.
    local: Option<Arc<LocalStore>>,
    /// The store by the settings that policies asked for.
    variants: StoreVariants,
    /// The overrides of run time.
    table: LoadedTable,
    /// The limits that tenants share.
    divided: Vec<Arc<Divided>>,
}

impl<C: Clock + 'static> Engine<C> {
    /// A builder of the engine that will replace this one, as on a reload: with the same store, clock and number
    /// of nodes, with what this one counted while the store failed, with what the tenants of a [shared](Policy::share) limit
    /// that stays as it is asked for, and with the [overrides](Engine::overrides) of run time; without policies.
    ///
    /// What was spent stays spent wherever a policy and its limit keep their names, also under another limit. Remembered
    /// refusals stay behind. So do leases: call `release_leases` on this engine once the next one is in place, or what it
    /// has taken ahead is lost until it is refilled.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let mut engine = Engine::builder().policy("api", "5/h").policy("old", "1/s").build()?;
    /// assert_eq!(engine.check("api", "user-42").now()?.decision.remaining(), 4);
    ///
    /// let next = engine.successor().policy("api", "3/h").policy("new", "1/s").build()?;
    /// let before = std::mem::replace(&mut engine, next);
    /// # #[cfg(feature = "leases")]
    /// before.release_leases();
    /// # drop(before);
    /// assert!(engine.check("api", "user-42").now()?.decision.remaining() < 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn successor(&self) -> EngineBuilder<C> {
        let state = &*self.state;
        let (stores, local) = (&state.stores, Some(state.local.clone()));
        let divided = |policy: &Compiled| Some(policy.share.as_ref()?.divided().clone());
        EngineBuilder {
            store: Some(stores.plain.store.clone()),
            inherited: Inherited {
                local,
                variants: stores.variants.clone(),
                table: state.overrides.table().clone(),
                divided: state.policies.iter().filter_map(divided).collect(),
            },
            nodes: state.nodes,
            clock: state.clock.clone(),
            policies: Vec::new(),
        }
    }
}
