//! Refusals remembered: whoever is blocked costs the store one call a second, however often they try.

mod flight;
mod refusals;
mod returns;
mod shared;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Limit, Timestamp, Verdict};

use self::flight::Flight;
use self::refusals::{Asked, Found};
use self::shared::{Shared, is_refusal};
use super::owned::OwnedRequest;
use super::{
    KeyedLimit, MultiCharge, Op, Ran, ReserveReply, ReserveRequest, Source, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest,
};
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;

/// A store that remembers what the store in it refused, and answers the same question by itself while that refusal
/// is certain to hold. It never admits anything.
///
/// - The same question is one of the same keys, limits, cost and mode; a refusal of 5 says nothing about 1.
/// - A refusal holds for its `retry_after`, but a second at most, counted from before the request left: where nobody
///   else gives anything back, nothing is refused that the store would admit. What is given back through this cache is
///   seen at once, what is given back elsewhere after a second at most.
/// - When it has run out, one request asks the store. Those who come meanwhile wait for its answer: a refusal is
///   theirs too, after an admission they ask themselves. Keys that are not known to be blocked never wait.
/// - Places of a concurrency limit come back at any time, so their refusals are not remembered.
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
    shared: Arc<Shared<S, C>>,
}

impl<S: Store + 'static> DenyCache<S> {
    /// A cache around a store.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock)
    }
}

impl<S: Store + 'static, C: Clock + 'static> DenyCache<S, C> {
    /// A cache that tells by [`Clock::steady_us`] of another clock how much time has passed.
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
        Self { shared: Arc::new(Shared::new(store, clock)) }
    }

    /// How many refusals are remembered, those that have run out since included.
    pub fn remembered(&self) -> usize {
        self.shared.refusals.len()
    }

    /// Waits for the answer to the same question of somebody else.
    fn join(
        &self,
        flight: &Arc<Flight>,
        asked: Asked,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        let (shared, request) = (self.shared.clone(), OwnedRequest::from_request(request));
        let (left_us, aboard) = (flight.left_us, flight.board());
        Reply::later(async move {
            let answer = aboard.await;
            let now_us = shared.clock.steady_us();
            match answer {
                Some(Ok(reply)) if is_refusal(&reply) => {
                    let until_us =
                        left_us.saturating_add(refusals::hold_us(&reply.verdict.decision));
                    if asked.left_us < until_us {
                        let passed_us = now_us.saturating_sub(left_us);
                        return Ok(by_cache(refusals::aged(&reply.verdict, passed_us)));
                    }
                }
                // To ask a store that has just failed would take as long again.
                Some(Err(error)) => return Err(not_asked(error)),
                Some(Ok(_)) | None => {}
            }
            let waited_us = now_us.saturating_sub(asked.left_us);
            let now = Timestamp::from_micros(now.as_micros().saturating_add(waited_us));
            request.with(|request| shared.ask(shared.asked(request), request, now)).await
        })
    }

    /// Passes on what gives back, and forgets the refusals of its keys: when it leaves, in case that nobody waits for
    /// the reply, and when it is done, since others may have asked before it arrived.
    fn give_back(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        let shared = self.shared.clone();
        let of = |keyed: &KeyedLimit<'_>| shared.fingerprints.of(keyed.scope, keyed.key);
        let keys: Vec<u64> = request.limits.iter().map(of).collect();
        shared.returns.count(&keys);
        shared.store.decide(request, now).then(move |answer| {
            shared.returns.count(&keys);
            answer
        })
    }
}

impl<S: Store + 'static, C: Clock + 'static> Store for DenyCache<S, C> {
    /// Under way when this returns, with one exception: a check that waits for another's answer is only asked if that
    /// is an admission, and not at all if its reply was dropped by then.
    #[inline]
    fn decide(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        if !matches!(request.op, Op::Take | Op::Peek) {
            return self.give_back(request, now);
        }
        let shared = &self.shared;
        if request.limits.iter().any(|keyed| matches!(keyed.limit, Limit::Concurrency(_))) {
            return shared.store.decide(request, now);
        }
        let asked = shared.asked(request);
        match shared.refusals.find(&asked, request.limits) {
            Found::Refused(verdict) => Reply::ready(Ok(by_cache(verdict))),
            Found::Nothing => shared.ask(asked, request, now),
            Found::RunOut(flight) => flight.start(|| shared.ask(asked, request, now)),
            Found::Asking(flight) => self.join(&flight, asked, request, now),
        }
    }

    /// Nothing is remembered of it: a refusal is one of several answers, and takes nothing back that others remember.
    fn decide_each(
        &self,
        charges: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        self.shared.store.decide_each(charges, now)
    }

    fn reserve(
        &self,
        request: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        self.shared.store.reserve(request, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        self.shared.store.extensions()
    }
}

impl<S: fmt::Debug, C> fmt::Debug for DenyCache<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

fn by_cache(verdict: Verdict) -> StoreReply {
    StoreReply { source: Source::DenyCache, ..StoreReply::by_store(verdict) }
}

/// The failure of a request, as it looks to somebody who waited for it and was never asked for.
fn not_asked(error: StoreError) -> StoreError {
    match error.ran() {
        Ran::No => error,
        // The policy would rather turn callers away for as long as replicas confirm nothing.
        Ran::Unknown if error.kind() == StoreErrorKind::Unreplicated => error,
        Ran::Unknown => StoreError::new(
            StoreErrorKind::NotSent,
            format!("waited for another's answer: {error}"),
        ),
    }
}
