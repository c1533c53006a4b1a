//! Limits that multiply the cost of a check: in an engine, over a store that answers later, with leases and permits.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Check, CheckError, Clock, DenyCache, Effective, Engine, Key, KeyedLimit, Limit, ManualClock,
    MemoryStore, Mode, OnStoreError, Op, Override, Permit, Policy, PolicyProblem, Released, Scope,
    Share, Source, Store, StoreErrorKind, StoreRequest,
};
use tidegate_testkit::scripted::{Scripted, Way};

type Timeless = Engine<ManualClock>;

fn plan() -> Policy {
    Policy::all()
        .limit("requests", "fixed-window 100/day")
        .limit("units", "fixed-window 200/day")
        .cost("units", 10)
}

fn engine(store: impl Store + 'static, policies: &[(&str, Policy)]) -> Timeless {
    let builder = Engine::builder().store(store).clock(ManualClock::default());
    let add = |builder: tidegate::EngineBuilder<_>, (name, policy): &(&str, Policy)| {
        builder.policy(*name, policy.clone())
    };
    let builder = builder.nodes(NonZeroU32::new(50).unwrap());
    policies.iter().fold(builder, add).build().unwrap()
}

fn check(policy: &str, cost: u64) -> Check<'_> {
    Check { policy, key: Key::One(b"user-42"), cost }
}

/// The limit that binds, and what it has left.
fn seen(engine: &Timeless, cost: u64, op: Op) -> (bool, &str, u64) {
    let answer = engine.ask(&check("plan", cost), op).now().unwrap();
    (answer.decision.allowed(), answer.binding, answer.decision.remaining())
}

#[test]
fn takes_peeks_refunds_and_resets_multiply_alike() {
    let engine = engine(MemoryStore::default(), &[("plan", plan())]);
    for (cost, op, expected) in [
        (3, Op::Peek, (true, "units", 170)),
        (3, Op::Take, (true, "units", 170)),
        (18, Op::Take, (false, "units", 170)),
        (17, Op::Take, (true, "units", 0)),
        (2, Op::Refund, (true, "units", 20)),
        (1000, Op::Refund, (true, "units", 200)),
        (9, Op::Take, (true, "units", 110)),
        (0, Op::Reset, (true, "units", 200)),
    ] {
        assert_eq!(seen(&engine, cost, op), expected, "{op:?} {cost}");
    }
}

#[test]
fn a_product_above_what_every_store_can_count_is_an_error_before_anything_is_charged() {
    let engine =
        engine(MemoryStore::default(), &[("plan", plan()), ("api", "5/h".try_into().unwrap())]);
    let cost_max = (1 << 53) / 10;
    for cost in [cost_max + 1, u64::MAX / 10 + 1, u64::MAX] {
        let expected = CheckError::CostTooHigh { policy: "plan".into(), cost, cost_max };
        for op in [Op::Take, Op::Peek, Op::Refund] {
            let error = engine.ask(&check("plan", cost), op).now().unwrap_err();
            assert_eq!(error, expected, "{op:?} {cost}");
        }
        let together = [check("api", 1), check("plan", cost)];
        assert_eq!(engine.ask_together(&together, Op::Take).now().unwrap_err(), expected);
        assert_eq!(engine.validate(&check("plan", cost), Op::Take), Err(expected));
    }
    assert!(!engine.ask(&check("plan", cost_max), Op::Take).now().unwrap().decision.allowed());
    assert_eq!(engine.ask(&check("api", 0), Op::Peek).now().unwrap().decision.remaining(), 5);
    assert_eq!(seen(&engine, 0, Op::Peek), (true, "units", 200));
}

#[test]
fn checks_in_one_step_are_multiplied_each_by_its_own_policy() {
    let engine =
        engine(MemoryStore::default(), &[("plan", plan()), ("api", "90/h".try_into().unwrap())]);
    let both = [check("plan", 2), check("api", 2), check("plan", 5)];
    let together = engine.ask_together(&both, Op::Take).now().unwrap();
    let left: Vec<_> = together.answers.iter().map(|answer| answer.decision.remaining()).collect();
    assert_eq!(left, [130, 88, 130]);
    assert_eq!(together.answers[0].binding, "units");
    let too_much = [check("plan", 10), check("api", 2), check("plan", 4)];
    assert!(!engine.ask_together(&too_much, Op::Take).now().unwrap().admitted());
    assert_eq!(seen(&engine, 0, Op::Peek), (true, "units", 130));
}

#[test]
fn permits_hold_their_multiple_and_give_it_back_after_a_reload_with_another_one() {
    let pool = |factor| {
        let pool = Policy::all().limit("calls", "concurrency 9").limit("places", "concurrency 10");
        pool.cost("places", factor)
    };
    let store = Arc::new(MemoryStore::default());
    let before = engine(store.clone(), &[("plan", pool(3))]);
    let held = before.acquire_for(&check("plan", 2)).now().unwrap();
    assert_eq!((held.answer.binding, held.answer.decision.remaining()), ("places", 4));
    assert!(before.acquire_for(&check("plan", 2)).now().unwrap().permit.is_none());
    let id = held.permit.map(Permit::into_id).unwrap();
    let after = engine(store, &[("plan", pool(2))]);
    assert_eq!(after.release(&check("plan", 1), &id).now(), Ok(Released::Yes));
    assert_eq!(seen(&after, 0, Op::Peek), (true, "places", 10));
}

#[test]
fn a_share_can_pay_for_a_check_where_the_whole_limit_can() {
    let store = Scripted::new(Way::Fails(StoreErrorKind::Unreachable));
    let engine = engine(store, &[("plan", plan().on_store_error(OnStoreError::Local))]);
    let answers: Vec<_> =
        (0..3).map(|_| engine.ask(&check("plan", 1), Op::Take).now().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer.source == Source::Local));
    // A fiftieth of 200 is 4, and a check takes 10.
    let allowed: Vec<_> = answers.iter().map(|answer| answer.decision.allowed()).collect();
    assert_eq!(allowed, [true, false, false]);
}

/// However little is in force, a check can be admitted some time.
#[test]
fn a_reduced_limit_can_pay_for_a_check_where_the_whole_limit_can() {
    let load = Effective::default();
    load.set(20);
    let down = || Scripted::new(Way::Fails(StoreErrorKind::Unreachable));
    for limit in ["100/s burst 20", "token-bucket 100/s capacity 20", "fixed-window 100/s"] {
        let single = Policy::all().limit_by("", "global", limit).cost("", 10);
        let single = single.adaptive("", &load);
        let own = Policy::all().limit("", limit).cost("", 10).adaptive("", &load);
        let own = own.with_override("user-42", Override::Limit("10/day".parse().unwrap()));
        let api = Policy::share(Share::of("total", "tenant"));
        let policies = [("total", single), ("plan", own), ("api", api)];
        for (policy, _) in &policies {
            for engine in [engine(MemoryStore::default(), &policies), engine(down(), &policies)] {
                let answer = engine.ask(&check(policy, 1), Op::Take).now().unwrap();
                assert!(answer.decision.allowed(), "{policy} {limit} {:?}", answer.source);
                let refused = engine.ask(&check(policy, 1), Op::Take).now().unwrap();
                let is_finite = refused.decision.retry_after().is_some();
                assert!(refused.decision.allowed() || is_finite, "{policy} {limit}");
            }
        }
    }
}

/// The part of a tenant can pay for a check of one unit as well.
#[test]
fn the_part_of_a_tenant_can_pay_for_a_check() {
    let clock = ManualClock::default();
    let total = Policy::all().limit_by("", "global", "1000/s burst 20").cost("", 10);
    let builder = Engine::builder().clock(clock.clone()).policy("total", total);
    let engine =
        builder.policy("api", Policy::share(Share::of("total", "tenant"))).build().unwrap();
    let mut admitted = [0; 4];
    for step in 0..4_000 {
        clock.advance(Duration::from_millis(1));
        let tenant = ["a", "b", "c", "d"][step % 4];
        let allowed = engine.check("api", tenant).now().unwrap().decision.allowed();
        admitted[step % 4] += u64::from(allowed && step >= 2_000);
    }
    // 100 checks a second of 250 each.
    assert!(admitted.iter().all(|admitted| *admitted >= 40), "{admitted:?}");
}

#[test]
fn a_key_whose_own_limit_no_check_fits_in_is_told() {
    let single = |own: &str| {
        let single = Policy::all().limit("units", "200/day").cost("units", 10);
        let single = single.with_override("user-42", Override::Limit(own.parse().unwrap()));
        Engine::builder().policy("plan", single).build().map_err(|error| error.problem)
    };
    assert!(single("10/day").is_ok());
    let never = PolicyProblem::CostAboveLimit { limit: "units".into(), cost: 10, ceiling: 9 };
    assert_eq!(single("9/day").unwrap_err(), never);
    let engine = single("10/day").unwrap();
    let set = |text| engine.overrides().set("plan", "ann", text, None).now();
    assert!(set("30/day").is_ok() && set("9/day").is_err());
}

/// What is remembered of a refusal is that of the same multiple.
#[test]
fn a_refusal_is_remembered_for_one_multiple() {
    let (store, clock) = (Scripted::new(Way::AtOnce), ManualClock::default());
    let cache = DenyCache::with_clock(store, clock.clone());
    let limit: Limit = "fixed-window 10/day".parse().unwrap();
    let take = |factor: u64| {
        let scope = Scope::named("plan", "").costing(NonZeroU64::new(factor).unwrap());
        let limits = [KeyedLimit { scope: &scope, key: b"ann", limit: &limit }];
        let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
        let reply = cache.decide(&request, clock.now()).now().unwrap();
        (reply.verdict.decision.allowed(), reply.source)
    };
    assert_eq!(take(6), (true, Source::Store));
    assert_eq!([take(6), take(6)], [(false, Source::Store), (false, Source::DenyCache)]);
    // Four are left.
    assert_eq!(take(4), (true, Source::Store));
}

#[cfg(feature = "leases")]
mod leased {
    use tidegate::{Leases, StoreReply};

    use super::*;

    const STEP: Duration = Duration::from_micros(250);

    /// Two limits on one key, of which the second is charged a multiple.
    struct Pair {
        scopes: [Scope; 2],
        limits: [Limit; 2],
    }

    impl Pair {
        fn new(texts: [&str; 2], factor: u64) -> Self {
            let dear = Scope::named("plan", "units").costing(NonZeroU64::new(factor).unwrap());
            let scopes = [Scope::named("plan", "requests"), dear];
            Self { scopes, limits: texts.map(|text| text.parse().unwrap()) }
        }

        fn take(&self, store: &impl Store, clock: &ManualClock) -> StoreReply {
            let keyed = |n: usize| KeyedLimit {
                scope: &self.scopes[n],
                key: b"hot",
                limit: &self.limits[n],
            };
            let limits = [keyed(0), keyed(1)];
            let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
            store.decide(&request, clock.now()).now().unwrap()
        }
    }

    #[test]
    fn a_fleet_never_admits_more_units_than_the_limit_and_nearly_as_many() {
        let (factor, per_step, burst) = (4, 0.5, 400.0);
        let pair = Pair::new(["1000/s", "2000/s burst 400"], factor);
        for nodes in [1, 4, 16] {
            let (clock, store) = (ManualClock::default(), Arc::new(MemoryStore::default()));
            let node = |_| Leases::with_clock(store.clone(), clock.clone());
            let nodes: Vec<_> = (0..nodes).map(node).collect();
            let (mut run, mut worst, mut total) = (0.0_f64, 0.0_f64, 0.0);
            for _ in 0..40_000 {
                clock.advance(STEP);
                let admits = |node: &&_| pair.take(*node, &clock).verdict.decision.allowed();
                let units = f64::from(u32::try_from(nodes.iter().filter(admits).count()).unwrap())
                    * f64::from(u32::try_from(factor).unwrap());
                run = (run - per_step).max(0.0) + units;
                (worst, total) = (worst.max(run), total + units);
            }
            assert!(worst <= burst + 1e-6, "{} nodes admit {worst} at once", nodes.len());
            assert!(total >= 0.95 * 20_000.0, "{} nodes use {total}", nodes.len());
        }
    }

    #[test]
    fn one_node_answers_what_the_store_would() {
        let pair = Pair::new(["fixed-window 900/h", "fixed-window 2003/h"], 3);
        let clock = ManualClock::default();
        let (leases, memory) =
            (Leases::with_clock(MemoryStore::default(), clock.clone()), MemoryStore::default());
        let mut by_lease = 0;
        for number in 0..700 {
            clock.advance(STEP);
            let (leased, plain) = (pair.take(&leases, &clock), pair.take(&memory, &clock));
            assert_eq!(leased.verdict.binding, plain.verdict.binding, "check {number}");
            let (leased_decision, plain) = (leased.verdict.decision, plain.verdict.decision);
            assert_eq!(leased_decision.allowed(), plain.allowed(), "check {number}");
            if plain.allowed() {
                assert_eq!(leased_decision.remaining(), plain.remaining(), "check {number}");
            }
            by_lease += u32::from(leased.source == Source::Lease);
        }
        assert!(by_lease > 300, "{by_lease}");
    }
}
