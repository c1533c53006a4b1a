//! Policies that are enforced for a part of their callers: who is in, and that the others are never refused.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    Check, Engine, Key, ManualClock, MemoryStore, OnStoreError, Op, Override, Percent,
    PercentError, Policy, Share, Source, Store, StoreErrorKind,
};
use tidegate_testkit::scripted::{Scripted, Way};

type Timeless = Engine<ManualClock>;

fn engine(store: impl Store + 'static, policy: Policy) -> Timeless {
    let builder = Engine::builder().store(store).clock(ManualClock::default());
    builder.policy("api", policy).policy("other", "1000/h").build().unwrap()
}

fn check(key: &str) -> Check<'_> {
    Check { policy: "api", key: Key::One(key.as_bytes()), cost: 1 }
}

/// The first users that are in at 10 %, and that are not.
fn two_of_each() -> ([String; 2], [String; 2]) {
    let tenth: Percent = "10%".parse().unwrap();
    let users = || (0..).map(|n| format!("user-{n}"));
    let pick = |is_in: bool| {
        let mut found = users().filter(|user| tenth.includes("api", user.as_bytes()) == is_in);
        [found.next().unwrap(), found.next().unwrap()]
    };
    (pick(true), pick(false))
}

/// The hash is a promise: another one would refuse other callers after an upgrade. Computed by another program.
#[test]
fn who_is_in_never_changes() {
    // The smallest part in millionths that each is in at.
    for (policy, identifier, expected) in [
        ("api", "user-1", 410_189),
        ("api", "user-2", 979_465),
        ("login", "user-1", 261_521),
        ("", "", 907_378),
        ("a", "bc", 935_606),
        ("ab", "c", 641_447),
        ("api", "2001:db8:1:2::/64", 365_055),
        ("z\u{fc}rich", "\u{1f30a}", 515_305),
    ] {
        let is_in = |millionths: u32| part(millionths).includes(policy, identifier.as_bytes());
        let smallest = (1..=1_000_000).collect::<Vec<u32>>();
        let smallest = smallest[smallest.partition_point(|millionths| !is_in(*millionths))];
        assert_eq!(smallest, expected, "{policy} {identifier}");
    }
}

fn part(millionths: u32) -> Percent {
    format!("{}.{:04}%", millionths / 10_000, millionths % 10_000).parse().unwrap()
}

/// How many of some keys are in, by a rule.
fn count(rule: impl Fn(&[u8]) -> bool, prefix: &str) -> usize {
    (0..20_000).filter(|n| rule(format!("{prefix}{n}").as_bytes())).count()
}

/// Within five standard deviations of what chance gives.
fn is_fair(count: usize, millionths: u32) -> bool {
    let (found, p) = (f64::from(u32::try_from(count).unwrap()), f64::from(millionths) / 1e6);
    (found - 20_000.0 * p).abs() <= 5.0 * (20_000.0 * p * (1.0 - p)).sqrt() + 1.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_many_are_in_as_the_part_says(
        policy in "[a-z]{0,12}", prefix in "[a-z0-9.:-]{0,10}", millionths in 1..=1_000_000_u32
    ) {
        let part = part(millionths);
        let found = count(|key| part.includes(&policy, key), &prefix);
        prop_assert!(is_fair(found, millionths), "{found} of 20000 at {part}");
    }

    #[test]
    fn who_is_in_stays_in_when_the_part_grows(
        policy in ".{0,8}", identifier in any::<Vec<u8>>(), a in 1..=1_000_000_u32, b in 1..=1_000_000_u32
    ) {
        let (smaller, larger) = (part(a.min(b)), part(a.max(b)));
        prop_assert!(!smaller.includes(&policy, &identifier) || larger.includes(&policy, &identifier));
        prop_assert!(part(1_000_000).includes(&policy, &identifier));
    }

    #[test]
    fn a_part_is_written_as_it_is_read(millionths in 1..=1_000_000_u32) {
        let part = part(millionths);
        prop_assert_eq!(part.millionths(), millionths);
        prop_assert_eq!(part.to_string().parse(), Ok(part));
    }
}

/// A rule that looks at a single byte is noticed.
#[test]
fn an_unfair_rule_is_noticed() {
    let by_last_byte = |key: &[u8]| key.last().is_some_and(|last| *last == b'7');
    assert!(is_fair(count(by_last_byte, "user-"), 100_000), "a tenth of all digits");
    assert!(!is_fair(count(by_last_byte, "user-"), 120_000));
    assert!(!is_fair(count(|key| key.len() > 9, "user-"), 100_000));
}

#[test]
fn texts_that_are_no_part_say_what_to_write() {
    use PercentError::{NoNumber, NoSign, OutOfBounds, Zero};
    for (text, expected) in [
        ("10%", Ok(100_000)),
        (" 0.5 % ", Ok(5_000)),
        ("100%", Ok(1_000_000)),
        ("100.0000%", Ok(1_000_000)),
        ("0.0001%", Ok(1)),
        ("007%", Ok(70_000)),
        ("10", Err(NoSign)),
        ("0.1", Err(NoSign)),
        ("", Err(NoSign)),
        ("%", Err(NoNumber)),
        (".5%", Err(NoNumber)),
        ("5.%", Err(NoNumber)),
        ("-5%", Err(NoNumber)),
        ("1e1%", Err(NoNumber)),
        ("1,5%", Err(NoNumber)),
        ("0.00001%", Err(NoNumber)),
        ("110%", Err(OutOfBounds)),
        ("100.0001%", Err(OutOfBounds)),
        ("99999999999%", Err(OutOfBounds)),
        ("0%", Err(Zero)),
        ("0.0000%", Err(Zero)),
    ] {
        assert_eq!(text.parse::<Percent>().map(Percent::millionths), expected, "{text}");
    }
}

/// Whether the second check is allowed and in shadow, for a policy of one check.
async fn second(engine: &Timeless, key: &str) -> (bool, bool, Source) {
    let _first = engine.ask(&check(key), Op::Take).await.unwrap();
    let _asks_again = engine.ask(&check(key), Op::Take).await.unwrap();
    let answer = engine.ask(&check(key), Op::Take).await.unwrap();
    (answer.decision.allowed(), answer.shadow_denied, answer.source)
}

#[tokio::test]
async fn only_who_is_in_is_refused_over_every_kind_of_store() {
    let (inside, outside) = two_of_each();
    for mode in ["one", "all", "any"] {
        let policy = match mode {
            "any" => Policy::any().limit("a", "1/day").limit("b", "1/day"),
            "all" => Policy::all().limit("a", "1/day").limit("b", "9/day"),
            _ => Policy::all().limit("", "1/day"),
        };
        let mut policies = vec![(policy.clone(), (mode == "one").then_some(Source::DenyCache))];
        if mode == "one" {
            // GCRA cannot lease a burst of one.
            let leased = Policy::all().limit("", "fixed-window 1/day").lease(true);
            policies.push((leased, Some(Source::Lease)));
        }
        for (policy, source) in policies {
            let engine = engine(Scripted::new(Way::Yields), policy.enforce("10%"));
            let (_, _, refused_by) = second(&engine, &inside[0]).await;
            assert!(source.is_none_or(|source| source == refused_by), "{mode}: {refused_by:?}");
            assert!(!second(&engine, &inside[1]).await.0, "{mode}");
            for user in &outside {
                let (allowed, shadow_denied, by) = second(&engine, user).await;
                assert!(allowed && shadow_denied, "{mode} {user}");
                assert_eq!(by, refused_by, "remembered alike");
            }
        }
        let engine = engine(MemoryStore::default(), policy.enforce("10%"));
        assert!(!second(&engine, &inside[0]).await.0);
        assert!(second(&engine, &outside[0]).await.1);
    }
}

#[test]
fn a_blocked_key_and_a_failing_store_refuse_only_who_is_in() {
    let (inside, outside) = two_of_each();
    let blocked = Policy::all().limit("", "5/day").enforce("10%");
    let blocked = blocked.with_override(&*inside[0], Override::Block);
    let blocked = blocked.with_override(&*outside[0], Override::Block);
    let engine_of_blocked = engine(MemoryStore::default(), blocked);
    let closed = Policy::all().limit("", "5/day").enforce("10%").on_store_error(OnStoreError::DENY);
    let engine_of_closed = engine(Scripted::new(Way::Fails(StoreErrorKind::Unreachable)), closed);
    for engine in [engine_of_blocked, engine_of_closed] {
        let seen = |key| {
            let answer = engine.ask(&check(key), Op::Take).now().unwrap();
            (answer.decision.allowed(), answer.shadow_denied)
        };
        assert_eq!((seen(&inside[0]), seen(&outside[0])), ((false, false), (true, true)));
    }
}

#[test]
fn permits_and_places_in_a_queue_follow_the_caller() {
    let (inside, outside) = two_of_each();
    let pool =
        engine(MemoryStore::default(), Policy::all().limit("", "concurrency 1").enforce("10%"));
    for (user, allowed) in [(&inside[0], false), (&outside[0], true)] {
        let held = pool.acquire_for(&check(user)).now().unwrap();
        let second = pool.acquire_for(&check(user)).now().unwrap();
        assert_eq!(second.answer.decision.allowed(), allowed, "{user}");
        assert_eq!(second.answer.shadow_denied, allowed, "{user}");
        drop(held);
    }
    let shaper = Policy::shaper("1/s max-wait 1s").enforce("10%");
    let queue = engine(MemoryStore::default(), shaper);
    let delays = |user: &str| {
        [0; 3].map(|_| {
            let reservation = queue.reserve(&check(user)).now().unwrap();
            (reservation.accepted(), reservation.delay(), reservation.shadow_denied())
        })
    };
    let now = (true, Duration::ZERO, false);
    let full = (false, Duration::ZERO, false);
    assert_eq!(delays(&inside[0]), [now, (true, Duration::from_secs(1), false), full]);
    assert_eq!(delays(&outside[0]), [now, now, (true, Duration::ZERO, true)], "never delayed");
}

#[test]
fn in_one_step_only_who_is_in_refuses_the_whole() {
    let (inside, outside) = two_of_each();
    let engine = engine(MemoryStore::default(), Policy::all().limit("", "1/day").enforce("10%"));
    let other = Check { policy: "other", key: Key::One(b"x"), cost: 1 };
    let step = |user: &str| {
        let together = engine.ask_together(&[check(user), other], Op::Take).now().unwrap();
        (together.admitted(), together.answers[0].shadow_denied)
    };
    assert_eq!((step(&outside[0]), step(&outside[0])), ((true, false), (true, true)));
    assert_eq!((step(&inside[0]), step(&inside[0])), ((true, false), (false, false)));
}

/// A caller that gives one key without a name gives the tenant.
#[test]
fn a_share_is_enforced_for_a_part_of_its_tenants_however_they_are_named() {
    let (inside, outside) = two_of_each();
    for (user, allowed) in [(&inside[0], false), (&outside[0], true)] {
        let keys: [(&str, &[u8]); 1] = [("tenant", user.as_bytes())];
        for key in [Key::One(user.as_bytes()), Key::Named(&keys)] {
            let builder = Engine::builder().clock(ManualClock::default());
            let builder = builder.policy("total", Policy::all().limit_by("", "global", "1/day"));
            let share = Policy::share(Share::of("total", "tenant")).enforce("10%");
            let engine = builder.policy("api", share).build().unwrap();
            let check = Check { policy: "api", key, cost: 2 };
            let answer = engine.ask(&check, Op::Take).now().unwrap();
            assert_eq!((answer.decision.allowed(), answer.shadow_denied), (allowed, allowed));
        }
    }
}

/// Whatever order the caller names its identifiers in, and however many share the last one.
#[test]
fn the_first_limit_that_divides_callers_decides() {
    let (inside, outside) = two_of_each();
    let signup = Policy::all()
        .limit_by("everybody", "global", "1000/day")
        .limit_by("user", "user", "1/day")
        .limit_by("domain", "domain", "100/day")
        .enforce("10%");
    let engine = engine(MemoryStore::default(), signup);
    for (user, allowed) in [(&inside[0], false), (&outside[0], true)] {
        for reversed in [false, true] {
            let mut keys: [(&str, &[u8]); 2] =
                [("user", user.as_bytes()), ("domain", b"example.org")];
            if reversed {
                keys.reverse();
            }
            let check = Check { policy: "api", key: Key::Named(&keys), cost: 2 };
            let answer = engine.ask(&check, Op::Take).now().unwrap();
            assert_eq!(answer.decision.allowed(), allowed, "{user}");
        }
    }
}
