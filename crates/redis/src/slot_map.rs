//! Which node of a cluster has which slot: `CLUSTER SLOTS`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::Value;
use tidegate::{StoreError, StoreErrorKind};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::node::{Node, NodeContext, NodeHandle};

/// As Redis Cluster has it.
const SLOTS: usize = 16_384;

/// More nodes than a cluster can have: the reply is wrong.
const NODES_MAX: usize = 1_000;

/// How long a node without slots is kept after slots were being moved to it.
const IMPORTING_KEPT: Duration = Duration::from_secs(30);

/// The owner of a slot is unknown.
const NO_OWNER: u16 = u16::MAX;

/// The nodes, and the slots of each. Replaced as a whole: nodes that no map has any more are dropped.
#[derive(Clone, Debug)]
pub(crate) struct SlotMap {
    owners: Box<[u16]>,
    nodes: Vec<Member>,
}

#[derive(Clone, Debug)]
struct Member {
    endpoint: Endpoint,
    node: Arc<NodeHandle>,
    /// When a slot was last being moved to it: it may have none yet.
    importing_since: Option<Instant>,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { owners: vec![NO_OWNER; SLOTS].into(), nodes: Vec::new() }
    }
}

impl SlotMap {
    /// A map from a node's answer, with the known nodes, and new tasks for new ones.
    pub(crate) fn with_ranges(
        &self,
        ranges: &[Range],
        shared: &Arc<NodeContext>,
    ) -> Result<Self, StoreError> {
        let mut map = Self::default();
        let mut known: HashMap<&Endpoint, u16> = HashMap::new();
        for Range { first, last, owner } in ranges {
            let index = if let Some(index) = known.get(owner) {
                *index
            } else {
                let node = self.node_at(owner).unwrap_or_else(|| start(owner, shared));
                let index = map.add(owner.clone(), node)?;
                known.insert(owner, index);
                index
            };
            map.owners[usize::from(*first)..=usize::from(*last)].fill(index);
        }
        for importing in self.nodes.iter().filter(|node| node.is_importing()) {
            if map.node_at(&importing.endpoint).is_none() && map.nodes.len() < NODES_MAX {
                map.nodes.push(importing.clone());
            }
        }
        Ok(map)
    }

    /// The same map, but that slot is at that endpoint.
    pub(crate) fn with_moved(
        &self,
        slot: u16,
        endpoint: &Endpoint,
        shared: &Arc<NodeContext>,
    ) -> Result<Self, StoreError> {
        let mut map = self.clone();
        let index = match map.nodes.iter().position(|node| node.endpoint == *endpoint) {
            Some(index) => u16::try_from(index).unwrap_or(NO_OWNER),
            None => map.add(endpoint.clone(), start(endpoint, shared))?,
        };
        if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
            *owner = index;
        }
        Ok(map)
    }

    /// The same map, with a node that is importing slots; `None` if that is known.
    pub(crate) fn with_importing(
        &self,
        endpoint: &Endpoint,
        shared: &Arc<NodeContext>,
    ) -> Option<Self> {
        if self.nodes.iter().any(|node| node.endpoint == *endpoint && node.is_importing()) {
            return None;
        }
        let mut map = self.clone();
        if map.node_at(endpoint).is_none() {
            map.add(endpoint.clone(), start(endpoint, shared)).ok()?;
        }
        let node = map.nodes.iter_mut().find(|node| node.endpoint == *endpoint)?;
        node.importing_since = Some(Instant::now());
        Some(map)
    }

    fn add(&mut self, endpoint: Endpoint, node: Arc<NodeHandle>) -> Result<u16, StoreError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(nonsense("more than a thousand nodes"));
        }
        self.nodes.push(Member { endpoint, node, importing_since: None });
        u16::try_from(self.nodes.len() - 1).map_err(|_| nonsense("too many nodes"))
    }

    pub(crate) fn node_of(&self, slot: u16) -> Option<&Arc<NodeHandle>> {
        self.owner_of(slot).map(|owner| &owner.node)
    }

    pub(crate) fn is_at(&self, slot: u16, endpoint: &Endpoint) -> bool {
        self.owner_of(slot).is_some_and(|owner| owner.endpoint == *endpoint)
    }

    fn owner_of(&self, slot: u16) -> Option<&Member> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    pub(crate) fn node_at(&self, endpoint: &Endpoint) -> Option<Arc<NodeHandle>> {
        self.nodes.iter().find(|node| node.endpoint == *endpoint).map(|node| node.node.clone())
    }

    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.nodes.iter().map(|node| &node.endpoint)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeHandle> {
        self.nodes.iter().map(|node| &*node.node)
    }

    /// Whether it has the same owner for every slot.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.owners == other.owners && self.endpoints().eq(other.endpoints())
    }

    /// Whether some slots have no node that serves them.
    pub(crate) fn has_gaps(&self) -> bool {
        self.owners.contains(&NO_OWNER) || self.nodes.iter().any(|node| node.node.is_refusing())
    }
}

impl Member {
    fn is_importing(&self) -> bool {
        self.importing_since.is_some_and(|since| since.elapsed() < IMPORTING_KEPT)
    }
}

fn start(endpoint: &Endpoint, shared: &Arc<NodeContext>) -> Arc<NodeHandle> {
    let (_, endpoint) = watch::channel(Ok(Some(endpoint.clone())));
    Arc::new(Node::start(endpoint, false, shared.clone()))
}

/// The map as it is now.
#[derive(Debug)]
pub(crate) struct CurrentMap {
    /// `None` once the client was dropped.
    current: RwLock<Option<Arc<SlotMap>>>,
    closed: Notify,
}

impl Default for CurrentMap {
    fn default() -> Self {
        Self { current: RwLock::new(Some(Arc::default())), closed: Notify::new() }
    }
}

impl CurrentMap {
    pub(crate) fn get(&self) -> Option<Arc<SlotMap>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does nothing once the map is closed.
    pub(crate) fn set(&self, map: SlotMap) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let old = current.as_mut().map(|current| std::mem::replace(current, Arc::new(map)));
        // Dropped outside the lock: readers need not wait until nodes that left have closed.
        drop(current);
        drop(old);
    }

    /// Until the client was dropped.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    pub(crate) fn close(&self) {
        let old = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(old);
        self.closed.notify_one();
    }
}

/// Some slots in a row, and the node that has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    first: u16,
    last: u16,
    owner: Endpoint,
}

/// Reads `[[first, last, [host, port, …], replica …], …]`. `asked` is the node that answered.
pub(crate) fn read(reply: Value, asked: &Endpoint) -> Result<Vec<Range>, StoreError> {
    let ranges = array(reply)?.into_iter().map(|range| {
        let mut fields = array(range)?.into_iter();
        let mut next = || fields.next().ok_or_else(|| nonsense("a range of slots"));
        let (first, last, owner) = (slot(&next()?)?, slot(&next()?)?, endpoint(next()?, asked)?);
        if first > last {
            return Err(nonsense("a range of slots"));
        }
        Ok(Range { first, last, owner })
    });
    ranges.collect()
}

fn endpoint(node: Value, asked: &Endpoint) -> Result<Endpoint, StoreError> {
    let mut fields = array(node)?.into_iter();
    let host = match fields.next() {
        Some(Value::BulkString(host)) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host).map_err(|_| nonsense("a node's host"))?
        }
        // It knows no better name for itself than the one we have.
        Some(Value::BulkString(_) | Value::Nil) => match asked {
            Endpoint::Tcp { host, .. } => host.clone(),
            Endpoint::Unix(_) => return Err(nonsense("a node's host")),
        },
        _ => return Err(nonsense("a node's host")),
    };
    let port = match fields.next() {
        Some(Value::Int(port)) => u16::try_from(port).ok().filter(|port| *port > 0),
        _ => None,
    };
    Ok(Endpoint::Tcp { host, port: port.ok_or_else(|| nonsense("a node's port"))? })
}

fn slot(value: &Value) -> Result<u16, StoreError> {
    match value {
        Value::Int(slot) => u16::try_from(*slot).ok().filter(|slot| usize::from(*slot) < SLOTS),
        _ => None,
    }
    .ok_or_else(|| nonsense("a slot"))
}

fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(nonsense("no list")),
    }
}

fn nonsense(what: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, format!("the cluster's map makes no sense: {what}"))
}
