//! The table of overrides as an engine has loaded it, and what it makes of that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::policies::Policies;
use crate::cidr::Cidr;
use crate::overrides::{Overrides, Timed};
use crate::store::{OverrideTable, StoredOverride};

#[derive(Debug, Default)]
pub(super) struct Loaded {
    turns: AtomicU64,
    table: Mutex<Table>,
}

/// What is known of the store's table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// When it was asked for: an answer to an older question changes nothing any more.
    turn: u64,
    pub(super) version: u64,
    /// In the order of policies and keys, the same on every node.
    entries: Arc<[Entry]>,
    /// Those of our policies that make no sense to this version.
    pub(super) skipped: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    stored: StoredOverride,
    /// By the steady clock.
    until_us: Option<u64>,
}

impl Loaded {
    /// From an engine before this one.
    pub(super) fn of(mut table: Table, policies: &Policies) -> Self {
        table.apply(policies);
        Self { turns: AtomicU64::new(table.turn), table: Mutex::new(table) }
    }

    /// To be taken before the store is asked.
    pub(super) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Relaxed) + 1
    }

    /// Puts another table in place, which was asked for in that turn and at that time. `false` if a later one is there.
    pub(super) fn replace(
        &self,
        loaded: OverrideTable,
        turn: u64,
        asked_us: u64,
        policies: &Policies,
    ) -> bool {
        let mut table = self.table();
        if turn < table.turn {
            return false;
        }
        let OverrideTable { version, mut entries } = loaded;
        entries.sort_unstable();
        let entry = |stored: StoredOverride| Entry {
            until_us: stored.life.map(|life| asked_us.saturating_add(micros(life))),
            stored,
        };
        let entries = entries.into_iter().map(entry).collect();
        *table = Table { turn, version, entries, skipped: 0 };
        table.apply(policies);
        true
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Those that hold, each with what is left of its life.
    pub(super) fn entries(&self, now_us: u64) -> impl Iterator<Item = StoredOverride> {
        let holds = move |entry: &&Entry| entry.until_us.is_none_or(|until_us| now_us < until_us);
        self.entries.iter().filter(holds).map(move |Entry { stored, until_us }| StoredOverride {
            life: until_us.map(|until_us| Duration::from_micros(until_us - now_us)),
            ..stored.clone()
        })
    }

    /// Gives every policy its own.
    fn apply(&mut self, policies: &Policies) {
        let mut by_policy: HashMap<&str, Overrides<Timed>> = HashMap::new();
        self.skipped = 0;
        for Entry { stored, until_us } in &*self.entries {
            // Others who share the store may have policies of their own.
            let Some(policy) = policies.get(&stored.policy) else { continue };
            match policy.read_override(&stored.text) {
                Ok(instead) if policy.fits(&instead).is_ok() => {
                    let overrides = by_policy.entry(stored.policy.as_str()).or_default();
                    insert(overrides, &stored.key, || Timed::new(instead.clone(), *until_us));
                }
                _ => self.skipped += 1,
            }
        }
        for policy in policies.iter() {
            policy.at_run_time.replace(by_policy.remove(&*policy.name).unwrap_or_default());
        }
    }
}

/// A key that is spelt as a network speaks for all in it, too.
fn insert(overrides: &mut Overrides<Timed>, key: &[u8], value: impl Fn() -> Timed) {
    if let Some(network) = network_of(key) {
        overrides.insert_for(network, value());
    }
    overrides.insert(key, value());
}

/// The network that a key names, if it does. An address of IPv6 does, since it has many spellings.
pub(super) fn network_of(key: &[u8]) -> Option<Cidr> {
    let may_be = key.contains(&b'/') || key.contains(&b':');
    may_be.then(|| Cidr::of_key(key)).flatten()
}

fn micros(life: Duration) -> u64 {
    u64::try_from(life.as_micros()).unwrap_or(u64::MAX)
}
