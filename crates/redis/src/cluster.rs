//! A cluster: each question goes to the node that has its slot, as the map says.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{Notify, mpsc};

use super::clerk::Clerk;
use super::desk::{Bundle, Why};
use super::guard::NodeBreaker;
use super::node::{Handle, Shared};
use super::place::Place;
use super::scout::Scout;
use super::slots::SlotMap;
use super::ticket::Ticket;

/// The way into a cluster. Dropped, its nodes send what waits, and end.
#[derive(Debug)]
pub(super) struct Cluster {
    map: Arc<Map>,
    shared: Arc<Shared>,
}

/// The map as it is now.
#[derive(Debug)]
pub(super) struct Map {
    /// `None` once the client was dropped.
    current: RwLock<Option<Arc<SlotMap>>>,
    given_up: Notify,
}

impl Map {
    pub(super) fn get(&self) -> Option<Arc<SlotMap>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing happens to a map that was given up.
    pub(super) fn set(&self, map: SlotMap) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = current.as_mut().map(|current| std::mem::replace(current, Arc::new(map)));
        // Whoever asks meanwhile need not wait until nodes that left have been told.
        drop(current);
        drop(old);
    }

    /// Until the client was dropped.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }

    fn give_up(&self) {
        let old = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(old);
        self.given_up.notify_one();
    }
}

impl Cluster {
    pub(super) fn start(
        seeds: Vec<Place>,
        bundles: mpsc::Receiver<Bundle>,
        shared: Arc<Shared>,
    ) -> Self {
        let current = RwLock::new(Some(Arc::default()));
        let map = Arc::new(Map { current, given_up: Notify::new() });
        tokio::spawn(Clerk::new(map.clone(), shared.clone()).run(bundles, Scout::new(seeds)));
        Self { map, shared }
    }

    pub(super) fn push(&self, ticket: Ticket) {
        let map = self.map.get();
        let node = map.as_ref().and_then(|map| map.node_of(ticket.slot));
        let ticket = match node {
            Some(node) => node.push(ticket, &self.shared.counters),
            None => Some(ticket),
        };
        if let (Some(ticket), Some(desk)) = (ticket, &self.shared.desk) {
            desk.bring(vec![ticket], Why::NoNode);
        }
    }
}

impl Cluster {
    pub(super) fn breakers(&self) -> Vec<NodeBreaker> {
        self.map.get().iter().flat_map(|map| map.nodes()).filter_map(Handle::breaker).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(desk) = &self.shared.desk {
            desk.close();
        }
        self.map.give_up();
    }
}
