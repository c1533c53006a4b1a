//! The next engine: other policies over what this one counts with.

use std::sync::Arc;

use super::loaded::Table;
use super::stores::KnownWays;
use super::{Engine, EngineBuilder};
use crate::clock::Clock;
use crate::store::memory::MemoryStore;

/// What an engine leaves to its successor besides its store.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// What was counted while the store failed.
    pub(super) local: Option<Arc<MemoryStore>>,
    /// The store in the ways that policies wanted it asked.
    pub(super) known: KnownWays,
    /// The overrides of run time.
    pub(super) table: Table,
}

impl<C: Clock + 'static> Engine<C> {
    /// A builder of the engine that is to take this one's place, as on a reload: with the same store, clock and number
    /// of nodes, with what this one counted while the store failed, and with the [overrides](Engine::overrides) of run time; without
    /// policies.
    ///
    /// What was spent stays spent wherever a policy and its limit keep their names, also under another limit. Refusals
    /// that are remembered stay behind. So do leases: whoever puts the next engine in place calls `release_leases` on
    /// this one afterwards, or what it has taken ahead is lost until it is refilled.
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
        let shared = &*self.shared;
        let (stores, local) = (&shared.stores, Some(shared.local.clone()));
        EngineBuilder {
            store: Some(stores.plain.store.clone()),
            kept: Kept { local, known: stores.known(), table: shared.loaded.table().clone() },
            nodes: shared.nodes,
            clock: shared.clock.clone(),
            policies: Vec::new(),
        }
    }
}
