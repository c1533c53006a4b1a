//! Overrides of single keys and whole networks: found by the key itself, else by the smallest network that the key is a
//! part of.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use crate::cidr::Cidr;
use crate::clock::Clock;
use crate::engine::BindingLimit;
use crate::policy::{Override, OverrideInForce};
use crate::store::KeyHasher;

/// Some values, by key and by network.
#[derive(Clone, Debug)]
pub(crate) struct Overrides<T> {
    by_key: HashMap<Box<[u8]>, T>,
    /// By length, the longest first: however many networks there are, a key looks once for each length.
    by_network: Vec<(u32, HashMap<Cidr, T>)>,
    /// Keys were inserted as their hashes, and are looked for so.
    hasher: Option<KeyHasher>,
}

impl<T> Default for Overrides<T> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), by_network: Vec::new(), hasher: None }
    }
}

impl<T> Overrides<T> {
    /// By the hashes of keys, if there is a hasher. Networks stay as they are.
    pub(crate) fn hashed(hasher: Option<KeyHasher>) -> Self {
        Self { hasher, ..Self::default() }
    }

    /// For one key, in place of what it had.
    pub(crate) fn insert(&mut self, key: &[u8], value: T) {
        self.by_key.insert(key.into(), value);
    }

    /// For every key in a network, in place of what that had.
    pub(crate) fn insert_for(&mut self, network: Cidr, value: T) {
        let longest_first = |(prefix, _): &(u32, _)| network.prefix.cmp(prefix);
        let at = self.by_network.binary_search_by(longest_first).unwrap_or_else(|at| {
            self.by_network.insert(at, (network.prefix, HashMap::new()));
            at
        });
        self.by_network[at].1.insert(network, value);
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        self.find(key, |_| true)
    }

    /// The same among those that hold.
    pub(crate) fn find(&self, key: &[u8], holds: impl Fn(&T) -> bool) -> Option<&T> {
        let own = match &self.hasher {
            Some(hasher) => self.by_key.get(&hasher.bytes(key)[..]),
            None => self.by_key.get(key),
        };
        let own = own.filter(|value| holds(value));
        own.or_else(|| self.find_network(key, holds))
    }

    fn find_network(&self, key: &[u8], holds: impl Fn(&T) -> bool) -> Option<&T> {
        if self.by_network.is_empty() {
            return None; // no need to parse an address
        }
        let address = Cidr::from_key(key)?;
        self.by_network.iter().find_map(|(prefix, networks)| {
            networks.get(&address.widened(*prefix)?).filter(|value| holds(value))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_network.is_empty()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let networks = self.by_network.iter().flat_map(|(_, networks)| networks.values());
        self.by_key.values().chain(networks)
    }
}

/// The overrides that one policy has got at run time: replaced as a whole, and one load of a flag while there are none.
#[derive(Debug, Default)]
pub(crate) struct RunTimeTable {
    any: AtomicBool,
    by_key: RwLock<Overrides<TimedOverride>>,
}

/// An override that may end.
#[derive(Clone, Debug)]
pub(crate) struct TimedOverride {
    /// Its limit is shared with the answers that it bound, since the table may be replaced under them.
    own: OverrideInForce<'static>,
    /// By the steady clock.
    until_us: Option<u64>,
}

impl TimedOverride {
    pub(crate) fn new(own: Override, until_us: Option<u64>) -> Self {
        let own = match own {
            Override::Limit(limit) | Override::OneLimit { limit, .. } => {
                OverrideInForce::Limit(BindingLimit::shared(limit.into()))
            }
            Override::Allow => OverrideInForce::Allow,
            Override::Block => OverrideInForce::Block,
        };
        Self { own, until_us }
    }
}

impl RunTimeTable {
    /// The override of a key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], clock: &impl Clock) -> Option<OverrideInForce<'static>> {
        if self.any.load(Relaxed) { self.find(key, clock) } else { None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    fn find(&self, key: &[u8], clock: &impl Clock) -> Option<OverrideInForce<'static>> {
        let by_key = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        let holds =
            |it: &TimedOverride| it.until_us.is_none_or(|until_us| clock.steady_us() < until_us);
        by_key.find(key, holds).map(|it| it.own.clone())
    }

    pub(crate) fn replace(&self, by_key: Overrides<TimedOverride>) {
        let any = !by_key.is_empty();
        let before = {
            let mut current = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, by_key)
        };
        self.any.store(any, Relaxed);
        drop(before); // it may be large, so it is dropped after the lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Overrides<&'static str> {
        let mut table = Overrides::default();
        table.insert(b"10.1.2.3", "host");
        table.insert(b"user-42", "user");
        table.insert(b"2001:db8:1:2::/64", "client");
        for network in ["10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "::/0"] {
            table.insert_for(network.parse().unwrap(), network);
        }
        table
    }

    #[test]
    fn a_key_beats_networks_and_the_longest_network_the_others() {
        for (key, expected) in [
            ("10.1.2.3", Some("host")),
            ("10.1.2.4", Some("10.1.0.0/16")),
            ("10.2.2.3", Some("10.0.0.0/8")),
            ("::ffff:10.2.2.3", Some("10.0.0.0/8")),
            ("11.0.0.1", Some("0.0.0.0/0")),
            ("10.1.0.0/16", Some("10.1.0.0/16")),
            ("10.1.0.0/15", Some("10.0.0.0/8")),
            ("user-42", Some("user")),
            ("user-43", None),
            ("", None),
            ("10.1.2", None),
            ("2001:db8:1:2::/64", Some("client")),
            ("2001:db8:1:3::/64", Some("2001:db8::/32")),
            ("2001:db8::/31", Some("::/0")),
            ("2001:db9::1", Some("::/0")),
        ] {
            assert_eq!(table().get(key.as_bytes()).copied(), expected, "{key}");
        }
        assert_eq!(table().get(&[0xff, b'/', b'8']), None);
    }

    #[test]
    fn equal_networks_replace_each_other() {
        let mut table = table();
        let count = table.values().count();
        table.insert_for("::ffff:10.9.9.9/104".parse().unwrap(), "mapped");
        assert_eq!(table.values().count(), count);
        assert_eq!(table.get(b"10.2.2.3"), Some(&"mapped"));
    }

    #[test]
    fn a_key_looks_once_for_each_length() {
        let mut table = Overrides::default();
        for block in 0..=u16::MAX {
            let network = format!("10.{}.{}.0/24", block >> 8, block & 0xff);
            table.insert_for(network.parse().unwrap(), block);
        }
        assert_eq!(table.by_network.len(), 1);
        assert_eq!(table.get(b"10.1.2.3"), Some(&0x0102));
    }
}
