//! What every door asks: the engine with everything that the configuration says, swapped whole on reload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use tidegate::Engine;

use crate::logs::Events;
use crate::metrics::Metrics;

/// What is in force now. A door takes it once per request, so that a request is answered by one configuration.
#[derive(Debug)]
pub(crate) struct Gate {
    current: ArcSwap<Snapshot>,
    metrics: Arc<Metrics>,
    events: Events,
    is_draining: AtomicBool,
}

/// One configuration, checked and built. It never changes.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Engine,
}

impl Gate {
    pub(crate) fn new(snapshot: Snapshot) -> Arc<Self> {
        let metrics = Arc::<Metrics>::default();
        metrics.policies_are(snapshot.engine.policies().map(|policy| policy.name()));
        let (current, is_draining) = (ArcSwap::from_pointee(snapshot), AtomicBool::new(false));
        Arc::new(Self { current, metrics, events: Events::new(), is_draining })
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn now(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Where doors tell what is worth a line.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// From now on whoever asks is told that the server is about to end. It serves on.
    pub(crate) fn drains(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Where doors tell what they did.
    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }
}
