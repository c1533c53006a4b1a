//! What the deny cache saves, what it forgets, and who waits for whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{
    Clock, DenyCache, Engine, KeyedLimit, Limit, ManualClock, MemoryStore, Mode, Op, Policy,
    RemoteStore, Reply, ReserveReply, ReserveRequest, Scope, Source, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult, Timestamp,
};

use tidegate_testkit::scripted::{RuntimeClock, Scripted, Way};

const ROUND_TRIP: Duration = Duration::from_millis(2);

/// A cache, and what is asked of it.
struct Scene<S, C> {
    cache: DenyCache<S, C>,
    clock: C,
    scope: Scope,
}

impl<S: Store + 'static, C: Clock + Clone + 'static> Scene<S, C> {
    fn new(store: S, clock: C) -> Self {
        let cache = DenyCache::with_clock(store, clock.clone());
        Self { cache, clock, scope: Scope::named("p", "") }
    }

    fn ask(&self, limit: &str, key: &str, cost: u64, op: Op) -> StoreResult<StoreReply> {
        let limit: Limit = limit.parse().unwrap();
        let limits = [KeyedLimit { scope: &self.scope, key: key.as_bytes(), limit: &limit }];
        self.cache
            .decide(&StoreRequest { mode: Mode::All, limits: &limits, cost, op }, self.clock.now())
    }

    fn take(&self, limit: &str, key: &str) -> StoreResult<StoreReply> {
        self.ask(limit, key, 1, Op::Take)
    }

    fn source(&self, limit: &str, key: &str, cost: u64, op: Op) -> Source {
        self.ask(limit, key, cost, op).now().unwrap().source
    }
}

fn at_once() -> (Scripted, ManualClock, Scene<Scripted, ManualClock>) {
    let (store, clock) = (Scripted::new(Way::AtOnce), ManualClock::default());
    (store.clone(), clock.clone(), Scene::new(store, clock))
}

#[test]
fn ten_seconds_of_hammering_cost_the_store_eleven_calls() {
    for limit in ["1/h", "fixed-window 1/day", "sliding-log 1/h", "quota 1/month"] {
        let (store, clock, scene) = at_once();
        for _ in 0..10_000 {
            drop(scene.take(limit, "blocked"));
            clock.advance(Duration::from_millis(1));
        }
        assert!(store.calls() <= 11, "{limit}: {} calls", store.calls());
    }
}

#[test]
fn only_the_same_question_is_answered() {
    let (_, _, scene) = at_once();
    assert!(scene.take("2/h", "k").now().unwrap().verdict.decision.allowed());
    let rows = [
        ("2/h", "k", 2, Op::Take, Source::Store), // refused, and remembered
        ("2/h", "k", 2, Op::Take, Source::DenyCache),
        ("2/h", "k", 2, Op::Peek, Source::DenyCache),
        ("2/h", "other", 2, Op::Peek, Source::Store),
        ("2/h", "k", 1, Op::Peek, Source::Store),
        ("3/h", "k", 2, Op::Peek, Source::Store),
        ("2/h burst 3", "k", 2, Op::Peek, Source::Store),
        ("fixed-window 2/h", "k", 2, Op::Peek, Source::Store),
    ];
    for (limit, key, cost, op, expected) in rows {
        assert_eq!(scene.source(limit, key, cost, op), expected, "{limit} {key} {cost} {op:?}");
    }
}

#[test]
fn an_old_answer_says_how_long_it_is_still_true() {
    let (_, clock, scene) = at_once();
    let reply = |advance_us| {
        clock.advance(Duration::from_micros(advance_us));
        scene.take("1/s", "k").now().unwrap()
    };
    let row = |reply: &StoreReply| {
        let decision = reply.verdict.decision;
        (decision.retry_after_us(), decision.reset_after_us())
    };
    assert!(reply(0).verdict.decision.allowed());
    assert_eq!(row(&reply(0)), (Some(1_000_000), 1_000_000));
    assert_eq!(row(&reply(999_999)), (Some(1), 1));
    assert_eq!(reply(0).source, Source::DenyCache);
    assert!(reply(1).verdict.decision.allowed());
}

#[test]
fn refusals_of_places_are_not_remembered() {
    let (store, _, scene) = at_once();
    for _ in 0..5 {
        drop(scene.take("concurrency 1", "k"));
    }
    assert_eq!((store.calls(), scene.cache.remembered()), (5, 0));
}

#[test]
fn what_is_given_back_through_the_cache_is_seen_at_once() {
    let (_, _, scene) = at_once();
    for (op, cost) in [(Op::Refund, 1), (Op::Reset, 0)] {
        let key = format!("{op:?}");
        while scene.source("2/h", &key, 1, Op::Take) == Source::Store {}
        drop(scene.ask("2/h", &key, cost, op));
        assert_eq!(scene.source("2/h", &key, 1, Op::Take), Source::Store, "{op:?}");
    }
}

#[test]
fn a_flood_of_blocked_keys_stays_within_bounds_and_is_forgotten() {
    let clock = ManualClock::default();
    let scene = Scene::new(MemoryStore::default(), clock.clone());
    let block = |key: &str| {
        drop(scene.take("1/h", key));
        scene.source("1/h", key, 1, Op::Take);
        scene.source("1/h", key, 1, Op::Take) == Source::DenyCache
    };
    let remembered = (0..100_000).filter(|n| block(&n.to_string())).count();
    assert!((60_000..=65_536).contains(&remembered), "{remembered} were remembered");
    assert_eq!(scene.cache.remembered(), remembered);
    clock.advance(Duration::from_secs(2));
    assert!((0..1000).all(|n| block(&format!("later-{n}"))), "what has run out makes room");
    assert!(scene.cache.remembered() <= 65_536);
}

#[test]
fn threads_through_a_cache_admit_exactly_k() {
    let clock = ManualClock::default();
    let scene = Scene::new(MemoryStore::default(), clock);
    let count = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..2000 {
                    let reply = scene.take("sliding-log 777/h", "hot").now().unwrap();
                    let admitted = reply.verdict.decision.allowed();
                    count.fetch_add(u64::from(admitted), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 777);
}

type Far = Arc<Scene<Scripted, RuntimeClock>>;

/// A store a round trip away, and a key that was refused so long ago that its refusal has just run out.
async fn run_out(limit: &str) -> (Scripted, Far) {
    let store = Scripted::new(Way::AtOnce);
    let scene = Arc::new(Scene::new(store.clone(), RuntimeClock::start()));
    let retry = loop {
        let decision = scene.take(limit, "k").await.unwrap().verdict.decision;
        if !decision.allowed() {
            break decision.retry_after().unwrap();
        }
    };
    tokio::time::sleep(retry.min(Duration::from_secs(1))).await;
    store.behave(Way::After(ROUND_TRIP));
    (store, scene)
}

async fn at_the_same_time(
    scene: &Far,
    limit: &'static str,
    count: usize,
) -> Vec<Result<StoreReply, StoreError>> {
    let ask = |_| {
        let scene = scene.clone();
        tokio::spawn(async move { scene.take(limit, "k").await })
    };
    let mut answers = Vec::new();
    for task in (0..count).map(ask).collect::<Vec<_>>() {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn when_a_refusal_has_run_out_one_asks_for_all() {
    let (store, scene) = run_out("1/h").await;
    let (before, started) = (store.calls(), tokio::time::Instant::now());
    let answers = at_the_same_time(&scene, "1/h", 100).await;
    assert!(answers.iter().flatten().all(|it| !it.verdict.decision.allowed()));
    let by = |source| answers.iter().flatten().filter(|it| it.source == source).count();
    assert_eq!((by(Source::Store), by(Source::DenyCache)), (1, 99));
    assert_eq!(store.calls() - before, 1);
    assert!(started.elapsed() <= ROUND_TRIP * 2, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_admission_those_who_waited_ask_themselves() {
    let (store, scene) = run_out("2/s burst 1").await;
    let before = store.calls();
    let answers = at_the_same_time(&scene, "2/s burst 1", 10).await;
    let admitted = answers.iter().flatten().filter(|it| it.verdict.decision.allowed()).count();
    assert_eq!((admitted, store.calls() - before), (1, 10));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_key_that_is_not_known_to_be_blocked() {
    let store = Scripted::new(Way::After(ROUND_TRIP));
    let scene = Arc::new(Scene::new(store.clone(), RuntimeClock::start()));
    let started = tokio::time::Instant::now();
    at_the_same_time(&scene, "1/h", 50).await;
    assert_eq!(store.calls(), 50);
    assert!(started.elapsed() < ROUND_TRIP * 2, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nobody_depends_on_the_one_who_asks() {
    let (store, scene) = run_out("1/h").await;
    let before = store.calls();
    // The first looks at his answer last, and the second never.
    let first = scene.take("1/h", "k");
    drop(scene.take("1/h", "k"));
    assert_eq!(scene.take("1/h", "k").await.unwrap().source, Source::DenyCache);
    assert_eq!(first.await.unwrap().source, Source::Store);
    assert_eq!(store.calls() - before, 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(scene.take("1/h", "k")); // who asks is gone before there is an answer
    assert_eq!(scene.take("1/h", "k").await.unwrap().source, Source::DenyCache);
    assert_eq!(store.calls() - before, 2);
}

#[cfg(feature = "breaker")]
#[tokio::test(start_paused = true)]
async fn whoever_disconnects_at_once_costs_no_more_and_opens_no_breaker() {
    use tidegate::{Breaker, BreakerOptions, BreakerState};

    let store = Scripted::new(Way::AtOnce);
    let breaker = Breaker::around(store.clone(), BreakerOptions::default());
    let scene = Scene::new(breaker.clone(), RuntimeClock::start());
    drop((scene.take("1/h", "k").await, scene.take("1/h", "k").await));
    store.behave(Way::After(ROUND_TRIP));
    let before = store.calls();
    for _ in 0..100 * 60 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(scene.take("1/h", "k"));
    }
    assert!(store.calls() - before <= 61, "{} calls", store.calls() - before);
    assert_eq!((breaker.state(), breaker.opened_total()), (BreakerState::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_shared_and_says_that_the_others_did_not_run() {
    let (store, scene) = run_out("1/h").await;
    for (trouble, expected) in [
        (StoreErrorKind::Timeout, StoreErrorKind::NotSent),
        (StoreErrorKind::Unreachable, StoreErrorKind::Unreachable),
        (StoreErrorKind::WrongType, StoreErrorKind::WrongType),
    ] {
        store.behave(Way::FailsAfter(ROUND_TRIP, trouble));
        let before = store.calls();
        let answers = at_the_same_time(&scene, "1/h", 10).await;
        let by = |trouble| {
            let of = |it: &&Result<_, StoreError>| it.as_ref().is_err_and(|e| e.kind() == trouble);
            answers.iter().filter(of).count()
        };
        assert_eq!(store.calls() - before, 1, "{trouble:?}");
        assert_eq!(by(trouble) + by(expected), if trouble == expected { 20 } else { 10 });
        assert!(by(expected) >= 9, "{trouble:?}");
    }
    store.behave(Way::After(ROUND_TRIP));
    assert!(scene.take("1/h", "k").await.is_ok(), "and the next one asks again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_neither_hang_nor_admit_more() {
    let clock = ManualClock::default();
    let scene = Arc::new(Scene::new(Scripted::new(Way::Yields), clock.clone()));
    let hammer = |task: u64| {
        let (scene, clock) = (scene.clone(), clock.clone());
        tokio::spawn(async move {
            let mut admitted = 0;
            for n in 0..3000 {
                clock.advance(Duration::from_micros(700));
                let reply = scene.take("fixed-window 9/h", if n % 5 == 0 { "a" } else { "b" });
                if (n + task).is_multiple_of(7) {
                    drop(reply);
                } else {
                    admitted += u64::from(reply.await.unwrap().verdict.decision.allowed());
                }
                if (n + task).is_multiple_of(500) {
                    drop(scene.ask("fixed-window 9/h", "nobody", 1, Op::Refund));
                }
            }
            admitted
        })
    };
    let mut admitted = 0;
    for task in (0..16).map(hammer).collect::<Vec<_>>() {
        let patience = Duration::from_mins(2);
        admitted += tokio::time::timeout(patience, task).await.expect("it hangs").unwrap();
    }
    assert!((1..=18).contains(&admitted), "{admitted}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_asked_once_a_second() {
    let (store, scene) = run_out("1/h").await;
    store.behave(Way::Hangs);
    let before = store.calls();
    for _ in 0..5000 {
        drop(scene.take("1/h", "k"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let calls = store.calls() - before;
    assert!((4..=6).contains(&calls), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_was_overtaken_by_a_refund_is_not_believed() {
    let store = Scripted::new(Way::AtOnce);
    let scene = Scene::new(store.clone(), RuntimeClock::start());
    assert!(scene.take("1/h", "k").await.unwrap().verdict.decision.allowed());
    store.behave(Way::After(ROUND_TRIP));
    let refused = scene.take("1/h", "k"); // decided before the refund, told after it
    store.behave(Way::AtOnce);
    scene.ask("1/h", "k", 1, Op::Refund).await.unwrap();
    assert!(!refused.await.unwrap().verdict.decision.allowed());
    assert!(scene.take("1/h", "k").await.unwrap().verdict.decision.allowed());
}

/// A store where resets arrive a round trip late, and everything else at once.
#[derive(Clone, Debug, Default)]
struct LateResets(Arc<MemoryStore>);

impl Store for LateResets {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if ask.op != Op::Reset {
            return self.0.decide(ask, now);
        }
        let (memory, keyed) = (self.0.clone(), ask.limits[0]);
        let (scope, limit) = (keyed.scope.clone(), keyed.limit.clone());
        let key: Vec<u8> = keyed.key.into();
        Reply::later(async move {
            tokio::time::sleep(ROUND_TRIP).await;
            let limits = [KeyedLimit { scope: &scope, key: &key, limit: &limit }];
            let ask = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Reset };
            memory.decide(&ask, now).now()
        })
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.reserve(turn, now)
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_from_before_a_reset_arrived_is_not_believed_after_it() {
    let scene = Scene::new(LateResets::default(), RuntimeClock::start());
    assert!(scene.take("1/h", "k").await.unwrap().verdict.decision.allowed());
    let reset = scene.ask("1/h", "k", 0, Op::Reset);
    assert!(!scene.take("1/h", "k").await.unwrap().verdict.decision.allowed());
    reset.await.unwrap();
    assert!(scene.take("1/h", "k").await.unwrap().verdict.decision.allowed());
}

#[test]
fn each_policy_of_an_engine_has_it_or_has_it_not() {
    let engine = |store: Arc<dyn Store>| {
        Engine::builder()
            .store(store)
            .clock(ManualClock::default())
            .policy("default", "1/h")
            .policy("on", Policy::all().limit("", "1/h").deny_cache(true))
            .policy("off", Policy::all().limit("", "1/h").deny_cache(false))
            .build()
            .unwrap()
    };
    let remote = Scripted::new(Way::AtOnce);
    let rows: [(Arc<dyn Store>, &str, Source); 5] = [
        (Arc::new(remote.clone()), "default", Source::DenyCache),
        (Arc::new(remote.clone()), "on", Source::DenyCache),
        (Arc::new(remote), "off", Source::Store),
        (Arc::new(MemoryStore::default()), "default", Source::Store),
        (Arc::new(MemoryStore::default()), "on", Source::Store),
    ];
    for (store, policy, expected) in rows {
        let engine = engine(store);
        let ask = || engine.check(policy, "k").now().unwrap();
        let (_, refused, again) = (ask(), ask(), ask());
        assert_eq!((refused.source, again.source), (Source::Store, expected), "{policy}");
        assert_eq!(refused.decision, again.decision, "{policy}");
    }
}

#[test]
fn each_policy_remembers_for_its_own_time() {
    let (store, clock) = (Scripted::new(Way::AtOnce), ManualClock::default());
    let policy = || Policy::all().limit("", "1/h");
    let engine = Engine::builder()
        .store(store)
        .clock(clock.clone())
        .policy("short", policy().deny_cache_ttl(Duration::from_millis(100)))
        .policy("default", policy())
        .policy("long", policy().deny_cache_ttl(Duration::from_secs(10)))
        .policy("off", policy().deny_cache(false))
        .build()
        .unwrap();
    let sources = || {
        ["short", "default", "long", "off"].map(|policy| {
            let source = engine.check(policy, "k").now().unwrap().source;
            if source == Source::DenyCache { "cache" } else { "store" }
        })
    };
    sources(); // admitted
    sources(); // refused
    let rows = [
        (99, ["cache", "cache", "cache", "store"]),
        (1, ["store", "cache", "cache", "store"]),
        (899, ["store", "cache", "cache", "store"]),
        (1, ["cache", "store", "cache", "store"]),
        (8999, ["store", "store", "cache", "store"]),
        (1, ["cache", "cache", "store", "store"]),
    ];
    for (advance_ms, expected) in rows {
        clock.advance(Duration::from_millis(advance_ms));
        assert_eq!(sources(), expected, "{advance_ms}");
    }
}

#[test]
fn a_cache_around_a_cache_believes_no_refusal_for_longer() {
    let (store, clock) = (Scripted::new(Way::AtOnce), ManualClock::default());
    let inner = DenyCache::with_clock(store.clone(), clock.clone());
    let scene = Scene::new(inner, clock.clone());
    let ask = || drop(scene.take("1/h", "k"));
    ask();
    ask();
    clock.advance(Duration::from_millis(900));
    ask();
    let before = store.calls();
    clock.advance(Duration::from_millis(100));
    ask();
    assert_eq!(store.calls(), before + 1);
}

/// A store with a deadline that is a bit more than one round trip.
#[derive(Clone, Debug)]
struct Bounded(Scripted);

const DEADLINE: Duration = Duration::from_millis(25);

impl Store for Bounded {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.0.decide(request, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.reserve(request, now)
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

#[cfg(feature = "breaker")]
#[tokio::test(start_paused = true)]
async fn a_check_that_waits_for_anothers_answer_and_then_asks_keeps_one_deadline() {
    let scripted = Scripted::new(Way::AtOnce);
    let scene = Scene::new(Bounded(scripted.clone()), RuntimeClock::start());
    assert!(scene.take("1/s burst 2", "k").now().unwrap().verdict.decision.allowed());
    let whole = || scene.ask("1/s burst 2", "k", 2, Op::Take);
    assert!(!whole().now().unwrap().verdict.decision.allowed());
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    scripted.behave(Way::After(Duration::from_millis(20)));
    let start = tokio::time::Instant::now();
    let (first, second) = tokio::join!(whole(), async { (whole().await, start.elapsed()) });
    assert!(first.unwrap().verdict.decision.allowed());
    let (second, took) = second;
    assert_eq!(second.unwrap_err().kind(), StoreErrorKind::Timeout);
    assert!(took <= DEADLINE + Duration::from_millis(5), "{took:?}");
}
