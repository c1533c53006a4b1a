//! The table of overrides of a store in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use tidegate_core::Timestamp;

use crate::store::overrides::{OVERRIDE_BYTES_MAX, OVERRIDES_MAX};
use crate::store::{Changed, OverrideChange, OverrideTable, StoredOverride};
use crate::sync::lock;

#[derive(Debug, Default)]
pub(super) struct OverridesInMemory {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    version: u64,
    bytes: usize,
    by_name: BTreeMap<Name, Entry>,
}

/// The policy's name, and the key.
type Name = (String, Box<[u8]>);

#[derive(Debug)]
struct Entry {
    text: String,
    until: Option<Timestamp>,
}

impl OverridesInMemory {
    pub(super) fn load(&self, known: u64, now: Timestamp) -> Option<OverrideTable> {
        let mut table = self.table();
        if table.version == known {
            return None;
        }
        table.drop_expired(now);
        let stored = |((policy, key), entry): (&Name, &Entry)| StoredOverride {
            policy: policy.clone(),
            key: key.clone(),
            text: entry.text.clone(),
            life: entry.until.map(|until| until.since(now)),
        };
        let entries = table.by_name.iter().map(stored).collect();
        Some(OverrideTable { version: table.version, entries })
    }

    pub(super) fn change(&self, change: &OverrideChange<'_>, now: Timestamp) -> Changed {
        let mut table = self.table();
        let changed = match *change {
            OverrideChange::Remove { policy, key } => table.remove(&(policy.into(), key.into())),
            OverrideChange::Set { policy, key, text, life } => {
                let until = life.map(|life| now + life);
                table.set((policy.into(), key.into()), Entry { text: text.into(), until }, now)
            }
        };
        if changed == Changed::Done {
            table.version += 1;
        }
        changed
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing here can stop half way.
        lock(&self.table)
    }
}

impl Table {
    fn set(&mut self, name: Name, entry: Entry, now: Timestamp) -> Changed {
        if !self.has_room(&name, &entry) {
            self.drop_expired(now);
            if !self.has_room(&name, &entry) {
                return Changed::Full;
            }
        }
        self.remove(&name);
        self.bytes += size(&name, &entry);
        self.by_name.insert(name, entry);
        Changed::Done
    }

    fn has_room(&self, name: &Name, entry: &Entry) -> bool {
        let before = self.by_name.get(name);
        let (count, bytes) = before.map_or((0, 0), |before| (1, size(name, before)));
        self.by_name.len() - count < OVERRIDES_MAX
            && self.bytes - bytes + size(name, entry) <= OVERRIDE_BYTES_MAX
    }

    fn remove(&mut self, name: &Name) -> Changed {
        match self.by_name.remove(name) {
            Some(entry) => {
                self.bytes -= size(name, &entry);
                Changed::Done
            }
            None => Changed::NotThere,
        }
    }

    fn drop_expired(&mut self, now: Timestamp) {
        let Self { by_name, bytes, .. } = self;
        by_name.retain(|name, entry| {
            let holds = entry.until.is_none_or(|until| now < until);
            *bytes -= if holds { 0 } else { size(name, entry) };
            holds
        });
    }
}

fn size((policy, key): &Name, entry: &Entry) -> usize {
    policy.len() + key.len() + entry.text.len()
}
