//! The in-process store: millions of keys in a table of fingerprints and words.
//!
//! - A refusal or a peek only loads; an admission is one compare-and-swap and two stores on one cache line.
//! - States that are more than a word are kept beside the table, each behind a short lock.
//! - All limits of a check are one atomic step: their lines are locked in order.
//! - Idle keys are swept a few lines at a time, as new keys come. At the byte cap, idle keys are evicted first, then
//!   keys with units left, and spent ones last; keys that were evicted before they were idle are counted.

mod arena;
mod bucket;
mod budget;
mod each;
mod evict;
mod fast_path;
mod many;
mod snapshot;
mod snapshot_file;
mod table;
mod units;
mod wide;
mod word;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{
    Arrival, Decision, LeakyBucket, Limit, Permit, Reservation, State, Timestamp, Verdict,
};

pub use snapshot::SnapshotError;
pub use snapshot_file::{Restored, SnapshotFile};

use self::bucket::Word;
use self::budget::Budget;
pub(crate) use self::table::Hint;
use self::table::{Insert, Spot, Table};
use self::units::Units;
use self::wide::{Unpublished, WideStates};
use super::coordination::ReadingsRecord;
use super::fingerprint::Fingerprints;
use super::held::{Released, release};
use super::overrides::OverridesRecord;
use super::{
    Changed, Coordination, MultiCharge, Op, OverrideChange, OverrideStore, OverrideTable,
    ReadingReport, ReserveReply, ReserveRequest, Scope, StateUpdate, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult, TickReadings,
};
use crate::reply::Reply;
use crate::sync::lock;

/// The default byte cap: room for about six million keys of one word.
pub(crate) const DEFAULT_MAX_BYTES: usize = 256 << 20;

/// The smallest byte cap: a chunk of lines, of overflow lines and of wide states, each within its share.
const MIN_MAX_BYTES: usize = 1 << 20;

/// How long an idle key is kept while there is memory, so that a key that comes back soon need not be added again.
const IDLE_GRACE: Duration = Duration::from_secs(10);

/// Lines swept for a new key when the table cannot grow any more.
const AT_THE_CAP_LINES: u64 = 16;

/// Lines, and wide states, examined in one round to make room for one, in at most eight rounds: enough that a spent key
/// is only evicted if almost all are spent.
const ROOM_LINES: u64 = 64;
const ROOM_STATES: u64 = 128;

/// Attempts to find memory for one state before it is dropped.
const ROOM_ATTEMPTS: u64 = 8;

/// The most scopes whose readings are kept.
const SCOPES_MAX: usize = 10_000;

/// State of all keys, in this process. Shared by reference or in an [`Arc`].
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Limiter, MemoryStore};
///
/// let store = Arc::new(MemoryStore::with_max_bytes(64 << 20));
/// let reads = Limiter::builder("1000/s").name("reads").store(store.clone()).build()?;
/// let writes = Limiter::builder("10/s").name("writes").store(store.clone()).build()?;
/// assert!(reads.check("user-42").allowed());
/// assert!(writes.check("user-42").allowed());
/// assert_eq!(store.stats().keys, 2);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
pub struct MemoryStore {
    table: Table,
    wide: WideStates,
    units: Units,
    budget: Arc<Budget>,
    fingerprints: Fingerprints,
    /// The next line to sweep.
    sweep_cursor: AtomicU64,
    given_up: AtomicU64,
    overrides: Mutex<OverridesRecord>,
    /// By scope.
    readings: Mutex<HashMap<Box<str>, ReadingsRecord>>,
}

/// What a [`MemoryStore`] holds.
///
/// ```
/// use tidegate::{Limiter, MemoryStore};
///
/// let store = MemoryStore::with_max_bytes(1 << 20);
/// let limiter = Limiter::builder("5/h").store(store).build()?;
/// for user in 0..40_000_u32 {
///     let _ = limiter.check(user.to_le_bytes());
/// }
/// let stats = limiter.store().stats();
/// assert!(stats.bytes <= 1 << 20);
/// assert!(stats.keys < 40_000); // a megabyte holds fewer
/// assert_eq!(stats.keys + stats.given_up, 40_000);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryStats {
    /// Keys with a state, one per limit.
    pub keys: u64,
    /// Memory taken, in bytes.
    pub bytes: usize,
    /// States dropped before they were idle, because the byte cap left no other choice.
    pub given_up: u64,
}

/// What a decision on a state wants written.
struct Outcome<R> {
    answer: R,
    writes: bool,
    spent: bool,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_max_bytes(DEFAULT_MAX_BYTES)
    }
}

impl MemoryStore {
    /// A store that stays within `max_bytes`, or within a megabyte if that is less.
    ///
    /// ```
    /// # use tidegate::MemoryStore;
    /// let store = MemoryStore::with_max_bytes(64 << 20);
    /// assert!(store.stats().bytes < 1 << 20); // a cap, not taken at once
    /// ```
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self::new(max_bytes, Fingerprints::random())
    }

    fn new(max_bytes: usize, fingerprints: Fingerprints) -> Self {
        let budget = Arc::new(Budget::new(max_bytes.max(MIN_MAX_BYTES)));
        Self {
            table: Table::new(budget.clone()),
            wide: WideStates::new(budget.clone()),
            units: Units::default(),
            budget,
            fingerprints,
            sweep_cursor: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            overrides: Mutex::default(),
            readings: Mutex::default(),
        }
    }

    /// What the store holds now.
    ///
    /// ```
    /// # use tidegate::Limiter;
    /// let limiter = Limiter::new("5/h")?;
    /// let _ = limiter.check_many(&["ann", "ben", "ann"]);
    /// assert_eq!(limiter.store().stats().keys, 2);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            keys: self.table.keys(),
            bytes: self.budget.used(),
            given_up: self.given_up.load(Ordering::Relaxed),
        }
    }

    /// All but the commonest request.
    #[inline(never)]
    fn decide_any(&self, request: &StoreRequest<'_>, now: Timestamp) -> Option<StoreReply> {
        let [one] = request.limits else {
            return self.decide_many_limits(request, now);
        };
        let (fingerprint, limit) = (self.fingerprint(one.scope, one.key), one.limit);
        let cost = one.scope.cost(request.cost);
        let decision = match request.op {
            Op::Take => {
                let (decision, permit) = self.take_state(fingerprint, limit, now, cost);
                let permits = permit.map(|permit| (0, permit.id)).into_iter().collect();
                let verdict = Verdict { binding: 0, decision };
                return Some(StoreReply { permits, ..StoreReply::by_store(verdict) });
            }
            Op::Peek => self.peek(fingerprint, limit, now, cost),
            Op::Refund => self.refund(fingerprint, limit, now, cost),
            Op::Reset => self.reset(fingerprint, limit, now),
            Op::Lease(_) | Op::GiveBack(_) | Op::Renew { .. } => {
                return self.decide_many_limits(request, now);
            }
            Op::Release { permit_id } => {
                if !request.is_valid() {
                    return None;
                }
                let released = self.release(fingerprint, permit_id, request.cost, now);
                let permits = if released { vec![(0, permit_id)] } else { Vec::new() };
                let decision = self.peek(fingerprint, limit, now, 0);
                let verdict = Verdict { binding: 0, decision };
                return Some(StoreReply { permits, ..StoreReply::by_store(verdict) });
            }
        };
        Some(StoreReply::by_store(Verdict { binding: 0, decision }))
    }

    #[inline]
    pub(crate) fn fingerprint(&self, scope: &Scope, key: &[u8]) -> u64 {
        self.fingerprints.hash(scope, key)
    }

    /// Starts to load the line that a check of `fingerprint` will need, and answers where to look first.
    #[inline]
    pub(crate) fn hint(&self, fingerprint: u64) -> Hint<'_> {
        self.table.hint(fingerprint)
    }

    /// [`MemoryStore::take`] on a state of any kind, with the permit that a concurrency limit grants.
    pub(crate) fn take_state(
        &self,
        fingerprint: u64,
        limit: &Limit,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, Option<Permit>) {
        self.on_state(fingerprint, now, |state| {
            let (decision, change) = limit.decide(state, now, cost);
            state.apply(change);
            Outcome {
                answer: (decision, change.permit()),
                writes: change.writes(),
                spent: is_spent(&decision),
            }
        })
    }

    pub(crate) fn peek(
        &self,
        fingerprint: u64,
        limit: &Limit,
        now: Timestamp,
        cost: u64,
    ) -> Decision {
        self.on_state(fingerprint, now, |state| Outcome {
            answer: limit.peek(state, now, cost),
            writes: false,
            spent: false,
        })
    }

    pub(crate) fn refund(
        &self,
        fingerprint: u64,
        limit: &Limit,
        now: Timestamp,
        amount: u64,
    ) -> Decision {
        self.on_state(fingerprint, now, |state| {
            let writes = *state != State::Empty;
            let answer = limit.refund(state, now, amount);
            Outcome { answer, writes, spent: is_spent(&answer) }
        })
    }

    /// Forgets what was spent.
    pub(crate) fn reset(&self, fingerprint: u64, limit: &Limit, now: Timestamp) -> Decision {
        if limit.grants_permits() {
            return self.on_state(fingerprint, now, |state| {
                let writes = *state != State::Empty;
                state.reset();
                Outcome { answer: limit.peek(state, now, 0), writes, spent: false }
            });
        }
        self.remove(fingerprint);
        limit.peek(&State::Empty, now, 0)
    }

    /// Reserves a departure in a shaper's queue. The arrival identifies it for [`MemoryStore::cancel`].
    pub(crate) fn reserve_departure(
        &self,
        fingerprint: u64,
        shaper: &LeakyBucket,
        now: Timestamp,
        cost: u64,
    ) -> (Reservation, Option<Arrival>) {
        self.on_state(fingerprint, now, |state| {
            let (reservation, next) = shaper.decide(state.arrival(), now, cost);
            if let Some(next) = next {
                *state = State::Arrival(next);
            }
            let reserved = next.filter(|_| reservation.accepted());
            Outcome { answer: (reservation, reserved), writes: next.is_some(), spent: false }
        })
    }

    /// Cancels a reservation, if it is the last in the queue.
    pub(crate) fn cancel(
        &self,
        fingerprint: u64,
        shaper: &LeakyBucket,
        reserved: Arrival,
        now: Timestamp,
        cost: u64,
    ) -> bool {
        self.on_state(fingerprint, now, |state| {
            let cancelled = shaper.cancel(state, reserved, now, cost);
            Outcome { answer: cancelled, writes: cancelled, spent: false }
        })
    }

    /// Gives a permit back. `false` if it was not held any more.
    pub(crate) fn release(
        &self,
        fingerprint: u64,
        permit_id: u64,
        cost: u64,
        now: Timestamp,
    ) -> bool {
        // The time is not needed to evict keys for memory: a release takes none.
        self.on_state(fingerprint, Timestamp::EPOCH, |state| {
            let released = release(state, permit_id, cost, now);
            let writes = released != Released::NotThere;
            let answer = released == Released::Held;
            Outcome { answer, writes, spent: false }
        })
    }

    /// Decides on the state of a key, wherever it is kept.
    fn on_state<R>(
        &self,
        fingerprint: u64,
        now: Timestamp,
        decide: impl Fn(&mut State) -> Outcome<R>,
    ) -> R {
        let mut attempts = 0;
        loop {
            let spot = self.table.find(fingerprint);
            if let Some(number) = word::to_wide(spot.word) {
                let Some(mut wide) = self.wide.lock(number) else { continue };
                if wide.owner() != Some(fingerprint) {
                    continue; // it was dropped, and perhaps reused, before we had its lock
                }
                let outcome = decide(&mut wide.state);
                let grew = outcome.writes && {
                    wide.spent = outcome.spent;
                    self.wide.recount(&mut wide)
                };
                drop(wide);
                if grew {
                    self.stay_under_cap(now);
                }
                return outcome.answer;
            }
            let mut state = self.units.to_state(spot.word);
            let outcome = decide(&mut state);
            if !outcome.writes {
                if spot.is_unchanged() {
                    return outcome.answer;
                }
                continue;
            }
            let Some((word, unpublished)) = self.to_word(fingerprint, state, outcome.spent) else {
                attempts += 1;
                if attempts > ROOM_ATTEMPTS {
                    self.given_up.fetch_add(1, Ordering::Relaxed);
                    return outcome.answer;
                }
                self.make_room(now);
                continue;
            };
            // Never wait for a line while a wide state is locked: others lock lines first, then wide states. So its lock
            // is dropped before any upkeep.
            let written = self.write(&spot, fingerprint, word);
            if written == Insert::Done {
                drop(unpublished);
                if spot.word == Word::NONE {
                    self.after_insert(now);
                }
                self.stay_under_cap(now);
                return outcome.answer;
            }
            self.wide.withdraw(unpublished);
            if written == Insert::Full {
                self.make_room_on_line(fingerprint, now);
            }
        }
    }

    /// The word for a state: the state itself, or where it is kept. `None` if there is no memory for it.
    fn to_word(
        &self,
        fingerprint: u64,
        state: State,
        spent: bool,
    ) -> Option<(Word, Option<Unpublished<'_>>)> {
        if let Some(word) = self.units.to_word(&state, spent) {
            return Some((word, None));
        }
        let unpublished = self.wide.add(fingerprint, state, spent)?;
        Some((word::from_wide(unpublished.number), Some(unpublished)))
    }

    /// Writes a word to a spot, new or not, without waiting for anything.
    fn write(&self, spot: &Spot<'_>, fingerprint: u64, word: Word) -> Insert {
        if spot.word == Word::NONE {
            return self.table.insert(spot, fingerprint, word);
        }
        if spot.replace(word) { Insert::Done } else { Insert::Changed }
    }

    /// Keeps the load factor: drops idle keys, or adds a line if there are none. Either way a new key pays for a few
    /// lines only.
    fn after_insert(&self, now: Timestamp) {
        for _ in 0..4 {
            if !self.table.is_loaded() {
                return;
            }
            self.sweep(now - IDLE_GRACE, 4);
        }
        if !self.table.grow() {
            self.sweep(now, AT_THE_CAP_LINES);
        }
    }
}

/// Whether no unit is left after a decision.
#[inline]
fn is_spent(decision: &Decision) -> bool {
    decision.remaining() == 0
}

/// Always answers at once.
impl Store for MemoryStore {
    #[inline]
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if let ([one], Op::Take) = (request.limits, request.op)
            && !one.limit.grants_permits()
        {
            let (fingerprint, cost) =
                (self.fingerprint(one.scope, one.key), one.scope.cost(request.cost));
            let decision = self.take(fingerprint, one.limit, now, cost);
            return Reply::ready(Ok(StoreReply::by_store(Verdict { binding: 0, decision })));
        }
        let invalid = || StoreError::bad_request(StoreRequest::INVALID);
        Reply::ready(self.decide_any(request, now).ok_or_else(invalid))
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        Reply::ready(self.decide_together(charges, now))
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        let fingerprint = self.fingerprint(request.scope, request.key);
        let Some(reserved) = request.cancel else {
            let (reservation, until) =
                self.reserve_departure(fingerprint, request.shaper, now, request.cost);
            return Reply::ready(Ok(ReserveReply { reservation, until }));
        };
        let cancelled = self.cancel(fingerprint, request.shaper, reserved, now, request.cost);
        let reservation = if cancelled { Reservation::unlimited() } else { Reservation::blocked() };
        Reply::ready(Ok(ReserveReply { reservation, until: None }))
    }

    fn prefetch(&self, scope: &Scope, key: &[u8]) {
        self.table.prefetch(self.fingerprint(scope, key));
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions {
            overrides: Some(self),
            coordination: Some(self),
            ..StoreExtensions::default()
        }
    }
}

/// Part of a [snapshot](MemoryStore::snapshot).
impl OverrideStore for MemoryStore {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        Reply::ready(Ok(lock(&self.overrides).load(known, now)))
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        Reply::ready(Ok(lock(&self.overrides).change(change, now)))
    }
}

/// Not part of a [snapshot](MemoryStore::snapshot).
impl Coordination for MemoryStore {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        if let Err(error) = report.validate() {
            return Reply::failed(error);
        }
        let mut scopes = lock(&self.readings);
        if scopes.len() >= SCOPES_MAX && !scopes.contains_key(report.scope) {
            let why = "readings of too many scopes";
            return Reply::failed(StoreError::new(StoreErrorKind::Overloaded, why));
        }
        Reply::ready(Ok(scopes.entry(report.scope.into()).or_default().report(report, now)))
    }

    fn keep_state(&self, update: &StateUpdate<'_>, _: Timestamp) -> StoreResult<bool> {
        let keep = |()| {
            let mut scopes = lock(&self.readings);
            scopes.get_mut(update.scope).is_some_and(|scope| scope.keep(update))
        };
        Reply::ready(update.validate().map(keep))
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
