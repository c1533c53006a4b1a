//! Leases around a store: units are taken ahead, and spent in this process. Never admits more than the limit, for any
//! number of nodes; [`tidegate_core::LeaseHolder`] describes what a lease is and why that holds.
//!
//! A key that is hot asks the store once per hundred admissions or so; a cold one asks for exactly what it needs.

mod entry;
mod request;
mod sweep;

use std::collections::HashMap;
use std::convert::identity;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::{Decision, Limit, Message, Mode, Step, Terms, Timestamp, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::entry::{Entry, LeasedLimits, Waiting};
use self::request::{LeaseRequest, has_runtime};
use super::fingerprint::{Fingerprints, IdentityHasher};
use super::returns::Returns;
use super::{
    KeyedLimit, LimitCharge, MultiCharge, Op, RemoteStore, ReserveReply, ReserveRequest, Source,
    Store, StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult,
};
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;
use crate::sync::lock;

/// The most keys with a lease on this node. Each check of further keys asks the store.
const MAX_KEYS: usize = 100_000;

/// The most checks of one key that wait for the store.
const MAX_WAITING: usize = 10_000;

const SHARDS: usize = 64;

/// The most messages of a lease holder after one event: returns of two leases, and a request.
const MAX_MESSAGES: usize = 4;

/// A store whose units are taken ahead. Every node that shares its keys has to lease them too: the store then counts a
/// tighter limit.
///
/// Only `all` over limits that [can be leased](tidegate_core::Limit::lease_ttl) is leased; anything else asks the
/// store each time. Clones share everything.
///
/// A check waits for two requests at worst: the one in flight when it comes, and the next; a smaller cost for one more
/// after a larger one was refused. All of it within one deadline of the store, if that has one
/// ([`RemoteStore::deadline`]); then the check fails.
///
/// [`Op::Reset`] also forgets the units out on lease, and only the node that gets the reset drops its leases. The units
/// that other nodes hold at that instant may then be admitted on top of the limit, once. The same goes for an
/// [`Op::Refund`] of more than was spent.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StoreRequest, Clock, KeyedLimit, Leases, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Source, Store};
///
/// let (clock, limit): (_, Limit) = (ManualClock::default(), "token-bucket 1000/s capacity 1000".parse()?);
/// let store = Leases::with_clock(MemoryStore::default(), clock.clone());
/// let scope = Scope::named("uploads", "");
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let mut by_lease = 0;
/// for _ in 0..500 {
///     clock.advance(Duration::from_millis(2)); // half of what the limit allows
///     let reply = store.decide(&request, clock.now()).now()?;
///     assert!(reply.verdict.decision.allowed());
///     by_lease += u32::from(reply.source == Source::Lease);
/// }
/// assert!(by_lease > 400, "{by_lease}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Leases<S, C = SystemClock> {
    shared: Arc<Shared<S, C>>,
}

/// What leases have done so far.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StoreRequest, Clock, KeyedLimit, LeaseStats, Leases, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Store};
///
/// let (clock, limit): (_, Limit) = (ManualClock::default(), "token-bucket 1000/s capacity 1000".parse()?);
/// let store = Leases::with_clock(MemoryStore::default(), clock.clone());
/// let scope = Scope::named("uploads", "");
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// for _ in 0..500 {
///     clock.advance(Duration::from_millis(2));
///     store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }, clock.now()).now()?;
/// }
/// let LeaseStats { keys, requests, granted, returned, decided } = store.stats();
/// assert_eq!((keys, returned), (1, 0));
/// assert!(requests < 50 && granted >= 500 && decided > 400, "{:?}", store.stats());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseStats {
    /// Keys that are known now.
    pub keys: u64,
    /// Requests for units.
    pub requests: u64,
    /// Units granted.
    pub granted: u64,
    /// Units given back.
    pub returned: u64,
    /// Checks decided without asking the store.
    pub decided: u64,
}

struct Shared<S, C> {
    store: S,
    clock: C,
    fingerprints: Fingerprints,
    shards: Box<[Mutex<Shard>]>,
    /// Distinguishes a reply to an entry from one to an earlier entry of the same key.
    next_generation: AtomicU64,
    sweeping: AtomicBool,
    /// Whether the store has ever answered later: then a request needs a runtime that waits for its reply.
    answers_later: AtomicBool,
    /// How far the callers' time is ahead of the clock's, for messages that no caller causes: as of the last request that held
    /// units did not answer. The two have to advance together.
    ahead_us: AtomicU64,
    returns: Returns,
    /// How long a check may wait.
    deadline: Option<Duration>,
    counts: Counts,
}

#[derive(Default)]
struct Shard {
    keys: HashMap<u64, Entry, BuildHasherDefault<IdentityHasher>>,
    /// Counted under the lock, which is cheaper than a counter of all shards.
    decided: u64,
}

#[derive(Debug, Default)]
struct Counts {
    keys: AtomicU64,
    requests: AtomicU64,
    granted: AtomicU64,
    returned: AtomicU64,
}

/// What is to be sent once no lock is held.
struct Outbox {
    fingerprint: u64,
    generation: u64,
    limits: Arc<LeasedLimits>,
    messages: [Option<Message>; MAX_MESSAGES],
    /// A request was due, but there is no runtime to wait for its reply.
    no_runtime: bool,
}

/// A check of a key whose holder has been asked.
struct LeasedCheck<'a> {
    request: &'a StoreRequest<'a>,
    fingerprint: u64,
    now: Timestamp,
    now_us: u64,
    step: Step,
    /// The first one that is due.
    message: Option<Message>,
}

impl<S: Store + 'static> Leases<S> {
    /// Leases units of a store. A store that answers later needs a tokio runtime: without one, held units are spent, and
    /// then each check asks the store.
    ///
    /// ```
    /// use tidegate::{LeaseStats, Leases, MemoryStore};
    ///
    /// let store = Leases::around(MemoryStore::default());
    /// assert_eq!(store.stats(), LeaseStats::default());
    /// ```
    pub fn around(store: S) -> Self {
        Self::with_clock(store, SystemClock)
    }
}

impl<S: Store + 'static, C: Clock + 'static> Leases<S, C> {
    /// With another clock, of which only [`Clock::steady_us`] is used.
    pub fn with_clock(store: S, clock: C) -> Self {
        let deadline = store.extensions().remote.and_then(RemoteStore::deadline);
        let shared = Shared {
            store,
            clock,
            fingerprints: Fingerprints::random(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            next_generation: AtomicU64::new(0),
            sweeping: AtomicBool::new(false),
            answers_later: AtomicBool::new(false),
            ahead_us: AtomicU64::new(0),
            returns: Returns::new(),
            deadline,
            counts: Counts::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The verdict of units that are held, or the store's reply. `now` is read only if the store is asked, with a shard
    /// locked: to spend a unit that is held needs no second clock.
    #[inline]
    pub(crate) fn spend_or_ask(
        &self,
        request: &StoreRequest<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Verdict, StoreResult<StoreReply>> {
        let shared = &self.shared;
        if !request.is_valid() || request.mode != Mode::All {
            return Err(shared.store.decide(request, now()));
        }
        match request.op {
            Op::Take if request.cost > 0 => shared.take(request, now),
            Op::Refund | Op::Reset => Err(shared.give_back(request, now())),
            Op::Take | Op::Peek => Err(shared.ask_store(request, now())),
            _ => Err(shared.store.decide(request, now())),
        }
    }

    /// What leases have done so far.
    pub fn stats(&self) -> LeaseStats {
        let Counts { keys, requests, granted, returned } = &self.shared.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LeaseStats {
            keys: load(keys),
            requests: load(requests),
            granted: load(granted),
            returned: load(returned),
            decided: self.shared.shards.iter().map(|shard| lock(shard).decided).sum(),
        }
    }

    /// Gives all units back: before the process ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{StoreRequest, Clock, KeyedLimit, Leases, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Store};
    /// # let (clock, limit): (_, Limit) = (ManualClock::default(), "fixed-window 10000/h".parse()?);
    /// # let store = Leases::with_clock(MemoryStore::default(), clock.clone());
    /// # let scope = Scope::named("uploads", "");
    /// # let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
    /// for _ in 0..500 {
    ///     clock.advance(Duration::from_millis(2));
    ///     // Ask the store for a unit…
    /// #   store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }, clock.now()).now()?;
    /// }
    /// store.release();
    /// let stats = store.stats();
    /// assert_eq!(stats.granted - stats.returned, 500); // what was used
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&self) {
        for shard in 0..SHARDS {
            self.shared.sweep(shard, true);
        }
    }

    /// Sweeps all keys, as a task does twenty times a second: units that are not needed any more go back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{StoreRequest, Clock, KeyedLimit, Leases, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Store};
    /// # let (clock, limit): (_, Limit) = (ManualClock::default(), "fixed-window 10000/h".parse()?);
    /// # let store = Leases::with_clock(MemoryStore::default(), clock.clone());
    /// # let scope = Scope::named("uploads", "");
    /// # let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
    /// # store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }, clock.now()).now()?;
    /// assert_eq!(store.stats().keys, 1);
    /// clock.advance(Duration::from_secs(10)); // without a check
    /// store.tick();
    /// assert_eq!(store.stats().keys, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(&self) {
        for shard in 0..SHARDS {
            self.shared.sweep(shard, false);
        }
    }
}

impl<S, C> Clone for Leases<S, C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store, C> fmt::Debug for Leases<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Leases").field(&self.shared.store).finish()
    }
}

impl<S: Store + 'static, C: Clock + 'static> Store for Leases<S, C> {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let by_lease =
            |verdict| StoreReply { source: Source::Lease, ..StoreReply::by_store(verdict) };
        self.spend_or_ask(request, || now)
            .map_or_else(identity, |it| Reply::ready(Ok(by_lease(it))))
    }

    /// Decided by the store: units out on lease are charged there already. The limits of a policy are leased together.
    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let leased = |charge: &LimitCharge<'_>| {
            let LimitCharge { keyed, .. } = charge;
            let beside = charges.limits.iter().map(|other| other.keyed).filter(|other| {
                other.scope.policy() == keyed.scope.policy() && other.scope != keyed.scope
            });
            leased_limit(keyed.limit, beside.chain([*keyed]).map(weight))
        };
        let leased: Vec<Option<Limit>> = charges.limits.iter().map(leased).collect();
        let limits = charges.limits.iter().zip(&leased).map(|(charge, leased)| {
            let limit = leased.as_ref().unwrap_or(charge.keyed.limit);
            LimitCharge { keyed: KeyedLimit { limit, ..charge.keyed }, ..*charge }
        });
        let limits: Vec<_> = limits.collect();
        self.shared.store.decide_each(&MultiCharge { limits: &limits, ..*charges }, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.shared.store.reserve(request, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        self.shared.store.extensions()
    }
}

impl<S: Store + 'static, C: Clock + 'static> Shared<S, C> {
    #[inline]
    fn take(
        self: &Arc<Self>,
        request: &StoreRequest<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Verdict, StoreResult<StoreReply>> {
        let fingerprint = self.fingerprint(request.limits);
        let now_us = self.clock.steady_us();
        let mut shard = self.shard(fingerprint);
        let Shard { keys, decided } = &mut *shard;
        let known = keys.get_mut(&fingerprint).filter(|entry| entry.has_limits(request.limits));
        let Some(entry) = known else {
            return Err(self.take_first(shard, request, fingerprint, now(), now_us));
        };
        let (step, message) = self.check(entry, request.cost, now_us);
        if let (Step::Admit { remaining, .. }, None) = (step, message) {
            *decided += 1;
            let verdict = entry.admit(remaining, now_us);
            // Unlocked first: a processor unlocks once all that was written is out of its way.
            drop(shard);
            return Ok(verdict);
        }
        let check = LeasedCheck { request, fingerprint, now: now(), now_us, step, message };
        Err(self.take_on(shard, &check, None))
    }

    /// A check of a key that is not known, or not with these limits.
    #[inline(never)]
    fn take_first(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        request: &StoreRequest<'_>,
        fingerprint: u64,
        now: Timestamp,
        now_us: u64,
    ) -> StoreResult<StoreReply> {
        let added = self.add(&mut shard, fingerprint, request, now_us);
        match (added, shard.keys.get_mut(&fingerprint)) {
            (Ok(returns), Some(entry)) => {
                let (step, message) = self.check(entry, request.cost, now_us);
                let check = LeasedCheck { request, fingerprint, now, now_us, step, message };
                self.take_on(shard, &check, returns)
            }
            (added, _) => {
                drop(shard);
                let is_unleased = added.is_err_and(|is_unleased| is_unleased);
                let store = &self.store;
                if is_unleased { store.decide(request, now) } else { self.ask_store(request, now) }
            }
        }
    }

    /// The rest of a check that has to wait, is refused, or has something to send; after `returns`.
    #[inline(never)]
    fn take_on(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        check: &LeasedCheck<'_>,
        returns: Option<Outbox>,
    ) -> StoreResult<StoreReply> {
        let LeasedCheck { request, fingerprint, now, now_us, step, message } = *check;
        self.ahead_us.store(now.as_micros().wrapping_sub(now_us), Ordering::Relaxed);
        let Shard { keys, decided: count } = &mut *shard;
        let Some(entry) = keys.get_mut(&fingerprint) else { return self.ask_store(request, now) };
        let decided = match step {
            Step::Wait if entry.waiting.len() >= MAX_WAITING => {
                Ok(Err(StoreError::new(StoreErrorKind::Overloaded, "too many wait for this key")))
            }
            Step::Wait => {
                let (done, answer) = oneshot::channel();
                let (cost, since) = (request.cost, entry.requests);
                let due = self.deadline.map(|deadline| Instant::now() + deadline);
                entry.waiting.push_back(Waiting { cost, since, due, waits_again: false, done });
                Err(answer)
            }
            step => {
                let decided = entry.decide_one(step, now_us, Source::Lease);
                *count += u64::from(decided.is_ok());
                Ok(decided)
            }
        };
        let outbox = message.map(|message| self.outbox(fingerprint, entry, message, now_us));
        drop(shard);
        self.send(returns, now);
        let mut no_runtime = false;
        if outbox.is_some() {
            no_runtime = self.send(outbox, now);
            self.keep_sweeping();
        }
        match decided {
            Ok(decided) => Reply::ready(decided),
            Err(_) if no_runtime => self.ask_store(request, now),
            Err(answer) => wait_for(answer),
        }
    }

    /// The step of a check, and the first message that is due after it. A refusal does not count if units were given back
    /// after its request was sent.
    #[expect(clippy::inline_always, reason = "called, its answer would go through memory")]
    #[inline(always)]
    fn check(&self, entry: &mut Entry, cost: u64, now_us: u64) -> (Step, Option<Message>) {
        entry.used_us = now_us;
        let mut step = entry.holder.check(now_us, cost);
        if matches!(step, Step::Refuse { .. }) && self.gave_back(entry) {
            entry.holder.forget_refusal();
            step = entry.holder.check(now_us, cost);
        }
        (step, entry.holder.poll(now_us))
    }

    /// Whether units of the entry's keys were given back since its last request was sent.
    fn gave_back(&self, entry: &Entry) -> bool {
        self.returns.count_of_all(entry.limits.fingerprints()) != entry.returns
    }

    /// Passes on a request that gives units back, and forgets the refusals of its keys: when it is sent, in case nobody
    /// waits for the reply, and when the reply is there, since other requests may have reached the store before it.
    fn give_back(
        self: &Arc<Self>,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        let fingerprint = |keyed: &KeyedLimit<'_>| self.fingerprints.hash(keyed.scope, keyed.key);
        let keys: Vec<u64> = request.limits.iter().map(fingerprint).collect();
        self.returns.record(&keys);
        let reply = self.ask_store(request, now);
        if request.op == Op::Reset {
            self.forget(request, now);
        }
        let shared = self.clone();
        reply.then(move |answer| {
            shared.returns.record(&keys);
            answer
        })
    }

    /// Adds a key, or replaces its limits: then it answers the units to give back. `Err(true)` if the limits cannot be
    /// leased, `Err(false)` if there is no room.
    fn add(
        &self,
        shard: &mut Shard,
        fingerprint: u64,
        request: &StoreRequest<'_>,
        now_us: u64,
    ) -> Result<Option<Outbox>, bool> {
        let terms = Terms::weighted(request.limits.iter().copied().map(weight));
        let terms = terms.map_err(|_| true)?;
        let leased = request.limits.iter().map(|keyed| keyed.limit.leased(terms.ttl()));
        let leased = leased.collect::<Result<Vec<_>, _>>();
        let leased = leased.map_err(|_| true)?;
        let before = shard.keys.remove(&fingerprint);
        if before.is_none() && shard.keys.len() >= MAX_KEYS / SHARDS {
            return Err(false);
        }
        let generation = self.next_generation.fetch_add(1, Ordering::Relaxed);
        let fingerprint_of =
            |keyed: &KeyedLimit<'_>| self.fingerprints.hash(keyed.scope, keyed.key);
        let limits = LeasedLimits::new(request.limits, leased, fingerprint_of);
        let mut entry = Entry::new(terms, limits, generation, now_us);
        let mut returns = None;
        match before {
            // The limit has changed. No unit of the old one is spent any more, and waiting checks ask again.
            Some(mut before) => {
                entry.succeed(&before);
                entry.take_over(std::mem::take(&mut before.waiting), now_us);
                returns = self.returns_of_replaced(fingerprint, before, &entry, now_us);
            }
            None => drop(self.counts.keys.fetch_add(1, Ordering::Relaxed)),
        }
        shard.keys.insert(fingerprint, entry);
        Ok(returns)
    }

    /// The units of a replaced entry that go back: if the new limits still count them, as those of an adaptive limit do.
    /// Otherwise the store may have forgotten them, and would credit them twice.
    fn returns_of_replaced(
        &self,
        fingerprint: u64,
        mut before: Entry,
        entry: &Entry,
        now_us: u64,
    ) -> Option<Outbox> {
        if !entry.limits.remembers(&before.limits) {
            return None;
        }
        before.holder.release();
        let mut messages = [None; MAX_MESSAGES];
        for message in &mut messages {
            let Some(Message::Return(back)) = before.holder.poll(now_us) else { break };
            self.counts.returned.fetch_add(back.units, Ordering::Relaxed);
            *message = Some(Message::Return(back));
        }
        let (generation, limits) = (before.generation, before.limits);
        messages[0].is_some().then_some(Outbox {
            fingerprint,
            generation,
            limits,
            messages,
            no_runtime: false,
        })
    }

    /// Asks the store, with the limits that it counts while units are leased.
    fn ask_store(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let all = request.limits.iter().copied();
        let leased: Option<Vec<_>> =
            all.clone().map(|own| leased_limit(own.limit, all.clone().map(weight))).collect();
        let Some(leased) = leased else { return self.store.decide(request, now) };
        let pairs = request.limits.iter().zip(&leased);
        let limits: Vec<_> = pairs.map(|(keyed, limit)| KeyedLimit { limit, ..*keyed }).collect();
        self.store.decide(&StoreRequest { limits: &limits, ..*request }, now)
    }

    /// Drops the lease of a key that is reset, without giving it back. Waiting checks ask again.
    fn forget(self: &Arc<Self>, request: &StoreRequest<'_>, now: Timestamp) {
        let fingerprint = self.fingerprint(request.limits);
        let now_us = self.clock.steady_us();
        let mut shard = self.shard(fingerprint);
        let Some(entry) = shard.keys.get_mut(&fingerprint) else { return };
        entry.holder = entry.holder.successor(entry.terms);
        entry.generation = self.next_generation.fetch_add(1, Ordering::Relaxed);
        let waiting = std::mem::take(&mut entry.waiting);
        entry.take_over(waiting, now_us);
        let outbox = self.due(fingerprint, entry, now_us);
        drop(shard);
        self.send(outbox, now);
    }

    /// The messages that an entry has to send now.
    fn due(&self, fingerprint: u64, entry: &mut Entry, now_us: u64) -> Option<Outbox> {
        let first = entry.holder.poll(now_us)?;
        Some(self.outbox(fingerprint, entry, first, now_us))
    }

    /// This message of an entry, and those that follow.
    fn outbox(&self, fingerprint: u64, entry: &mut Entry, first: Message, now_us: u64) -> Outbox {
        let mut polled = Some(first);
        let (mut messages, mut no_runtime) = ([None; MAX_MESSAGES], false);
        for message in &mut messages {
            match polled {
                // Checked before a check can wait for it.
                Some(Message::Ask(_)) if self.lacks_runtime() => {
                    entry.cancel(&request::lost());
                    no_runtime = true;
                    break;
                }
                Some(Message::Ask(_)) => {
                    entry.requests += 1;
                    entry.returns = self.returns.count_of_all(entry.limits.fingerprints());
                    self.counts.requests.fetch_add(1, Ordering::Relaxed);
                }
                Some(Message::Return(back)) => {
                    self.counts.returned.fetch_add(back.units, Ordering::Relaxed);
                }
                None => break,
            }
            *message = polled;
            polled = entry.holder.poll(now_us);
        }
        let (generation, limits) = (entry.generation, entry.limits.clone());
        Outbox { fingerprint, generation, limits, messages, no_runtime }
    }

    /// Sends without a lock; [`Shared::on_reply`] gets the replies. Answers whether a request was due, but there was no
    /// runtime to wait for its reply.
    fn send(self: &Arc<Self>, outbox: Option<Outbox>, now: Timestamp) -> bool {
        let (mut next, mut any_without_runtime) = (outbox, false);
        while let Some(outbox) = next.take() {
            let Outbox { fingerprint, generation, limits, messages, no_runtime } = outbox;
            any_without_runtime |= no_runtime;
            for message in messages.into_iter().flatten() {
                let ask = |op| limits.with(op, |request| self.store.decide(request, now));
                let wanted = match message {
                    Message::Ask(wanted) => wanted,
                    Message::Return(back) => {
                        drop(ask(Op::GiveBack(back)));
                        continue;
                    }
                };
                let lease = LeaseRequest::new(self.clone(), fingerprint, generation);
                match ask(Op::Lease(wanted)).split() {
                    Ok(reply) => next = lease.answered(reply),
                    Err(later) => {
                        self.answers_later.store(true, Ordering::Relaxed);
                        // Without a runtime the grant is lost, which `lease` reports when it is dropped.
                        any_without_runtime |= !lease.wait_for(later, now);
                    }
                }
            }
        }
        any_without_runtime
    }

    /// Whether the store answers later, and there is no runtime to wait for it.
    fn lacks_runtime(&self) -> bool {
        self.answers_later.load(Ordering::Relaxed) && !has_runtime()
    }

    /// No reply will come. Sends nothing: the process may be about to end.
    fn on_loss(&self, fingerprint: u64, generation: u64) {
        let mut shard = self.shard(fingerprint);
        let entry = shard.keys.get_mut(&fingerprint).filter(|it| it.generation == generation);
        if let Some(entry) = entry {
            entry.cancel(&request::lost());
        }
    }

    /// When the next check that waits for a request's reply has to be answered without it.
    fn next_due(&self, fingerprint: u64, generation: u64) -> Option<Instant> {
        self.shard(fingerprint)
            .keys
            .get(&fingerprint)
            .filter(|it| it.generation == generation)?
            .next_due()
    }

    fn expire(&self, fingerprint: u64, generation: u64) {
        let mut shard = self.shard(fingerprint);
        let entry = shard.keys.get_mut(&fingerprint).filter(|it| it.generation == generation);
        if let Some(entry) = entry {
            entry.expire(Instant::now());
        }
    }

    /// Handles a reply, and decides the checks that waited for it.
    fn on_reply(
        &self,
        fingerprint: u64,
        generation: u64,
        reply: Result<StoreReply, StoreError>,
    ) -> Option<Outbox> {
        let now_us = self.clock.steady_us();
        let mut shard = self.shard(fingerprint);
        let entry = shard.keys.get_mut(&fingerprint).filter(|it| it.generation == generation)?;
        let missing = || StoreError::new(StoreErrorKind::Protocol, "no lease in the reply");
        match reply.and_then(|reply| reply.grant.ok_or_else(missing)) {
            Ok(grant) => {
                self.counts.granted.fetch_add(grant.units, Ordering::Relaxed);
                let gave_back = self.gave_back(entry);
                entry.on_grant(&grant, gave_back, now_us);
            }
            Err(error) => entry.on_failure(error, now_us),
        }
        self.due(fingerprint, entry, now_us)
    }

    fn fingerprint(&self, limits: &[KeyedLimit<'_>]) -> u64 {
        limits.iter().fold(0, |all: u64, keyed| {
            all.rotate_left(5) ^ self.fingerprints.hash(keyed.scope, keyed.key)
        })
    }

    fn shard(&self, fingerprint: u64) -> MutexGuard<'_, Shard> {
        // The high bits: the table within a shard uses the low ones.
        let shard = usize::try_from(fingerprint >> 58).unwrap_or(0) % SHARDS;
        lock(&self.shards[shard])
    }
}

/// The limit that the store counts while `own` is leased together with `all`, itself among them; `None` if they cannot
/// be leased. A request past the leases has to use this limit: under the plain limit the store would admit the units
/// out on lease, and forget them when it next sees the leased one.
pub(crate) fn leased_limit<'a>(
    own: &Limit,
    all: impl Iterator<Item = (&'a Limit, u64)> + Clone,
) -> Option<Limit> {
    let terms = Terms::weighted(all).ok()?;
    own.leased(terms.ttl()).ok()
}

/// A limit, and what a unit takes of it.
fn weight(keyed: KeyedLimit<'_>) -> (&Limit, u64) {
    (keyed.limit, keyed.scope.factor())
}

/// The answer to a check that waits. A store that answers at once has decided it already.
fn wait_for(
    mut answer: oneshot::Receiver<Result<StoreReply, StoreError>>,
) -> StoreResult<StoreReply> {
    if let Ok(answer) = answer.try_recv() {
        return Reply::ready(answer);
    }
    Reply::later(async {
        let dropped = StoreError::new(StoreErrorKind::Disconnected, "the leases were dropped");
        answer.await.unwrap_or(Err(dropped))
    })
}
