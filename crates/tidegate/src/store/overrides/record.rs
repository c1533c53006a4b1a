//! The table of overrides as a value: kept in memory, or as bytes in a store that keeps bytes. Twin: `lua/overrides.lua`.

use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use super::{
    Changed, OVERRIDE_BYTES_MAX, OVERRIDES_MAX, OverrideChange, OverrideTable, StoredOverride,
};
use crate::store::parts::{PartReader, push_part};

/// A table of overrides.
///
/// ```
/// use tidegate::store_kit::OverridesRecord;
/// use tidegate::{Changed, OverrideChange, Timestamp};
///
/// let (mut record, now) = (OverridesRecord::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// let set = OverrideChange::Set { policy: "api", key: b"partner-7", text: "5000/min", life: None };
/// assert_eq!(record.change(&set, now), Changed::Done);
/// let mut read = OverridesRecord::from_bytes(&record.to_bytes()).expect("just written");
/// assert_eq!(read.load(0, now), record.load(0, now));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverridesRecord {
    version: u64,
    bytes: usize,
    by_name: BTreeMap<Name, Entry>,
}

/// The policy's name, and the key.
type Name = (String, Box<[u8]>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    text: String,
    until: Option<Timestamp>,
}

impl OverridesRecord {
    /// What holds now; `None` if the version is the `known` one. Drops what has expired.
    pub fn load(&mut self, known: u64, now: Timestamp) -> Option<OverrideTable> {
        if self.version == known {
            return None;
        }
        self.drop_expired(now);
        let stored = |((policy, key), entry): (&Name, &Entry)| StoredOverride {
            policy: policy.clone(),
            key: key.clone(),
            text: entry.text.clone(),
            life: entry.until.map(|until| until.since(now)),
        };
        let entries = self.by_name.iter().map(stored).collect();
        Some(OverrideTable { version: self.version, entries })
    }

    /// Changes one override. A version is a time, so that a table which was lost and made anew is not taken for the old
    /// one.
    pub fn change(&mut self, change: &OverrideChange<'_>, now: Timestamp) -> Changed {
        let changed = match *change {
            OverrideChange::Remove { policy, key } => self.remove(&(policy.into(), key.into())),
            OverrideChange::Set { policy, key, text, life } => {
                let until = life.map(|life| now + life);
                self.set((policy.into(), key.into()), Entry { text: text.into(), until }, now)
            }
        };
        if changed == Changed::Done {
            self.version = (self.version + 1).max(now.as_micros());
        }
        changed
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.version.to_le_bytes().to_vec();
        for ((policy, key), entry) in &self.by_name {
            push_part(&mut bytes, policy.as_bytes());
            push_part(&mut bytes, key);
            push_part(&mut bytes, entry.text.as_bytes());
            let until = entry.until.map_or(u64::MAX, Timestamp::as_micros);
            bytes.extend_from_slice(&until.to_le_bytes());
        }
        bytes
    }

    /// Reads its bytes, of which there are none before the first change. `None` if they are of something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut record = Self::default();
        if bytes.is_empty() {
            return Some(record);
        }
        let mut reader = PartReader::new(bytes);
        record.version = reader.word()?;
        while !reader.is_empty() {
            let name: Name = (reader.text()?.to_owned(), reader.part()?.into());
            let text = reader.text()?.to_owned();
            let until = Some(reader.word()?).filter(|until| *until != u64::MAX);
            let entry = Entry { text, until: until.map(Timestamp::from_micros) };
            record.bytes += size(&name, &entry);
            record.by_name.insert(name, entry);
        }
        Some(record)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_nothing_wrote_are_not_read() {
        let (mut record, now) = (OverridesRecord::default(), Timestamp::from_micros(5));
        let life = Some(std::time::Duration::from_secs(1));
        let set = OverrideChange::Set { policy: "api", key: b"\0k", text: "block", life };
        assert_eq!(record.change(&set, now), Changed::Done);
        let bytes = record.to_bytes();
        assert_eq!(OverridesRecord::from_bytes(&bytes), Some(record));
        for cut in 1..bytes.len() {
            assert!(OverridesRecord::from_bytes(&bytes[..cut]).is_none() || cut == 8, "{cut}");
        }
    }
}
