//! The store: requests become steps on items.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::{NetworkStats, StoreMonitor, StoreReport, StoreServer};
use tidegate::store_kit::{
    KeyText, NetworkCounters, OwnedMultiCharge, OwnedRequest, decide_each_state, decide_states,
    release_granted,
};
use tidegate::{
    Changed, Coordination, KeyedLimit, MultiCharge, Op, OverrideChange, OverrideStore,
    OverrideTable, ReadingReport, RemoteStore, Reply, ReserveReply, ReserveRequest, Scope,
    StateUpdate, Store, StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest,
    StoreResult, TickReadings, Timestamp, deadline,
};
use tidegate_core::{Decision, Limit, Reservation, State};
use tokio::time::Instant;

use crate::backend::{Backend, ItemKey};
use crate::item::SlotName;
use crate::lanes::{LaneNumber, Lanes};
use crate::nodes::Nodes;
use crate::options::CasOptions;
use crate::records::{change_override, keep_state, load_overrides, report_reading};
use crate::step::{Step, Unclaimed, Working};

/// The letter of a shaper's state: the same as of other arrivals.
const ARRIVAL: char = 'a';

/// The state of limits in a [`Backend`], shared by all processes that use the same one with the same prefix.
///
/// Clones share everything.
pub struct CasStore<B> {
    pub(crate) lanes: Arc<Lanes<B>>,
    names: Names,
    deadline: Duration,
    nodes: Nodes,
}

/// Makes the keys of items.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
    text: KeyText,
}

impl<B: Backend> CasStore<B> {
    /// A store over a backend, which counts its connections in `counters`. Needs a running tokio runtime.
    pub fn new(backend: B, counters: Arc<NetworkCounters>, options: CasOptions) -> Self {
        let CasOptions { key_prefix, hasher, deadline, replays, announces, lanes } = options;
        let lanes = Arc::new(Lanes::new(Arc::new(backend), counters, lanes, replays));
        let names = Names { prefix: key_prefix, text: KeyText::new(hasher.secret()) };
        let nodes = if announces {
            Nodes::announce(&lanes, names.record("nodes"))
        } else {
            Nodes::default()
        };
        Self { lanes, names, deadline, nodes }
    }

    /// What the store has done so far.
    pub fn stats(&self) -> NetworkStats {
        self.lanes.counters.read()
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<B> {
        &self.lanes.backend
    }

    fn due(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// Releases permits that were granted and did not reach their caller.
    fn release_unclaimed(&self, request: &StoreRequest<'_>) -> Option<Unclaimed<StoreReply>> {
        let grants = request.limits.iter().any(|keyed| keyed.limit.grants_permits());
        if !grants || request.op != Op::Take {
            return None;
        }
        let (owned, lanes) = (OwnedRequest::from_request(request), Arc::downgrade(&self.lanes));
        let (names, nodes) = (self.names.clone(), self.nodes.clone());
        let deadline = self.deadline.max(RECORD_DEADLINE_MIN);
        Some(Box::new(move |reply: StoreReply| {
            let Some(lanes) = lanes.upgrade() else { return };
            let store: Arc<dyn Store> = Arc::new(Self { lanes, names, deadline, nodes });
            release_granted(&store, &owned, &reply.permits);
        }))
    }

    /// Puts a step on items into a lane. Their states matter for `life_max` at most.
    fn submit<T: Send + 'static>(
        &self,
        lane: LaneNumber,
        keys: Vec<ItemKey>,
        life_max: Duration,
        now: Timestamp,
        decide: impl FnMut(&mut [Working], Timestamp) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreResult<T> {
        let (step, reply) = Step::new(keys, decide, now, self.due());
        self.lanes.submit(lane, step.mattering_for(life_max));
        reply
    }

    /// A step on one record, which nobody's check waits for.
    fn update_record<T: Send + 'static>(
        &self,
        key: &ItemKey,
        now: Timestamp,
        mut update: impl FnMut(&mut Working, Timestamp) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreResult<T> {
        let due = Instant::now() + self.deadline.max(RECORD_DEADLINE_MIN);
        let decide = move |items: &mut [Working], now: Timestamp| match items {
            [item] => update(item, now),
            _ => Err(StoreError::new(StoreErrorKind::Other, "expected one item")),
        };
        let (step, reply) = Step::new(vec![key.clone()], decide, now, due);
        self.lanes.submit(self.lanes.lane_of(key), step.on_records());
        reply
    }

    /// The items of some limits, and where in them each state is.
    fn places(&self, limits: &[KeyedLimit<'_>]) -> Result<Places, StoreError> {
        let mut places =
            Places { keys: Vec::with_capacity(1), slots: Vec::with_capacity(limits.len()) };
        for keyed in limits {
            let key = self.names.item(keyed.scope, keyed.key);
            let item = places.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                places.keys.push(key);
                places.keys.len() - 1
            });
            let name =
                SlotName { limit: keyed.scope.limit().into(), letter: keyed.limit.state_letter() };
            places.slots.push((item, name));
        }
        if places.keys.len() > self.lanes.backend.commit_items_max() {
            let why =
                "this store changes one identifier in one step: give the policy's limits one key";
            return Err(StoreError::new(StoreErrorKind::Apart, why));
        }
        Ok(places)
    }
}

/// The shortest deadline of a record: it can be large, and no check waits for it.
const RECORD_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// More than the bytes that most keys have after the prefix.
const KEY_BYTES_EXPECTED: usize = 100;

/// Where the states of a request are.
struct Places {
    keys: Vec<ItemKey>,
    /// For each limit the item, and the name of its state there.
    slots: Vec<(usize, SlotName)>,
}

impl Names {
    /// `tg:api:7:user-42`: all limits of a policy on one identifier.
    fn item(&self, scope: &Scope, identifier: &[u8]) -> ItemKey {
        let mut key = self.start(b'p');
        self.text.name(&mut key, scope.policy());
        key.push(b':');
        self.text.identifier(&mut key, identifier);
        shared(&key)
    }

    /// A record of the store's own: no policy's item is spelt so.
    pub(crate) fn record(&self, kind: &str) -> ItemKey {
        let mut key = self.start(b'r');
        key.extend_from_slice(kind.as_bytes());
        shared(&key)
    }

    /// The readings of a scope.
    fn readings(&self, scope: &str) -> ItemKey {
        let mut key = self.start(b'r');
        key.extend_from_slice(b"readings:");
        self.text.identifier(&mut key, scope.as_bytes());
        shared(&key)
    }

    fn start(&self, kind: u8) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + KEY_BYTES_EXPECTED);
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(&[b':', kind, b':']);
        key
    }
}

/// A key is text: only the prefix is not ASCII perhaps.
fn shared(key: &[u8]) -> ItemKey {
    match std::str::from_utf8(key) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(key).into(),
    }
}

/// Runs `decide` on the states of some slots, and puts them back.
fn with_states<T>(
    items: &mut [Working],
    slots: &[(usize, SlotName)],
    now: Timestamp,
    decide: impl FnOnce(&mut [State], &mut [bool]) -> T,
) -> Result<T, StoreError> {
    // Most checks have one limit.
    if let [slot] = slots {
        let mut state = [items[slot.0].states()?.take(&slot.1)];
        let mut wrote = [false];
        let answer = decide(&mut state, &mut wrote);
        let [state] = state;
        put_back(items, slot, state, wrote[0], now)?;
        return Ok(answer);
    }
    let mut states = Vec::with_capacity(slots.len());
    for (item, name) in slots {
        states.push(items[*item].states()?.take(name));
    }
    let mut wrote = vec![false; slots.len()];
    let answer = decide(&mut states, &mut wrote);
    for ((slot, state), wrote) in slots.iter().zip(states).zip(wrote) {
        put_back(items, slot, state, wrote, now)?;
    }
    Ok(answer)
}

fn put_back(
    items: &mut [Working],
    (item, name): &(usize, SlotName),
    state: State,
    wrote: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let working = &mut items[*item];
    let item = working.states()?;
    item.put(name, state);
    if wrote {
        item.seen = item.seen.max(now);
        working.changed = Some(now);
    }
    Ok(())
}

/// Where checks wait that could compete for an item: those of a policy whose limits are on several identifiers share a
/// lane.
fn lane_name<'a>(scope: &'a Scope, first: &'a ItemKey) -> &'a str {
    match scope.tag() {
        Some(tag) => tag,
        None if scope.is_together() => scope.policy(),
        None => first,
    }
}

/// How long a state of one of these limits can matter at most.
fn life_max<'a>(limits: impl Iterator<Item = &'a Limit>) -> Duration {
    limits.map(Limit::state_life_max).max().unwrap_or_default()
}

fn senseless() -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, StoreRequest::INVALID)
}

impl<B: Backend> Store for CasStore<B> {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if !request.is_valid() {
            return Reply::failed(senseless());
        }
        let Places { keys, slots } = match self.places(request.limits) {
            Ok(places) => places,
            Err(error) => return Reply::failed(error),
        };
        let lane = self.lanes.lane_of(lane_name(request.limits[0].scope, &keys[0]));
        let life_max = life_max(request.limits.iter().map(|keyed| keyed.limit));
        let owned = OwnedRequest::from_request(request);
        let unclaimed = self.release_unclaimed(request);
        let decide = move |items: &mut [Working], now| {
            with_states(items, &slots, now, |states, wrote| {
                owned.with(|request| decide_states(request, states, wrote, now))
            })?
            .ok_or_else(senseless)
        };
        let (step, reply) = Step::with_unclaimed(keys, decide, now, self.due(), unclaimed);
        self.lanes.submit(lane, step.mattering_for(life_max));
        reply
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let places = charges.checked_limits().and_then(|limits| self.places(&limits));
        let Places { keys, slots } = match places {
            Ok(places) => places,
            Err(error) => return Reply::failed(error),
        };
        let lane = self.lanes.lane_of(lane_name(charges.limits[0].keyed.scope, &keys[0]));
        let life_max = life_max(charges.limits.iter().map(|charge| charge.keyed.limit));
        let owned = OwnedMultiCharge::from_charges(charges);
        self.submit(lane, keys, life_max, now, move |items, now| {
            with_states(items, &slots, now, |states, wrote| {
                owned.with(|charges| decide_each_state(charges, states, wrote, now))
            })
        })
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        let ReserveRequest { scope, key, cost, cancel, .. } = *request;
        let (shaper, key) = (*request.shaper, self.names.item(scope, key));
        let slots = [(0, SlotName { limit: scope.limit().into(), letter: ARRIVAL })];
        let (lane, life_max) = (self.lanes.lane_of(&key), shaper.state_life_max());
        self.submit(lane, vec![key], life_max, now, move |items, now| {
            with_states(items, &slots, now, |states, wrote| {
                let state = &mut states[0];
                if let Some(reserved) = cancel {
                    wrote[0] = shaper.cancel(state, reserved, now, cost);
                    let reservation =
                        if wrote[0] { Reservation::unlimited() } else { Reservation::blocked() };
                    return ReserveReply { reservation, until: None };
                }
                let (reservation, next) = shaper.decide(state.arrival(), now, cost);
                if let Some(next) = next {
                    (*state, wrote[0]) = (State::Arrival(next), true);
                }
                ReserveReply { reservation, until: next.filter(|_| reservation.accepted()) }
            })
        })
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions {
            overrides: Some(self),
            coordination: Some(self),
            remote: Some(self),
            key_hasher: None,
        }
    }
}

impl<B: Backend> RemoteStore for CasStore<B> {
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let deadline = deadline.clamp(deadline::MIN, deadline::MAX);
        Some(Arc::new(Self { deadline, ..self.clone() }))
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.deadline)
    }
}

impl<B: Backend> OverrideStore for CasStore<B> {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        self.update_record(&self.names.record("overrides"), now, move |item, now| {
            load_overrides(item, known, now)
        })
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        let bytes_max = self.lanes.backend.item_bytes_max();
        let (key, change) = (self.names.record("overrides"), OwnedChange::from_change(change));
        self.update_record(&key, now, move |item, now| {
            change_override(item, &change.lend(), bytes_max, now)
        })
    }
}

impl<B: Backend> Coordination for CasStore<B> {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        if let Err(error) = report.validate() {
            return Reply::failed(error);
        }
        let ReadingReport { tick, node, .. } = *report;
        let (scope, reading) = (report.scope.to_owned(), report.reading.to_owned());
        self.update_record(&self.names.readings(report.scope), now, move |item, now| {
            let report = ReadingReport { scope: &scope, tick, node, reading: &reading };
            report_reading(item, &report, now)
        })
    }

    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool> {
        if let Err(error) = update.validate() {
            return Reply::failed(error);
        }
        let StateUpdate { tick, before, .. } = *update;
        let (scope, text) = (update.scope.to_owned(), update.text.to_owned());
        self.update_record(&self.names.readings(update.scope), now, move |item, now| {
            keep_state(item, &StateUpdate { scope: &scope, tick, before, text: &text }, now)
        })
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.nodes.count()
    }
}

/// An [`OverrideChange`] that borrows nothing.
struct OwnedChange {
    policy: String,
    key: Box<[u8]>,
    /// What to set, and for how long; `None` to remove it.
    set: Option<(String, Option<Duration>)>,
}

impl OwnedChange {
    fn from_change(change: &OverrideChange<'_>) -> Self {
        match *change {
            OverrideChange::Remove { policy, key } => {
                Self { policy: policy.into(), key: key.into(), set: None }
            }
            OverrideChange::Set { policy, key, text, life } => {
                Self { policy: policy.into(), key: key.into(), set: Some((text.into(), life)) }
            }
        }
    }

    fn lend(&self) -> OverrideChange<'_> {
        let Self { policy, key, set } = self;
        match set {
            None => OverrideChange::Remove { policy, key },
            Some((text, life)) => OverrideChange::Set { policy, key, text, life: *life },
        }
    }
}

impl<B: Backend> StoreMonitor for CasStore<B> {
    fn report(&self) -> StoreReport {
        let counters = &self.lanes.counters;
        StoreReport {
            network: Some(counters.read()),
            call_times: Some(counters.times.read()),
            ..StoreReport::default()
        }
    }

    fn servers(&self) -> Vec<StoreServer> {
        self.lanes.backend.servers()
    }
}

impl<B> Clone for CasStore<B> {
    fn clone(&self) -> Self {
        let Self { lanes, names, deadline, nodes } = self;
        Self {
            lanes: lanes.clone(),
            names: names.clone(),
            deadline: *deadline,
            nodes: nodes.clone(),
        }
    }
}

impl<B: Backend> fmt::Debug for CasStore<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CasStore").field(&self.lanes.backend).finish()
    }
}
