//! The deny cache answers as the store in it would: nothing more is admitted, and nothing less, but for a second after
//! something was given back elsewhere.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use tidegate::{
    Clock, Decision, DenyCache, KeyedLimit, Limit, ManualClock, MemoryStore, Mode, Op, Reply,
    ReserveReply, ReserveRequest, Scope, Source, Store, StoreReply, StoreRequest, StoreResult,
    Timestamp, Verdict,
};

const SECOND_US: u64 = 1_000_000;

const LIMITS: [&str; 13] = [
    "4/s",
    "3/s burst 2",
    "100/min burst 6",
    "7919/s burst 5",
    "1/day burst 3",
    "token-bucket 7/min capacity 3",
    "fixed-window 3/s",
    "fixed-window 3/250ms",
    "sliding-window 4/s buckets 5",
    "sliding-window 6/4s buckets 8",
    "sliding-log 3/s",
    "quota 4/day at +05:30",
    "quota 5/10s rolling",
];

/// A store far away, by its own clock: each ask takes time to get there, and its answer to come back.
#[derive(Clone, Debug)]
struct Remote {
    memory: Arc<MemoryStore>,
    clock: ManualClock,
    there: Duration,
    back: Duration,
}

impl Store for Remote {
    fn decide(&self, ask: &StoreRequest<'_>, _: Timestamp) -> StoreResult<StoreReply> {
        self.clock.advance(self.there);
        let reply = self.memory.decide(ask, self.clock.now());
        self.clock.advance(self.back);
        reply
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.memory.reserve(turn, now)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    advance_us: u64,
    key: u8,
    cost: u64,
    op: Op,
    /// Asked by another node, straight of the store.
    elsewhere: bool,
}

#[derive(Clone, Debug)]
struct Scene {
    limits: Vec<Limit>,
    mode: Mode,
    there: Duration,
    back: Duration,
    steps: Vec<Step>,
}

/// Clocks go forward; another node takes part, or not.
fn scenes(latency_us: u64, with_others: bool) -> impl Strategy<Value = Scene> {
    let advance = prop_oneof![
        8 => Just(0),
        6 => 0..3_000_u64,
        9 => 0..200_000_u64,
        2 => 0..1_500_000_u64,
    ];
    let cost = prop_oneof![8 => Just(1), 4 => 0..6_u64, 1 => Just(u64::MAX)];
    let op = prop_oneof![
        20 => Just(Op::Take), 3 => Just(Op::Peek), 1 => Just(Op::Refund), 1 => Just(Op::Reset),
    ];
    let elsewhere =
        if with_others { prop::bool::weighted(0.3).boxed() } else { Just(false).boxed() };
    let key = prop_oneof![5 => Just(0), 1 => Just(1)];
    let step = (advance, key, cost, op, elsewhere);
    let step = step.prop_map(|(advance_us, key, cost, op, elsewhere)| Step {
        advance_us,
        key,
        cost,
        op,
        elsewhere,
    });
    let limits = prop::collection::vec(prop::sample::select(&LIMITS[..]), 1..4);
    let latency = 0..=latency_us;
    let steps = prop::collection::vec(step, 1..60);
    (limits, any::<bool>(), latency.clone(), latency, steps).prop_map(
        |(limits, any, there_us, back_us, steps)| Scene {
            limits: limits.iter().map(|text| text.parse().unwrap()).collect(),
            mode: if any { Mode::Any } else { Mode::All },
            there: Duration::from_micros(there_us),
            back: Duration::from_micros(back_us),
            steps,
        },
    )
}

/// Plays a scene, and says how many answers the cache gave that `cached` makes, or what is wrong with one.
fn judge<S: Store>(
    scene: &Scene,
    cached: impl FnOnce(Remote, ManualClock) -> S,
) -> Result<u64, String> {
    let (memory, clock) = (Arc::new(MemoryStore::with_max_bytes(1 << 20)), ManualClock::default());
    let remote = Remote {
        memory: memory.clone(),
        clock: clock.clone(),
        there: scene.there,
        back: scene.back,
    };
    let cache = cached(remote, clock.clone());
    // Without a journey and without others, a twin that is asked the same must answer the same.
    let alone = scene.there + scene.back == Duration::ZERO
        && scene.steps.iter().all(|step| !step.elsewhere);
    let twin = alone.then(|| MemoryStore::with_max_bytes(1 << 20));
    let names = (0..scene.limits.len()).map(|number| number.to_string());
    let scopes: Vec<Scope> = names.map(|name| Scope::named("p", &name)).collect();
    let (mut given_back_us, mut hits) = ([0; 2], 0);
    for (number, step) in scene.steps.iter().enumerate() {
        clock.advance(Duration::from_micros(step.advance_us));
        let now = clock.now();
        let key = [step.key];
        let keyed: Vec<KeyedLimit<'_>> = scene
            .limits
            .iter()
            .zip(&scopes)
            .map(|(limit, scope)| KeyedLimit { scope, key: &key, limit })
            .collect();
        let ask = StoreRequest { mode: scene.mode, limits: &keyed, cost: step.cost, op: step.op };
        let gives_back = matches!(step.op, Op::Refund | Op::Reset);
        if step.elsewhere {
            memory.decide(&ask, now).now().unwrap();
            if gives_back {
                given_back_us[usize::from(step.key)] = now.as_micros();
            }
            continue;
        }
        let truth =
            memory.decide(&StoreRequest { op: Op::Peek, ..ask }, now).now().unwrap().verdict;
        let answer = cache.decide(&ask, now).now().unwrap();
        let wrong = |what| Err(format!("step {number}: {what}: {answer:?}, not {truth:?}"));
        if let Some(twin) = &twin {
            let bare = twin.decide(&ask, now).now().unwrap().verdict;
            if bare.decision.allowed() != answer.verdict.decision.allowed() {
                return wrong("answered otherwise than without a cache");
            }
        }
        if answer.source == Source::Store {
            continue;
        }
        hits += 1;
        let since_us = now.as_micros() - given_back_us[usize::from(step.key)];
        if answer.verdict.decision.allowed() {
            return wrong("admitted by the cache");
        }
        if since_us >= SECOND_US && truth.decision.allowed() {
            return wrong("refused what the store would admit");
        }
        let retry = |decision: &Decision| decision.retry_after_us().unwrap_or(u64::MAX);
        if since_us >= SECOND_US && retry(&answer.verdict.decision) > retry(&truth.decision) {
            return wrong("told to wait for too long");
        }
        if retry(&answer.verdict.decision) == 0 {
            return wrong("refused, but told to retry at once");
        }
    }
    Ok(hits)
}

/// How many answers a cache gave over many scenes, or what was wrong with one.
fn hits(
    scenes: impl Strategy<Value = Scene>,
    judge: impl Fn(&Scene) -> Result<u64, String>,
) -> Result<u64, String> {
    let config = ProptestConfig { cases: 2500, failure_persistence: None, ..Default::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let hits = Cell::new(0);
    let result = TestRunner::new_with_rng(config, rng).run(&scenes, |scene| {
        hits.set(hits.get() + judge(&scene).map_err(TestCaseError::fail)?);
        Ok(())
    });
    result.map(|()| hits.get()).map_err(|error| error.to_string())
}

/// The cache is right, and was not right for want of something to say.
fn holds(scenes: impl Strategy<Value = Scene>) {
    let hits = hits(scenes, |scene| judge(scene, DenyCache::with_clock)).unwrap();
    assert!(hits > 5000, "only {hits} answers of the cache");
}

#[test]
fn alone_it_admits_exactly_what_the_store_admits() {
    holds(scenes(0, false));
}

#[test]
fn far_away_it_refuses_nothing_that_the_store_would_admit() {
    holds(scenes(20_000, false));
}

#[test]
fn what_others_give_back_is_seen_after_a_second_at_most() {
    holds(scenes(0, true));
    holds(scenes(20_000, true));
}

/// What a cache can get wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Nothing,
    AnswersOtherCosts,
    CountsFromTheReply,
    HoldsASecondWhateverTheWait,
    HoldsAsLongAsTheWait,
    KeepsWhatIsGivenBack,
}

/// A verdict, since when and until when.
type Remembered = (Verdict, u64, u64);

/// A deny cache in the fewest lines, with a fault.
#[derive(Debug)]
struct Faulty {
    store: Remote,
    clock: ManualClock,
    fault: Fault,
    refusals: Mutex<HashMap<(Vec<u8>, u64), Remembered>>,
}

impl Store for Faulty {
    fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        let key = ask.limits[0].key.to_vec();
        let mut refusals = self.refusals.lock().unwrap();
        if !matches!(ask.op, Op::Take | Op::Peek) {
            if self.fault != Fault::KeepsWhatIsGivenBack {
                refusals.retain(|(known, _), _| *known != key);
            }
            return self.store.decide(ask, now);
        }
        let cost = if self.fault == Fault::AnswersOtherCosts { 0 } else { ask.cost };
        let mut from_us = self.clock.steady_us();
        if let Some((verdict, since_us, until_us)) = refusals.get(&(key.clone(), cost))
            && from_us < *until_us
        {
            let decision = &verdict.decision;
            let retry_us =
                decision.retry_after_us().map(|us| us - (from_us - since_us).min(us - 1));
            let decision = Decision::refused(decision.limit(), 0, retry_us, 0);
            let verdict = Verdict { decision, ..*verdict };
            return Reply::ready(Ok(StoreReply {
                verdict,
                source: Source::DenyCache,
                permits: vec![],
                grant: None,
            }));
        }
        let reply = self.store.decide(ask, now).now().unwrap();
        if self.fault == Fault::CountsFromTheReply {
            from_us = self.clock.steady_us();
        }
        if !reply.verdict.decision.allowed() {
            let wait_us = reply.verdict.decision.retry_after_us().unwrap_or(SECOND_US);
            let hold_us = match self.fault {
                Fault::HoldsASecondWhateverTheWait => SECOND_US,
                Fault::HoldsAsLongAsTheWait => wait_us,
                _ => wait_us.min(SECOND_US),
            };
            refusals.insert((key, cost), (reply.verdict, from_us, from_us + hold_us));
        }
        Reply::ready(Ok(reply))
    }

    fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.store.reserve(turn, now)
    }
}

#[test]
fn a_cache_that_is_wrong_on_purpose_is_caught() {
    let passes = |fault, scenes| {
        let judge = |scene: &Scene| {
            judge(scene, |store, clock| Faulty { store, clock, fault, refusals: Mutex::default() })
        };
        hits(scenes, judge).is_ok()
    };
    assert!(passes(Fault::Nothing, scenes(0, false).boxed()), "the control itself is sound");
    assert!(passes(Fault::Nothing, scenes(20_000, true).boxed()), "the control itself is sound");
    for (fault, scenes) in [
        (Fault::AnswersOtherCosts, scenes(0, false).boxed()),
        (Fault::CountsFromTheReply, scenes(20_000, false).boxed()),
        (Fault::HoldsASecondWhateverTheWait, scenes(0, false).boxed()),
        (Fault::HoldsAsLongAsTheWait, scenes(0, true).boxed()),
        (Fault::KeepsWhatIsGivenBack, scenes(0, false).boxed()),
    ] {
        assert!(!passes(fault, scenes), "{fault:?} was not noticed");
    }
}
