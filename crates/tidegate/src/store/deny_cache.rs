//! Remembered refusals: a blocked key costs the store one call a second, however often it is tried.

mod refusals;
mod shared_call;

use std::convert::identity;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Limit, Mode, Timestamp, Verdict};

use self::refusals::{Found, Lookup, Refusals};
use self::shared_call::SharedCall;
use super::fingerprint::Fingerprints;
use super::owned::OwnedRequest;
use super::returns::Returns;
use super::{
    KeyedLimit, MultiCharge, Op, RemoteStore, ReserveReply, ReserveRequest, Source, Store,
    StoreError, StoreExtensions, StoreReply, StoreRequest, StoreResult,
};
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;

/// A store that remembers what the store in it refused, and answers the same question by itself while that refusal
/// is certain to hold. It never admits anything.
///
/// - The same question is one of the same keys, limits, cost and mode; a refusal of cost 5 does not apply to cost 1.
/// - A refusal holds for its `retry_after`, but a second at most (or [another time](Self::with_ttl)), counted from before the
///   request was sent: unless other nodes give units back, nothing is refused that the store would admit. Units given back
///   through this cache count at once, units given back elsewhere after a second at most.
/// - When it has expired, one request asks the store. Callers that come meanwhile wait for its answer: they share a
///   refusal; after an admission each asks the store. Keys that are not known to be blocked never wait.
/// - Permits of a concurrency limit may be released at any time, so their refusals are not remembered.
///
/// ```
/// use tidegate::{StoreRequest, DenyCache, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Source, Store, Timestamp};
///
/// let (store, limit): (_, Limit) = (DenyCache::new(MemoryStore::default()), "1/h".parse()?);
/// let scope = Scope::named("login", "");
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let mut sources = Vec::new();
/// for _ in 0..4 {
///     sources.push(store.decide(&request, Timestamp::from_micros(1_700_000_000_000_000)).now()?.source);
/// }
/// assert_eq!(sources, [Source::Store, Source::Store, Source::DenyCache, Source::DenyCache]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DenyCache<S, C = SystemClock> {
    state: Arc<CacheState<S, C>>,
    ttl: Duration,
}

impl<S: Store + 'static> DenyCache<S> {
    /// A cache around a store.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock)
    }
}

impl<S: Store + 'static, C: Clock + 'static> DenyCache<S, C> {
    /// A cache that measures time by [`Clock::steady_us`] of another clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{
    ///     StoreRequest, Clock, DenyCache, KeyedLimit, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Source, Store,
    /// };
    ///
    /// let (clock, limit): (_, Limit) = (ManualClock::default(), "1/h".parse()?);
    /// let store = DenyCache::with_clock(MemoryStore::default(), clock.clone());
    /// let scope = Scope::named("login", "");
    /// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
    /// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    /// let source = || store.decide(&request, clock.now()).now().map(|reply| reply.source);
    /// assert_eq!([source()?, source()?, source()?], [Source::Store, Source::Store, Source::DenyCache]);
    /// assert_eq!(store.remembered(), 1);
    /// clock.advance(Duration::from_secs(1)); // then the store is asked again
    /// assert_eq!(source()?, Source::Store);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(store: S, clock: C) -> Self {
        let fingerprints = Fingerprints::random();
        let (refusals, returns) = (Refusals::new(MAX_REFUSALS), Returns::new());
        let state = CacheState { store, clock, fingerprints, refusals, returns };
        Self { state: Arc::new(state), ttl: DENY_CACHE_TTL }
    }

    /// The same cache for requests whose refusals hold for at most `ttl`: both share the store and the bound on memory, and
    /// a request that is asked with another `ttl` is another one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{
    /// #     StoreRequest, Clock, DenyCache, KeyedLimit, Limit, ManualClock, MemoryStore, Mode, Op, Scope, Source, Store,
    /// # };
    /// # let (clock, limit): (_, Limit) = (ManualClock::default(), "1/h".parse()?);
    /// let store = DenyCache::with_clock(MemoryStore::default(), clock.clone());
    /// let store = store.with_ttl(Duration::from_secs(5));
    /// # let scope = Scope::named("login", "");
    /// # let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
    /// # let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    /// # let source = || store.decide(&request, clock.now()).now().map(|reply| reply.source);
    /// assert_eq!([source()?, source()?], [Source::Store, Source::Store]); // admitted, refused
    /// clock.advance(Duration::from_millis(4999));
    /// assert_eq!(source()?, Source::DenyCache);
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(source()?, Source::Store);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_ttl(&self, ttl: Duration) -> Self {
        Self { state: self.state.clone(), ttl }
    }

    /// A refusal that is remembered, or the store's reply. `now` is read only if the store is asked: to find a refusal needs
    /// no second clock.
    #[inline]
    pub(crate) fn find_or_ask(
        &self,
        request: &StoreRequest<'_>,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<Verdict, StoreResult<StoreReply>> {
        if !matches!(request.op, Op::Take | Op::Peek) {
            return Err(self.give_back(request, now()));
        }
        let state = &self.state;
        if request.limits.iter().any(|keyed| keyed.limit.grants_permits()) {
            return Err(state.store.decide(request, now()));
        }
        let lookup = state.lookup(request, self.ttl);
        Err(match state.refusals.find(&lookup, request.limits) {
            Found::Refused(verdict) => return Ok(verdict),
            Found::Nothing => state.decide_and_learn(lookup, request, now()),
            Found::Expired(call) => call.start(|| state.decide_and_learn(lookup, request, now())),
            Found::Asking(call) => self.join(&call, lookup, request, now()),
        })
    }

    /// How many refusals are remembered, including those that have expired.
    pub fn remembered(&self) -> usize {
        self.state.refusals.len()
    }

    /// Waits for the answer to the same request of another caller.
    fn join(
        &self,
        call: &Arc<SharedCall>,
        lookup: Lookup,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        let (state, request) = (self.state.clone(), OwnedRequest::from_request(request));
        let (sent_us, waiter, ttl) = (call.sent_us, call.join(), self.ttl);
        let deadline = state.store.extensions().remote.and_then(RemoteStore::deadline);
        Reply::later(async move {
            let answer = waiter.await;
            let now_us = state.clock.steady_us();
            match answer {
                Some(Ok(reply)) if is_refusal(&reply) => {
                    let until_us = sent_us.saturating_add(lookup.hold_us(&reply.verdict.decision));
                    if lookup.sent_us < until_us {
                        let passed_us = now_us.saturating_sub(sent_us);
                        return Ok(by_cache(refusals::aged(&reply.verdict, passed_us)));
                    }
                }
                // Asking a store that has just failed would take as long again.
                Some(Err(error)) => return Err(error.for_unsent()),
                Some(Ok(_)) | None => {}
            }
            let waited_us = now_us.saturating_sub(lookup.sent_us);
            let now = Timestamp::from_micros(now.as_micros().saturating_add(waited_us));
            let reply = request
                .with(|request| state.decide_and_learn(state.lookup(request, ttl), request, now));
            let left = deadline.map(|it| it.saturating_sub(Duration::from_micros(waited_us)));
            shared_call::within(left, reply).await
        })
    }

    /// Passes on a request that gives units back, and forgets the refusals of its keys: when it is sent, in case nobody
    /// waits for the reply, and when the reply is there, since other requests may have reached the store before it.
    fn give_back(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let state = self.state.clone();
        let fingerprint = |keyed: &KeyedLimit<'_>| state.fingerprints.hash(keyed.scope, keyed.key);
        let keys: Vec<u64> = request.limits.iter().map(fingerprint).collect();
        state.returns.record(&keys);
        state.store.decide(request, now).then(move |answer| {
            state.returns.record(&keys);
            answer
        })
    }
}

impl<S: Store + 'static, C: Clock + 'static> Store for DenyCache<S, C> {
    /// The request is sent before this returns, with one exception: a check that waits for the answer to another one is
    /// only sent if that answer is an admission, and not at all if its reply was dropped by then.
    #[inline]
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.find_or_ask(request, || now).map_or_else(identity, |it| Reply::ready(Ok(by_cache(it))))
    }

    /// Not remembered: a refusal is one of several answers, and gives nothing back that would void a remembered refusal.
    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        self.state.store.decide_each(charges, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.state.store.reserve(request, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        self.state.store.extensions()
    }
}

/// How long a refusal holds at most, unless a policy says otherwise.
///
/// ```
/// assert_eq!(tidegate::store_kit::DENY_CACHE_TTL.as_secs(), 1);
/// ```
pub const DENY_CACHE_TTL: Duration = Duration::from_secs(1);

/// How many refusals are remembered at most, in up to some 20 MB.
const MAX_REFUSALS: usize = 65_536;

/// What a cache and its pending requests share.
struct CacheState<S, C> {
    store: S,
    clock: C,
    fingerprints: Fingerprints,
    refusals: Refusals,
    returns: Returns,
}

impl<S: Store + 'static, C: Clock + 'static> CacheState<S, C> {
    /// How to find a request that is sent now among the refusals.
    fn lookup(&self, request: &StoreRequest<'_>, ttl: Duration) -> Lookup {
        let mut returns = 0_u64;
        let ttl_us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        // Policies with another one may ask the same, where they share a limit.
        let seed = self.fingerprints.seed ^ u64::from(request.mode == Mode::Any) ^ (ttl_us << 1);
        let mut fingerprint = mixed(seed, request.cost);
        for keyed in request.limits {
            let key = self.fingerprints.hash(keyed.scope, keyed.key);
            returns = returns.wrapping_add(self.returns.count_of(key));
            // The same cost may take more since a reload.
            fingerprint = mixed(fingerprint, key.wrapping_add(keyed.scope.factor()));
        }
        Lookup { fingerprint, returns, sent_us: self.clock.steady_us(), ttl_us }
    }

    /// Asks the store, and remembers what its answer implies.
    fn decide_and_learn(
        self: &Arc<Self>,
        lookup: Lookup,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> StoreResult<StoreReply> {
        let limits = || request.limits.iter().map(|keyed| keyed.limit.clone()).collect();
        match self.store.decide(request, now).split() {
            Ok(answer) => {
                self.learn(&lookup, &answer, limits);
                Reply::ready(answer)
            }
            Err(later) => {
                // Weak, because the refusals hold the unfinished call: a strong reference would be a cycle.
                let (state, limits) = (Arc::downgrade(self), limits());
                Reply::later(async move {
                    let answer = later.await;
                    if let Some(state) = state.upgrade() {
                        state.learn(&lookup, &answer, || limits);
                    }
                    answer
                })
            }
        }
    }

    fn learn(
        &self,
        lookup: &Lookup,
        answer: &Result<StoreReply, StoreError>,
        limits: impl FnOnce() -> Box<[Limit]>,
    ) {
        match answer {
            Ok(reply) if is_refusal(reply) => {
                self.refusals.refused(lookup, limits(), reply.verdict, self.clock.steady_us());
            }
            Ok(_) => self.refusals.admitted(lookup),
            Err(_) => self.refusals.failed(lookup),
        }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for DenyCache<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache").field("store", &self.state.store).finish_non_exhaustive()
    }
}

fn by_cache(verdict: Verdict) -> StoreReply {
    StoreReply { source: Source::DenyCache, ..StoreReply::by_store(verdict) }
}

/// Whether to remember an answer: only refusals by the store itself. Those of another cache have aged already.
fn is_refusal(reply: &StoreReply) -> bool {
    reply.source == Source::Store && !reply.verdict.decision.allowed()
}

/// The folded product of two words, one of which is secret.
fn mixed(a: u64, b: u64) -> u64 {
    let (a, b) = (a ^ 0x9e37_79b9_7f4a_7c15, b ^ 0xd1b5_4a32_d192_ed03);
    let high = (u128::from(a) * u128::from(b)) >> 64;
    u64::try_from(high).unwrap_or_default() ^ a.wrapping_mul(b)
}
