//! Overrides of one limit of a policy with several: declared and at run time, on every node.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Check, Engine, HashedKeys, Key, KeyHasher, Limit, ManualClock, MemoryStore, Op, Override,
    OverrideError, Policy, PolicyProblem, Store,
};

type Timeless = Engine<ManualClock>;

fn plan() -> Policy {
    let plan = Policy::all().limit("second", "fixed-window 10/s");
    plan.limit("day", "fixed-window 100/day")
}

fn one(name: &str, limit: &str) -> Override {
    Override::OneLimit { name: name.to_owned(), limit: limit.parse().unwrap() }
}

fn engine(store: impl Store + 'static, clock: &ManualClock, plan: Policy) -> Timeless {
    Engine::builder().store(store).clock(clock.clone()).policy("plan", plan).build().unwrap()
}

/// The limit that binds, its ceiling, and what would be left of it after this cost.
fn seen<'e>(engine: &'e Timeless, key: &str, cost: u64) -> (&'e str, u64, u64) {
    let check = Check { policy: "plan", key: Key::One(key.as_bytes()), cost };
    let answer = engine.ask(&check, Op::Peek).now().unwrap();
    (answer.binding, answer.decision.limit(), answer.decision.remaining())
}

#[test]
fn only_the_named_limit_of_only_that_key_changes() {
    let declared = plan()
        .with_override("ann", one("day", "fixed-window 5/day"))
        .with_override("ben", one("second", "fixed-window 500/s"))
        .with_override("cem", one("second", "fixed-window 500/s"))
        .with_override("cem", one("day", "fixed-window 200/day"))
        .with_override_for("10.0.0.0/8".parse().unwrap(), one("day", "fixed-window 7/day"))
        .with_override("dag", Override::Block)
        .with_override("dag", one("day", "fixed-window 900/day"));
    let engine = engine(MemoryStore::default(), &ManualClock::default(), declared);
    for (key, expected) in [
        ("ann", ("day", 5, 4)),
        ("ben", ("day", 100, 99)),
        ("cem", ("day", 200, 199)),
        ("10.1.2.3", ("day", 7, 6)),
        ("eva", ("second", 10, 9)),
        ("dag", ("plan", 0, 0)), // blocked as a whole
    ] {
        assert_eq!(seen(&engine, key, 1), expected, "{key}");
    }
    let either = Policy::any().limit("a", "fixed-window 2/day").limit("b", "fixed-window 3/day");
    let either = either.with_override("ann", one("a", "fixed-window 9/day"));
    let engine = self::engine(MemoryStore::default(), &ManualClock::default(), either);
    assert_eq!((seen(&engine, "ann", 1), seen(&engine, "ben", 1)), (("a", 9, 8), ("b", 3, 2)));
}

#[test]
fn a_limit_that_is_not_there_or_of_another_kind_is_told() {
    let problem = |own: Override| {
        let plan = plan().with_override("ann", own);
        Engine::builder().policy("plan", plan).build().err().map(|error| error.problem)
    };
    assert_eq!(problem(one("dya", "5/day")), Some(PolicyProblem::NoSuchLimit("dya".into())));
    assert_eq!(problem(one("day", "concurrency 5")), Some(PolicyProblem::OverrideOfAnotherKind));
    assert_eq!(problem(one("day", "5/day")), None);
}

#[test]
fn at_run_time_a_key_has_one_for_each_limit_on_every_node() {
    let (clock, store) = (ManualClock::default(), Arc::new(MemoryStore::default()));
    let [here, there] = [0; 2].map(|_| engine(store.clone(), &clock, plan()));
    let overrides = here.overrides();
    let minute = Some(Duration::from_mins(1));
    overrides.set_limit("plan", "day", "ann", "5/day", None).now().unwrap();
    overrides.set_limit("plan", "second", "ann", "3/s", minute).now().unwrap();
    overrides.set_limit("plan", "day", "10.0.0.0/8", "7/day", None).now().unwrap();
    assert_eq!(seen(&there, "ann", 1), ("second", 10, 9));
    assert!(there.overrides().refresh().now().unwrap());
    for engine in [&here, &there] {
        assert_eq!(seen(engine, "ann", 1), ("second", 3, 2));
        assert_eq!(seen(engine, "10.1.2.3", 1), ("day", 7, 6));
        assert_eq!(seen(engine, "ben", 1), ("second", 10, 9));
        assert_eq!(engine.overrides().skipped(), 0);
    }
    let of_ann = there.overrides().of_key("plan", "ann").now().unwrap();
    let names: Vec<_> = of_ann.iter().map(|it| (it.limit_name().unwrap(), it.value())).collect();
    assert_eq!(names, [("day", "5/day"), ("second", "3/s")]);
    assert!(of_ann.iter().all(|it| it.identifier() == b"ann"));

    // The limit of the second ends, that of the day stays, also after a reload.
    clock.advance(Duration::from_mins(1));
    let next = there.successor().policy("plan", plan()).build().unwrap();
    assert_eq!(seen(&next, "ann", 1), ("day", 5, 4));
    assert_eq!(overrides.remove_limit("plan", "day", "ann").now(), Ok(true));
    assert_eq!(seen(&here, "ann", 1), ("second", 10, 9));
    let renamed = Policy::all().limit("second", "10/s").limit("week", "100/week");
    let renamed = here.successor().policy("plan", renamed).build().unwrap();
    assert_eq!(renamed.overrides().skipped(), 1, "of a limit that is not there any more");
}

#[test]
fn a_declared_one_is_beaten_by_one_of_run_time_and_comes_back() {
    let declared = plan().with_override("ann", one("day", "fixed-window 5/day"));
    let engine = engine(MemoryStore::default(), &ManualClock::default(), declared);
    engine.overrides().set_limit("plan", "day", "ann", "4/day", None).now().unwrap();
    assert_eq!(seen(&engine, "ann", 1), ("day", 4, 3));
    engine.overrides().remove_limit("plan", "day", "ann").now().unwrap();
    assert_eq!(seen(&engine, "ann", 1), ("day", 5, 4));
}

#[test]
fn wrong_names_and_limits_change_nothing() {
    let engine = engine(MemoryStore::default(), &ManualClock::default(), plan());
    let set = |limit, text| engine.overrides().set_limit("plan", limit, "ann", text, None).now();
    let unknown = PolicyProblem::NoSuchLimit("dya".into());
    assert_eq!(set("dya", "5/day"), Err(OverrideError::DoesNotFit(unknown)));
    for text in ["allow", "block", "0/day", ""] {
        assert!(matches!(set("day", text), Err(OverrideError::BadLimit(_))), "{text}");
    }
    let whole = engine.overrides().set("plan", "ann", "5/day", None).now();
    assert_eq!(whole, Err(OverrideError::DoesNotFit(PolicyProblem::OverrideOfMany)));
    assert_eq!(engine.overrides().list().now(), Ok(vec![]));
}

/// What versions without these overrides read is no limit to them, so that they leave it out, and count it.
#[test]
fn no_older_version_takes_one_for_a_limit_of_the_whole_policy() {
    let engine = engine(MemoryStore::default(), &ManualClock::default(), plan());
    engine.overrides().set_limit("plan", "day", "ann", "5/day", None).now().unwrap();
    let stored = &engine.overrides().list().now().unwrap()[0];
    assert!(stored.text.parse::<Override>().is_err());
    let limit: Limit = "fixed-window 100/day".parse().unwrap();
    assert!(limit.with_numbers(&stored.text).is_err());
    assert_eq!((&*stored.key, stored.text.as_str()), (&b"ann\0day"[..], "> 5/day"));
}

#[test]
fn hashed_keys_are_found_by_their_hash() {
    let store = HashedKeys::new(Arc::new(MemoryStore::default()), KeyHasher::new([7; 16]));
    let engine = engine(store, &ManualClock::default(), plan());
    engine.overrides().set_limit("plan", "day", "ann", "5/day", None).now().unwrap();
    assert_eq!(seen(&engine, "ann", 1), ("day", 5, 4));
    let stored = engine.overrides().of_key("plan", "ann").now().unwrap();
    assert!(KeyHasher::is_hash(stored[0].identifier()));
}

#[test]
fn permits_are_released_under_the_keys_own_limit() {
    let pool = Policy::all().limit("calls", "concurrency 9").limit("places", "concurrency 1");
    let pool = pool.with_override("ann", one("places", "concurrency 2 lease 5s"));
    let clock = ManualClock::default();
    let engine = engine(MemoryStore::default(), &clock, pool);
    let held = [0; 2].map(|_| engine.acquire("plan", "ann").now().unwrap());
    assert!(held.iter().all(|acquired| acquired.permit.is_some()));
    assert!(engine.acquire("plan", "ann").now().unwrap().permit.is_none());
    drop(held);
    assert_eq!(seen(&engine, "ann", 0), ("places", 2, 2));
}
