//! Several checks of an engine in one step: what each is answered, and that all are charged or none.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::{
    Answer, Check, CheckError, Engine, Key, Limit, ManualClock, MemoryStore, MultiCharge,
    OnStoreError, Op, Override, Policy, Question, Source, StoreErrorKind, Together,
};

use tidegate_testkit::scripted::{Scripted, Way};

type Timeless = Engine<ManualClock>;

fn engine(store: impl tidegate::Store + 'static, policies: &[(&str, Policy)]) -> Timeless {
    let builder = Engine::builder().store(store).nodes(NonZeroU32::new(2).unwrap());
    let add = |builder: tidegate::EngineBuilder<_>, (name, policy): &(&str, Policy)| {
        builder.policy(*name, policy.clone())
    };
    policies.iter().fold(builder.clock(ManualClock::default()), add).build().unwrap()
}

fn of(limit: &str) -> Policy {
    Policy::try_from(limit).unwrap()
}

fn check<'a>(policy: &'a str, key: &'a str, cost: u64) -> Check<'a> {
    Check { policy, key: Key::One(key.as_bytes()), cost }
}

async fn take<'e>(engine: &'e Timeless, checks: &[Check<'_>]) -> Together<'e> {
    engine.ask_together(checks, Op::Take).await.unwrap()
}

/// Whether each is allowed, and what it has left.
fn seen(together: &Together<'_>) -> Vec<(bool, u64)> {
    let seen = |answer: &Answer<'_>| (answer.decision.allowed(), answer.decision.remaining());
    together.answers.iter().map(seen).collect()
}

async fn left(engine: &Timeless, policy: &str, key: &str) -> u64 {
    engine.ask(&check(policy, key, 0), Op::Peek).await.unwrap().decision.remaining()
}

#[tokio::test]
async fn each_check_has_its_own_cost_and_answer() {
    let plan = Policy::all().limit("second", "9/s").limit("day", "fixed-window 20/day");
    let engine = engine(MemoryStore::default(), &[("api", of("10/h")), ("plan", plan)]);
    let checks = [check("api", "a", 3), check("plan", "b", 4), check("api", "c", 0)];
    for expected in [[(true, 7), (true, 5), (true, 10)], [(true, 4), (true, 1), (true, 10)]] {
        let together = take(&engine, &checks).await;
        assert!(together.admitted());
        assert_eq!(seen(&together), expected);
    }
    let together = take(&engine, &checks).await;
    assert_eq!(seen(&together), [(true, 4), (false, 1), (true, 10)]);
    let [api, plan, _] = &together.answers[..] else { panic!("three checks") };
    assert_eq!((api.policy, api.binding), ("api", "api"));
    assert_eq!((plan.policy, plan.binding, plan.source), ("plan", "second", Source::Store));
    assert!(plan.limit.as_ref().is_some_and(|limit| limit.units() == 9));
    assert_eq!((left(&engine, "api", "a").await, left(&engine, "plan", "b").await), (4, 1));
}

#[tokio::test]
async fn a_peek_answers_as_a_take_would_and_charges_nothing() {
    let policies = [("api", of("10/h")), ("log", of("sliding-log 5/h"))];
    let engine = engine(MemoryStore::default(), &policies);
    for costs in [[1, 1], [4, 4], [4, 4], [1, 9], [0, 1]] {
        let checks = [check("api", "a", costs[0]), check("log", "b", costs[1])];
        let peeked = engine.ask_together(&checks, Op::Peek).await.unwrap();
        assert_eq!(peeked, engine.ask_together(&checks, Op::Peek).await.unwrap());
        assert_eq!(peeked, take(&engine, &checks).await, "{costs:?}");
    }
}

#[tokio::test]
async fn one_check_is_asked_as_ever() {
    let two = |policy: &Policy| {
        let make = || engine(Scripted::new(Way::Yields), &[("p", policy.clone())]);
        (make(), make())
    };
    let several = Policy::all().limit("second", "9/s").limit("day", "fixed-window 20/day");
    let either = Policy::any().limit("small", "2/h").limit("large", "5/h");
    let overridden = of("5/h").with_override("k", Override::Limit("3/h".parse().unwrap()));
    for policy in [of("5/h"), several, either, overridden, of("5/h").lease(true)] {
        let (one, other) = two(&policy);
        for cost in [1, 2, 0, 3, 1, 9] {
            for op in [Op::Peek, Op::Take] {
                let checks = [check("p", "k", cost)];
                let together = one.ask_together(&checks, op).await.unwrap();
                let answer = other.ask(&checks[0], op).await.unwrap();
                assert_eq!(together.admitted(), answer.decision.allowed());
                assert_eq!(together.answers, [answer], "{policy:?}");
            }
        }
    }
}

#[tokio::test]
async fn no_checks_are_admitted() {
    let engine = engine(MemoryStore::default(), &[]);
    assert!(take(&engine, &[]).await.admitted());
}

#[tokio::test]
async fn overrides_allow_block_or_limit() {
    let api = of("10/h")
        .with_override("monitor", Override::Allow)
        .with_override("scraper", Override::Block)
        .with_override("partner", Override::Limit("100/h".parse().unwrap()));
    let engine = engine(MemoryStore::default(), &[("api", api), ("log", of("sliding-log 5/h"))]);
    let with = |key| [check("log", "k", 2), check("api", key, 50)];
    let together = take(&engine, &with("partner")).await;
    assert_eq!(seen(&together), [(true, 3), (true, 50)]);
    let together = take(&engine, &with("monitor")).await;
    assert_eq!(seen(&together), [(true, 1), (true, u64::MAX)]);
    assert_eq!(together.answers[1].limit, None);
    // Nobody is charged, and whoever would be refused anyway hears of that.
    for (cost, expected) in [(1, (true, 1)), (2, (false, 1))] {
        for op in [Op::Take, Op::Peek] {
            let checks = [check("log", "k", cost), check("api", "scraper", 1)];
            let together = engine.ask_together(&checks, op).await.unwrap();
            assert!(!together.admitted());
            assert_eq!(seen(&together), [expected, (false, 0)]);
            assert_eq!(together.answers[1].decision.retry_after(), None);
        }
    }
    assert_eq!(left(&engine, "log", "k").await, 1);
    // Nothing is left to ask a store.
    let known = take(&engine, &[check("api", "monitor", 1), check("api", "scraper", 1)]).await;
    assert_eq!(seen(&known), [(true, u64::MAX), (false, 0)]);
}

#[tokio::test]
async fn what_is_asked_twice_is_added_up() {
    let signup = Policy::all().limit_by("ip", "ip", "5/h").limit_by("mail", "mail", "3/h");
    let engine = engine(MemoryStore::default(), &[("api", of("10/h")), ("signup", signup)]);
    let twice = [check("api", "k", 3), check("api", "other", 1), check("api", "k", 4)];
    assert_eq!(seen(&take(&engine, &twice).await), [(true, 3), (true, 9), (true, 3)]);
    assert_eq!(seen(&take(&engine, &twice).await), [(false, 3), (true, 9), (false, 3)]);
    let too_much = [check("api", "k", u64::MAX), check("api", "k", 1)];
    let together = take(&engine, &too_much).await;
    assert_eq!(seen(&together), [(false, 3); 2]);
    assert_eq!(together.answers[0].decision.retry_after(), None);
    // Two policies' worth of limits, one of which is the same.
    let keys = |mail: &'static [u8]| -> [(&str, &[u8]); 2] { [("ip", b"1"), ("mail", mail)] };
    let (ann, bob) = (keys(b"ann"), keys(b"bob"));
    let of = |keys| Check { policy: "signup", key: Key::Named(keys), cost: 2 };
    let together = take(&engine, &[of(&ann), of(&bob)]).await;
    assert_eq!(seen(&together), [(true, 1); 2], "four of the address, two of each mail");
    let bindings: Vec<_> = together.answers.iter().map(|answer| answer.binding).collect();
    assert_eq!(bindings, ["ip", "ip"]);
}

#[tokio::test]
async fn what_cannot_stand_beside_others_is_named() {
    let either = Policy::any().limit("small", "2/h").limit("large", "5/h");
    let signup = Policy::all().limit_by("ip", "ip", "5/h");
    let policies = [
        ("api", of("10/h")),
        ("either", either),
        ("export", Policy::shaper("2/s max-wait 5s")),
        ("places", of("concurrency 5")),
        ("signup", signup),
    ];
    let engine = engine(MemoryStore::default(), &policies);
    let name = ToOwned::to_owned;
    for (policy, expected) in [
        ("either", CheckError::Chooses(name("either"))),
        ("export", CheckError::Shapes(name("export"))),
        ("places", CheckError::NeedsAcquire(name("places"))),
        ("apj", CheckError::UnknownPolicy(name("apj"))),
        ("signup", CheckError::MissingKey { policy: name("signup"), key: name("ip") }),
    ] {
        for op in [Op::Take, Op::Peek] {
            let checks = [check("api", "k", 1), check(policy, "k", 1)];
            assert_eq!(engine.ask_together(&checks, op).await, Err(expected.clone()));
        }
    }
    for op in [Op::Refund, Op::Reset] {
        for checks in [&[check("api", "k", 1)][..], &[check("api", "k", 1); 2]] {
            let Err(CheckError::Store(error)) = engine.ask_together(checks, op).await else {
                panic!("{op:?} was answered")
            };
            assert_eq!(error.kind(), StoreErrorKind::BadRequest);
        }
    }
    assert_eq!(left(&engine, "api", "k").await, 10, "nothing is charged before all is known");
}

#[tokio::test]
async fn a_step_has_so_many_limits_and_no_more() {
    let engine = engine(MemoryStore::default(), &[("api", of("10/h"))]);
    let keys: Vec<String> = (0..=MultiCharge::MAX_LIMITS).map(|n| format!("user-{n}")).collect();
    let checks: Vec<_> = keys.iter().map(|key| check("api", key, 1)).collect();
    let error = engine.ask_together(&checks, Op::Take).await.unwrap_err();
    assert_eq!(error, CheckError::TooManyTogether);
    assert!(take(&engine, &checks[1..]).await.admitted());
    // Checks on one limit and key are one of them.
    assert!(take(&engine, &vec![check("api", "same", 0); 1_000]).await.admitted());
}

#[tokio::test]
async fn a_shadow_has_no_say_and_is_charged_with_the_others() {
    for way in [Way::AtOnce, Way::Yields] {
        let several = Policy::all().limit("second", "2/s").limit("day", "fixed-window 9/day");
        let policies = [
            ("api", of("10/h")),
            ("log", of("sliding-log 5/h")),
            ("trial", several.shadow(true)),
            ("blocked", of("5/h").with_override("k", Override::Block).shadow(true)),
        ];
        let engine = engine(Scripted::new(way), &policies);
        let checks =
            ["trial", "api", "blocked", "log", "trial"].map(|policy| check(policy, "k", 1));
        let denied = |together: &Together<'_>| -> Vec<bool> {
            together.answers.iter().map(|answer| answer.shadow_denied).collect()
        };
        let together = take(&engine, &checks).await;
        assert!(together.admitted());
        assert_eq!(seen(&together), [(true, 1), (true, 9), (true, 0), (true, 4), (true, 0)]);
        assert_eq!(denied(&together), [false, false, true, false, false]);
        let names: Vec<_> = together.answers.iter().map(|answer| answer.policy).collect();
        assert_eq!(names, ["trial", "api", "blocked", "log", "trial"]);
        // It would refuse, and the others are charged all the same.
        let together = take(&engine, &checks).await;
        assert!(together.admitted());
        assert_eq!(seen(&together), [(true, 0), (true, 8), (true, 0), (true, 3), (true, 0)]);
        assert_eq!(denied(&together), [true, false, true, false, true]);
        // Where the others refuse, it is not charged either.
        let checks = [check("trial", "new", 1), check("api", "k", 1), check("log", "k", 4)];
        for _ in 0..3 {
            let together = take(&engine, &checks).await;
            assert!(!together.admitted());
            assert_eq!(seen(&together), [(true, 2), (true, 8), (false, 3)]);
        }
    }
}

/// A store can fail at once, or later.
const WAYS: [Way; 2] = [
    Way::Fails(StoreErrorKind::Unreachable),
    Way::FailsAfter(Duration::from_millis(20), StoreErrorKind::Timeout),
];

fn failing(way: Way) -> (Scripted, Timeless) {
    let store = Scripted::new(way);
    let policies = [
        ("open", of("6/h").on_store_error(OnStoreError::Allow)),
        ("closed", of("6/h").on_store_error(OnStoreError::DENY)),
        ("local", of("6/h")),
        ("log", of("sliding-log 4/h")),
    ];
    let engine = engine(store.clone(), &policies);
    (store, engine)
}

fn sources(together: &Together<'_>) -> Vec<Source> {
    together.answers.iter().map(|answer| answer.source).collect()
}

#[tokio::test(start_paused = true)]
async fn this_nodes_shares_are_charged_all_or_none() {
    for way in WAYS {
        let (_, engine) = failing(way);
        let checks = [check("local", "k", 1), check("open", "k", 1), check("log", "k", 1)];
        // Half of each for one of two nodes.
        for (allowed, rest) in [(true, (2, 1)), (true, (1, 0)), (false, (1, 0)), (false, (1, 0))] {
            let together = take(&engine, &checks).await;
            assert_eq!(together.admitted(), allowed);
            assert_eq!(seen(&together), [(true, rest.0), (true, 6), (allowed, rest.1)]);
            assert_eq!(sources(&together), [Source::Local, Source::FailOpen, Source::Local]);
        }
        assert_eq!(left(&engine, "local", "k").await, 1, "a refused step has charged nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn one_policy_that_denies_refuses_the_whole_and_no_share_is_charged() {
    for way in WAYS {
        let (_, engine) = failing(way);
        let checks = [
            check("local", "k", 1),
            check("closed", "k", 1),
            check("open", "k", 1),
            check("log", "k", 3),
        ];
        for _ in 0..3 {
            let together = take(&engine, &checks).await;
            assert!(!together.admitted());
            assert_eq!(seen(&together), [(true, 3), (false, 0), (true, 6), (false, 2)]);
            let expected = [Source::Local, Source::FailClosed, Source::FailOpen, Source::Local];
            assert_eq!(sources(&together), expected);
            assert!(together.answers.iter().all(|answer| answer.store_error.is_some()));
            let closed = together.answers[1].decision;
            assert_eq!(closed.retry_after(), Some(Duration::from_mins(1)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mistake_is_not_stood_in_for_and_replicas_that_confirm_nothing_deny() {
    let (store, engine) = failing(Way::Fails(StoreErrorKind::BadRequest));
    let checks = [check("local", "k", 1), check("open", "k", 1)];
    let asked = || engine.ask_together(&checks, Op::Take);
    assert!(matches!(asked().await, Err(CheckError::Store(_))));
    store.behave(Way::Fails(StoreErrorKind::Apart));
    assert_eq!(asked().await, Err(CheckError::Apart));
    store.behave(Way::Fails(StoreErrorKind::Unreplicated));
    let together = asked().await.unwrap();
    assert_eq!(sources(&together), [Source::FailClosed; 2]);
    assert!(!together.admitted());
    assert_eq!(seen(&together), [(false, 0); 2]);
}

/// The store keeps less of a limit that is leased. A step that took from the whole of it would admit what is out on
/// lease.
#[cfg(feature = "leases")]
#[tokio::test(start_paused = true)]
async fn leases_and_steps_together_never_admit_more_than_the_limit() {
    for (limit, own) in [
        ("100/h burst 40", None),
        ("token-bucket 100/h capacity 40", None),
        ("fixed-window 40/h", None),
        ("100/h burst 99", Some("100/h burst 40")),
    ] {
        let leased = of(limit).lease(true);
        let leased = match own {
            Some(own) => leased.with_override("k", Override::Limit(own.parse().unwrap())),
            None => leased,
        };
        let plain = of("1000/h");
        let store = Scripted::new(Way::Yields);
        let nodes = [(); 2].map(|()| {
            engine(store.clone(), &[("leased", leased.clone()), ("plain", plain.clone())])
        });
        let mut admitted = 0;
        for round in 0..200 {
            let node = &nodes[round % 2];
            // Only the first node leases.
            let allowed = if round % 4 == 0 {
                node.ask(&check("leased", "k", 1), Op::Take).await.unwrap().decision.allowed()
            } else {
                let checks = [check("plain", "k", 1), check("leased", "k", 1)];
                take(node, &checks).await.admitted()
            };
            admitted += u64::from(allowed);
        }
        assert!(admitted <= 40, "{limit}: {admitted}");
        assert!(admitted >= 25, "{limit}: {admitted}");
        // As the leases themselves ask it.
        let checks = [check("plain", "k", 0), check("leased", "k", 0)];
        let together = nodes[1].ask_together(&checks, Op::Peek).await.unwrap();
        let alone = nodes[1].ask(&checks[1], Op::Peek).await.unwrap();
        assert_eq!(together.answers[1], alone, "{limit}");
    }
}

/// Questions of checks, each with a limit of its own or the policy's.
fn questions<'e, 'c>(
    engine: &'e Timeless,
    checks: &[(Check<'c>, Option<&'e Limit>)],
) -> Vec<Question<'e, 'c, ManualClock>> {
    let question = |(check, limit): &(Check<'c>, Option<&'e Limit>)| {
        let policy = engine.policy_ref(check.policy).unwrap();
        Question { limit: *limit, ..Question::new(policy, check.key, check.cost) }
    };
    checks.iter().map(question).collect()
}

#[tokio::test]
async fn a_limit_of_ones_own_stands_for_the_policys_only_one() {
    let plan = Policy::all().limit("second", "9/s").limit("day", "fixed-window 20/day");
    let policies = [("api", of("fixed-window 10/h")), ("plan", plan)];
    let engine = engine(MemoryStore::default(), &policies);
    let own: Limit = "fixed-window 2/h".parse().unwrap();
    let with = |checks: &[(Check<'_>, _)]| -> Vec<(bool, u64)> {
        seen(&engine.decide_together(&questions(&engine, checks), Op::Take).now().unwrap())
    };
    assert_eq!(with(&[(check("api", "a", 1), Some(&own))]), [(true, 1)]);
    let both = [(check("api", "a", 2), Some(&own)), (check("api", "b", 1), None)];
    assert_eq!(with(&both), [(false, 1), (true, 10)]);
    assert_eq!(left(&engine, "api", "a").await, 9); // counted in one place
    let of_two = questions(&engine, &[(check("plan", "a", 1), Some(&own))]);
    let of_two = engine.decide_together(&of_two, Op::Take).now();
    assert!(of_two.is_err_and(|error| error.to_string().contains("policy of one limit")));
}

#[tokio::test]
async fn of_two_limits_for_one_key_the_tighter_holds() {
    let limit = |text: &str| text.parse::<Limit>().unwrap();
    let (wide, tight) = (limit("fixed-window 100/h"), limit("fixed-window 3/h"));
    for both in [[&wide, &tight], [&tight, &wide]] {
        let engine = engine(MemoryStore::default(), &[("api", of("fixed-window 9/h"))]);
        let checks = both.map(|own| (check("api", "a", 1), Some(own)));
        let checks = questions(&engine, &checks);
        let take = || seen(&engine.decide_together(&checks, Op::Take).now().unwrap());
        assert_eq!(take(), [(true, 1); 2]);
        assert_eq!(take(), [(false, 1); 2]);
    }
    let engine = engine(MemoryStore::default(), &[("api", of("9/h"))]);
    for (one, other) in
        [("5/h", "50/day"), ("5/h burst 2", "4/h burst 3"), ("5/h", "sliding-log 5/h")]
    {
        let (one, other) = (limit(one), limit(other));
        let checks = [&one, &other].map(|own| (check("api", "a", 1), Some(own)));
        let checks = questions(&engine, &checks);
        let error = engine.decide_together(&checks, Op::Take).now().unwrap_err();
        assert!(error.to_string().contains("neither is the tighter"), "{error}");
    }
}

#[tokio::test]
async fn without_the_store_each_policy_answers_as_when_it_fails() {
    let policies = [
        ("open", of("10/h").on_store_error(OnStoreError::Allow)),
        ("local", of("10/h")),
        ("shadow", of("1/h").shadow(true)),
    ];
    let engine = engine(MemoryStore::default(), &policies);
    let checks = ["shadow", "open", "local"].map(|policy| (check(policy, "a", 1), None));
    let checks = questions(&engine, &checks);
    for expected in [[(true, 0), (true, 10), (true, 4)], [(true, 0), (true, 10), (true, 3)]] {
        let together = engine.decide_without_store(&checks, Op::Take).unwrap();
        assert_eq!(seen(&together), expected);
        let sources: Vec<_> = together.answers.iter().map(|answer| answer.source).collect();
        assert_eq!(sources, [Source::Local, Source::FailOpen, Source::Local]);
    }
    assert_eq!(left(&engine, "local", "a").await, 10); // the store was not asked
    assert!(engine.decide_without_store(&checks, Op::Reset).is_err());
}
