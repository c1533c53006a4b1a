//! The engine: policies by name, several limits in one step, overrides, and what cannot be asked.

use tidegate::{
    BuildError, Check, CheckError, Engine, EngineBuilder, Key, ManualClock, Op, Override, Policy,
    PolicyProblem,
};

fn builder() -> EngineBuilder<ManualClock> {
    Engine::builder().clock(ManualClock::default())
}

#[test]
fn the_binding_limit_answers() {
    let plan = Policy::all().limit("second", "10/s").limit("day", "fixed-window 12/day");
    let engine = builder().policy("plan", plan).build().unwrap();
    let row = |cost| {
        let check = Check { policy: "plan", key: Key::One(b"user-42"), cost };
        let answer = engine.ask(&check, Op::Take).now().unwrap();
        (answer.decision.allowed(), answer.binding, answer.decision.remaining())
    };
    assert_eq!(row(1), (true, "second", 9));
    assert_eq!(row(9), (true, "second", 0));
    assert_eq!(row(1), (false, "second", 0));
    assert_eq!(row(3), (false, "day", 2), "the longest wait binds a refusal");
}

#[test]
fn a_policy_of_one_limit_binds_under_its_own_name() {
    let engine = builder().policy("api", "5/s").build().unwrap();
    assert_eq!(engine.check("api", "k").now().unwrap().binding, "api");
}

#[test]
fn limits_on_different_identifiers_are_charged_together_or_not_at_all() {
    let signup = Policy::all().limit_by("ip", "ip", "2/h").limit_by("domain", "domain", "3/h");
    let engine = builder().policy("signup", signup).build().unwrap();
    let allowed = |ip: &str, domain: &str| {
        let keys: [(&str, &[u8]); 2] = [("domain", domain.as_bytes()), ("ip", ip.as_bytes())];
        let check = Check { policy: "signup", key: Key::Named(&keys), cost: 1 };
        engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
    };
    let attempts = [
        ("1.1.1.1", "a.example", true),
        ("1.1.1.1", "a.example", true),
        ("1.1.1.1", "b.example", false), // the address is spent; the domain must not be charged
        ("2.2.2.2", "a.example", true),
        ("3.3.3.3", "a.example", false), // the domain is spent; the address must not be charged
        ("3.3.3.3", "b.example", true),
        ("3.3.3.3", "b.example", true),
        ("4.4.4.4", "b.example", true),
        ("4.4.4.4", "b.example", false),
    ];
    for (step, (ip, domain, expected)) in attempts.into_iter().enumerate() {
        assert_eq!(allowed(ip, domain), expected, "step {step}: {ip} {domain}");
    }
}

#[test]
fn overrides_give_a_key_its_own_limit_everything_or_nothing() {
    let policy = Policy::all()
        .limit("", "1/h")
        .with_override("partner", Override::Limit("5000/min".parse().unwrap()))
        .with_override("health", Override::Allow)
        .with_override("abuser", Override::Block);
    let engine = builder().policy("api", policy).build().unwrap();
    let row = |key: &str| {
        let answer = engine.check("api", key).now().unwrap();
        (answer.decision.allowed(), answer.decision.limit())
    };
    assert_eq!(row("partner"), (true, 5000));
    assert_eq!(row("health"), (true, u64::MAX));
    assert_eq!(row("health"), (true, u64::MAX));
    assert_eq!(row("abuser"), (false, 0));
    assert_eq!(engine.check("api", "abuser").now().unwrap().decision.retry_after(), None);
    assert_eq!(row("somebody"), (true, 1));
    assert_eq!(row("somebody"), (false, 1));
}

#[test]
fn an_identifier_among_several_cannot_pass_for_an_override() {
    let policy = Policy::all()
        .limit_by("ip", "ip", "1/h")
        .limit_by("domain", "domain", "100/h")
        .with_override("10.0.0.7", Override::Allow)
        .with_override("", Override::Block);
    let engine = builder().policy("signup", policy).build().unwrap();
    let allowed = |domain: &str| {
        let keys: [(&str, &[u8]); 2] = [("ip", b"1.1.1.1"), ("domain", domain.as_bytes())];
        let check = Check { policy: "signup", key: Key::Named(&keys), cost: 1 };
        engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
    };
    assert!(allowed("10.0.0.7"));
    assert!(!allowed("10.0.0.7"), "a domain that looks like an allowed address is none");
}

#[test]
fn overrides_go_by_the_identifiers_that_are_counted() {
    let with = |policy: Policy| {
        let policy = policy.with_override("health", Override::Allow);
        policy.with_override("mallory", Override::Block)
    };
    let by_ip = with(Policy::all().limit_by("ip", "ip", "5/h"))
        .with_override("partner", Override::Limit("50/h".parse().unwrap()));
    let both = with(Policy::all().limit_by("ip", "ip", "5/h").limit_by("user", "user", "9/h"));
    let engine = builder().policy("by_ip", by_ip).policy("both", both).build().unwrap();
    let limit = |policy, keys: &[(&str, &str)]| {
        let keys: Vec<_> = keys.iter().map(|(name, key)| (*name, key.as_bytes())).collect();
        let check = Check { policy, key: Key::Named(&keys), cost: 1 };
        engine.ask(&check, Op::Peek).now().map(|answer| answer.decision.limit()).ok()
    };
    for (ip, user, by_ip, both) in [
        ("mallory", "ann", 0, 0),
        ("ann", "mallory", 5, 0),
        ("health", "mallory", u64::MAX, 0),
        ("health", "ann", u64::MAX, 5),
        ("ann", "health", 5, 5),
        ("health", "health", u64::MAX, u64::MAX),
        ("partner", "ann", 50, 5),
        ("ann", "partner", 5, 5),
    ] {
        for keys in [[("ip", ip), ("user", user)], [("user", user), ("ip", ip)]] {
            assert_eq!(limit("by_ip", &keys), Some(by_ip), "{keys:?}");
            assert_eq!(limit("both", &keys), Some(both), "{keys:?}");
        }
    }
    assert_eq!(limit("both", &[("ip", "mallory")]), Some(0));
    assert_eq!(limit("both", &[("ip", "health")]), None, "nobody knows who the other is");
}

#[test]
fn a_question_is_valid_if_it_has_an_answer() {
    let policy = Policy::all()
        .limit_by("ip", "ip", "9/h")
        .with_override("health", Override::Allow)
        .with_override("abuser", Override::Block)
        .with_override("partner", Override::Limit("50/h".parse().unwrap()));
    let engine = builder().policy("signup", policy).build().unwrap();
    let check = |key: Key<'_>, answered: bool| {
        let check = Check { policy: "signup", key, cost: 1 };
        for op in [Op::Take, Op::Peek, Op::Refund, Op::Reset] {
            let asked = engine.ask(&check, op).now().map(|_| ());
            assert_eq!(asked.is_ok(), answered, "{key:?} {op:?}");
            assert_eq!(engine.validate(&check, op), asked, "{key:?} {op:?}");
        }
    };
    for (key, alone) in [("health", true), ("abuser", true), ("partner", false), ("other", false)] {
        check(Key::One(key.as_bytes()), alone);
        check(Key::Named(&[("ip", key.as_bytes())]), true);
        check(Key::Named(&[("ip", key.as_bytes()), ("name", b"x")]), true);
        check(Key::Named(&[("mail", key.as_bytes())]), false);
        check(Key::Named(&[("mail", key.as_bytes()), ("name", b"x")]), false);
    }
}

#[test]
fn a_shaper_has_its_allowed_and_blocked_too() {
    let policy = Policy::shaper("1/h max-wait 0s")
        .with_override("health", Override::Allow)
        .with_override("abuser", Override::Block);
    let engine = builder().policy("export", policy).build().unwrap();
    let accepted = |key: &str| {
        let check = Check { policy: "export", key: Key::One(key.as_bytes()), cost: 1 };
        engine.reserve(&check).now().unwrap().accepted()
    };
    assert!(accepted("health") && accepted("health"));
    assert!(!accepted("abuser"));
    assert!(accepted("somebody") && !accepted("somebody"));
}

#[test]
fn refund_and_reset_reach_every_limit_of_a_policy() {
    let plan = Policy::all().limit("hour", "5/h").limit("log", "sliding-log 5/day");
    let engine = builder().policy("plan", plan).build().unwrap();
    let ask = |cost, op| {
        let check = Check { policy: "plan", key: Key::One(b"k"), cost };
        engine.ask(&check, op).now().unwrap().decision.remaining()
    };
    assert_eq!(ask(5, Op::Take), 0);
    assert_eq!(ask(2, Op::Refund), 2);
    assert_eq!(ask(1, Op::Peek), 1);
    assert_eq!(ask(0, Op::Reset), 5);
    assert_eq!(ask(5, Op::Take), 0);
}

#[test]
fn permits_of_an_engine_come_back_when_dropped() {
    let policy = Policy::all().limit("rate", "100/s").limit("at-once", "concurrency 1");
    let engine = builder().policy("export", policy).build().unwrap();
    let first = engine.acquire("export", "k").now().unwrap();
    assert!(first.permit.is_some());
    let second = engine.acquire("export", "k").now().unwrap();
    assert_eq!((second.permit.is_none(), second.answer.binding), (true, "at-once"));
    drop(first);
    assert!(engine.acquire("export", "k").now().unwrap().permit.is_some());
    assert_eq!(
        engine.check("export", "k").now(),
        Err(CheckError::NeedsAcquire("export".into())),
        "a check could not give its place back"
    );
}

#[test]
fn what_cannot_be_asked_says_why() {
    let signup = Policy::all().limit_by("ip", "ip", "3/h").limit_by("mail", "mail", "3/h");
    let store = std::sync::Arc::new(tidegate::MemoryStore::default());
    let engine = builder()
        .store(store.clone())
        .policy("api", "5/s")
        .policy("signup", signup)
        .policy("export", Policy::shaper("2/s max-wait 5s"))
        .build()
        .unwrap();
    let check = |policy| Check { policy, key: Key::One(b"k"), cost: 1 };
    let rows = [
        (engine.ask(&check("apj"), Op::Take).now().unwrap_err(), "no policy is called `apj`"),
        (
            engine.ask(&check("signup"), Op::Take).now().unwrap_err(),
            "policy `signup` counts by `ip`, which was not given",
        ),
        (
            engine.ask(&check("export"), Op::Peek).now().unwrap_err(),
            "policy `export` is a leaky bucket: it delays, so reserve instead of check",
        ),
        (
            engine.reserve(&check("api")).now().unwrap_err(),
            "policy `api` is no leaky bucket: check instead of reserve",
        ),
    ];
    for (error, text) in rows {
        assert_eq!(error.to_string(), text);
    }
    for policy in ["apj", "signup", "export", "api"] {
        let (check, before) = (check(policy), store.stats().keys);
        let asked = engine.ask(&check, Op::Take).now().map(|_| ());
        assert_eq!(engine.validate(&check, Op::Take), asked, "{policy}");
        assert_eq!(before, 0, "nothing was spent before the last");
    }
    assert!(engine.reserve(&check("export")).now().unwrap().accepted());
}

#[test]
fn a_policy_that_makes_no_sense_is_not_built() {
    let problem = |policy: Policy| builder().policy("p", policy).build().map(|_| ()).unwrap_err();
    let own_limit = Override::Limit("1/s".parse().unwrap());
    let many = (0..17).fold(Policy::all(), |policy, n| policy.limit(n.to_string(), "1/s"));
    let rows = [
        (Policy::all(), PolicyProblem::NoLimit),
        (many, PolicyProblem::TooManyLimits(17)),
        (Policy::any().limit("a", "1/s").limit("a", "2/s"), PolicyProblem::SameName("a".into())),
        (
            Policy::all().limit("a", "1/s").limit("b", "2/s").with_override("k", own_limit.clone()),
            PolicyProblem::OverrideOfMany,
        ),
        (
            Policy::shaper("2/s max-wait 5s").with_override("k", own_limit),
            PolicyProblem::OverrideOfMany,
        ),
        (Policy::shaper("2/s max-wait 5s").limit("hour", "1/h"), PolicyProblem::ShaperAmongLimits),
    ];
    for (policy, expected) in rows {
        assert_eq!(problem(policy), BuildError { policy: "p".into(), problem: expected });
    }
    let error = problem(Policy::all().limit("a", "0/s"));
    assert_eq!(error.to_string().split(": ").next(), Some("policy `p`"));
}

#[test]
fn networks_have_overrides_that_a_key_of_its_own_beats() {
    let network = |text: &str| text.parse().unwrap();
    let own = |text: &str| Override::Limit(text.parse().unwrap());
    let policy = Policy::all()
        .limit("", "5/h")
        .with_override_for(network("10.0.0.0/8"), Override::Allow)
        .with_override_for(network("10.6.0.0/16"), own("2/h"))
        .with_override_for(network("2001:db8::/32"), Override::Block)
        .with_override("10.6.6.6", own("7/h"));
    let engine = builder().policy("api", policy).build().unwrap();
    let limit = |key: &str| engine.check("api", key).now().unwrap().decision.limit();
    for (key, expected) in [
        ("10.1.2.3", u64::MAX),
        ("::ffff:10.1.2.3", u64::MAX),
        ("10.6.0.1", 2),
        ("10.6.6.6", 7),
        ("2001:db8:1:2::/64", 0),
        ("2001:db8:1:2::9", 0),
        ("2001:db9::/64", 5),
        ("11.0.0.1", 5),
        ("10.1.2.3.example.org", 5),
        ("user-42", 5),
    ] {
        assert_eq!(limit(key), expected, "{key}");
    }
    // Each address has the limit for itself.
    assert!(engine.check("api", "10.6.0.2").now().unwrap().decision.allowed());
    assert_eq!(engine.check("api", "10.6.0.1").now().unwrap().decision.remaining(), 0);
    assert_eq!(engine.check("api", "10.6.0.2").now().unwrap().decision.remaining(), 0);
}

#[test]
fn a_networks_limit_has_to_fit_the_policy_too() {
    let own = Override::Limit("1/s".parse().unwrap());
    let network = "10.0.0.0/8".parse().unwrap();
    let two = Policy::all().limit("a", "1/s").limit("b", "2/s");
    let places = Policy::all().limit("", "concurrency 2");
    for (policy, problem) in [
        (two.with_override_for(network, own.clone()), PolicyProblem::OverrideOfMany),
        (places.with_override_for(network, own), PolicyProblem::OverrideOfAnotherKind),
    ] {
        assert_eq!(builder().policy("p", policy).build().unwrap_err().problem, problem);
    }
}

#[test]
fn a_second_policy_of_a_name_is_an_error_that_names_it() {
    let twice = Engine::builder().policy("api", "5/h").policy("web", "5/h").policy("api", "5/h");
    let error = twice.build().unwrap_err();
    assert_eq!((&*error.policy, &error.problem), ("api", &PolicyProblem::DefinedTwice));
    let text = "policy `api`: is defined twice: give each policy a name of its own";
    assert_eq!(error.to_string(), text);
    // A successor starts without policies.
    let engine = Engine::builder().policy("api", "5/h").build().unwrap();
    assert!(engine.successor().policy("api", "5/h").build().is_ok());
}

#[test]
fn a_handle_outlives_its_engine_and_asks_without_its_name() {
    let engine = Engine::builder().policy("api", "3/h").policy("web", "9/h").build().unwrap();
    let (api, web) = (engine.policy("api").unwrap(), engine.policy("web").unwrap());
    assert!(engine.check("api", "ann").now().unwrap().decision.allowed());
    drop(engine);
    let elsewhere = api.clone();
    let asked = std::thread::spawn(move || {
        elsewhere.check("ann").now().map(|answer| answer.decision.remaining())
    });
    assert_eq!(asked.join().unwrap(), Ok(1));
    assert_eq!(api.check("ann").now().unwrap().decision.remaining(), 0);
    assert_eq!(web.check("ann").now().unwrap().decision.remaining(), 8);
}
