//! Overrides at run time: kept in the store, loaded by every node that shares it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::LimitError;

use super::fallback::is_failure;
use super::policies::Policies;
use super::{Engine, EngineState};
use crate::cidr::network_of;
use crate::clock::{Clock, SystemClock, micros};
use crate::key::AsKey;
use crate::overrides::{Overrides, TimedOverride};
use crate::policy::{Compiled, PolicyOverrides, PolicyProblem};
use crate::reply::{Reply, UnderWay};
use crate::store::{
    Changed, KeyHasher, OverrideChange, OverrideStore, OverrideTable, Store, StoreError,
    StoredOverride,
};
use crate::sync::lock;

/// The overrides of an engine that are set at run time. They beat those that its policies were built with.
///
/// The store keeps them, in one small table for all who share it. An engine looks whether that has changed at each
/// [refresh](RunTimeOverrides::refresh), about once a second from a timer; what it sets itself it follows at
/// once. No check ever asks for them: it looks into the table that was loaded last, and into none at all if its policy
/// has no override.
///
/// ```
/// use tidegate::Engine;
///
/// let engine = Engine::builder().policy("api", "100/min").build()?;
/// let overrides = engine.overrides();
/// overrides.set("api", "partner-7", "5000/min burst 20", None).now()?;
/// overrides.set("api", "mallory", "block", None).now()?;
/// overrides.set("api", "10.0.0.0/8", "allow", None).now()?; // all keys that are addresses in it
/// assert_eq!(engine.check("api", "partner-7").now()?.decision.limit(), 20);
/// assert!(!engine.check("api", "mallory").now()?.decision.allowed());
/// assert_eq!(engine.check("api", "10.1.2.3").now()?.limit, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RunTimeOverrides<'e, C = SystemClock> {
    engine: &'e Engine<C>,
}

/// Why an override was not set.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Engine, Limit, MemoryStore, OverrideChange, OverrideError::*, OverrideStore, Policy, PolicyProblem};
/// use tidegate::{Timestamp, StoreErrorKind, UnderWay};
///
/// let store = Arc::new(MemoryStore::default());
/// let plan = Policy::all().limit("second", "10/s").limit("day", "100/day");
/// let engine = Engine::builder().store(store.clone()).policy("api", "5/s").policy("plan", plan).build()?;
/// let error = |policy, key: &str, text| engine.overrides().set(policy, key, text, None).now().err();
/// assert_eq!(error("apj", "k", "allow"), Some(UnknownPolicy("apj".into())));
/// assert_eq!(error("api", &"k".repeat(1025), "allow"), Some(LongKey(1025)));
/// assert_eq!(error("api", "k", "0/s"), "0/s".parse::<Limit>().err().map(BadLimit));
/// assert_eq!(error("plan", "k", "5/s"), Some(DoesNotFit(PolicyProblem::OverrideOfMany)));
///
/// for n in 0..10_000_u32 {
///     let key = &n.to_le_bytes()[..];
///     let change = OverrideChange::Set { policy: "api", key, text: "allow", life: None };
///     store.change_override(&change, Timestamp::EPOCH).now()?;
/// }
/// assert_eq!(error("api", "k", "allow"), Some(Full));
/// // Over a network, it has to be awaited.
/// assert!(matches!(UnderWay.into(), Store(error) if error.kind() == StoreErrorKind::UnderWay));
/// // Only a failure of the store is worth another try.
/// assert!(Full.store_failure().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OverrideError {
    /// There is no policy of this name.
    UnknownPolicy(String),
    /// A key has at most 1,024 bytes; this is its length.
    LongKey(usize),
    /// It is neither `allow` nor `block`, nor a limit.
    BadLimit(LimitError),
    /// The policy cannot have such an override.
    DoesNotFit(PolicyProblem),
    /// There is no room for one more: at most 10,000 fit in, in 2 MiB.
    Full,
    /// The store could not answer.
    Store(StoreError),
}

impl OverrideError {
    /// The failure, where the store is to blame.
    pub fn store_failure(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) if is_failure(error) => Some(error),
            _ => None,
        }
    }
}

/// The longest key.
const KEY_BYTES_MAX: usize = 1024;

impl<C: Clock + 'static> Engine<C> {
    /// What single keys and networks get at run time instead of their policy, on every node that shares the store.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// engine.overrides().set("api", "partner-7", "50/h", None).now()?;
    /// assert_eq!(engine.check("api", "partner-7").now()?.decision.limit(), 50);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn overrides(&self) -> RunTimeOverrides<'_, C> {
        RunTimeOverrides { engine: self }
    }
}

impl<'e, C: Clock + 'static> RunTimeOverrides<'e, C> {
    /// Gives a key something else than the policy: `allow`, `block`, or a limit as text, for some time or for ever. Such a
    /// limit [counts as the policy does](crate::Limit::with_numbers) unless it names an algorithm, and then what the key
    /// has used stays used. A key with a prefix, like `10.0.0.0/8`, speaks for all keys that are addresses or networks in
    /// it. When this is done, it holds here; elsewhere after the next refresh.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, ManualClock};
    /// # let clock = ManualClock::default();
    /// let engine = Engine::builder().clock(clock.clone()).policy("api", "100/h").build()?;
    /// assert_eq!(engine.check("api", "user-42").now()?.decision.remaining(), 99);
    /// let day = Some(Duration::from_secs(86_400));
    /// engine.overrides().set("api", "user-42", "3/h", day).now()?;
    /// assert!(engine.check("api", "user-42").now()?.decision.remaining() < 3);
    /// clock.advance(Duration::from_secs(86_400));
    /// assert_eq!(engine.check("api", "user-42").now()?.decision.limit(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(
        &self,
        policy: &str,
        key: impl AsKey,
        text: &str,
        life: Option<Duration>,
    ) -> Reply<'e, (), OverrideError> {
        let key = key.as_key();
        if let Err(error) = self.state().check_override(policy, key.as_ref(), text) {
            return Reply::failed(error);
        }
        let key = self.state().stored_key(key.as_ref());
        self.set_stored(policy, &key, text, life)
    }

    /// The same for one limit of a policy that has several: only that one is replaced. A key can have one for each limit.
    ///
    /// ```
    /// # use tidegate::{Engine, OverrideError, Policy, PolicyProblem};
    /// let plan = Policy::all().limit("second", "10/s").limit("day", "fixed-window 100/day");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// let overrides = engine.overrides();
    /// overrides.set_limit("plan", "day", "partner-7", "5000/day", None).now()?;
    /// overrides.set_limit("plan", "second", "partner-7", "9000/s", None).now()?;
    /// let answer = engine.check("plan", "partner-7").now()?;
    /// assert_eq!((answer.binding, answer.decision.remaining()), ("day", 4999));
    /// assert_eq!(overrides.of_key("plan", "partner-7").now()?.len(), 2);
    /// assert!(overrides.remove_limit("plan", "second", "partner-7").now()?);
    ///
    /// let unknown = overrides.set_limit("plan", "dya", "partner-7", "5000/day", None).now();
    /// let no_such = PolicyProblem::NoSuchLimit("dya".into());
    /// assert_eq!(unknown, Err(OverrideError::DoesNotFit(no_such)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(
        &self,
        policy: &str,
        limit: &str,
        key: impl AsKey,
        text: &str,
        life: Option<Duration>,
    ) -> Reply<'e, (), OverrideError> {
        let key = key.as_key();
        let checked = self.state().policy_for(policy, key.as_ref());
        if let Err(error) = checked.and_then(|policy| policy.read_limit_override(limit, text)) {
            return Reply::failed(error);
        }
        let stored = self.state().stored_key(key.as_ref());
        let (key, text) = StoredOverride::of_one_limit(&stored, limit, text);
        self.set_stored(policy, &key, &text, life)
    }

    /// Takes a key's override of one limit away; `false` if it had none that was set at run time.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::all().limit("second", "10/s").limit("day", "100/day");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// engine.overrides().set_limit("plan", "day", "partner-7", "5000/day", None).now()?;
    /// assert!(!engine.overrides().remove_limit("plan", "second", "partner-7").now()?);
    /// assert!(engine.overrides().remove_limit("plan", "day", "partner-7").now()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_limit(
        &self,
        policy: &str,
        limit: &str,
        key: impl AsKey,
    ) -> Reply<'e, bool, OverrideError> {
        let of_limit = |key: Vec<u8>| StoredOverride::of_one_limit(&key, limit, "").0;
        let keys = self.state().stored_keys(key.as_key().as_ref()).into_iter().map(of_limit);
        self.remove_stored(policy, keys.collect())
    }

    /// All overrides of a key as the store has them now: of the whole policy, and of single limits.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// engine.overrides().set("api", "partner-7", "50/h", None).now()?;
    /// assert_eq!(engine.overrides().of_key("api", "partner-7").now()?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_key(
        &self,
        policy: &str,
        key: impl AsKey,
    ) -> Reply<'e, Vec<StoredOverride>, OverrideError> {
        let keys = self.state().stored_keys(key.as_key().as_ref());
        let policy = policy.to_owned();
        self.list().then(move |all| {
            let all = all?;
            let of = |key: &Vec<u8>| -> Vec<_> {
                let is_its = |it: &&StoredOverride| it.policy == policy && it.identifier() == key;
                all.iter().filter(is_its).cloned().collect()
            };
            Ok(keys.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default())
        })
    }

    fn set_stored(
        &self,
        policy: &str,
        key: &[u8],
        text: &str,
        life: Option<Duration>,
    ) -> Reply<'e, (), OverrideError> {
        // Nobody means "from now until now".
        let life = life.map(|life| life.max(Duration::from_millis(1)));
        let change = OverrideChange::Set { policy, key, text, life };
        self.change(&change, |changed| match changed {
            Changed::Done | Changed::NotThere => Ok(()),
            Changed::Full => Err(OverrideError::Full),
        })
    }

    /// Takes a key's override away; `false` if it had none that was set at run time. Those of a policy that is not known
    /// here can be taken away, too.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// engine.overrides().set("api", "mallory", "block", None).now()?;
    /// assert!(engine.overrides().remove("api", "mallory").now()?);
    /// assert!(!engine.overrides().remove("api", "mallory").now()?); // gone already
    /// assert!(engine.check("api", "mallory").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, policy: &str, key: impl AsKey) -> Reply<'e, bool, OverrideError> {
        let keys = self.state().stored_keys(key.as_key().as_ref());
        self.remove_stored(policy, keys)
    }

    /// `true` if one of them was there.
    fn remove_stored(&self, policy: &str, keys: Vec<Vec<u8>>) -> Reply<'e, bool, OverrideError> {
        let engine = self.engine;
        keys.into_iter().fold(Reply::ready(Ok(false)), |removed, key| {
            let policy = policy.to_owned();
            removed.and_then(move |was_there| {
                let change = OverrideChange::Remove { policy: &policy, key: &key };
                let is_done = move |changed| Ok(was_there || changed == Changed::Done);
                RunTimeOverrides { engine }.change(&change, is_done)
            })
        })
    }

    /// The override of a key as the store has it now, if it has one that was set at run time.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// engine.overrides().set("api", "partner-7", "50/h", None).now()?;
    /// let found = engine.overrides().get("api", "partner-7").now()?;
    /// assert_eq!(found.map(|found| found.text), Some("50/h".to_owned()));
    /// assert_eq!(engine.overrides().get("api", "user-42").now()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(
        &self,
        policy: &str,
        key: impl AsKey,
    ) -> Reply<'e, Option<StoredOverride>, OverrideError> {
        let keys = self.state().stored_keys(key.as_key().as_ref());
        let policy = policy.to_owned();
        self.list().then(move |all| {
            let all = all?;
            let of = |key: &Vec<u8>| all.iter().find(|it| it.policy == policy && *it.key == **key);
            Ok(keys.iter().find_map(of).cloned())
        })
    }

    /// All that the store has now, of all policies, by policy and key.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// for key in ["monitoring", "backup"] {
    ///     engine.overrides().set("api", key, "allow", None).now()?;
    /// }
    /// let all = engine.overrides().list().now()?;
    /// assert!(all.iter().map(|it| &*it.key).eq([&b"backup"[..], b"monitoring"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn list(&self) -> Reply<'e, Vec<StoredOverride>, OverrideError> {
        let state = self.state();
        self.refresh().then(move |refreshed| {
            refreshed?;
            let now_us = state.clock.steady_us();
            Ok(state.overrides.table().entries(now_us).collect())
        })
    }

    /// Looks whether the store's table has changed, and follows it if so. `true` if it had. To be called about once a
    /// second, on every node at another time; costs one small question to the store. While that fails, what was loaded
    /// last holds.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Engine, MemoryStore};
    /// let store = Arc::new(MemoryStore::default());
    /// let here = Engine::builder().store(store.clone()).policy("api", "5/h").build()?;
    /// let there = Engine::builder().store(store).policy("api", "5/h").build()?;
    /// there.overrides().set("api", "partner-7", "50/h", None).now()?;
    /// assert_eq!(here.check("api", "partner-7").now()?.decision.limit(), 5);
    /// assert!(here.overrides().refresh().now()?);
    /// assert_eq!(here.check("api", "partner-7").now()?.decision.limit(), 50);
    /// assert!(!here.overrides().refresh().now()?); // nothing new
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refresh(&self) -> Reply<'e, bool, StoreError> {
        self.state().refresh()
    }

    /// How many overrides of this engine's policies make no sense to it, and are left out: a newer version may have set
    /// them, or the policy has changed since.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// engine.overrides().set("api", "partner-7", "50/h", None).now()?;
    /// assert_eq!(engine.overrides().skipped(), 0);
    /// let two = Policy::all().limit("hour", "5/h").limit("day", "50/day");
    /// let next = engine.successor().policy("api", two).build()?; // a limit for one key would stand for both
    /// assert_eq!(next.overrides().skipped(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped(&self) -> usize {
        self.state().overrides.table().skipped
    }

    /// How many overrides have a key that people can read, although the store [hashes keys](crate::HashedKeys): they were
    /// set without its secret, and match nobody here. [`get`](Self::get) and [`remove`](Self::remove) find them by that
    /// key.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Engine, HashedKeys, KeyHasher, MemoryStore};
    /// let store = Arc::new(MemoryStore::default());
    /// let before = Engine::builder().store(store.clone()).policy("api", "5/h").build()?;
    /// before.overrides().set("api", "mallory", "block", None).now()?;
    /// assert_eq!(before.overrides().readable(), 0); // no key is hashed
    ///
    /// let store = HashedKeys::new(store, KeyHasher::new([7; 16]));
    /// let engine = Engine::builder().store(store).policy("api", "5/h").build()?;
    /// engine.overrides().refresh().now()?;
    /// assert_eq!(engine.overrides().readable(), 1);
    /// assert!(engine.check("api", "mallory").now()?.decision.allowed());
    /// assert!(engine.overrides().remove("api", "mallory").now()?);
    /// assert_eq!(engine.overrides().readable(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn readable(&self) -> usize {
        self.state().overrides.table().readable
    }

    fn state(&self) -> &'e EngineState<C> {
        &self.engine.state
    }

    /// Changes the store's table, and follows it.
    fn change<T: Send + Unpin + 'e>(
        &self,
        change: &OverrideChange<'_>,
        then: impl FnOnce(Changed) -> Result<T, OverrideError> + Send + 'e,
    ) -> Reply<'e, T, OverrideError> {
        let state = self.state();
        let reply =
            state.stores.plain.store.extensions().change_override(change, state.clock.now());
        let changed = reply.then(|changed| changed.map_err(OverrideError::Store));
        // The change holds even if this refresh fails: the next one loads it.
        changed.and_then(move |changed| state.refresh().then(move |_| then(changed)))
    }
}

impl<C: Clock + 'static> EngineState<C> {
    fn refresh(&self) -> Reply<'_, bool, StoreError> {
        let (request, asked_us) = (self.overrides.next_request(), self.clock.steady_us());
        let known = self.overrides.table().version;
        self.stores.plain.store.extensions().overrides(known, self.clock.now()).then(move |table| {
            let follow = |table| self.overrides.replace(table, request, asked_us, &self.policies);
            Ok(table?.is_some_and(follow))
        })
    }

    /// A key as the store's table has it: networks in one spelling; others as their hash where keys are hashed. A hash
    /// that was read there stands for itself.
    fn stored_key<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let canonical = canonical(key);
        match self.stores.plain.store.extensions().key_hasher {
            Some(hasher) if network_of(&canonical).is_none() && !KeyHasher::is_hash(&canonical) => {
                Cow::Owned(hasher.bytes(&canonical).to_vec())
            }
            _ => canonical,
        }
    }

    /// The keys under which the store's table may have what belongs to a key: as it is kept now, and in clear if it was
    /// set before keys were hashed.
    fn stored_keys(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let (stored, clear) = (self.stored_key(key), canonical(key));
        let before = (stored != clear).then(|| clear.into_owned());
        std::iter::once(stored.into_owned()).chain(before).collect()
    }

    /// The policy that a key can have an override of.
    fn policy_for(&self, policy: &str, key: &[u8]) -> Result<&Compiled, OverrideError> {
        let unknown = || OverrideError::UnknownPolicy(policy.to_owned());
        let policy = self.policies.get(policy).ok_or_else(unknown)?;
        if key.len() > KEY_BYTES_MAX {
            return Err(OverrideError::LongKey(key.len()));
        }
        Ok(policy)
    }

    fn check_override(&self, policy: &str, key: &[u8], text: &str) -> Result<(), OverrideError> {
        let policy = self.policy_for(policy, key)?;
        let own = policy.read_override(text).map_err(OverrideError::BadLimit)?;
        policy.fits(&own).map_err(OverrideError::DoesNotFit)
    }
}

/// Networks have one spelling, so that no two overrides speak for the same.
fn canonical(key: &[u8]) -> Cow<'_, [u8]> {
    match network_of(key) {
        Some(network) => Cow::Owned(network.to_string().into_bytes()),
        None => Cow::Borrowed(key),
    }
}

impl fmt::Display for OverrideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "no policy is called `{}`", name.escape_debug()),
            Self::LongKey(bytes) => {
                write!(f, "a key of {bytes} bytes: at most {KEY_BYTES_MAX} can have an override")
            }
            Self::BadLimit(error) => write!(f, "expected allow, block or a limit: {error}"),
            Self::DoesNotFit(problem) => problem.fmt(f),
            Self::Full => f.write_str("there are too many overrides: remove some first"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl From<StoreError> for OverrideError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<UnderWay> for OverrideError {
    fn from(under_way: UnderWay) -> Self {
        Self::Store(under_way.into())
    }
}

impl std::error::Error for OverrideError {}

/// The table of overrides as an engine has loaded it.
#[derive(Debug, Default)]
pub(super) struct LoadedOverrides {
    requests: AtomicU64,
    /// The table has hashes of keys.
    hasher: Option<KeyHasher>,
    table: Mutex<LoadedTable>,
}

/// What is known of the store's table.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadedTable {
    /// The number of the request that it answers: the reply to an older one changes nothing.
    request: u64,
    version: u64,
    /// In the order of policies and keys, the same on every node.
    entries: Arc<[LoadedEntry]>,
    /// Those of our policies that make no sense to this version.
    skipped: usize,
    /// Those whose keys are readable where keys are hashed.
    readable: usize,
}

#[derive(Clone, Debug)]
struct LoadedEntry {
    stored: StoredOverride,
    /// By the steady clock.
    until_us: Option<u64>,
}

impl LoadedOverrides {
    /// From an engine before this one.
    pub(super) fn from_table(
        mut table: LoadedTable,
        policies: &Policies,
        hasher: Option<KeyHasher>,
    ) -> Self {
        table.apply(policies, hasher.as_ref());
        Self { requests: AtomicU64::new(table.request), hasher, table: Mutex::new(table) }
    }

    /// A number for the next request, to be taken before it is sent.
    fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Relaxed) + 1
    }

    /// Replaces the table by the reply to a request. `false` if the reply to a later request is there already.
    fn replace(
        &self,
        loaded: OverrideTable,
        request: u64,
        asked_us: u64,
        policies: &Policies,
    ) -> bool {
        let mut table = self.table();
        if request < table.request {
            return false;
        }
        let OverrideTable { version, mut entries } = loaded;
        entries.sort_unstable();
        let entry = |stored: StoredOverride| LoadedEntry {
            until_us: stored.life.map(|life| asked_us.saturating_add(micros(life))),
            stored,
        };
        let entries = entries.into_iter().map(entry).collect();
        *table = LoadedTable { request, version, entries, ..LoadedTable::default() };
        table.apply(policies, self.hasher.as_ref());
        true
    }

    pub(super) fn table(&self) -> MutexGuard<'_, LoadedTable> {
        lock(&self.table)
    }
}

impl LoadedTable {
    /// Those that hold, each with what is left of its life.
    fn entries(&self, now_us: u64) -> impl Iterator<Item = StoredOverride> {
        let holds =
            move |entry: &&LoadedEntry| entry.until_us.is_none_or(|until_us| now_us < until_us);
        self.entries.iter().filter(holds).map(move |LoadedEntry { stored, until_us }| {
            StoredOverride {
                life: until_us.map(|until_us| Duration::from_micros(until_us - now_us)),
                ..stored.clone()
            }
        })
    }

    /// Gives each policy its overrides.
    fn apply(&mut self, policies: &Policies, hasher: Option<&KeyHasher>) {
        let mut by_policy: HashMap<&str, PolicyOverrides> = HashMap::new();
        let empty = || Overrides::hashed(hasher.cloned());
        self.skipped = 0;
        let readable = self.entries.iter().filter(|it| it.stored.has_readable_key());
        self.readable = if hasher.is_some() { readable.count() } else { 0 };
        for LoadedEntry { stored, until_us } in &*self.entries {
            // Others who share the store may have policies of their own.
            let Some(policy) = policies.get(&stored.policy) else { continue };
            let (limit, value) = (stored.limit_name(), stored.value());
            let own = match limit {
                Some(limit) => policy.read_limit_override(limit, value).ok(),
                None => policy.read_override(value).ok().filter(|own| policy.fits(own).is_ok()),
            };
            let Some(own) = own else {
                self.skipped += 1;
                continue;
            };
            let loaded = by_policy.entry(stored.policy.as_str()).or_insert_with(|| {
                PolicyOverrides { whole: empty(), ..PolicyOverrides::default() }
            });
            let overrides = match limit {
                Some(limit) => loaded.by_limit.entry(limit.to_owned()).or_insert_with(empty),
                None => &mut loaded.whole,
            };
            insert(overrides, stored.identifier(), TimedOverride::new(own, *until_us));
        }
        for policy in policies.iter() {
            policy.replace_overrides(by_policy.remove(&*policy.name).unwrap_or_default());
        }
    }
}

/// A key that is spelt as a network stands for all keys in it, too.
fn insert(overrides: &mut Overrides<TimedOverride>, key: &[u8], value: TimedOverride) {
    if let Some(network) = network_of(key) {
        overrides.insert_for(network, value.clone());
    }
    overrides.insert(key, value);
}
