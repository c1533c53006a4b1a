//! Which node of a cluster has which slot: `CLUSTER SLOTS`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::node::{Handle, Node, Shared};
use super::place::Place;
use tidegate::{StoreError, StoreErrorKind};

/// As Redis Cluster has it.
const SLOTS: usize = 16_384;

/// More nodes than a cluster can have are a mistake, or somebody else's answer.
const NODES_MAX: usize = 1_000;

/// A node that slots were on their way to is kept so long, though it has none; then it is looked at again.
const GUEST_STAYS: Duration = Duration::from_secs(30);

/// A slot's owner is not known.
const NOBODY: u16 = u16::MAX;

/// The nodes, and the slots of each. Changed as a whole: nodes that are in none any more are dropped.
#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    owners: Box<[u16]>,
    nodes: Vec<Member>,
}

#[derive(Clone, Debug)]
struct Member {
    place: Place,
    node: Arc<Handle>,
    /// When a slot was last seen on its way to it: it may have none yet.
    guest_since: Option<Instant>,
}

impl Default for SlotMap {
    fn default() -> Self {
        Self { owners: vec![NOBODY; SLOTS].into(), nodes: Vec::new() }
    }
}

impl SlotMap {
    /// A map from what a node said, with the nodes that are known already and tasks for those that are new.
    pub(super) fn of(&self, ranges: &[Range], shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut map = Self::default();
        let mut known: HashMap<&Place, u16> = HashMap::new();
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
        for guest in self.nodes.iter().filter(|node| node.is_guest()) {
            if map.node_at(&guest.place).is_none() && map.nodes.len() < NODES_MAX {
                map.nodes.push(guest.clone());
            }
        }
        Ok(map)
    }

    /// The same map, but that slot is at that place.
    pub(super) fn with_moved(
        &self,
        slot: u16,
        place: &Place,
        shared: &Arc<Shared>,
    ) -> Result<Self, StoreError> {
        let mut map = self.clone();
        let index = match map.nodes.iter().position(|node| node.place == *place) {
            Some(index) => u16::try_from(index).unwrap_or(NOBODY),
            None => map.add(place.clone(), start(place, shared))?,
        };
        if let Some(owner) = map.owners.get_mut(usize::from(slot)) {
            *owner = index;
        }
        Ok(map)
    }

    /// The same map, with a node that slots are on their way to; nothing if that is known.
    pub(super) fn with_guest(&self, place: &Place, shared: &Arc<Shared>) -> Option<Self> {
        if self.nodes.iter().any(|node| node.place == *place && node.is_guest()) {
            return None;
        }
        let mut map = self.clone();
        if map.node_at(place).is_none() {
            map.add(place.clone(), start(place, shared)).ok()?;
        }
        let node = map.nodes.iter_mut().find(|node| node.place == *place)?;
        node.guest_since = Some(Instant::now());
        Some(map)
    }

    fn add(&mut self, place: Place, node: Arc<Handle>) -> Result<u16, StoreError> {
        if self.nodes.len() >= NODES_MAX {
            return Err(nonsense("more than a thousand nodes"));
        }
        self.nodes.push(Member { place, node, guest_since: None });
        u16::try_from(self.nodes.len() - 1).map_err(|_| nonsense("too many nodes"))
    }

    pub(super) fn node_of(&self, slot: u16) -> Option<&Arc<Handle>> {
        self.owner_of(slot).map(|owner| &owner.node)
    }

    pub(super) fn is_at(&self, slot: u16, place: &Place) -> bool {
        self.owner_of(slot).is_some_and(|owner| owner.place == *place)
    }

    fn owner_of(&self, slot: u16) -> Option<&Member> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    pub(super) fn node_at(&self, place: &Place) -> Option<Arc<Handle>> {
        self.nodes.iter().find(|node| node.place == *place).map(|node| node.node.clone())
    }

    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        self.nodes.iter().map(|node| &node.place)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Handle> {
        self.nodes.iter().map(|node| &*node.node)
    }

    /// Whether it says the same of every slot.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.owners == other.owners && self.places().eq(other.places())
    }

    /// Whether some slots have nobody to serve them, as far as is known.
    pub(super) fn has_gaps(&self) -> bool {
        self.owners.contains(&NOBODY) || self.nodes.iter().any(|node| node.node.is_refusing())
    }
}

impl Member {
    fn is_guest(&self) -> bool {
        self.guest_since.is_some_and(|since| since.elapsed() < GUEST_STAYS)
    }
}

fn start(place: &Place, shared: &Arc<Shared>) -> Arc<Handle> {
    let (_, place) = watch::channel(Ok(Some(place.clone())));
    Arc::new(Node::start(place, false, shared.clone()))
}

/// Some slots in a row, and the node that has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Range {
    first: u16,
    last: u16,
    owner: Place,
}

/// Reads `[[first, last, [host, port, …], replica …], …]`. `asked` is who says so.
pub(super) fn read(reply: Value, asked: &Place) -> Result<Vec<Range>, StoreError> {
    let ranges = array(reply)?.into_iter().map(|range| {
        let mut fields = array(range)?.into_iter();
        let mut next = || fields.next().ok_or_else(|| nonsense("a range of slots"));
        let (first, last, owner) = (slot(&next()?)?, slot(&next()?)?, place(next()?, asked)?);
        if first > last {
            return Err(nonsense("a range of slots"));
        }
        Ok(Range { first, last, owner })
    });
    ranges.collect()
}

fn place(node: Value, asked: &Place) -> Result<Place, StoreError> {
    let mut fields = array(node)?.into_iter();
    let host = match fields.next() {
        Some(Value::BulkString(host)) if !host.is_empty() && host != b"?" => {
            String::from_utf8(host).map_err(|_| nonsense("a node's host"))?
        }
        // It knows no better name for itself than the one we have.
        Some(Value::BulkString(_) | Value::Nil) => match asked {
            Place::Tcp { host, .. } => host.clone(),
            Place::Unix(_) => return Err(nonsense("a node's host")),
        },
        _ => return Err(nonsense("a node's host")),
    };
    let port = match fields.next() {
        Some(Value::Int(port)) => u16::try_from(port).ok().filter(|port| *port > 0),
        _ => None,
    };
    Ok(Place::Tcp { host, port: port.ok_or_else(|| nonsense("a node's port"))? })
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
