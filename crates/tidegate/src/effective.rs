//! How much of an adaptive limit is in force: set by what watches the protected service, read by every check.

mod table;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use self::table::Tables;
use crate::key::AsKey;

/// Stands for all that was declared.
const WHOLE: u64 = u64::MAX;

/// How many units of an [adaptive limit](crate::Policy::adaptive) are in force now: of the whole limit, or of single keys.
/// Clones share everything, so that one is given to the policy and the other to what sets it. On a reload the next
/// policy is given the same one, and stays where the last one was.
///
/// A check reads it without waiting for anything. [`Limit::effective`](crate::Limit::effective) describes what is in force.
///
/// ```
/// use tidegate::{Effective, Engine, Policy};
///
/// let effective = Effective::default();
/// let search = Policy::all().limit("", "1000/s").adaptive("", &effective);
/// let engine = Engine::builder().policy("search", search).build()?;
/// assert_eq!(engine.check("search", "user-42").now()?.decision.limit(), 1000);
///
/// effective.set(300); // the database is under pressure
/// assert_eq!(engine.check("search", "user-42").now()?.decision.limit(), 300);
/// effective.clear();
/// assert_eq!(engine.check("search", "user-42").now()?.decision.limit(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Keys can have their own, like the pages of a site that are slow:
///
/// ```
/// # use tidegate::{Effective, Engine, Policy};
/// let effective = Effective::default();
/// let pages = Policy::all().limit("", "sliding-window 240/min").adaptive("", &effective);
/// let engine = Engine::builder().policy("pages", pages).build()?;
/// effective.set_for("/report", 122);
/// assert_eq!(engine.check("pages", "/report").now()?.decision.limit(), 122);
/// assert_eq!(engine.check("pages", "/").now()?.decision.limit(), 240);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Effective(Arc<EffectiveState>);

struct EffectiveState {
    /// Of keys that have none of their own.
    units: AtomicU64,
    /// Otherwise it is only shown.
    enforced: AtomicBool,
    by_key: Tables,
}

impl Default for Effective {
    fn default() -> Self {
        let (units, enforced) = (AtomicU64::new(WHOLE), AtomicBool::new(true));
        Self(Arc::new(EffectiveState { units, enforced, by_key: Tables::default() }))
    }
}

impl Effective {
    /// The most keys that can have their own number of units. Those beyond have what all others have.
    ///
    /// ```
    /// # use tidegate::Effective;
    /// let (effective, keys) = (Effective::default(), (0..=Effective::MAX_KEYS));
    /// assert_eq!(effective.replace_keys(keys.map(|n| (n.to_string(), 1))), 1); // no room for one
    /// ```
    pub const MAX_KEYS: usize = 10_000;

    /// Puts `units` in force, for all keys that have none of their own. Taken as 1 at least, and as what was
    /// declared at most.
    pub fn set(&self, units: u64) {
        self.0.units.store(units, Relaxed);
    }

    /// The same for one key. `false` if [too many](Self::MAX_KEYS) have their own.
    pub fn set_for(&self, key: impl AsKey, units: u64) -> bool {
        self.0.by_key.set(key.as_key().as_ref(), units)
    }

    /// The same for many keys at once, in place of all that had their own: how many of them there was no room for.
    ///
    /// ```
    /// # use tidegate::Effective;
    /// let effective = Effective::default();
    /// effective.set_for("/old", 4);
    /// assert_eq!(effective.replace_keys([("/report", 122), ("/search", 177)]), 0);
    /// assert_eq!((effective.units_for("/report"), effective.units_for("/old")), (Some(122), None));
    /// ```
    pub fn replace_keys<K: AsKey>(&self, keys: impl IntoIterator<Item = (K, u64)>) -> usize {
        self.0.by_key.replace(keys)
    }

    /// Puts the whole limit in force, for all keys.
    pub fn clear(&self) {
        self.set(WHOLE);
        self.replace_keys::<&[u8]>([]);
    }

    /// Whether checks follow it; by default they do. Otherwise it can be read here, and nothing else is done with it: to
    /// see what it would do.
    ///
    /// ```
    /// # use tidegate::{Effective, Engine, Policy};
    /// let effective = Effective::default();
    /// effective.enforce(false);
    /// effective.set(3);
    /// let api = Policy::all().limit("", "100/s").adaptive("", &effective);
    /// let engine = Engine::builder().policy("api", api).build()?;
    /// assert_eq!(engine.check("api", "user-42").now()?.decision.limit(), 100);
    /// assert_eq!((effective.units(), effective.is_enforced()), (Some(3), false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enforce(&self, enforced: bool) {
        self.0.enforced.store(enforced, Relaxed);
    }

    /// Whether checks follow it.
    pub fn is_enforced(&self) -> bool {
        self.0.enforced.load(Relaxed)
    }

    /// What was set for all keys; `None` for the whole limit.
    pub fn units(&self) -> Option<u64> {
        whole_is_none(self.0.units.load(Relaxed))
    }

    /// What was set for a key, or for all; `None` for the whole limit.
    pub fn units_for(&self, key: impl AsKey) -> Option<u64> {
        let own = self.0.by_key.get(key.as_key().as_ref());
        own.map_or_else(|| self.units(), whole_is_none)
    }

    /// What a check of the key goes by; `None` for the whole limit.
    #[inline]
    pub(crate) fn in_force(&self, key: Option<&[u8]>) -> Option<u64> {
        let own = key.and_then(|key| self.0.by_key.get(key));
        let units = whole_is_none(own.unwrap_or_else(|| self.0.units.load(Relaxed)))?;
        self.is_enforced().then_some(units)
    }
}

const fn whole_is_none(units: u64) -> Option<u64> {
    if units == WHOLE { None } else { Some(units) }
}

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, keys) = (self.units(), self.0.by_key.len());
        f.debug_struct("Effective").field("units", &units).field("keys", &keys).finish()
    }
}
