//! Moves one slot from one master to another, step by step. In between, clients get ASK and TRYAGAIN.

use super::DEADLINE;
use super::cluster::RedisCluster;
use super::server::RedisServer;

/// Keys listed per `CLUSTER GETKEYSINSLOT`.
const KEYS_PER_STEP: &str = "100";

#[derive(Debug)]
pub struct SlotMove<'a> {
    nodes: &'a [RedisServer],
    slot: String,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl<'a> SlotMove<'a> {
    pub(super) fn new(
        nodes: &'a [RedisServer],
        slot: u16,
        from: &'a RedisServer,
        to: &'a RedisServer,
    ) -> Self {
        Self { nodes, slot: slot.to_string(), from, to }
    }

    pub fn from(&self) -> &'a RedisServer {
        self.from
    }

    pub fn to(&self) -> &'a RedisServer {
        self.to
    }

    /// Begins the move. The old master now answers with ASK for keys that it does not have.
    pub fn begin(&self) {
        let (from, to) = (RedisCluster::id_of(self.from), RedisCluster::id_of(self.to));
        self.set_slot(self.to, &["IMPORTING", &from]);
        self.set_slot(self.from, &["MIGRATING", &to]);
    }

    /// Moves one key. A command on this key and one that is still on the old master gets TRYAGAIN.
    pub fn move_key(&self, key: &str) {
        let (port, timeout_ms) = (self.to.port().to_string(), DEADLINE.as_millis().to_string());
        self.from.command(&["MIGRATE", "127.0.0.1", &port, key, "0", &timeout_ms]).text();
    }

    /// Moves all keys of the slot. New keys are created on the new master meanwhile.
    pub fn move_keys(&self) {
        loop {
            let keys = self.from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, KEYS_PER_STEP]);
            let keys = keys.text();
            if keys.is_empty() {
                return;
            }
            keys.lines().for_each(|key| self.move_key(key));
        }
    }

    /// Assigns the slot to the new master on all masters. The old one now answers with MOVED.
    pub fn finish(&self) {
        let to = RedisCluster::id_of(self.to);
        // On the new owner first: no other node may announce its slot before that.
        self.set_slot(self.to, &["NODE", &to]);
        self.set_slot(self.from, &["NODE", &to]);
        let others = self
            .nodes
            .iter()
            .filter(|node| ![self.to.port(), self.from.port()].contains(&node.port()));
        // Replicas refuse the command, and stopped nodes do not answer; both learn of it from the masters.
        others.for_each(|node| {
            let _ = node.try_command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &to]);
        });
    }

    /// Cancels the move. Clients lose the keys that were moved, so call it only before `move_key`.
    pub fn undo(&self) {
        self.set_slot(self.from, &["STABLE"]);
        self.set_slot(self.to, &["STABLE"]);
    }

    fn set_slot(&self, node: &RedisServer, state: &[&str]) {
        let args = [&["CLUSTER", "SETSLOT", self.slot.as_str()], state].concat();
        assert_eq!(node.command(&args).text(), "OK", "{args:?}");
    }
}
