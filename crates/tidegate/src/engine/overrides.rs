//! Overrides at run time: kept in the store, followed by every node that shares it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use tidegate_core::LimitError;

use super::loaded::network_of;
use super::settle::is_failure;
use super::{Engine, Shared};
use crate::clock::{Clock, SystemClock};
use crate::policy::PolicyProblem;
use crate::reply::{Reply, UnderWay};
use crate::store::{Changed, OverrideChange, OverrideStore, Store, StoreError, StoredOverride};

/// The overrides of an engine that are set at run time. They beat those that its policies were built with.
///
/// The store keeps them, in one small table for all who share it. An engine looks whether that has changed when it is
/// told to [refresh](RunTimeOverrides::refresh), about once a second from a timer; what it sets itself it follows at
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
    /// A key has at most 1,024 bytes; this one has so many.
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
        key: impl AsRef<[u8]>,
        text: &str,
        life: Option<Duration>,
    ) -> Reply<'e, (), OverrideError> {
        let key = canonical(key.as_ref());
        if let Err(error) = self.shared().check_override(policy, &key, text) {
            return Reply::ready(Err(error));
        }
        // Nobody means "from now until now".
        let life = life.map(|life| life.max(Duration::from_millis(1)));
        let change = OverrideChange::Set { policy, key: &key, text, life };
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
    pub fn remove(&self, policy: &str, key: impl AsRef<[u8]>) -> Reply<'e, bool, OverrideError> {
        let change = OverrideChange::Remove { policy, key: &canonical(key.as_ref()) };
        self.change(&change, |changed| Ok(changed == Changed::Done))
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
        key: impl AsRef<[u8]>,
    ) -> Reply<'e, Option<StoredOverride>, OverrideError> {
        let (policy, key) = (policy.to_owned(), canonical(key.as_ref()).into_owned());
        let is_it = move |it: &StoredOverride| it.policy == policy && *it.key == *key;
        self.list().then(move |all| Ok(all?.into_iter().find(is_it)))
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
        let shared = self.shared();
        self.refresh().then(move |refreshed| {
            refreshed.map_err(OverrideError::Store)?;
            let now_us = shared.clock.steady_us();
            Ok(shared.loaded.table().entries(now_us).collect())
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
        self.shared().refresh()
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
        self.shared().loaded.table().skipped
    }

    fn shared(&self) -> &'e Shared<C> {
        &self.engine.shared
    }

    /// Changes the store's table, and follows it.
    fn change<T: Send + 'e>(
        &self,
        change: &OverrideChange<'_>,
        then: impl FnOnce(Changed) -> Result<T, OverrideError> + Send + 'e,
    ) -> Reply<'e, T, OverrideError> {
        let shared = self.shared();
        let reply =
            shared.stores.plain.store.extensions().change_override(change, shared.clock.now());
        match reply.split() {
            Ok(changed) => {
                let then = move || then(changed.map_err(OverrideError::Store)?);
                // Changed it is, also if it cannot be loaded now: the next refresh will.
                shared.refresh().then(move |_| then())
            }
            Err(later) => Reply::later(async move {
                let changed = later.await.map_err(OverrideError::Store)?;
                drop(shared.refresh().await);
                then(changed)
            }),
        }
    }
}

impl<C: Clock + 'static> Shared<C> {
    fn refresh(&self) -> Reply<'_, bool, StoreError> {
        let (turn, asked_us) = (self.loaded.next_turn(), self.clock.steady_us());
        let known = self.loaded.table().version;
        self.stores.plain.store.extensions().overrides(known, self.clock.now()).then(move |table| {
            let follow = |table| self.loaded.replace(table, turn, asked_us, &self.policies);
            Ok(table?.is_some_and(follow))
        })
    }

    fn check_override(&self, policy: &str, key: &[u8], text: &str) -> Result<(), OverrideError> {
        let unknown = || OverrideError::UnknownPolicy(policy.to_owned());
        let policy = self.policies.get(policy).ok_or_else(unknown)?;
        if key.len() > KEY_BYTES_MAX {
            return Err(OverrideError::LongKey(key.len()));
        }
        let instead = policy.read_override(text).map_err(OverrideError::BadLimit)?;
        policy.fits(&instead).map_err(OverrideError::DoesNotFit)
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

impl From<UnderWay> for OverrideError {
    fn from(under_way: UnderWay) -> Self {
        Self::Store(under_way.into())
    }
}

impl std::error::Error for OverrideError {}
