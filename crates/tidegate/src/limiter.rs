//! One limit, many keys: what most programs need.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tidegate_core::{Decision, Limit, LimitError, Timestamp};

use crate::builder::{Builder, KeySpace};
use crate::clock::{Clock, SystemClock};
use crate::effective::Effective;
use crate::key::AsKey;
use crate::permit::{Acquired, Held, Holder, Permit};
use crate::store::memory::{Hint, MemoryStore};

/// One limit over many keys, in this process.
///
/// A check takes a few dozen nanoseconds, never waits and cannot fail: a refusal is a value. Clones share
/// everything.
///
/// ```
/// use tidegate::Limiter;
///
/// let limiter = Limiter::new("100/min burst 20")?;
/// let decision = limiter.check("user-42");
/// if decision.allowed() {
///     println!("{} left", decision.remaining());
/// } else if let Some(wait) = decision.retry_after() {
///     println!("come back in {wait:?}");
/// }
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Limiter<C = SystemClock> {
    state: Arc<LimiterState<C>>,
}

#[derive(Debug)]
struct LimiterState<C> {
    limit: Limit,
    keys: KeySpace<C>,
    overrides: KeyLimits,
}

/// Limits of single keys, and how much of all is in force. Costs one load until there is either.
#[derive(Debug, Default)]
struct KeyLimits {
    any: AtomicBool,
    any_key: AtomicBool,
    by_key: RwLock<HashMap<Box<[u8]>, Limit>>,
    effective: OnceLock<Effective>,
}

impl<C> Clone for Limiter<C> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl Limiter {
    /// A limiter for a limit: as text, like `100/min burst 20` or `sliding-log 5/h`, as a rate, or built from its parts.
    /// See [`Limit`].
    ///
    /// ```
    /// # use tidegate::{Limit, LimitError, Limiter, SlidingLog};
    /// # use std::time::Duration;
    /// let text = Limiter::new("100/min burst 20")?;
    /// let rate = Limiter::new(Limit::per_minute(100).burst(20))?;
    /// assert_eq!(text.limit(), rate.limit());
    /// assert!(Limiter::new(SlidingLog::new(5, Duration::from_secs(3600))?).is_ok());
    /// assert_eq!(Limiter::new("0/h").err(), Some(LimitError::ZeroLimit));
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn new(limit: impl TryInto<Limit, Error: Into<LimitError>>) -> Result<Self, LimitError> {
        Self::builder(limit).build()
    }

    /// A limiter with a name, a store or a clock of its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{FixedWindow, Limiter};
    /// // From text, or from a limit that is built already.
    /// let window = FixedWindow::new(5, Duration::from_secs(3600))?;
    /// let limiter = Limiter::builder(window).name("login").build()?;
    /// assert_eq!(limiter.check("user-42").remaining(), 4);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn builder(limit: impl TryInto<Limit, Error: Into<LimitError>>) -> Builder<Limit> {
        Builder::new(limit.try_into().map_err(Into::into))
    }
}

impl<C: Clock> Builder<Limit, C> {
    /// The limiter; an error if the limit makes no sense.
    ///
    /// ```
    /// # use tidegate::{LimitError, Limiter};
    /// let built = Limiter::builder("concurrency 0").name("exports").build();
    /// assert_eq!(built.err(), Some(LimitError::ZeroLimit));
    /// ```
    pub fn build(self) -> Result<Limiter<C>, LimitError> {
        let (limit, keys) = self.into_parts()?;
        let state = LimiterState { limit, keys, overrides: KeyLimits::default() };
        Ok(Limiter { state: Arc::new(state) })
    }
}

impl<C: Clock> Limiter<C> {
    /// Spends one unit of `key`, if there is one.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("1/h")?;
    /// assert!(limiter.check("user-42").allowed());
    /// assert!(!limiter.check("user-42").allowed());
    /// assert!(limiter.check(42_u64).allowed()); // the key `42`: text, numbers and addresses are keys
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    #[must_use = "a decision that nobody looks at limits nothing"]
    #[expect(clippy::inline_always, reason = "see `MemoryStore::take`")]
    #[inline(always)]
    pub fn check(&self, key: impl AsKey) -> Decision {
        self.check_n(key, 1)
    }

    /// Spends `cost` units of `key`, all or none. A cost of 0 only looks.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("10/h")?;
    /// assert!(limiter.check_n("upload", 8).allowed());
    /// assert!(!limiter.check_n("upload", 8).allowed());
    /// assert_eq!(limiter.check_n("upload", 11).retry_after(), None); // never: more than the burst
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    #[must_use = "a decision that nobody looks at limits nothing"]
    #[expect(clippy::inline_always, reason = "see `MemoryStore::take`")]
    #[inline(always)]
    pub fn check_n(&self, key: impl AsKey, cost: u64) -> Decision {
        let (state, key) = (&*self.state, key.as_key());
        let key = key.as_ref();
        if state.overrides.any.load(Ordering::Relaxed) {
            return self.check_with_overrides(key, cost);
        }
        state.keys.store.take(self.fingerprint(key), &state.limit, state.keys.clock.now(), cost)
    }

    #[cold]
    fn check_with_overrides(&self, key: &[u8], cost: u64) -> Decision {
        self.with_limit(key, |limit, now| {
            self.state.keys.store.take(self.fingerprint(key), limit, now, cost)
        })
    }

    /// Checks many keys, one unit each, in order. Faster than one by one: the next keys' memory is on its way
    /// while the first are decided.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("1/h")?;
    /// let decisions = limiter.check_many(&["ann", "ben", "ann"]);
    /// let allowed: Vec<bool> = decisions.iter().map(|decision| decision.allowed()).collect();
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    #[must_use = "a decision that nobody looks at limits nothing"]
    pub fn check_many<K: AsKey>(&self, keys: &[K]) -> Vec<Decision> {
        /// As many loads as a core keeps in flight.
        const AT_ONCE: usize = 16;
        let store = &*self.state.keys.store;
        let mut decisions = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            if self.state.overrides.any.load(Ordering::Relaxed) {
                let check = |key: &K| self.check_with_overrides(key.as_key().as_ref(), 1);
                decisions.extend(keys.iter().map(check));
                continue;
            }
            let (now, limit) = (self.state.keys.clock.now(), &self.state.limit);
            // Hash all, look where all are, then decide all: no pass waits within itself.
            let mut hints = [(0, Hint::default()); AT_ONCE];
            for ((fingerprint, _), key) in hints.iter_mut().zip(keys) {
                *fingerprint = self.fingerprint(key.as_key().as_ref());
            }
            let hints = &mut hints[..keys.len()];
            for (fingerprint, hint) in &mut *hints {
                *hint = store.hint(*fingerprint);
            }
            let take = |(fingerprint, hint)| store.take_hinted(fingerprint, hint, limit, now, 1);
            decisions.extend(hints.iter().copied().map(take));
        }
        decisions
    }

    /// What [`Limiter::check_n`] would answer, without spending.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("10/h")?;
    /// assert!(limiter.peek("upload", 8).allowed());
    /// assert_eq!(limiter.peek("upload", 0).remaining(), 10); // nothing has been spent
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    #[must_use = "a peek changes nothing"]
    pub fn peek(&self, key: impl AsKey, cost: u64) -> Decision {
        let key = key.as_key();
        let key = key.as_ref();
        self.with_limit(key, |limit, now| {
            self.state.keys.store.peek(self.fingerprint(key), limit, now, cost)
        })
    }

    /// Gives back up to `amount` of what `key` has used, never above the ceiling, and answers what is left.
    ///
    /// By GCRA and the token bucket a unit is a span of time, and the one that comes back is a unit of the limit that the
    /// key has now: the whole one, also while less of it is in force, so that a fall and a rise create nothing. If the
    /// limit itself was changed in between, as by [`Limiter::set_override`], this may be more than was spent, or less.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("10/h")?;
    /// let _ = limiter.check_n("upload", 8);
    /// assert_eq!(limiter.refund("upload", 3).remaining(), 5);
    /// assert_eq!(limiter.refund("upload", 1_000_000).remaining(), 10);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn refund(&self, key: impl AsKey, amount: u64) -> Decision {
        let (key, store) = (key.as_key(), &self.state.keys.store);
        let key = key.as_ref();
        let fingerprint = self.fingerprint(key);
        self.with_limits(key, |whole, in_force, now| {
            store.refund(fingerprint, whole, now, amount);
            store.peek(fingerprint, in_force, now, 0)
        })
    }

    /// Takes a permit of a concurrency limit, which is released when it is dropped. A permit that is forgotten, or whose
    /// process dies, is released when its lease ends.
    ///
    /// ```
    /// let exports = tidegate::Limiter::new("concurrency 2 lease 30s")?;
    /// let first = exports.acquire("user-42").permit;
    /// let second = exports.acquire("user-42").permit;
    /// assert!(exports.acquire("user-42").permit.is_none());
    /// drop(first);
    /// assert!(exports.acquire("user-42").permit.is_some());
    /// # drop(second);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn acquire(&self, key: impl AsKey) -> Acquired<Decision> {
        let (key, keys) = (key.as_key(), &self.state.keys);
        let key = key.as_ref();
        let fingerprint = self.fingerprint(key);
        self.with_limit(key, |limit, now| {
            let (answer, grant) = keys.store.take_state(fingerprint, limit, now, 1);
            let held = grant.map(|grant| Held {
                id: grant.id.into(),
                cost: grant.cost,
                scope: keys.scope.clone(),
                key: key.into(),
                limit: limit.clone(),
            });
            let held = held.into_iter().collect();
            let permit = || Permit::new(keys.store.clone(), held, Holder::Store);
            let permit = answer.allowed().then(permit);
            Acquired { answer, permit }
        })
    }

    /// Forgets what `key` has used.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("1/h")?;
    /// assert!(limiter.check("user-42").allowed());
    /// limiter.reset("user-42");
    /// assert!(limiter.check("user-42").allowed());
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn reset(&self, key: impl AsKey) {
        let key = key.as_key();
        let key = key.as_ref();
        self.with_limit(key, |limit, now| {
            self.state.keys.store.reset(self.fingerprint(key), limit, now)
        });
    }

    /// Gives one key a limit of its own. What it has used stays used.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("1/h")?;
    /// limiter.set_override("partner-7", "5000/min")?;
    /// assert_eq!(limiter.check("partner-7").limit(), 5000);
    /// assert_eq!(limiter.check("user-42").limit(), 1);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn set_override(
        &self,
        key: impl AsKey,
        limit: impl TryInto<Limit, Error: Into<LimitError>>,
    ) -> Result<(), LimitError> {
        let limit = limit.try_into().map_err(Into::into)?;
        let overrides = &self.state.overrides;
        let mut by_key = overrides.by_key.write().unwrap_or_else(PoisonError::into_inner);
        by_key.insert(key.as_key().as_ref().into(), limit);
        overrides.any_key.store(true, Ordering::Relaxed);
        overrides.any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a key's own limit away. `false` if it had none.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("1/h")?;
    /// limiter.set_override("partner-7", "5000/min")?;
    /// assert!(limiter.clear_override("partner-7"));
    /// assert_eq!(limiter.check("partner-7").limit(), 1);
    /// assert!(!limiter.clear_override("partner-7")); // gone already
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn clear_override(&self, key: impl AsKey) -> bool {
        let overrides = &self.state.overrides;
        let mut by_key = overrides.by_key.write().unwrap_or_else(PoisonError::into_inner);
        let removed = by_key.remove(key.as_key().as_ref()).is_some();
        overrides.any_key.store(!by_key.is_empty(), Ordering::Relaxed);
        let any = !by_key.is_empty() || overrides.effective.get().is_some();
        overrides.any.store(any, Ordering::Relaxed);
        removed
    }

    /// Lets the limit move with the load of what it protects, from now on: see [`Effective`]. A key's own limit moves in
    /// proportion. `false` if it moves with another one already.
    ///
    /// ```
    /// # use tidegate::{Effective, Limiter};
    /// let (limiter, load) = (Limiter::new("100/min burst 20")?, Effective::default());
    /// assert!(limiter.follow(&load));
    /// load.set(50);
    /// assert_eq!(limiter.check("user-42").limit(), 10);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn follow(&self, effective: &Effective) -> bool {
        let follows = self.state.overrides.effective.set(effective.clone()).is_ok();
        self.state.overrides.any.store(true, Ordering::Relaxed);
        follows
    }

    /// The limit of keys without one of their own.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("100/min burst 20")?;
    /// assert_eq!((limiter.limit().units(), limiter.limit().ceiling()), (100, 20));
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn limit(&self) -> &Limit {
        &self.state.limit
    }

    /// Where state is kept.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::new("100/min burst 20")?;
    /// let _ = limiter.check("user-42");
    /// assert_eq!(limiter.store().stats().keys, 1);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.state.keys.store
    }

    #[inline]
    fn fingerprint(&self, key: &[u8]) -> u64 {
        self.state.keys.store.fingerprint(&self.state.keys.scope, key)
    }

    pub(crate) fn with_limit<R>(&self, key: &[u8], then: impl FnOnce(&Limit, Timestamp) -> R) -> R {
        self.with_limits(key, |_, in_force, now| then(in_force, now))
    }

    /// The key's whole limit, and what of it is in force.
    pub(crate) fn with_limits<R>(
        &self,
        key: &[u8],
        then: impl FnOnce(&Limit, &Limit, Timestamp) -> R,
    ) -> R {
        let now = self.state.keys.clock.now();
        let overrides = &self.state.overrides;
        if !overrides.any.load(Ordering::Relaxed) {
            return then(&self.state.limit, &self.state.limit, now);
        }
        let units = overrides.effective.get().and_then(|it| it.in_force(Some(key)));
        let then = |whole: &Limit| match units {
            Some(units) if units < self.state.limit.units() => {
                then(whole, &whole.effective_part(units, self.state.limit.units(), 1), now)
            }
            _ => then(whole, whole, now),
        };
        if overrides.any_key.load(Ordering::Relaxed) {
            let by_key = overrides.by_key.read().unwrap_or_else(PoisonError::into_inner);
            return then(by_key.get(key).unwrap_or(&self.state.limit));
        }
        then(&self.state.limit)
    }
}
