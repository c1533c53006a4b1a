//! The table of overrides that a store keeps beside its counters: small, versioned, the same for all who share the store.

mod record;

use std::fmt;
use std::time::Duration;

use tidegate_core::Timestamp;

pub use self::record::OverridesRecord;
use super::{KeyHasher, StoreResult};
use crate::cidr::network_of;

/// The most overrides of a table. It is loaded as a whole, over the connection that checks use.
///
/// ```
/// assert_eq!(tidegate::store_kit::OVERRIDES_MAX, 10_000);
/// ```
pub const OVERRIDES_MAX: usize = 10_000;
/// The most bytes of a table.
///
/// ```
/// assert_eq!(tidegate::store_kit::OVERRIDE_BYTES_MAX, 2 << 20);
/// ```
pub const OVERRIDE_BYTES_MAX: usize = 2 << 20;

/// A store that keeps overrides for all nodes that share it.
///
/// ```
/// use tidegate::{MemoryStore, OverrideStore, Store};
///
/// let store = MemoryStore::default();
/// let overrides: Option<&dyn OverrideStore> = store.extensions().overrides;
/// assert!(overrides.is_some());
/// ```
pub trait OverrideStore: Send + Sync + fmt::Debug {
    /// The table of overrides; `None` if its version is the `known` one. [`Engine::overrides`](crate::Engine::overrides)
    /// polls it.
    ///
    /// ```
    /// # use tidegate::{MemoryStore, OverrideStore, Timestamp};
    /// assert_eq!(MemoryStore::default().overrides(0, Timestamp::EPOCH).now()?, None); // none set yet
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>>;

    /// Changes one override of that table, in one atomic step.
    ///
    /// ```
    /// # use tidegate::{Changed, MemoryStore, OverrideChange, OverrideStore, Timestamp};
    /// let change = OverrideChange::Remove { policy: "api", key: b"partner-7" };
    /// let changed = MemoryStore::default().change_override(&change, Timestamp::EPOCH).now()?;
    /// assert_eq!(changed, Changed::NotThere);
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed>;
}

/// All overrides that a store keeps.
///
/// ```
/// use tidegate::{Changed, MemoryStore, OverrideChange, OverrideStore, OverrideTable, StoredOverride, Timestamp};
///
/// let (store, now) = (MemoryStore::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// let set = OverrideChange::Set { policy: "api", key: b"partner-7", text: "5000/min", life: None };
/// assert_eq!(store.change_override(&set, now).now()?, Changed::Done);
///
/// let table: Option<OverrideTable> = store.overrides(0, now).now()?;
/// let table = table.expect("another version than 0");
/// let StoredOverride { policy, key, text, life } = &table.entries[0];
/// assert_eq!((policy.as_str(), &**key, text.as_str(), life), ("api", &b"partner-7"[..], "5000/min", &None));
/// assert_eq!(store.overrides(table.version, now).now()?, None); // nothing has changed since
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverrideTable {
    /// Another one after every change, and after a store has lost its memory; 0 for a table that never was.
    pub version: u64,
    /// Those that have not expired.
    pub entries: Vec<StoredOverride>,
}

/// One override as a store keeps it: as text, so that versions that know more can share a store with those that know
/// less.
///
/// ```
/// use tidegate::Engine;
///
/// let engine = Engine::builder().policy("api", "100/min").build()?;
/// engine.overrides().set("api", "monitoring", "allow", None).now()?;
/// let found = engine.overrides().get("api", "monitoring").now()?.expect("just set");
/// assert_eq!((found.policy.as_str(), &*found.key), ("api", &b"monitoring"[..]));
/// assert_eq!((found.text.as_str(), found.life), ("allow", None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoredOverride {
    /// The policy's name.
    pub policy: String,
    /// The key, or a network; with the [name of a limit](Self::limit_name) behind it, if it is about one.
    pub key: Box<[u8]>,
    /// `allow`, `block`, or a limit; marked if it is about one of several.
    pub text: String,
    /// How long it still holds; `None` for ever.
    pub life: Option<Duration>,
}

/// Stands before the text of an override of one limit: versions that know no such overrides cannot read it, and leave it
/// out.
const ONE_LIMIT: &str = "> ";

impl StoredOverride {
    /// The limit that it replaces, where the policy has several; `None` if it stands for the whole policy.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::all().limit("second", "10/s").limit("day", "100/day");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// engine.overrides().set_limit("plan", "day", "partner-7", "5000/day", None).now()?;
    /// let stored = &engine.overrides().list().now()?[0];
    /// assert_eq!(stored.limit_name(), Some("day"));
    /// assert_eq!((stored.identifier(), stored.value()), (&b"partner-7"[..], "5000/day"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit_name(&self) -> Option<&str> {
        self.one_limit().map(|(_, name)| name)
    }

    /// The key, or the network, without the name of a limit.
    pub fn identifier(&self) -> &[u8] {
        self.one_limit().map_or(&self.key, |(identifier, _)| identifier)
    }

    /// Whether people can read whose it is: its key is neither a [hash](crate::KeyHasher) nor a network. Where keys are
    /// hashed, it was set without the secret, and matches nobody.
    ///
    /// ```
    /// # use tidegate::{KeyHasher, StoredOverride};
    /// let stored = |key: &str| StoredOverride {
    ///     policy: "api".into(),
    ///     key: key.as_bytes().into(),
    ///     text: "block".into(),
    ///     life: None,
    /// };
    /// assert!(stored("mallory").has_readable_key());
    /// assert!(!stored("10.0.0.0/8").has_readable_key());
    /// assert!(!stored(&KeyHasher::new([7; 16]).hash("mallory")).has_readable_key());
    /// ```
    pub fn has_readable_key(&self) -> bool {
        let identifier = self.identifier();
        !KeyHasher::is_hash(identifier) && network_of(identifier).is_none()
    }

    /// `allow`, `block`, or the limit, without a mark that it is of one limit.
    pub fn value(&self) -> &str {
        self.one_limit().and_then(|_| self.text.strip_prefix(ONE_LIMIT)).unwrap_or(&self.text)
    }

    /// The identifier and the name of the limit: the key ends with a zero and the name.
    fn one_limit(&self) -> Option<(&[u8], &str)> {
        self.text.strip_prefix(ONE_LIMIT)?;
        let zero = self.key.iter().rposition(|byte| *byte == 0)?;
        Some((&self.key[..zero], std::str::from_utf8(&self.key[zero + 1..]).ok()?))
    }

    /// The key and the text under which an override of one limit is kept.
    pub(crate) fn of_one_limit(identifier: &[u8], name: &str, value: &str) -> (Vec<u8>, String) {
        let key = [identifier, &[0], name.as_bytes()].concat();
        (key, format!("{ONE_LIMIT}{value}"))
    }
}

/// What is to become of one override.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Changed, MemoryStore, OverrideChange, OverrideStore, Timestamp};
///
/// let (store, now) = (MemoryStore::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// let life = Some(Duration::from_secs(3600));
/// let block = OverrideChange::Set { policy: "api", key: b"mallory", text: "block", life };
/// let pardon = OverrideChange::Remove { policy: "api", key: b"mallory" };
/// let changed = [&block, &pardon, &pardon].map(|change| store.change_override(change, now).now());
/// assert_eq!(changed, [Ok(Changed::Done), Ok(Changed::Done), Ok(Changed::NotThere)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverrideChange<'a> {
    /// It holds from now on, in place of what the key had.
    Set {
        /// The policy's name.
        policy: &'a str,
        /// The key, or a network.
        key: &'a [u8],
        /// What the key gets.
        text: &'a str,
        /// For how long; `None` for ever.
        life: Option<Duration>,
    },
    /// The key has none any more.
    Remove {
        /// The policy's name.
        policy: &'a str,
        /// The key, or a network.
        key: &'a [u8],
    },
}

/// What became of an [`OverrideChange`].
///
/// ```
/// use tidegate::{Changed, MemoryStore, OverrideChange, OverrideStore, Timestamp};
///
/// let store = MemoryStore::default();
/// let set = |n: u32| {
///     let key = &n.to_le_bytes()[..];
///     let set = OverrideChange::Set { policy: "api", key, text: "allow", life: None };
///     store.change_override(&set, Timestamp::EPOCH).now()
/// };
/// assert!((0..10_000).all(|n| set(n) == Ok(Changed::Done)));
/// assert_eq!(set(10_000), Ok(Changed::Full));
/// assert_eq!(set(9_999), Ok(Changed::Done)); // it had one
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Changed {
    /// It was changed.
    Done,
    /// There was nothing to remove.
    NotThere,
    /// There is no room: a table has at most 10,000 overrides in 2 MiB.
    Full,
}
