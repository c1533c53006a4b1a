//! Leases around a store in memory, in virtual time: never more than the limit, and nearly as much.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "figures to be compared, all small"
)]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Clock, GrantRequest, KeyedLimit, Leases, Limit, ManualClock, MemoryStore, Mode, Op,
    RemoteStore, Reply, ReserveReply, ReserveRequest, Scope, Source, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult, Timestamp,
};

const STEP: Duration = Duration::from_micros(250);

type Node = Leases<Arc<MemoryStore>, ManualClock>;

fn take(store: &impl Store, limit: &Limit, now: Timestamp, cost: u64) -> StoreReply {
    ask(store, limit, now, cost, Op::Take).now().unwrap()
}

fn ask(
    store: &impl Store,
    limit: &Limit,
    now: Timestamp,
    cost: u64,
    op: Op,
) -> StoreResult<StoreReply> {
    let scope = Scope::named("api", "");
    let limits = [KeyedLimit { scope: &scope, key: b"hot", limit }];
    store.decide(&StoreRequest { mode: Mode::All, limits: &limits, cost, op }, now)
}

/// Nodes over one store, all by one clock.
struct Fleet {
    clock: ManualClock,
    store: Arc<MemoryStore>,
    nodes: Vec<Node>,
}

impl Fleet {
    fn new(nodes: usize) -> Self {
        let (clock, store) = (ManualClock::default(), Arc::new(MemoryStore::default()));
        let node = |_| Leases::with_clock(store.clone(), clock.clone());
        let nodes = (0..nodes).map(node).collect();
        Self { clock, store, nodes }
    }

    /// Each node checks once per step; answers how many were admitted at each step.
    fn overload(&mut self, limit: &Limit, steps: usize, kill_every: Option<usize>) -> Vec<u64> {
        (0..steps)
            .map(|step| {
                self.clock.advance(STEP);
                let now = self.clock.now();
                if kill_every.is_some_and(|every| step % every == every - 1) {
                    // A node that is killed gives nothing back, and starts anew.
                    let place = step % self.nodes.len();
                    self.nodes[place] = Leases::with_clock(self.store.clone(), self.clock.clone());
                }
                let allowed = |node: &Node| take(node, limit, now, 1).verdict.decision.allowed();
                self.nodes.iter().filter(|node| allowed(node)).count() as u64
            })
            .collect()
    }

    fn requests(&self) -> u64 {
        self.nodes.iter().map(|node| node.stats().requests).sum()
    }
}

/// Admissions above what GCRA allows in any interval, in units.
fn worst_excess(admitted: &[u64], per_step: f64, burst: f64) -> f64 {
    // Σ(i..=j) − rate·(tj − ti) is largest where the sum that starts anew whenever it is below 0 is.
    let (mut run, mut worst) = (0.0_f64, 0.0_f64);
    for count in admitted {
        run = (run - per_step).max(0.0) + *count as f64;
        worst = worst.max(run);
    }
    worst - burst
}

#[test]
fn a_fleet_never_admits_more_and_nearly_as_much() {
    let limit: Limit = "2000/s burst 400".parse().unwrap();
    for (nodes, kill_every) in [(1, None), (4, None), (16, None), (4, Some(400)), (16, Some(100))] {
        let steps = 40_000; // ten seconds
        let mut fleet = Fleet::new(nodes);
        let admitted = fleet.overload(&limit, steps, kill_every);
        let excess = worst_excess(&admitted, 2000.0 * STEP.as_secs_f64(), 400.0);
        assert!(excess <= 1e-6, "{nodes} nodes admit {excess} too many");
        let total: u64 = admitted.iter().sum();
        let utilisation = total as f64 / (2000.0 * 10.0);
        if kill_every.is_none() {
            assert!(utilisation >= 0.95, "{nodes} nodes use {utilisation} of the limit");
            assert!(fleet.requests() < total, "{} requests for {total}", fleet.requests());
        }
    }
}

/// Neither is it spent under the smaller limit, nor lost.
#[test]
fn what_is_held_goes_back_when_the_limit_moves() {
    let whole: Limit = "fixed-window 10000/h".parse().unwrap();
    let mut fleet = Fleet::new(1);
    let admitted: u64 = fleet.overload(&whole, 2_000, None).iter().sum();
    let (node, now) = (&fleet.nodes[0], fleet.clock.now());
    let granted = node.stats().granted;
    assert!(granted > admitted, "nothing is held");
    assert!(take(node, &whole.effective(9_000), now, 1).verdict.decision.allowed());
    assert_eq!(node.stats().returned, granted - admitted);
    assert_eq!(take(&*fleet.store, &whole, now, 0).verdict.decision.remaining(), 9_999 - admitted);
    // Another window altogether counts from nothing: what was held is not of it.
    let other: Limit = "fixed-window 10000/min".parse().unwrap();
    fleet.overload(&whole, 2_000, None);
    let (node, now) = (&fleet.nodes[0], fleet.clock.now());
    let returned = node.stats().returned;
    assert!(take(node, &other, now, 1).verdict.decision.allowed());
    assert_eq!(node.stats().returned, returned);
}

#[test]
fn a_limit_that_moves_is_never_passed_and_nearly_used() {
    let whole: Limit = "2000/s burst 400".parse().unwrap();
    for nodes in [1, 4, 16] {
        let mut fleet = Fleet::new(nodes);
        let (mut admitted, mut allowed) = (Vec::new(), 0.0);
        for tenth in 0..100_u64 {
            let units = 500 + tenth * 977 % 1501;
            let limit = whole.effective(units);
            let now = fleet.overload(&limit, 400, None);
            // Half a second to spend what was saved up.
            if tenth >= 5 {
                allowed += units as f64 / 10.0;
            }
            admitted.push(now);
        }
        let used: u64 = admitted[5..].iter().flatten().sum();
        let admitted = admitted.concat();
        let excess = worst_excess(&admitted, 2000.0 * STEP.as_secs_f64(), 400.0);
        assert!(excess <= 1e-6, "{nodes} nodes admit {excess} too many");
        let utilisation = used as f64 / allowed;
        assert!((0.9..1.05).contains(&utilisation), "{nodes} nodes use {utilisation}");
    }
}

#[test]
fn a_hot_key_is_decided_in_process_and_a_cold_one_asks_for_what_it_needs() {
    let limit: Limit = "100000/s burst 100000".parse().unwrap();
    let mut fleet = Fleet::new(1);
    let first = take(&fleet.nodes[0], &limit, fleet.clock.now(), 3);
    assert_eq!((first.source, fleet.nodes[0].stats().granted), (Source::Store, 3));
    fleet.overload(&limit, 8_000, None);
    let stats = fleet.nodes[0].stats();
    assert!(stats.requests * 50 < stats.decided, "{stats:?}");
    let now = fleet.clock.now();
    assert_eq!(take(&fleet.nodes[0], &limit, now, 1).source, Source::Lease);
}

#[test]
fn what_is_not_needed_goes_back() {
    let limit: Limit = "fixed-window 10000/h".parse().unwrap();
    let mut fleet = Fleet::new(1);
    let admitted: u64 = fleet.overload(&limit, 4_000, None).iter().sum();
    for _ in 0..100 {
        fleet.clock.advance(Duration::from_millis(50));
        fleet.nodes[0].tick();
    }
    let spent =
        10_000 - take(&*fleet.store, &limit, fleet.clock.now(), 0).verdict.decision.remaining();
    assert_eq!(spent, admitted);
    assert_eq!(fleet.nodes[0].stats().keys, 0);
}

#[test]
fn a_release_gives_everything_back() {
    let limit: Limit = "fixed-window 10000/h".parse().unwrap();
    let mut fleet = Fleet::new(3);
    let admitted: u64 = fleet.overload(&limit, 2_000, None).iter().sum();
    fleet.nodes.iter().for_each(Leases::release);
    let left = take(&*fleet.store, &limit, fleet.clock.now(), 0).verdict.decision.remaining();
    assert_eq!(10_000 - left, admitted);
}

#[test]
fn a_reset_and_a_changed_limit_forget_what_is_held() {
    let (limit, other): (Limit, Limit) =
        ("fixed-window 1000/h".parse().unwrap(), "fixed-window 1500/h".parse().unwrap());
    let mut fleet = Fleet::new(1);
    let admitted: u64 = fleet.overload(&limit, 10_000, None).iter().sum();
    assert_eq!(admitted, 1000);
    let (node, now) = (&fleet.nodes[0], fleet.clock.now());
    assert!(!take(node, &limit, now, 1).verdict.decision.allowed());
    assert!(take(node, &other, now, 500).verdict.decision.allowed());
    assert!(!take(node, &other, now, 1).verdict.decision.allowed());
    ask(node, &other, now, 0, Op::Reset).now().unwrap();
    assert!(take(node, &other, now, 1500).verdict.decision.allowed());
}

#[test]
fn what_cannot_be_leased_is_asked_for_one_by_one() {
    let fleet = Fleet::new(1);
    for text in ["1/s burst 1", "concurrency 1"] {
        let limit: Limit = text.parse().unwrap();
        let scope = Scope::named(text, "");
        let limits = [KeyedLimit { scope: &scope, key: b"k", limit: &limit }];
        let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
        let answer = || fleet.nodes[0].decide(&ask, fleet.clock.now()).now().unwrap();
        assert_eq!((answer().source, answer().verdict.decision.allowed()), (Source::Store, false));
    }
    assert_eq!(fleet.nodes[0].stats().keys, 0);
}

/// Answers when it is told to, or fails.
#[derive(Debug, Default)]
struct Slow {
    inner: MemoryStore,
    open: Arc<tokio::sync::Notify>,
    fails: AtomicBool,
}

impl Store for Arc2 {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let (answer, open) = (self.0.inner.decide(ask, now).now(), self.0.open.clone());
        let fails = self.0.fails.load(Ordering::Relaxed);
        Reply::later(async move {
            open.notified().await;
            if fails { Err(StoreError::new(StoreErrorKind::Timeout, "test")) } else { answer }
        })
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.inner.reserve(turn, now)
    }
}

#[derive(Clone, Debug, Default)]
struct Arc2(Arc<Slow>);

#[tokio::test]
async fn those_who_wait_share_one_request_and_its_failure() {
    let limit: Limit = "fixed-window 10/h".parse().unwrap();
    let (store, clock) = (Arc2::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let ask_all = |count: usize| -> Vec<_> {
        (0..count).map(|_| ask(&node, &limit, clock.now(), 1, Op::Take)).collect()
    };
    let replies = ask_all(30);
    assert_eq!(node.stats().requests, 1);
    let mut admitted = 0;
    for reply in replies {
        // The request that is under way, and the one for those it left.
        store.0.open.notify_one();
        admitted += usize::from(reply.await.unwrap().verdict.decision.allowed());
    }
    assert_eq!(admitted, 10);
    assert!(node.stats().requests <= 3, "{:?}", node.stats());
    // One that fetches ahead may still be under way, and nobody waits for it.
    for _ in 0..10 {
        store.0.open.notify_waiters();
        tokio::task::yield_now().await;
    }

    clock.advance(Duration::from_hours(1));
    store.0.fails.store(true, Ordering::Relaxed);
    let replies = ask_all(5);
    for reply in replies {
        store.0.open.notify_one();
        assert_eq!(reply.await.unwrap_err().kind(), StoreErrorKind::Timeout);
    }
}

#[tokio::test]
async fn those_who_wait_while_a_key_is_reset_are_answered() {
    let limit: Limit = "fixed-window 10/h".parse().unwrap();
    let (store, clock) = (Arc2::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let waiting = ask(&node, &limit, clock.now(), 1, Op::Take);
    let reset = ask(&node, &limit, clock.now(), 0, Op::Reset);
    let answered = async {
        assert!(waiting.await.unwrap().verdict.decision.allowed());
        reset.await.unwrap();
    };
    let open = async {
        loop {
            store.0.open.notify_waiters();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = answered => {}
        () = open => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => panic!("nobody answers"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn a_request_that_is_lost_with_its_runtime_blocks_nobody() {
    let limit: Limit = "fixed-window 1000/h".parse().unwrap();
    let (store, clock) = (Arc2::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let first = runtime();
    let inside = first.enter();
    let waiting = ask(&node, &limit, clock.now(), 1, Op::Take);
    drop(inside);
    drop(first);
    runtime().block_on(async {
        let waiting = tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap();
        assert_eq!(waiting.unwrap_err().kind(), StoreErrorKind::Disconnected);
        store.0.open.notify_one();
        let next = ask(&node, &limit, clock.now(), 1, Op::Take);
        let next = tokio::time::timeout(Duration::from_secs(20), next).await;
        assert!(next.unwrap().unwrap().verdict.decision.allowed());
    });
}

#[test]
fn without_a_runtime_the_store_is_asked_itself() {
    let limit: Limit = "fixed-window 1000/h".parse().unwrap();
    let (store, clock) = (Arc2::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let runtime = runtime();
    for _ in 0..3 {
        let outside = ask(&node, &limit, clock.now(), 1, Op::Take);
        store.0.open.notify_one();
        let outside = runtime.block_on(outside).unwrap();
        assert!(outside.verdict.decision.allowed());
        assert_eq!(outside.source, Source::Store);
    }
    // Only the first could not know that the store answers later.
    assert_eq!((node.stats().requests, node.stats().granted), (1, 0));
    runtime.block_on(async {
        let inside = ask(&node, &limit, clock.now(), 1, Op::Take);
        store.0.open.notify_one();
        assert!(inside.await.unwrap().verdict.decision.allowed());
    });
    assert!(node.stats().granted >= 1, "{:?}", node.stats());
}

#[test]
fn another_runtime_takes_up_the_sweep() {
    let limit: Limit = "fixed-window 1000/h".parse().unwrap();
    let fleet = Fleet::new(1);
    let check = || take(&fleet.nodes[0], &limit, fleet.clock.now(), 1);
    for _ in 0..2 {
        runtime().block_on(async {
            check();
            assert_eq!(fleet.nodes[0].stats().keys, 1);
            fleet.clock.advance(Duration::from_secs(10));
            let forgotten = async {
                while fleet.nodes[0].stats().keys > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), forgotten).await.unwrap();
        });
    }
}

/// Notes how far somebody else has come whenever units come back.
#[derive(Clone, Debug, Default)]
struct Watched(Arc<(MemoryStore, AtomicU64, Mutex<BTreeSet<u64>>)>);

impl Store for Watched {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let (store, progress, seen) = &*self.0;
        if matches!(ask.op, Op::GiveBack(_)) {
            seen.lock().unwrap().insert(progress.load(Ordering::Relaxed));
        }
        store.decide(ask, now)
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.0.reserve(turn, now)
    }
}

#[tokio::test]
async fn a_sweep_lets_others_run() {
    let limit: Limit = "fixed-window 10000/h".parse().unwrap();
    let (store, clock) = (Watched::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let scope = Scope::named("api", "");
    for _ in 0..30 {
        clock.advance(Duration::from_micros(200));
        for key in 0..64_u8 {
            let limits = [KeyedLimit { scope: &scope, key: &[key], limit: &limit }];
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
            assert!(node.decide(&ask, clock.now()).now().unwrap().verdict.decision.allowed());
        }
    }
    // All that is held is due at once, and goes back in one round.
    clock.advance(Duration::from_millis(700));
    let (_, progress, seen) = &*store.0;
    let start = tokio::time::Instant::now();
    while node.stats().returned == 0 || seen.lock().unwrap().len() < 10 {
        progress.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", seen.lock().unwrap());
    }
}

/// Two nodes, of which the second holds units; with them, how many it has admitted and how many it holds.
fn two_of_which_one_holds(limit: &Limit) -> (Fleet, u64, u64) {
    let fleet = Fleet::new(2);
    let mut admitted = 0;
    for _ in 0..30 {
        fleet.clock.advance(Duration::from_micros(200));
        admitted += admit_up_to(&fleet, 1, limit, 1);
    }
    let stats = fleet.nodes[1].stats();
    (fleet, admitted, stats.granted - stats.returned - admitted)
}

fn admit_up_to(fleet: &Fleet, node: usize, limit: &Limit, most: u64) -> u64 {
    let check = || take(&fleet.nodes[node], limit, fleet.clock.now(), 1).verdict.decision;
    (0..most).take_while(|_| check().allowed()).count() as u64
}

const HOURLY: [&str; 4] =
    ["100/h burst 100", "fixed-window 100/h", "sliding-window 100/h", "sliding-log 100/h"];

#[test]
fn a_reset_admits_at_most_what_is_out_on_lease_on_top() {
    for text in HOURLY {
        let limit: Limit = text.parse().unwrap();
        for gives_back in [false, true] {
            let (fleet, _, out) = two_of_which_one_holds(&limit);
            assert!(out > 0, "{text}: nothing is out");
            ask(&fleet.nodes[0], &limit, fleet.clock.now(), 0, Op::Reset).now().unwrap();
            let mut admitted = admit_up_to(&fleet, 0, &limit, 1000);
            if gives_back {
                fleet.nodes[1].release();
            } else {
                admitted += admit_up_to(&fleet, 1, &limit, 1000);
            }
            // Past all that is held, and all that a node remembers of a refusal.
            for _ in 0..3 {
                fleet.clock.advance(Duration::from_millis(1_100));
                fleet.nodes.iter().for_each(Leases::tick);
                admitted += (0..2).map(|node| admit_up_to(&fleet, node, &limit, 1000)).sum::<u64>();
            }
            assert!(admitted <= 100 + out, "{text}: {admitted} with {out} out on lease");
        }
    }
}

#[test]
fn a_refund_of_too_much_admits_at_most_what_is_out_on_lease_on_top() {
    for text in HOURLY {
        let limit: Limit = text.parse().unwrap();
        let (fleet, before, out) = two_of_which_one_holds(&limit);
        ask(&fleet.nodes[0], &limit, fleet.clock.now(), 90, Op::Refund).now().unwrap();
        let mut admitted = 0;
        for _ in 0..3 {
            admitted += (0..2).map(|node| admit_up_to(&fleet, node, &limit, 1000)).sum::<u64>();
            fleet.clock.advance(Duration::from_millis(1_100));
            fleet.nodes.iter().for_each(Leases::tick);
        }
        assert!(admitted <= 100 + out, "{text}: {admitted}, {before} before, {out} out on lease");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_more_than_two_requests() {
    let limit: Limit = "fixed-window 1000/h".parse().unwrap();
    let (store, clock) = (Stingy::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let start = tokio::time::Instant::now();
    let replies: Vec<_> = (0..30).map(|_| ask(&node, &limit, clock.now(), 1, Op::Take)).collect();
    let mut refused = 0;
    for reply in replies {
        let decision = reply.await.unwrap().verdict.decision;
        refused += u32::from(!decision.allowed());
        assert_eq!(decision.allowed(), decision.retry_after_us() == Some(0), "{decision:?}");
    }
    assert!(start.elapsed() < 3 * TRIP, "{:?}", start.elapsed());
    assert_eq!(refused, 28);
}

const TRIP: Duration = Duration::from_millis(20);

/// Far away, and never grants more than it has to, as one that other nodes have emptied.
#[derive(Clone, Debug, Default)]
struct Stingy(Arc<MemoryStore>);

impl Store for Stingy {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let op = match ask.op {
            Op::Lease(wanted) => Op::Lease(GrantRequest { most: wanted.least, ..wanted }),
            op => op,
        };
        let answer = self.0.decide(&StoreRequest { op, ..*ask }, now).now();
        Reply::later(async move {
            tokio::time::sleep(TRIP).await;
            answer
        })
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.reserve(turn, now)
    }
}

/// Fails with an error of some kind while it is set, at once or a moment later.
#[derive(Clone, Debug, Default)]
struct Failing(Arc<FailingState>);

#[derive(Debug, Default)]
struct FailingState {
    inner: MemoryStore,
    kind: Mutex<Option<StoreErrorKind>>,
    later: bool,
    messages: AtomicU64,
}

impl Failing {
    fn later() -> Self {
        Self(Arc::new(FailingState { later: true, ..FailingState::default() }))
    }

    fn set(&self, kind: Option<StoreErrorKind>) {
        *self.0.kind.lock().unwrap() = kind;
    }
}

impl Store for Failing {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.0.messages.fetch_add(1, Ordering::Relaxed);
        let answer = match *self.0.kind.lock().unwrap() {
            Some(kind) => Err(StoreError::new(kind, "test")),
            None => self.0.inner.decide(ask, now).now(),
        };
        if !self.0.later {
            return Reply::ready(answer);
        }
        Reply::later(async move {
            tokio::task::yield_now().await;
            answer
        })
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.inner.reserve(turn, now)
    }
}

/// A backoff step lasts 12.5 to 25 ms, the first two 2.5 to 10 ms.
const fn most_requests(passed: Duration) -> u64 {
    3 + passed.as_micros() as u64 / 12_500
}

/// A hot key while every request fails: how often it asks in a second, and what it does afterwards.
async fn fails_for_a_second(store: &Failing, kind: StoreErrorKind) {
    let limit: Limit = "token-bucket 1000/s capacity 1000".parse().unwrap();
    let clock = ManualClock::default();
    let node = Leases::with_clock(store.clone(), clock.clone());
    let check = async || {
        clock.advance(Duration::from_millis(1));
        node.tick();
        let reply = ask(&node, &limit, clock.now(), 1, Op::Take).await;
        // What fetches ahead is answered in the background.
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        reply.map(|reply| reply.verdict.decision.allowed())
    };
    for _ in 0..500 {
        assert_eq!(check().await, Ok(true));
    }
    store.set(Some(kind));
    let (before, messages) = (node.stats(), store.0.messages.load(Ordering::Relaxed));
    let mut failed = 0;
    for _ in 0..1_000 {
        match check().await {
            Err(error) => {
                failed += 1;
                // A check that was not sent has certainly not been charged.
                let kinds = [kind, StoreErrorKind::NotSent];
                assert!(kinds.contains(&error.kind()), "{error} instead of {kind:?}");
            }
            Ok(allowed) => assert!(allowed, "a failure is no refusal"),
        }
    }
    assert!(failed > 800, "{kind:?}: {failed} failed");
    let requests = node.stats().requests - before.requests;
    let most = most_requests(Duration::from_secs(1));
    assert!((20..=most).contains(&requests), "{kind:?}: {requests} requests");
    let messages = store.0.messages.load(Ordering::Relaxed) - messages;
    assert!(messages <= requests + 2, "{kind:?}: {messages} messages, {requests} requests");
    store.set(None);
    let mut healing_ms = 1;
    while check().await.is_err() {
        healing_ms += 1;
    }
    assert!(healing_ms <= 26, "{kind:?}: healed after {healing_ms} ms");
    let granted = node.stats().granted;
    for _ in 0..200 {
        assert_eq!(check().await, Ok(true));
    }
    assert!(node.stats().granted > granted, "{kind:?}: nothing is leased again");
}

#[tokio::test]
async fn while_a_store_fails_a_key_asks_once_per_backoff_step() {
    for kind in StoreErrorKind::ALL {
        fails_for_a_second(&Failing::default(), *kind).await;
        fails_for_a_second(&Failing::later(), *kind).await;
    }
}

/// As an adaptive limit does, or a client that resets its key all the time.
#[tokio::test]
async fn neither_another_limit_nor_a_reset_ends_the_pause_after_a_failure() {
    let limits: [Limit; 2] =
        ["fixed-window 1000/h".parse().unwrap(), "fixed-window 999/h".parse().unwrap()];
    let (store, clock) = (Failing::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    store.set(Some(StoreErrorKind::OutOfMemory));
    for round in 0..1_000 {
        clock.advance(Duration::from_millis(1));
        let limit = &limits[round % 2];
        assert!(ask(&node, limit, clock.now(), 1, Op::Take).now().is_err());
        assert!(ask(&node, limit, clock.now(), 0, Op::Reset).now().is_err());
    }
    let (requests, most) = (node.stats().requests, most_requests(Duration::from_secs(1)));
    assert!(requests <= most, "{requests}");
    assert_eq!(store.0.messages.load(Ordering::Relaxed), 1_000 + requests);
}

const DAILY: [&str; 6] = [
    "fixed-window 50/day",
    "quota 50/day",
    "quota 50/day rolling",
    "sliding-window 50/day",
    "sliding-log 50/day",
    "50/day burst 50",
];

/// A question of some limits on one key, of one policy.
fn ask_all(
    store: &impl Store,
    limits: &[Limit],
    key: &[u8],
    now: Timestamp,
    (cost, op): (u64, Op),
) -> StoreReply {
    let scopes: Vec<_> = (0..limits.len()).map(|n| Scope::named("api", &n.to_string())).collect();
    let keyed = scopes.iter().zip(limits).map(|(scope, limit)| KeyedLimit { scope, key, limit });
    let keyed: Vec<_> = keyed.collect();
    store.decide(&StoreRequest { mode: Mode::All, limits: &keyed, cost, op }, now).now().unwrap()
}

#[test]
fn a_refusal_says_what_a_look_at_the_store_says() {
    for text in DAILY {
        let limit: Limit = text.parse().unwrap();
        let second: Limit = "fixed-window 1000/s".parse().unwrap();
        for limits in [vec![limit.clone()], vec![second, limit]] {
            let fleet = Fleet::new(1);
            let ask = |op| ask_all(&fleet.nodes[0], &limits, b"hot", fleet.clock.now(), (1, op));
            let mut refused = 0;
            for _ in 0..4_000 {
                fleet.clock.advance(Duration::from_millis(2));
                let (reply, look) = (ask(Op::Take), ask(Op::Peek));
                if reply.verdict.decision.allowed() {
                    continue;
                }
                refused += 1;
                let [says, truth] = [reply, look].map(|it| it.verdict.decision);
                assert_eq!(says.retry_after_us(), truth.retry_after_us(), "{text}");
                assert_eq!(says.reset_after_us(), truth.reset_after_us(), "{text}");
                assert_eq!(says.remaining(), truth.remaining(), "{text}");
            }
            assert!(refused > 3_000, "{text}: {refused} refused");
            assert!(fleet.requests() < 100, "{text}: {} requests", fleet.requests());
        }
    }
}

#[test]
fn what_this_node_gives_back_is_admitted_at_once() {
    for text in DAILY {
        let limits: [Limit; 1] = [text.parse().unwrap()];
        for op in [Op::Refund, Op::Reset] {
            let fleet = Fleet::new(1);
            let ask = |cost, op| {
                let reply =
                    ask_all(&fleet.nodes[0], &limits, b"hot", fleet.clock.now(), (cost, op));
                reply.verdict.decision.allowed()
            };
            for _ in 0..200 {
                fleet.clock.advance(Duration::from_millis(2));
                ask(1, Op::Take);
            }
            assert!(!ask(1, Op::Take), "{text}");
            let requests = fleet.requests();
            assert!(!ask(1, Op::Take), "{text}");
            assert_eq!(fleet.requests(), requests, "{text}: known without asking");
            ask(3, op);
            assert!((0..3).all(|_| ask(1, Op::Take)), "{text} after {op:?}");
            assert!(op == Op::Reset || !ask(1, Op::Take), "{text}: only what came back");
        }
    }
}

/// A tenant has several users, each with a lease of its own.
#[test]
fn what_is_given_back_to_one_key_counts_for_all_that_share_a_limit() {
    let (own, shared): (Limit, Limit) =
        ("fixed-window 1000/h".parse().unwrap(), "fixed-window 10/h".parse().unwrap());
    let (user, tenant) = (Scope::together("api", "user"), Scope::together("api", "tenant"));
    let fleet = Fleet::new(1);
    let ask = |name: &[u8], cost, op| {
        let limits = [
            KeyedLimit { scope: &user, key: name, limit: &own },
            KeyedLimit { scope: &tenant, key: b"acme", limit: &shared },
        ];
        let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
        let reply = fleet.nodes[0].decide(&request, fleet.clock.now()).now().unwrap();
        reply.verdict.decision.allowed()
    };
    assert!(ask(b"ann", 10, Op::Take));
    assert!(!ask(b"ben", 1, Op::Take));
    ask(b"ann", 2, Op::Refund);
    assert!(ask(b"ben", 2, Op::Take));
}

/// Answers in the order it is told to.
#[tokio::test]
async fn a_refusal_from_before_a_refund_counts_for_nobody() {
    let limit: Limit = "fixed-window 10/h".parse().unwrap();
    let (store, clock) = (Arc2::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    take_later(&store, ask(&node, &limit, clock.now(), 10, Op::Take)).await;
    // The store refuses, and its answer is still under way when the refund's comes.
    let early = ask(&node, &limit, clock.now(), 1, Op::Take);
    let refund = ask(&node, &limit, clock.now(), 1, Op::Refund);
    let (early, _) = tokio::join!(take_later(&store, early), take_later(&store, refund));
    assert!(early.verdict.decision.allowed());
}

async fn take_later(store: &Arc2, reply: StoreResult<StoreReply>) -> StoreReply {
    let open = async {
        loop {
            store.0.open.notify_one();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        reply = reply => reply.unwrap(),
        () = open => unreachable!(),
    }
}

/// As [`Stingy`], with a deadline that is a bit more than one round trip.
#[derive(Clone, Debug, Default)]
struct Bounded(Stingy);

const DEADLINE: Duration = Duration::from_millis(25);

impl Store for Bounded {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.0.decide(ask, now)
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.reserve(turn, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { remote: Some(self), ..StoreExtensions::default() }
    }
}

impl RemoteStore for Bounded {
    fn deadline(&self) -> Option<Duration> {
        Some(DEADLINE)
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_waits_for_two_requests_keeps_one_deadline() {
    let limit: Limit = "fixed-window 1000/h".parse().unwrap();
    let (store, clock) = (Bounded::default(), ManualClock::default());
    let node = Leases::with_clock(store.clone(), clock.clone());
    let check = |after: u64| {
        let (node, limit, now) = (node.clone(), limit.clone(), clock.now());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let start = tokio::time::Instant::now();
            let reply = ask(&node, &limit, now, 1, Op::Take).await;
            (start.elapsed(), reply.map(|reply| reply.verdict.decision.allowed()))
        })
    };
    // The second and third come while the first's request is under way, and it grants one unit; the next, too.
    let checks = [0, 1, 2].map(check);
    let mut answers = Vec::new();
    for check in checks {
        let (took, reply) = check.await.unwrap();
        assert!(took <= DEADLINE + Duration::from_millis(5), "{took:?}: {reply:?}");
        answers.push(reply.map_err(|error| error.kind()));
    }
    assert_eq!(answers[0], Ok(true));
    assert_eq!(answers[1..], [Err(StoreErrorKind::NotSent), Err(StoreErrorKind::NotSent)]);
    // The unit that came too late for them is there for the next.
    tokio::time::sleep(TRIP).await;
    let before = node.stats();
    assert_eq!(check(0).await.unwrap().1, Ok(true));
    assert_eq!((before.granted, node.stats().requests), (2, before.requests));
}

#[tokio::test(start_paused = true)]
async fn a_check_whose_limit_changes_while_it_waits_keeps_its_deadline() {
    let before: Limit = "fixed-window 1000/h".parse().unwrap();
    let after: Limit = "fixed-window 2000/h".parse().unwrap();
    // A request before the change is lost for the check, and another one is sent.
    for (limit, op) in [(&after, Op::Take), (&before, Op::Reset)] {
        let clock = ManualClock::default();
        let node = Leases::with_clock(Bounded::default(), clock.clone());
        let start = tokio::time::Instant::now();
        let waits = ask(&node, &before, clock.now(), 1, Op::Take);
        let waits = tokio::spawn(async move { (waits.await, start.elapsed()) });
        tokio::time::sleep(TRIP * 3 / 4).await;
        let change = ask(&node, limit, clock.now(), 1, op);
        let (reply, took) = waits.await.unwrap();
        assert!(took <= DEADLINE + Duration::from_millis(5), "{op:?}: {took:?}");
        assert_eq!(reply.unwrap_err().kind(), StoreErrorKind::NotSent, "{op:?}");
        assert!(change.await.unwrap().verdict.decision.allowed(), "{op:?}");
    }
}
