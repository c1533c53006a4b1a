//! Overrides at run time: one list of claims, over a store in memory.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Changed, Check, DenyCache, Engine, Key, ManualClock, MemoryStore, Op, Override, OverrideChange,
    OverrideError, OverrideStore, Policy, PolicyProblem, ReserveReply, ReserveRequest, Source,
    Store, StoreErrorKind, StoreReply, StoreRequest, StoreResult, Timestamp,
};

use tidegate_testkit::scripted::{Scripted, Way};

fn engine(store: &Arc<MemoryStore>) -> Engine<ManualClock> {
    let own = |text: &str| Override::Limit(text.parse().unwrap());
    let api = Policy::all()
        .limit("", "5/h")
        .with_override("partner", own("50/h"))
        .with_override("monitor", Override::Allow)
        .with_override_for("10.0.0.0/8".parse().unwrap(), Override::Allow);
    Engine::builder()
        .store(store.clone())
        .clock(ManualClock::default())
        .policy("api", api)
        .policy("places", "concurrency 2")
        .policy("queue", Policy::shaper("1/s max-wait 1s"))
        .policy("plan", Policy::all().limit("hour", "5/h").limit("day", "9/day"))
        .build()
        .unwrap()
}

fn limit_of(engine: &Engine<ManualClock>, key: &str) -> u64 {
    engine.check("api", key).now().unwrap().decision.limit()
}

#[test]
fn what_is_set_beats_what_was_configured_until_it_is_removed() {
    let engine = engine(&Arc::default());
    let overrides = engine.overrides();
    for (key, text, limit, before) in [
        ("partner", "7/h", 7, 50),
        ("partner", "block", 0, 50),
        ("monitor", "block", 0, u64::MAX),
        ("user-42", "allow", u64::MAX, 5),
        ("10.1.2.3", "3/h", 3, u64::MAX),
    ] {
        overrides.set("api", key, text, None).now().unwrap();
        assert_eq!(limit_of(&engine, key), limit, "{key} {text}");
        assert_eq!(overrides.get("api", key).now().unwrap().unwrap().text, text);
        assert!(overrides.remove("api", key).now().unwrap());
        assert_eq!(limit_of(&engine, key), before, "{key}");
        assert_eq!(overrides.get("api", key).now().unwrap(), None);
        assert!(!overrides.remove("api", key).now().unwrap());
    }
    assert!(overrides.list().now().unwrap().is_empty());
}

#[test]
fn a_network_is_spelt_in_one_way_and_its_keys_follow() {
    let engine = engine(&Arc::default());
    let overrides = engine.overrides();
    overrides.set("api", "10.6.9.9/16", "2/h", None).now().unwrap();
    overrides.set("api", "::ffff:10.6.0.0/112", "3/h", None).now().unwrap();
    overrides.set("api", "2001:DB8::/32", "block", None).now().unwrap();
    overrides.set("api", "::ffff:10.6.6.6", "4/h", None).now().unwrap();
    overrides.set("api", "10.6.6.6", "block", None).now().unwrap();
    overrides.set("api", "2001:0DB9::5", "block", None).now().unwrap();
    let keys: Vec<_> = overrides.list().now().unwrap().into_iter().map(|it| it.key).collect();
    let keys: Vec<_> = keys.iter().map(|key| String::from_utf8_lossy(key)).collect();
    assert_eq!(keys, ["10.6.0.0/16", "10.6.6.6", "2001:db8::/32", "2001:db9::5"]);
    for (key, limit) in [
        ("10.6.0.1", 3),
        ("10.6.6.6", 0),
        ("10.7.0.1", u64::MAX), // as configured
        ("2001:db8:1:2::/64", 0),
        ("2001:db9:0::5", 0),
        ("2001:db9::6", 5),
        ("user-42", 5),
    ] {
        assert_eq!(limit_of(&engine, key), limit, "{key}");
    }
    assert!(overrides.remove("api", "10.6.1.1/16").now().unwrap());
    assert_eq!(limit_of(&engine, "10.6.0.1"), u64::MAX);
}

#[test]
fn another_limit_gives_nothing_back() {
    for (before, after) in [
        ("5/h", "5/h burst 5"),
        ("fixed-window 5/h", "fixed-window 5/h"),
        ("sliding-log 5/h", "sliding-log 5/h"),
        ("quota 5/day", "quota 5/day"),
        // What names no algorithm counts as the policy does.
        ("fixed-window 5/h", "5/h"),
        ("sliding-window 5/h buckets 60", "5/h"),
        ("sliding-log 5/h", "5/h"),
        ("token-bucket 5/h", "5/h"),
        ("quota 5/day", "5"),
    ] {
        let engine = Engine::builder().clock(ManualClock::default()).policy("p", before);
        let engine = engine.build().unwrap();
        let take = |cost| {
            let check = Check { policy: "p", key: Key::One(b"k"), cost };
            engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
        };
        assert!(take(5));
        // Set and removed again and again, it never admits what was spent.
        for _ in 0..3 {
            engine.overrides().set("p", "k", after, None).now().unwrap();
            assert!(!take(1), "{before}, then {after}");
            engine.overrides().remove("p", "k").now().unwrap();
            assert!(!take(1), "{before} again");
        }
    }
}

#[test]
fn engines_that_share_a_store_follow_when_they_refresh() {
    let store = Arc::default();
    let (here, there) = (engine(&store), engine(&store));
    there.overrides().set("api", "k", "9/h", None).now().unwrap();
    assert_eq!(limit_of(&here, "k"), 5);
    assert!(here.overrides().refresh().now().unwrap());
    assert!(!here.overrides().refresh().now().unwrap(), "nothing has changed since");
    assert_eq!(limit_of(&here, "k"), 9);
    there.overrides().remove("api", "k").now().unwrap();
    assert!(here.overrides().refresh().now().unwrap());
    assert_eq!(limit_of(&here, "k"), 5);
}

#[test]
fn an_override_ends_by_itself() {
    let clock = ManualClock::default();
    let store = Arc::new(MemoryStore::default());
    let builder = Engine::builder().store(store.clone()).clock(clock.clone());
    let engine = builder.policy("api", "5/h").build().unwrap();
    let (overrides, minute) = (engine.overrides(), Duration::from_mins(1));
    overrides.set("api", "10.0.0.0/8", "allow", None).now().unwrap();
    overrides.set("api", "10.0.0.1", "block", Some(minute)).now().unwrap();
    assert_eq!(limit_of(&engine, "10.0.0.1"), 0);
    clock.advance(minute / 2);
    let left = overrides.get("api", "10.0.0.1").now().unwrap().unwrap().life;
    assert_eq!(left, Some(minute / 2));
    // One that loads it later knows when it ends, too.
    let late = engine.successor().policy("api", "5/h").build().unwrap();
    let fresh = Engine::builder().store(store).clock(clock.clone()).policy("api", "5/h");
    let fresh = fresh.build().unwrap();
    fresh.overrides().refresh().now().unwrap();
    for node in [&engine, &late, &fresh] {
        assert_eq!(limit_of(node, "10.0.0.1"), 0);
    }
    clock.advance(minute / 2);
    for node in [&engine, &late, &fresh] {
        assert_eq!(limit_of(node, "10.0.0.1"), u64::MAX, "the network's again");
        assert_eq!(node.overrides().get("api", "10.0.0.1").now().unwrap(), None);
    }
}

#[test]
fn queues_and_places_have_them_as_they_are_built_with_them() {
    let engine = engine(&Arc::default());
    let overrides = engine.overrides();
    let check = Check { policy: "queue", key: Key::One(b"k"), cost: 1 };
    overrides.set("queue", "k", "block", None).now().unwrap();
    assert!(!engine.reserve(&check).now().unwrap().accepted());
    overrides.set("places", "k", "concurrency 3", None).now().unwrap();
    let held: Vec<_> =
        (0..5).filter_map(|_| engine.acquire("places", "k").now().unwrap().permit).collect();
    assert_eq!(held.len(), 3);
    for (policy, text, problem) in [
        ("queue", "5/s", PolicyProblem::OverrideOfMany),
        ("plan", "5/s", PolicyProblem::OverrideOfMany),
        ("places", "gcra 5/s", PolicyProblem::OverrideOfAnotherKind),
        ("api", "concurrency 2", PolicyProblem::OverrideOfAnotherKind),
    ] {
        let set = overrides.set(policy, "k", text, None).now();
        assert_eq!(set, Err(OverrideError::DoesNotFit(problem)), "{policy} {text}");
    }
    assert_eq!(overrides.list().now().unwrap().len(), 2);
}

#[test]
fn what_a_newer_version_has_set_is_left_out_and_counted() {
    let store = Arc::new(MemoryStore::default());
    let engine = engine(&store);
    for (policy, key, text) in [
        ("api", "a", "warp-speed 5/h"),
        ("api", "b", "9/h"),
        ("plan", "c", "9/h"),
        ("unknown", "d", "warp-speed"),
    ] {
        let change = OverrideChange::Set { policy, key: key.as_bytes(), text, life: None };
        assert_eq!(store.change_override(&change, Timestamp::EPOCH).now(), Ok(Changed::Done));
    }
    engine.overrides().refresh().now().unwrap();
    assert_eq!(engine.overrides().skipped(), 2);
    assert_eq!((limit_of(&engine, "a"), limit_of(&engine, "b")), (5, 9));
    assert_eq!(engine.overrides().list().now().unwrap().len(), 4, "all are shown");
    assert!(engine.overrides().remove("unknown", "d").now().unwrap());
}

#[test]
fn the_table_is_bounded_in_entries_and_bytes_and_expired_ones_give_way() {
    let store = MemoryStore::default();
    let set = |key: &[u8], life| {
        let change = OverrideChange::Set { policy: "api", key, text: "allow", life };
        store.change_override(&change, Timestamp::EPOCH).now().unwrap()
    };
    let second = Some(Duration::from_secs(1));
    for n in 0..10_000_u32 {
        assert_eq!(set(&n.to_le_bytes(), second), Changed::Done);
    }
    assert_eq!(set(b"one more", None), Changed::Full);
    let later = Timestamp::EPOCH + Duration::from_secs(1);
    let change = OverrideChange::Set { policy: "api", key: b"one more", text: "allow", life: None };
    assert_eq!(store.change_override(&change, later).now(), Ok(Changed::Done));
    assert_eq!(store.overrides(0, later).now().unwrap().unwrap().entries.len(), 1);

    let store = MemoryStore::default();
    let set = |n: u32| {
        let key = [&n.to_le_bytes()[..], &[b'x'; 1020]].concat();
        let change = OverrideChange::Set { policy: "api", key: &key, text: "allow", life: None };
        store.change_override(&change, Timestamp::EPOCH).now().unwrap()
    };
    let fitted = (0..10_000).take_while(|n| set(*n) == Changed::Done).count();
    assert_eq!(fitted, (2 << 20) / (1024 + "api".len() + "allow".len()));
}

#[test]
fn the_next_engine_has_them_from_the_start() {
    let store = Arc::new(MemoryStore::default());
    let engine = engine(&store);
    engine.overrides().set("api", "k", "9/h", None).now().unwrap();
    engine.overrides().set("new", "k", "9/h", None).now().unwrap_err();
    let change = OverrideChange::Set { policy: "new", key: b"k", text: "8/h", life: None };
    store.change_override(&change, Timestamp::EPOCH).now().unwrap();
    engine.overrides().refresh().now().unwrap();
    let next = engine.successor().policy("api", "1/h").policy("new", "1/h").build().unwrap();
    assert_eq!(limit_of(&next, "k"), 9);
    assert_eq!(next.check("new", "k").now().unwrap().decision.limit(), 8);
    assert!(!next.overrides().refresh().now().unwrap(), "it knows the version");
}

#[test]
fn a_store_without_a_table_says_so_and_checks_go_on() {
    #[derive(Debug)]
    struct Plain(MemoryStore);
    impl Store for Plain {
        fn decide(&self, ask: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
            self.0.decide(ask, now)
        }
        fn reserve(&self, turn: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
            self.0.reserve(turn, now)
        }
    }
    let store = DenyCache::new(Plain(MemoryStore::default()));
    let engine = Engine::builder().store(store).policy("api", "5/h").build().unwrap();
    let error = engine.overrides().refresh().now().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    let set = engine.overrides().set("api", "k", "allow", None).now();
    assert_eq!(set, Err(OverrideError::Store(error)));
    assert!(engine.check("api", "k").now().unwrap().decision.allowed());
}

#[test]
fn a_refusal_under_the_old_limit_does_not_outlive_it() {
    let store = Scripted::new(Way::AtOnce);
    let engine = Engine::builder().store(store).clock(ManualClock::default());
    let engine = engine.policy("api", "fixed-window 1/h").build().unwrap();
    let source = || engine.check("api", "k").now().map(|it| (it.source, it.decision.allowed()));
    let expected = [(Source::Store, true), (Source::Store, false), (Source::DenyCache, false)];
    assert_eq!([source().unwrap(), source().unwrap(), source().unwrap()], expected);
    engine.overrides().set("api", "k", "fixed-window 3/h", None).now().unwrap();
    assert_eq!(source(), Ok((Source::Store, true)));
    engine.overrides().remove("api", "k").now().unwrap();
    assert!(!source().unwrap().1);
}
