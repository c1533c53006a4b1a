//! Permits of a concurrency limit, renewed while they are held and released when dropped.

mod id;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use tidegate_core::{Limit, Mode, Timestamp};

pub use self::id::{BadPermitId, PermitId};
pub(crate) use self::id::{HeldPermits, Holder};
use crate::clock::{Clock, micros};
use crate::reply::Later;
use crate::store::owned::OwnedRequest;
use crate::store::{
    KeyedLimit, Op, Scope, Store, StoreError, StoreReply, StoreRequest, StoreResult,
};

/// The answer to an `acquire`.
///
/// ```
/// let exports = tidegate::Limiter::new("concurrency 1")?;
/// match exports.acquire("user-42") {
///     tidegate::Acquired { permit: Some(_permit), .. } => println!("exporting"),
///     tidegate::Acquired { answer, .. } => println!("busy: {:?}", answer.retry_after()),
/// }
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once holds nothing"]
pub struct Acquired<A> {
    /// What was decided.
    pub answer: A,
    /// What was granted; `None` on a refusal.
    pub permit: Option<Permit>,
}

/// Permits of a concurrency limit. Released when dropped.
///
/// One that an [`Engine`](crate::Engine) granted inside a tokio runtime is renewed each time a third of its lease has
/// passed, so that work may take longer than the lease. (This needs the feature `breaker` or `leases`, and a runtime with
/// timers.) A process that is stopped for longer than the lease loses its place, and does not get it back, unless it
/// [asks for that](Self::retake_if_lost).
///
/// A release that fails is sent again in the background, four times within some seconds, where permits come from a store
/// over the network and there is a tokio runtime. If that fails too, the permit is freed when its lease ends.
///
/// ```
/// use tidegate::{Limiter, Permit};
///
/// let exports = Limiter::new("concurrency 1 lease 30s")?;
/// let permit: Option<Permit> = exports.acquire("user-42").permit;
/// assert_eq!(exports.peek("user-42", 0).remaining(), 0);
/// drop(permit); // as at the end of the work, or where it fails
/// assert_eq!(exports.peek("user-42", 0).remaining(), 1);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once holds nothing"]
pub struct Permit {
    store: Arc<dyn Store>,
    held: Vec<Arc<Held>>,
    holder: Holder,
    /// `None` where nothing is held, or by a `Limiter`.
    lease: Option<Arc<LeaseEnd>>,
    #[cfg(any(feature = "breaker", feature = "leases"))]
    renewal: Option<background::Renewal>,
}

/// Until when a permit is certainly held, by the clock of this process that is never set.
struct LeaseEnd {
    clock: Arc<dyn Clock>,
    length_us: u64,
    ends_us: AtomicU64,
    /// Whether places that are lost are taken anew.
    is_retaken: AtomicBool,
}

impl fmt::Debug for LeaseEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseEnd").field("ends_us", &self.ends_us).finish_non_exhaustive()
    }
}

impl LeaseEnd {
    fn new(clock: Arc<dyn Clock>, length: Duration, asked_us: u64) -> Self {
        let (ends_us, is_retaken) = (AtomicU64::new(0), AtomicBool::new(false));
        let lease = Self { clock, length_us: micros(length), ends_us, is_retaken };
        lease.starts_at(asked_us);
        lease
    }

    /// Granted or renewed by a request that was sent then: the store's lease started later.
    fn starts_at(&self, asked_us: u64) {
        self.ends_us.store(asked_us.saturating_add(self.length_us), Relaxed);
    }

    fn is_running(&self) -> bool {
        self.clock.steady_us() < self.ends_us.load(Relaxed)
    }
}

/// Permits held under one limit, and where to release them.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: HeldId,
    /// The places that it holds.
    pub(crate) cost: u64,
    pub(crate) scope: Scope,
    pub(crate) key: Box<[u8]>,
    pub(crate) limit: Limit,
}

/// The id that the store gave; another one if its places were taken anew.
#[derive(Debug)]
pub(crate) struct HeldId {
    id: AtomicU64,
    /// Whether its permit was dropped, or turned into an id.
    has_left: AtomicBool,
}

impl From<u64> for HeldId {
    fn from(id: u64) -> Self {
        Self { id: id.into(), has_left: AtomicBool::new(false) }
    }
}

impl HeldId {
    fn get(&self) -> u64 {
        self.id.load(SeqCst)
    }

    /// Before the id is read for the last time: places that are taken anew from now on are released at once.
    fn leave(&self) {
        self.has_left.store(true, SeqCst);
    }

    /// Replaces the id; `false` if its permit has left. That says so first and reads the id then, so one of both sees what
    /// the other has written.
    #[cfg(any(feature = "breaker", feature = "leases"))]
    fn replace(&self, id: u64) -> bool {
        self.id.store(id, SeqCst);
        !self.has_left.load(SeqCst)
    }
}

/// What became of a release.
///
/// ```
/// use tidegate::{Check, Engine, Key, Permit, Released};
///
/// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
/// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
/// let id = engine.acquire_for(&check).now()?.permit.map(Permit::into_id).unwrap();
/// assert_eq!(engine.release(&check, &id).now()?, Released::Yes);
/// assert_eq!(engine.release(&check, &id).now()?, Released::NotHeld);
/// assert_eq!(engine.release(&check, &"p2.pool.1f".parse()?).now()?, Released::UnknownLimit);
/// assert_eq!(engine.release(&check, &"l2.7e..1f".parse()?).now()?, Released::OtherNode);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Released {
    /// Its places are free again; a permit without places always is.
    Yes,
    /// It was not held: released before, its lease had ended, or it is of another key.
    NotHeld,
    /// The policy has none of its limits, or no longer.
    UnknownLimit,
    /// Another node granted it while the store failed, or this one before it was restarted. Only that node can release
    /// it; otherwise its places are free when its lease ends.
    OtherNode,
}

/// What became of a renewal.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Check, Engine, Key, Permit, Renewed};
///
/// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
/// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
/// let id = engine.acquire_for(&check).now()?.permit.map(Permit::into_id).unwrap();
/// assert_eq!(engine.renew(&check, &id).now()?, Renewed::For(Duration::from_secs(30)));
/// let _ = engine.release(&check, &id).now()?;
/// assert_eq!(engine.renew(&check, &id).now()?, Renewed::NotHeld);
/// assert_eq!(engine.renew(&check, &"p2.pool.1f".parse()?).now()?, Renewed::UnknownLimit);
/// assert_eq!(engine.renew(&check, &"l2.7e..1f".parse()?).now()?, Renewed::OtherNode);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Renewed {
    /// All its places are held for this long, from now.
    For(Duration),
    /// It is not held, or not under every limit: released before, its lease had ended, or it is of another key.
    NotHeld,
    /// The policy has none of its limits, or no longer.
    UnknownLimit,
    /// Another node granted it while the store failed, or this one before it was restarted.
    OtherNode,
}

impl Permit {
    pub(crate) fn new(store: Arc<dyn Store>, held: Vec<Held>, holder: Holder) -> Self {
        Self {
            store,
            held: held.into_iter().map(Arc::new).collect(),
            holder,
            lease: None,
            #[cfg(any(feature = "breaker", feature = "leases"))]
            renewal: None,
        }
    }

    /// Renews it while it is held, if there is a runtime. It was asked for at `asked_us` of the steady clock.
    pub(crate) fn renewed<C: Clock + 'static>(mut self, clock: &Arc<C>, asked_us: u64) -> Self {
        let Some(shortest) = self.lease() else {
            return self;
        };
        let lease = Arc::new(LeaseEnd::new(clock.clone(), shortest, asked_us));
        #[cfg(any(feature = "breaker", feature = "leases"))]
        {
            self.renewal = background::Renewal::start(&self.store, &self.held, &lease, shortest);
        }
        self.lease = Some(lease);
        self
    }

    /// How long it is held if nobody renews it: the shortest lease of its limits. `None` if it holds no place, e.g. for a
    /// cost of 0.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::Limiter;
    /// let permit = Limiter::new("concurrency 1 lease 30s")?.acquire("user-42").permit.unwrap();
    /// assert_eq!(permit.lease(), Some(Duration::from_secs(30)));
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn lease(&self) -> Option<Duration> {
        self.held.iter().map(|held| held.limit.period()).min()
    }

    /// Whether all its places are certainly held: its lease, counted from before it was asked for or last renewed, has not
    /// ended by the clock of this process. A process that was stopped for long should look before it relies on its place.
    ///
    /// The permit of a [`Limiter`](crate::Limiter) has no clock, and says that it is held.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, ManualClock};
    /// let clock = ManualClock::default();
    /// let engine =
    ///     Engine::builder().clock(clock.clone()).policy("export", "concurrency 1 lease 30s").build()?;
    /// let permit = engine.acquire("export", "user-42").now()?.permit.ok_or("refused")?;
    /// assert!(permit.is_held());
    /// clock.advance(Duration::from_secs(30)); // and nobody renews it, without a runtime
    /// assert!(!permit.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_held(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_running())
    }

    /// Whether places that the store has lost are taken anew with the next renewal, even where others hold all of them by
    /// then; by default they are not. For work that goes on in any case, so that it is counted: after a restart of the store
    /// without its data, or if this process stood still for longer than the lease. More than the limit may so be held, and
    /// nobody else gets a place until they are fewer again. The permit has another [id](Self::id) then.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let permit = engine.acquire("export", "user-42").now()?.permit.ok_or("refused")?;
    /// permit.retake_if_lost(true); // the work begins now, and cannot be stopped
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retake_if_lost(&self, retake: bool) {
        if let Some(lease) = &self.lease {
            lease.is_retaken.store(retake, Relaxed);
        }
    }

    /// The id of a permit that stays a permit: it is still released when it is dropped.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let permit = engine.acquire("export", "user-42").now()?.permit.ok_or("refused")?;
    /// let text = permit.id().to_string();
    /// // …which did not reach the one who asked:
    /// drop(permit);
    /// assert!(engine.acquire("export", "user-42").now()?.permit.is_some());
    /// # assert!(text.starts_with("p2.."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> PermitId {
        let held = |held: &Arc<Held>| HeldPermits {
            limit: held.scope.limit().to_owned(),
            id: held.id.get(),
            cost: held.cost,
        };
        PermitId { holder: self.holder, held: self.held.iter().map(held).collect() }
    }

    /// Turns the permit into an id that can be written as text. It is then renewed only by
    /// [`Engine::renew`](crate::Engine::renew), and released by [`Engine::release`](crate::Engine::release), or when its
    /// lease ends.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key};
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let Some(permit) = engine.acquire("export", "user-42").now()?.permit else { panic!("refused") };
    /// let text = permit.into_id().to_string(); // to another process, and back
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// assert!(engine.acquire("export", "user-42").now()?.permit.is_none());
    /// engine.release(&check, &text.parse()?).now()?;
    /// assert!(engine.acquire("export", "user-42").now()?.permit.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_id(mut self) -> PermitId {
        self.held.iter().for_each(|held| held.id.leave());
        let id = self.id();
        self.held.clear(); // so that nothing is left to release
        id
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        #[cfg(any(feature = "breaker", feature = "leases"))]
        drop(self.renewal.take());
        for held in self.held.drain(..) {
            // Sent by the call itself, even if the reply is dropped. Without a time: whether its lease has ended does not
            // matter to anybody.
            held.id.leave();
            let reply = held.release(&*self.store, Timestamp::EPOCH);
            #[cfg(any(feature = "breaker", feature = "leases"))]
            background::retry_release(reply, &self.store, held);
            #[cfg(not(any(feature = "breaker", feature = "leases")))]
            drop(reply);
        }
    }
}

impl Held {
    pub(crate) fn release(&self, store: &dyn Store, now: Timestamp) -> StoreResult<StoreReply> {
        self.ask(store, Op::Release { permit_id: self.id.get() }, now)
    }

    pub(crate) fn renew(&self, store: &dyn Store, now: Timestamp) -> StoreResult<StoreReply> {
        self.ask(store, Op::Renew { permit_id: self.id.get() }, now)
    }

    fn ask(&self, store: &dyn Store, op: Op, now: Timestamp) -> StoreResult<StoreReply> {
        let Self { scope, key, limit, .. } = self;
        let limits = [KeyedLimit { scope, key, limit }];
        store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost: self.cost, op }, now)
    }
}

/// Releases what a store granted and nobody will use: its caller has left, or was told of a failure before the reply
/// came. Sent again in the background if it fails, as for a [`Permit`].
///
/// ```
/// use std::sync::Arc;
/// use tidegate::store_kit::{OwnedRequest, release_granted};
/// use tidegate::{KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, StoreRequest, Timestamp};
///
/// let (store, limit): (Arc<dyn Store>, Limit) = (Arc::<MemoryStore>::default(), "concurrency 1".parse()?);
/// let (scope, now) = (Scope::named("export", ""), Timestamp::from_micros(1_700_000_000_000_000));
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let take = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
/// let late = store.decide(&take, now).now()?;
/// release_granted(&store, &OwnedRequest::from_request(&take), &late.permits);
/// assert!(store.decide(&take, now).now()?.verdict.decision.allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn release_granted(store: &Arc<dyn Store>, request: &OwnedRequest, granted: &[(usize, u64)]) {
    request.with(|request| {
        let held = |&(index, id): &(usize, u64)| {
            let KeyedLimit { scope, key, limit } = *request.limits.get(index)?;
            let (cost, scope) = (scope.cost(request.cost), scope.clone());
            Some(Held { id: id.into(), cost, scope, key: key.into(), limit: limit.clone() })
        };
        let held = granted.iter().filter_map(held).collect();
        drop(Permit::new(store.clone(), held, Holder::Store));
    });
}

/// The reply to an acquire. If nobody waits for it any more, what it grants is released when it comes.
pub(crate) fn released_if_abandoned(
    reply: Later<'static, StoreReply, StoreError>,
    store: Arc<dyn Store>,
    request: OwnedRequest,
) -> Later<'static, StoreReply, StoreError> {
    #[cfg(any(feature = "breaker", feature = "leases"))]
    return Box::pin(background::AcquireReply::new(reply, store, request));
    #[cfg(not(any(feature = "breaker", feature = "leases")))]
    {
        drop((store, request)); // without a runtime nobody can wait for it
        reply
    }
}

/// What goes on beside its caller: renewals of permits that are held; retries of failed releases, so that a permit is not
/// taken for its whole lease; and replies to acquires that nobody waits for. Ids do not repeat, so a release that did run
/// frees no other permit when it is sent again.
#[cfg(any(feature = "breaker", feature = "leases"))]
mod background {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use tidegate_core::{Concurrency, Limit, Mode, Timestamp};
    use tokio::runtime::Handle;
    use tokio::task::AbortHandle;

    use super::{Held, LeaseEnd, Relaxed, release_granted};
    use crate::reply::Later;
    use crate::store::owned::OwnedRequest;
    use crate::store::{KeyedLimit, Op, Store, StoreError, StoreReply, StoreRequest, StoreResult};

    /// How long to wait before each further attempt: long enough, in all, for a breaker to close or a replica to be
    /// promoted.
    const PAUSES: [Duration; 4] = [
        Duration::from_millis(50),
        Duration::from_millis(200),
        Duration::from_secs(1),
        Duration::from_secs(5),
    ];

    /// A permit is renewed when this part of its lease has passed: if that fails, there is time for another attempt.
    const RENEWED_AT: u32 = 3;

    /// The shortest time between renewals: leases that end sooner are not kept.
    const INTERVAL_MIN: Duration = Duration::from_millis(10);

    /// Renews permits until it is dropped, or until none of them is held or to be taken anew.
    #[derive(Debug)]
    pub(super) struct Renewal(AbortHandle);

    impl Renewal {
        pub(super) fn start(
            store: &Arc<dyn Store>,
            held: &[Arc<Held>],
            lease: &Arc<LeaseEnd>,
            shortest: Duration,
        ) -> Option<Self> {
            let interval = (shortest / RENEWED_AT).max(INTERVAL_MIN);
            let runtime = Handle::try_current().ok()?;
            let (store, mut held, lease) = (store.clone(), held.to_vec(), lease.clone());
            let task = runtime.spawn(async move {
                while !held.is_empty() {
                    tokio::time::sleep(interval).await;
                    let asked_us = lease.clock.steady_us();
                    let (count, mut renewed, mut kept) = (held.len(), 0, Vec::new());
                    for one in held {
                        match one.renew(&*store, lease.clock.now()).await {
                            // Its place is lost.
                            Ok(reply) if reply.permits.is_empty() => {
                                if lease.is_retaken.load(Relaxed) {
                                    let now = lease.clock.now();
                                    renewed += usize::from(retake(&one, &store, now).await);
                                    kept.push(one); // if that failed, it is tried again
                                }
                            }
                            outcome => {
                                // A failure may be over before the lease is.
                                renewed += usize::from(outcome.is_ok());
                                kept.push(one);
                            }
                        }
                    }
                    if renewed == count {
                        lease.starts_at(asked_us);
                    }
                    held = kept;
                }
            });
            Some(Self(task.abort_handle()))
        }
    }

    /// Takes lost places anew, though others may hold all of them: a count without what is under way admits too much. So
    /// the limit of this request is as high as one can be.
    async fn retake(held: &Held, store: &Arc<dyn Store>, now: Timestamp) -> bool {
        let limit = Concurrency::new(Concurrency::MAX_LIMIT, held.limit.period());
        let Ok(limit) = limit.map(Limit::from) else { return false };
        let limits = [KeyedLimit { scope: &held.scope, key: &held.key, limit: &limit }];
        let cost = held.cost / held.scope.factor();
        let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op: Op::Take };
        let taken = match store.decide(&request, now).split() {
            Ok(known) => known,
            Err(later) => {
                let request = OwnedRequest::from_request(&request);
                AcquireReply::new(later, store.clone(), request).await
            }
        };
        let id = taken.ok().and_then(|reply| reply.permits.first().map(|(_, id)| *id));
        let Some(id) = id else { return false };
        if !held.id.replace(id) {
            drop(held.release(&**store, now));
        }
        true
    }

    impl Drop for Renewal {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    /// Sends a release again if it fails, in the background, as long as there is a runtime.
    pub(super) fn retry_release(
        reply: StoreResult<StoreReply>,
        store: &Arc<dyn Store>,
        held: Arc<Held>,
    ) {
        let first = reply.split();
        if matches!(first, Ok(Ok(_))) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let store = store.clone();
        runtime.spawn(async move {
            let mut released = match first {
                Ok(known) => known.is_ok(),
                Err(later) => later.await.is_ok(),
            };
            for pause in PAUSES {
                if released {
                    return;
                }
                tokio::time::sleep(pause).await;
                released = held.release(&*store, Timestamp::EPOCH).await.is_ok();
            }
        });
    }

    /// The reply to an acquire, and what to do with it once nobody waits.
    pub(super) struct AcquireReply {
        /// `None` once it has come.
        reply: Option<Later<'static, StoreReply, StoreError>>,
        /// Where to release what it grants, and under which limits.
        source: Option<(Arc<dyn Store>, OwnedRequest)>,
    }

    impl AcquireReply {
        pub(super) fn new(
            reply: Later<'static, StoreReply, StoreError>,
            store: Arc<dyn Store>,
            request: OwnedRequest,
        ) -> Self {
            Self { reply: Some(reply), source: Some((store, request)) }
        }
    }

    impl Future for AcquireReply {
        type Output = Result<StoreReply, StoreError>;

        fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
            let Some(reply) = &mut self.reply else { return Poll::Pending };
            let polled = reply.as_mut().poll(task);
            if polled.is_ready() {
                self.reply = None;
            }
            polled
        }
    }

    impl Drop for AcquireReply {
        fn drop(&mut self) {
            let Some(reply) = self.reply.take() else { return };
            let Some((store, request)) = self.source.take() else { return };
            let Ok(runtime) = Handle::try_current() else { return };
            // Ends with the store's deadline at the latest.
            runtime.spawn(async move {
                if let Ok(late) = reply.await {
                    release_granted(&store, &request, &late.permits);
                }
            });
        }
    }
}
