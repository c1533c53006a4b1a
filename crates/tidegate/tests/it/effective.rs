//! Adaptive limits: what is in force reaches every store and every answer, and nothing else changes.

use std::time::Duration;

use tidegate::{
    Check, Effective, Engine, EngineBuilder, Key, Limit, ManualClock, Op, Override, Policy,
    Question, Source, StoreErrorKind,
};

use tidegate_testkit::scripted::{Scripted, Way};

fn builder() -> EngineBuilder<ManualClock> {
    Engine::builder().clock(ManualClock::default())
}

/// A policy of one limit that moves.
fn moving(limit: &str) -> (Policy, Effective) {
    let effective = Effective::default();
    let limit: Limit = limit.parse().unwrap();
    (Policy::all().limit("", limit).adaptive("", &effective), effective)
}

fn take(engine: &Engine<ManualClock>, key: &str, cost: u64) -> (bool, u64, u64) {
    let check = Check { policy: "p", key: Key::One(key.as_bytes()), cost };
    let decision = engine.ask(&check, Op::Take).now().unwrap().decision;
    (decision.allowed(), decision.limit(), decision.remaining())
}

#[test]
fn every_answer_shows_what_is_in_force() {
    for (text, in_force, ceiling) in [
        ("100/min burst 20", 30, 6),
        ("token-bucket 100/min capacity 20", 30, 6),
        ("fixed-window 100/min", 30, 30),
        ("sliding-window 100/min", 30, 30),
        ("sliding-log 100/min", 30, 30),
        ("quota 100/day", 100, 100),
    ] {
        let (policy, effective) = moving(text);
        let engine = builder().policy("p", policy).build().unwrap();
        let declared = engine.check("p", "k").now().unwrap();
        assert_eq!(declared.limit.as_deref(), Some(&text.parse().unwrap()), "{text}");
        effective.set(30);
        for op in [Op::Take, Op::Peek, Op::Refund, Op::Reset] {
            let check = Check { policy: "p", key: Key::One(b"k"), cost: 1 };
            let answer = engine.ask(&check, op).now().unwrap();
            let limit = answer.limit.unwrap();
            assert_eq!((limit.units(), limit.ceiling()), (in_force, ceiling), "{text} {op:?}");
            assert_eq!(answer.decision.limit(), ceiling, "{text} {op:?}");
        }
        assert_eq!(take(&engine, "k", ceiling), (true, ceiling, 0), "{text}");
        assert_eq!(take(&engine, "k", 1), (false, ceiling, 0), "{text}");
    }
}

#[test]
fn what_is_in_flight_is_not_scaled() {
    let (policy, effective) = moving("concurrency 3");
    let engine = builder().policy("p", policy).build().unwrap();
    effective.set(1);
    let held: Vec<_> = (0..3).map(|_| engine.acquire("p", "k").now().unwrap().permit).collect();
    assert!(held.iter().all(Option::is_some));
}

#[test]
fn counts_stay_when_it_moves() {
    let (policy, effective) = moving("fixed-window 100/h");
    let engine = builder().policy("p", policy).build().unwrap();
    for (units, cost, expected) in [
        (60, 50, (true, 60, 10)),
        (20, 1, (false, 20, 0)),
        (0, 1, (false, 1, 0)),
        (51, 1, (true, 51, 0)),
        (1000, 49, (true, 100, 0)),
    ] {
        effective.set(units);
        assert_eq!(take(&engine, "k", cost), expected, "{units}");
    }
}

#[test]
fn only_the_limit_that_is_named_moves() {
    let effective = Effective::default();
    let policy = Policy::all()
        .limit("second", "fixed-window 10/s")
        .limit("day", "fixed-window 20/day")
        .adaptive("second", &effective);
    let engine = builder().policy("p", policy).build().unwrap();
    effective.set(3);
    let answer = engine.check("p", "k").now().unwrap();
    assert_eq!((answer.binding, answer.decision.limit()), ("second", 3));
    assert_eq!(take(&engine, "k", 2), (true, 3, 0));
    assert_eq!(take(&engine, "k", 1), (false, 3, 0));
    effective.set(10);
    assert_eq!(take(&engine, "k", 7), (true, 10, 0), "nothing was charged for the refusal");
}

#[test]
fn a_keys_own_limit_moves_in_proportion() {
    let (policy, effective) = moving("fixed-window 100/h");
    let own = |text: &str| Override::Limit(text.parse().unwrap());
    let policy = policy
        .with_override("partner", own("fixed-window 5000/h"))
        .with_override("monitor", Override::Allow);
    let engine = builder().policy("p", policy).build().unwrap();
    engine.overrides().set("p", "at run time", "fixed-window 1000/h", None).now().unwrap();
    effective.set(30);
    let limit = |key| take(&engine, key, 1).1;
    assert_eq!(["k", "partner", "at run time", "monitor"].map(limit), [30, 1500, 300, u64::MAX]);
    effective.clear();
    assert_eq!(["k", "partner", "at run time"].map(limit), [100, 5000, 1000]);
}

#[test]
fn keys_can_have_their_own() {
    let (policy, effective) = moving("sliding-window 240/min");
    let engine = builder().policy("p", policy).build().unwrap();
    let limit = |key| take(&engine, key, 0).1;
    assert_eq!(effective.replace_keys([("/slow", 4), ("/slower", 0), ("/fast", u64::MAX)]), 0);
    assert_eq!(["/slow", "/slower", "/fast", "/"].map(limit), [4, 1, 240, 240]);
    effective.set(100); // all that have none of their own, as those beyond ten thousand do
    assert_eq!(["/slow", "/slower", "/fast", "/"].map(limit), [4, 1, 240, 100]);
    assert_eq!(effective.replace_keys([("/", 7)]), 0);
    assert_eq!(["/slow", "/slower", "/fast", "/"].map(limit), [100, 100, 100, 7]);
}

/// The identifier that a limit counts is the one whose units it goes by.
#[test]
fn of_several_identifiers_each_limit_goes_by_its_own() {
    let effective = Effective::default();
    let policy = Policy::all()
        .limit_by("client", "ip", "fixed-window 50/min")
        .limit_by("page", "url", "fixed-window 240/min")
        .adaptive("page", &effective);
    let engine = builder().policy("p", policy).build().unwrap();
    effective.set_for("/slow", 4);
    effective.set_for("203.0.113.9", 1);
    let binding = |url: &str| {
        let keys: [(&str, &[u8]); 2] = [("ip", b"203.0.113.9"), ("url", url.as_bytes())];
        let check = Check { policy: "p", key: Key::Named(&keys), cost: 0 };
        let answer = engine.ask(&check, Op::Take).now().unwrap();
        (answer.binding, answer.decision.limit())
    };
    assert_eq!(binding("/slow"), ("page", 4));
    assert_eq!(binding("/"), ("client", 50));
}

#[test]
fn what_is_not_enforced_is_only_shown() {
    let (policy, effective) = moving("fixed-window 100/h");
    effective.enforce(false);
    let engine = builder().policy("p", policy).build().unwrap();
    effective.set(5);
    effective.set_for("k", 3);
    assert_eq!(take(&engine, "k", 50), (true, 100, 50));
    assert_eq!((effective.units(), effective.units_for("k")), (Some(5), Some(3)));
    effective.enforce(true);
    assert_eq!(take(&engine, "k", 1), (false, 3, 0));
}

#[test]
fn a_shadow_policy_refuses_nobody_by_it() {
    let (policy, effective) = moving("fixed-window 100/h");
    let engine = builder().policy("p", policy.shadow(true)).build().unwrap();
    effective.set(1);
    assert!(!engine.check("p", "k").now().unwrap().shadow_denied);
    let answer = engine.check("p", "k").now().unwrap();
    assert!(answer.decision.allowed() && answer.shadow_denied);
}

#[test]
fn a_reload_stays_where_it_was() {
    let (policy, effective) = moving("fixed-window 100/h");
    let engine = builder().policy("p", policy).build().unwrap();
    effective.set(30);
    assert_eq!(take(&engine, "k", 30), (true, 30, 0));
    let next = Policy::all().limit("", "fixed-window 80/h").adaptive("", &effective);
    let engine = engine.successor().policy("p", next).build().unwrap();
    assert_eq!(take(&engine, "k", 1), (false, 30, 0));
    effective.set(50);
    assert_eq!(take(&engine, "k", 20), (true, 50, 0));
}

#[test]
fn a_refusal_under_less_is_not_believed_under_more_nor_the_other_way_round() {
    let store = Scripted::new(Way::AtOnce);
    let (policy, effective) = moving("fixed-window 100/h");
    let engine = builder().store(store.clone()).policy("p", policy).build().unwrap();
    let source = || engine.check("p", "k").now().unwrap().source;
    effective.set(10);
    assert_eq!(take(&engine, "k", 10), (true, 10, 0));
    assert_eq!([source(), source()], [Source::Store, Source::DenyCache]);
    effective.set(11);
    assert_eq!(take(&engine, "k", 1), (true, 11, 0), "at once, not after the second that it held");
    assert_eq!([source(), source()], [Source::Store, Source::DenyCache]);
    effective.set(9);
    assert_eq!(source(), Source::Store, "asked once, as the wait may be another");
    assert_eq!(source(), Source::DenyCache);
}

#[test]
fn a_node_alone_grants_its_share_of_what_is_in_force() {
    let store = Scripted::new(Way::Fails(StoreErrorKind::Unreachable));
    for (text, whole, half) in [("100/h burst 40", 10, 5), ("fixed-window 100/h", 25, 12)] {
        let (policy, effective) = moving(text);
        let engine = builder().store(store.clone()).nodes("4".parse().unwrap());
        let engine = engine.policy("p", policy).build().unwrap();
        assert_eq!(take(&engine, text, 0).1, whole, "{text}");
        effective.set(50);
        assert_eq!(take(&engine, text, 0).1, half, "{text}");
        let check = |key| Check { policy: "p", key: Key::One(key), cost: 0 };
        let together = engine.ask_together(&[check(b"a"), check(b"b")], Op::Take).now().unwrap();
        let limits = together.answers.iter().map(|answer| answer.decision.limit());
        assert!(limits.eq([half, half]), "{text}");
    }
}

#[test]
fn several_checks_in_one_step_go_by_what_is_in_force() {
    let (policy, effective) = moving("fixed-window 100/h");
    let engine = builder().policy("p", policy).policy("q", "fixed-window 100/h").build().unwrap();
    effective.set(3);
    let check = |policy, cost| Check { policy, key: Key::One(b"k"), cost };
    let step = |cost| engine.ask_together(&[check("p", cost), check("q", cost)], Op::Take).now();
    assert!(step(3).unwrap().admitted());
    let refused = step(1).unwrap();
    let limits: Vec<_> = refused.answers.iter().map(|answer| answer.decision.limit()).collect();
    assert!(!refused.admitted() && limits == [3, 100]);
    assert_eq!(refused.answers[1].decision.remaining(), 97, "not charged");
    // A limit that a check brings along moves, too.
    let own: Limit = "fixed-window 1000/h".parse().unwrap();
    let question = |policy| Question::new(engine.policy_ref(policy).unwrap(), Key::One(b"k"), 1);
    let with = [Question { limit: Some(&own), ..question("p") }, question("q")];
    let admitted = engine.decide_together(&with, Op::Take).now().unwrap();
    assert_eq!((admitted.admitted(), admitted.answers[0].decision.limit()), (true, 30));
}

/// A whole minute of a load that asks for more, while what is in force changes every second: by the state in memory.
#[test]
fn a_minute_of_changes_admits_no_more_than_the_whole_limit() {
    let clock = ManualClock::default();
    let (policy, effective) = moving("100/min burst 20");
    let engine = Engine::builder().clock(clock.clone()).policy("p", policy).build().unwrap();
    let mut admitted = 0;
    for tenth in 0..600_u64 {
        if tenth % 10 == 0 {
            effective.set(if tenth / 10 % 2 == 0 { 100 } else { 99 });
        }
        admitted += u64::from(take(&engine, "k", 1).0);
        clock.advance(Duration::from_millis(100));
    }
    assert!((115..=120).contains(&admitted), "{admitted}");
}

/// A unit of a lower rate is a longer time, and would be many of the whole one.
#[test]
fn a_refund_while_less_is_in_force_creates_nothing() {
    for text in [
        "100/min",
        "token-bucket 100/min capacity 100",
        "7919/h burst 100",
        "fixed-window 100/min",
        "sliding-window 100/min",
        "sliding-log 100/min",
    ] {
        let (policy, effective) = moving(text);
        let engine = builder().policy("p", policy).build().unwrap();
        assert_eq!(take(&engine, "k", 100), (true, 100, 0), "{text}");
        effective.set(1);
        let refund = Check { policy: "p", key: Key::One(b"k"), cost: 2 };
        let answer = engine.ask(&refund, Op::Refund).now().unwrap();
        assert_eq!((answer.decision.limit(), answer.decision.remaining()), (1, 0), "{text}");
        effective.clear();
        assert_eq!(take(&engine, "k", 0), (true, 100, 2), "{text}");

        let limiter = tidegate::Limiter::builder(text).clock(ManualClock::default());
        let (limiter, effective) = (limiter.build().unwrap(), Effective::default());
        assert!(limiter.follow(&effective) && limiter.check_n("k", 100).allowed());
        effective.set(1);
        let answer = limiter.refund("k", 2);
        assert_eq!((answer.limit(), answer.remaining()), (1, 0), "{text}");
        effective.clear();
        assert_eq!(limiter.peek("k", 0).remaining(), 2, "{text}");
    }
}

#[test]
fn a_refund_gives_each_limit_its_own_units_whichever_of_them_moves() {
    let effective = Effective::default();
    let policy = Policy::all().limit("minute", "100/min").limit("day", "fixed-window 500/day");
    let policy = policy.adaptive("minute", &effective);
    let engine = builder().policy("p", policy).build().unwrap();
    assert_eq!(take(&engine, "k", 100), (true, 100, 0));
    effective.set(1);
    let refund = Check { policy: "p", key: Key::One(b"k"), cost: 3 };
    let answer = engine.ask(&refund, Op::Refund).now().unwrap();
    assert_eq!((answer.binding, answer.decision.limit()), ("minute", 1));
    effective.clear();
    assert_eq!(take(&engine, "k", 3), (true, 100, 0));
}
