//! One breaker: its machine behind a lock, the calls that it counts, and the task that probes while it is open.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tidegate_core::{Gcra, Limit, Mode};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::machine::{Call, Machine};
use super::{BreakerOptions, BreakerState};
use crate::clock::{Clock, SystemClock, micros};
use crate::reply::Reply;
use crate::store::{
    KeyedLimit, Op, Scope, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest, StoreResult,
};
use crate::sync::lock;

/// Decides when a breaker opens and closes, by the calls and probes that it counts.
///
/// ```
/// use tidegate::store_kit::BreakerSwitch;
/// use tidegate::{BreakerOptions, BreakerState};
///
/// let switch = BreakerSwitch::new(BreakerOptions::default());
/// assert_eq!((switch.state(), switch.opened_total()), (BreakerState::Closed, 0));
/// assert_eq!(switch.options().failures, 5);
/// assert!(switch.cause().is_none()); // it is closed
/// ```
#[derive(Debug)]
pub struct BreakerSwitch {
    options: BreakerOptions,
    origin: Instant,
    machine: Mutex<Machine>,
    /// Twice how often it has opened, plus one while it is open. Read by every call.
    openings: AtomicU64,
    has_prober: AtomicBool,
    /// Why it opened, or what the last probe met: callers only learn that it is open.
    cause: Mutex<Option<StoreError>>,
}

impl BreakerSwitch {
    /// Closed at first.
    pub fn new(options: BreakerOptions) -> Self {
        let options = options.bounded();
        let (machine, origin) = (Mutex::new(Machine::new(options.clone())), Instant::now());
        let (openings, has_prober) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { options, origin, machine, openings, has_prober, cause: Mutex::default() }
    }

    /// Its options.
    pub const fn options(&self) -> &BreakerOptions {
        &self.options
    }

    /// What the breaker does now.
    pub fn state(&self) -> BreakerState {
        self.machine().state()
    }

    /// How often it has opened.
    pub fn opened_total(&self) -> u64 {
        self.machine().opened
    }

    /// The last real failure of the target while the breaker is open: not that it is open.
    pub fn cause(&self) -> Option<StoreError> {
        let (_, is_open) = self.opened_and_open();
        if is_open { lock(&self.cause).clone() } else { None }
    }

    /// Keeps a failure. One that was not sent says nothing about the target, so it does not replace another.
    fn note_cause(&self, error: StoreError) {
        let mut cause = lock(&self.cause);
        if cause.is_none() || error.kind() != StoreErrorKind::NotSent {
            *cause = Some(error);
        }
    }

    /// How often it has opened, and whether it is open.
    fn opened_and_open(&self) -> (u64, bool) {
        let openings = self.openings.load(Ordering::Acquire);
        (openings / 2, !openings.is_multiple_of(2))
    }

    /// Counts a call, and answers whether the breaker opens for it.
    fn record(&self, call: Call) -> bool {
        let mut machine = self.machine();
        let opens = machine.record(self.now_us(), call);
        if opens {
            self.publish(&machine);
        }
        opens
    }

    fn next_probe(&self, random: u64) -> Option<Duration> {
        self.machine().wait_us(random).map(Duration::from_micros)
    }

    /// Counts a probe, and answers whether the breaker closes for it.
    fn probed(&self, good: bool) -> bool {
        let mut machine = self.machine();
        let closes = machine.probed(self.now_us(), good);
        if closes {
            *lock(&self.cause) = None;
            // Before the next opening can look for a prober: this one is about to end.
            self.has_prober.store(false, Ordering::Release);
            self.publish(&machine);
        }
        closes
    }

    /// Publishes the state of the locked machine to the calls that take no lock.
    fn publish(&self, machine: &Machine) {
        let open = u64::from(machine.state() != BreakerState::Closed);
        self.openings.store(machine.opened * 2 + open, Ordering::Release);
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        lock(&self.machine)
    }

    fn now_us(&self) -> u64 {
        micros(self.origin.elapsed())
    }
}

/// Something that a breaker protects. [`Breaker`](crate::Breaker) does so for a whole store; a store of several nodes
/// implements this for each of them.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::store_kit::{BreakerPass, BreakerSwitch, BreakerTarget};
/// use tidegate::{
///     BreakerOptions, BreakerState, Reply, StoreError, StoreErrorKind, StoreReply, StoreResult,
/// };
///
/// struct Node {
///     switch: BreakerSwitch,
/// }
///
/// impl BreakerTarget for Node {
///     fn switch(&self) -> &BreakerSwitch {
///         &self.switch
///     }
///
///     fn probe(&self) -> StoreResult<StoreReply> {
///         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "still down")))
///     }
/// }
///
/// let node = Arc::new(Node { switch: BreakerSwitch::new(BreakerOptions::default()) });
/// let timeout = StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms");
/// for _ in 0..5 {
///     let pass: BreakerPass = node.pass()?;
///     node.answered(pass, Some(&timeout));
/// }
/// assert_eq!(node.switch().state(), BreakerState::Open);
/// assert_eq!(node.switch().cause(), Some(timeout));
/// # Ok::<(), StoreError>(())
/// ```
pub trait BreakerTarget: Send + Sync + Sized + 'static {
    /// Its breaker.
    fn switch(&self) -> &BreakerSwitch;

    /// A call that works if the others would.
    fn probe(&self) -> StoreResult<StoreReply>;

    /// Whether an error of this kind is a failure of the target.
    fn has_failed(&self, kind: StoreErrorKind) -> bool {
        kind.is_store_failure()
    }

    /// Lets a call through, unless the breaker is open.
    fn pass(self: &Arc<Self>) -> Result<BreakerPass, StoreError> {
        let (opened, is_open) = self.switch().opened_and_open();
        if is_open && ensure_prober(self) {
            let left_alone = "the store failed or was slow, and is left alone for now";
            return Err(StoreError::new(StoreErrorKind::BreakerOpen, left_alone));
        }
        Ok(BreakerPass { opened, began: Instant::now() })
    }

    /// Counts the result of a call, and answers whether the breaker opens for it.
    fn answered(self: &Arc<Self>, passed: BreakerPass, error: Option<&StoreError>) -> bool {
        let kind = error.map(StoreError::kind);
        let failed = kind.is_some_and(|kind| self.has_failed(kind));
        if kind.is_some() && !failed {
            return false;
        }
        if let Some(error) = error {
            self.switch().note_cause(error.clone());
        }
        let at_deadline = matches!(kind, Some(StoreErrorKind::Timeout | StoreErrorKind::NotSent));
        self.record(passed, failed, at_deadline || self.is_slow(passed))
    }

    /// Counts a call whose caller stopped waiting: as a failure if that took long, otherwise not at all.
    fn abandoned(self: &Arc<Self>, passed: BreakerPass) {
        if self.is_slow(passed) {
            let why = format!("no answer within {:?}", passed.began.elapsed());
            self.switch().note_cause(StoreError::new(StoreErrorKind::Timeout, why));
            self.record(passed, true, true);
        }
    }

    /// Whether the call takes longer than [`BreakerOptions::slow`](crate::BreakerOptions::slow).
    fn is_slow(&self, passed: BreakerPass) -> bool {
        passed.began.elapsed() > self.switch().options().slow
    }

    /// Counts one call, and starts to probe if the breaker opens for it.
    fn record(self: &Arc<Self>, passed: BreakerPass, failed: bool, slow: bool) -> bool {
        let opens = self.switch().record(Call { opened: passed.opened, failed, slow });
        if opens {
            if !failed {
                let slow = self.switch().options().slow;
                let why = format!("more than one call in a hundred took longer than {slow:?}");
                *lock(&self.switch().cause) =
                    Some(StoreError::new(StoreErrorKind::BreakerOpen, why));
            }
            ensure_prober(self);
        }
        opens
    }
}

/// A call that the breaker let through.
///
/// ```
/// # use tidegate::store_kit::BreakerPass;
/// # use tokio::time::Instant;
/// fn had_time(pass: BreakerPass, due: Instant) -> bool {
///     pass.time_until(due).as_millis() >= 10
/// }
/// fn left_now(pass: BreakerPass) -> BreakerPass {
///     let sent = pass.sent_at(Instant::now()); // waiting in our own queue is no fault of the target
///     assert!(sent.began() >= pass.began());
///     sent
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BreakerPass {
    /// How often the breaker had opened by then.
    opened: u64,
    began: Instant,
}

impl BreakerPass {
    /// The same call, counted from when it left: before, it waited for its turn in this process.
    #[must_use]
    pub const fn sent_at(self, began: Instant) -> Self {
        Self { began, ..self }
    }

    /// When the call began.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// The time from the start of the call to `due`.
    pub fn time_until(&self, due: Instant) -> Duration {
        due.saturating_duration_since(self.began)
    }
}

/// Starts a prober unless one is running; `false` without a runtime to run it.
fn ensure_prober<G: BreakerTarget>(target: &Arc<G>) -> bool {
    let has_prober = &target.switch().has_prober;
    if has_prober.load(Ordering::Relaxed) {
        return true;
    }
    let Ok(runtime) = Handle::try_current() else { return false };
    if !has_prober.swap(true, Ordering::AcqRel) {
        runtime.spawn(probe_until_closed(Prober(Arc::downgrade(target))));
    }
    true
}

/// Clears `has_prober` when it is dropped, also when its runtime ends before the breaker does.
struct Prober<G: BreakerTarget>(Weak<G>);

impl<G: BreakerTarget> Drop for Prober<G> {
    fn drop(&mut self) {
        if let Some(target) = self.0.upgrade() {
            target.switch().has_prober.store(false, Ordering::Release);
        }
    }
}

async fn probe_until_closed<G: BreakerTarget>(mut prober: Prober<G>) {
    let next = |target: Arc<G>| target.switch().next_probe(random());
    let start = |target: Arc<G>| (target.probe(), target.switch().options().slow);
    loop {
        let Some(wait) = prober.0.upgrade().and_then(next) else { return };
        sleep(wait).await;
        // Not held while waiting, so that dropping the breaker ends this task.
        let Some((probe, deadline)) = prober.0.upgrade().map(start) else { return };
        let answer = timeout(deadline, probe).await;
        let Some(target) = prober.0.upgrade() else { return };
        // An error that is no failure of the store is an answer too.
        let good = match answer {
            Ok(Err(error)) if target.has_failed(error.kind()) => {
                target.switch().note_cause(error);
                false
            }
            Ok(_) => true,
            Err(_) => false,
        };
        if target.switch().probed(good) {
            // `probed` has cleared `has_prober`, and the next opening may have a prober by now.
            prober.0 = Weak::new();
            return;
        }
    }
}

/// A whole check on a key of its own. It takes, because a store that cannot write (a replica, no memory, no disk)
/// would still answer a peek.
pub(super) fn take_one<S: Store>(store: &S) -> StoreResult<StoreReply> {
    with_probe_request(|request| store.decide(request, SystemClock.now()))
        .unwrap_or_else(|| Reply::failed(StoreError::bad_request("no limit to probe with")))
}

/// Calls `send` with the request to probe with: it takes one unit of a key that no policy uses.
///
/// ```
/// # use tidegate::store_kit::with_probe_request;
/// assert_eq!(with_probe_request(|request| request.cost), Some(1));
/// ```
pub fn with_probe_request<T>(send: impl FnOnce(&StoreRequest<'_>) -> T) -> Option<T> {
    // More than any fleet will probe: a refusal would write nothing.
    let limit = Gcra::new(1_000_000, Duration::from_secs(1), 1_000_000).map(Limit::from).ok()?;
    let scope = Scope::named("_tidegate", "probe");
    let limits = [KeyedLimit { scope: &scope, key: b"probe", limit: &limit }];
    Some(send(&StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take }))
}

/// Random bits: the keys of hash maps come from the operating system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
