//! Tenants share one limit: each gets its part within a second, and all together never more than the limit.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Check, Effective, Engine, Key, ManualClock, MemoryStore, OnStoreError, Op, Override, Policy,
    PolicyProblem, Share, ShareStatus, Source,
};
use tidegate_testkit::scripted::{Scripted, Way};

/// A tenant that asks so many times a second, from one second to another.
#[derive(Clone, Copy)]
struct Tenant {
    name: &'static str,
    plan: &'static str,
    rate: u64,
    seconds: (u64, u64),
}

const fn tenant(name: &'static str, rate: u64) -> Tenant {
    Tenant { name, plan: "", rate, seconds: (0, u64::MAX) }
}

type Engines = Vec<Engine<ManualClock>>;

fn total(limit: &str) -> Policy {
    Policy::all().limit_by("", "global", limit)
}

fn api() -> Policy {
    let plans = [("gold", 4), ("enterprise", Share::WEIGHT_MAX)];
    Policy::share(Share::of("total", "tenant").weights("plan", plans, 1))
}

/// Nodes on one store.
fn fleet(nodes: u32, limit: &str, clock: &ManualClock) -> Engines {
    let store = Arc::new(MemoryStore::default());
    let node = |_| {
        let engine = Engine::builder().store(store.clone()).clock(clock.clone());
        let engine = engine.nodes(NonZeroU32::new(nodes).unwrap());
        engine.policy("total", total(limit)).policy("api", api()).build().unwrap()
    };
    (0..nodes).map(node).collect()
}

fn ask(engine: &Engine<ManualClock>, name: &str, plan: &str) -> bool {
    let keys: [(&str, &[u8]); 2] = [("tenant", name.as_bytes()), ("plan", plan.as_bytes())];
    let check = Check { policy: "api", key: Key::Named(&keys), cost: 1 };
    engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
}

/// What each tenant was admitted in each second. Requests come evenly, and go round the nodes.
fn run(engines: &Engines, clock: &ManualClock, tenants: &[Tenant], seconds: u64) -> Vec<Vec<u64>> {
    const STEPS: u64 = 2_000;
    let mut admitted = vec![vec![0; tenants.len()]; usize::try_from(seconds).unwrap()];
    let mut owed = vec![0; tenants.len()];
    let mut node = 0;
    for step in 0..seconds * STEPS {
        clock.advance(Duration::from_micros(1_000_000 / STEPS));
        let second = step / STEPS;
        for (index, tenant) in tenants.iter().enumerate() {
            if second < tenant.seconds.0 || second >= tenant.seconds.1 {
                continue;
            }
            owed[index] += tenant.rate;
            while owed[index] >= STEPS {
                owed[index] -= STEPS;
                node = (node + 1) % engines.len();
                let allowed = ask(&engines[node], tenant.name, tenant.plan);
                admitted[usize::try_from(second).unwrap()][index] += u64::from(allowed);
            }
        }
    }
    admitted
}

/// That each tenant got so much in each second from `since` on, give or take 5 %, or two units.
fn check(admitted: &[Vec<u64>], since: usize, expected: &[u64]) {
    for (second, got) in admitted.iter().enumerate().skip(since) {
        for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
            let off = got.abs_diff(*expected);
            assert!(off <= (expected / 20).max(2), "second {second}, tenant {index}: {admitted:?}");
        }
    }
}

/// That never more was admitted than `burst + rate · t`, for each time since the start.
fn check_total(admitted: &[Vec<u64>], rate: u64, burst: u64) {
    let mut sum = 0;
    for (second, got) in (1_u64..).zip(admitted) {
        sum += got.iter().sum::<u64>();
        assert!(sum <= burst + rate * second, "after {second} s: {admitted:?}");
    }
}

const HOG: Tenant = tenant("hog", 20_000);

#[test]
fn each_gets_its_share_within_a_second() {
    let quiet = |name| tenant(name, 40);
    let gold = |name| Tenant { plan: "gold", ..tenant(name, 2_000) };
    let cases: [(&str, &[Tenant], &[u64]); 6] = [
        // A hundred times what there is, beside two who ask for less than their share.
        ("200/s burst 20", &[HOG, quiet("a"), quiet("b")], &[120, 40, 40]),
        ("200/s burst 20", &[HOG, tenant("a", 2_000)], &[100, 100]),
        ("200/s burst 20", &[HOG, gold("a")], &[40, 160]),
        // What gold does not use is lent.
        ("200/s burst 20", &[HOG, Tenant { plan: "gold", ..quiet("a") }], &[160, 40]),
        ("token-bucket 200/s capacity 20", &[HOG, quiet("a"), gold("b")], &[33, 33, 133]),
        ("sliding-window 200/s", &[HOG, quiet("a"), quiet("b")], &[120, 40, 40]),
    ];
    for (limit, tenants, expected) in cases {
        let clock = ManualClock::default();
        let admitted = run(&fleet(1, limit, &clock), &clock, tenants, 5);
        // Who took twice its share before anybody knew has as much less in the second that follows.
        let since = if limit.starts_with("200/s") { 1 } else { 2 };
        check(&admitted, since, expected);
        check_total(&admitted, 200, if limit.contains("window") { 200 } else { 20 });
    }
}

#[test]
fn a_fleet_shares_like_one_node() {
    for nodes in [2, 5] {
        let clock = ManualClock::default();
        let engines = fleet(nodes, "1000/s burst 100", &clock);
        let gold = Tenant { plan: "gold", ..tenant("gold", 5_000) };
        let quiet = tenant("quiet", 100);
        let admitted = run(&engines, &clock, &[HOG, gold, quiet], 6);
        check(&admitted, 2, &[180, 720, 100]);
        check_total(&admitted, 1_000, 100);
    }
}

#[test]
fn shares_follow_who_comes_and_goes() {
    let clock = ManualClock::default();
    let engines = fleet(1, "200/s burst 20", &clock);
    let late = Tenant { seconds: (2, 5), ..tenant("late", 2_000) };
    let admitted = run(&engines, &clock, &[HOG, late], 8);
    check(&admitted[..2], 1, &[200, 0]);
    check(&admitted[..5], 3, &[100, 100]);
    check(&admitted[..8], 7, &[200, 0]);
    check_total(&admitted, 200, 20);
}

#[test]
fn without_contention_nobody_notices() {
    let clock = ManualClock::default();
    let engine = &fleet(1, "200/s burst 20", &clock)[0];
    let plain = Engine::builder().clock(clock.clone()).policy("total", total("200/s burst 20"));
    let plain = plain.build().unwrap();
    for step in 0..2_000_u64 {
        clock.advance(Duration::from_micros(6_000 + 300 * (step % 7)));
        let name = format!("tenant {}", step % 11);
        let answer = engine.check("api", &name).now().unwrap();
        assert_eq!(answer.decision, plain.check("total", "").now().unwrap().decision);
        assert_eq!(answer.binding, "total");
    }
    let status = engine.policy_ref("api").unwrap().share_status();
    assert_eq!(status, Some(ShareStatus { active: 11, level: None }));
}

/// What was saved up is there for everybody, however slowly it comes in.
#[test]
fn bursts_that_fit_into_the_limit_are_admitted() {
    for (limit, requests, within_ms, every_ms, times) in [
        ("1000/h", 30, 3_000, 3_000, 1),
        ("1000/h", 10, 2_000, 8_000, 1),
        ("1000/h", 400, 100, 8_000, 1),
        ("600/min", 20, 1_500, 6_000, 10),
        ("token-bucket 600/min", 20, 1_500, 6_000, 10),
        ("sliding-window 600/min", 20, 1_500, 6_000, 10),
        ("fixed-window 1000/h", 30, 3_000, 3_000, 10),
        ("100/s burst 300", 80, 800, 2_000, 10),
        ("100/s burst 300", 45, 10, 1_000, 10),
    ] {
        for nodes in [1, 3] {
            let clock = ManualClock::default();
            let engines = fleet(nodes, limit, &clock);
            for round in 0..times {
                for request in 0..requests {
                    clock.advance(Duration::from_millis(within_ms) / requests);
                    for tenant in 0..2 {
                        let node = usize::try_from((request + tenant) % nodes).unwrap();
                        let name = format!("tenant {tenant}");
                        let allowed = ask(&engines[node], &name, "");
                        assert!(allowed, "{limit}, {nodes} nodes: {request} of {round}");
                    }
                }
                clock.advance(Duration::from_millis(every_ms - within_ms));
            }
        }
    }
}

/// A tenant that spends the whole burst leaves those beside it their part of what comes in.
#[test]
fn a_burst_that_one_tenant_spends_leaves_the_others_their_parts() {
    for nodes in [1, 2] {
        for (limit, expected) in [("600/min", 4), ("60/min burst 600", 0)] {
            let clock = ManualClock::default();
            let rate = if expected == 0 { 2 } else { expected };
            let tenants = [tenant("hog", 200), tenant("quiet", rate)];
            let admitted = run(&fleet(nodes, limit, &clock), &clock, &tenants, 30);
            let used: u64 = admitted.iter().flatten().sum();
            let quiet: u64 = admitted.iter().map(|second| second[1]).sum();
            let all = format!("{limit}, {nodes} nodes: {admitted:?}");
            if expected > 0 {
                check(&admitted, 8, &[10 - expected, expected]);
                assert!(admitted.iter().all(|second| second[1] + 1 >= expected), "{all}");
                assert!((885..=900).contains(&used), "{all}");
            } else {
                assert!(quiet >= 12 && used >= 610, "{all}");
            }
        }
    }
}

#[test]
fn one_tenant_alone_may_use_all() {
    let clock = ManualClock::default();
    let admitted = run(&fleet(1, "200/s burst 20", &clock), &clock, &[HOG], 3);
    check(&admitted, 1, &[200]);
}

#[test]
fn the_answer_names_what_has_refused() {
    let clock = ManualClock::default();
    let engine = &fleet(1, "200/s burst 20", &clock)[0];
    run(&vec![engine.clone()], &clock, &[HOG, tenant("a", 40)], 3);
    let refused = engine.check("api", "hog").now().unwrap();
    assert!(!refused.decision.allowed());
    assert_eq!(refused.binding, "api"); // its own part
    let status = engine.policy_ref("api").unwrap().share_status().unwrap();
    assert!(status.level.is_some_and(|level| (0.75..0.85).contains(&level)), "{status:?}");
    let taken = Check { policy: "total", key: Key::One(b""), cost: 20 };
    engine.ask(&taken, Op::Take).now().unwrap(); // all that is left, whoever has it
    let drained = engine.ask(&taken, Op::Take).now().unwrap();
    assert!(!drained.decision.allowed());
}

/// The limit is exact for those who are asked beside the share, too.
#[test]
fn the_shared_policy_counts_what_its_share_admits() {
    let clock = ManualClock::default();
    let engine = &fleet(1, "fixed-window 5/h", &clock)[0];
    assert!(ask(engine, "a", "") && ask(engine, "b", ""));
    let answer = engine.check("total", "whoever").now().unwrap();
    assert_eq!(answer.decision.remaining(), 2);
    assert!(ask(engine, "c", "") && ask(engine, "c", "") && !ask(engine, "d", ""));
    let refund = Check { policy: "api", key: Key::One(b"c"), cost: 2 };
    engine.ask(&refund, Op::Refund).now().unwrap();
    assert_eq!(engine.check("total", "whoever").now().unwrap().decision.remaining(), 1);
}

/// More than a thousand tenants: those beyond are one, and none of them is forgotten.
#[test]
fn tenants_beyond_a_thousand_share_one_part() {
    let clock = ManualClock::default();
    let engine = &fleet(1, "10000/s burst 1000", &clock)[0];
    let mut admitted = 0;
    for tick in 0..40_u64 {
        clock.advance(Duration::from_millis(100));
        for name in (0..1_500).chain(0..1_500) {
            admitted += u64::from(ask(engine, &format!("tenant {name}"), ""));
        }
        assert!(admitted <= 1_000 + (tick + 1) * 1_000);
    }
    let status = engine.policy_ref("api").unwrap().share_status().unwrap();
    assert_eq!(status.active, 1_000);
    // 30,000 are asked for, of which 10,000 by the rest: a thousandth each, and as much for all of them together.
    assert!(status.level.is_some_and(|level| (0.0009..0.0012).contains(&level)), "{status:?}");
}

/// Twenty thousand made-up names a second get a unit each for five hundred of them, and one part together. Real tenants
/// keep theirs.
#[test]
fn made_up_tenants_push_nobody_out() {
    check_made_up(None);
}

/// Who has no entry has the weight of all others, whatever plan it names.
#[test]
fn heavy_newcomers_make_the_others_without_an_entry_no_heavier() {
    check_made_up(Some("enterprise"));
}

/// With a new tenant of this plan each millisecond.
fn check_made_up(newcomer: Option<&str>) {
    let clock = ManualClock::default();
    let engine = &fleet(1, "10000/s burst 1000", &clock)[0];
    let (mut admitted, mut name) = ([0, 0], 0_u64);
    for step in 0..4_000_u64 {
        clock.advance(Duration::from_millis(1));
        for _ in 0..20 {
            name += 1;
            ask(engine, &format!("made up {name}"), "");
        }
        for (index, real) in ["a", "b"].iter().enumerate() {
            for _ in 0..2 {
                admitted[index] += u64::from(ask(engine, real, "") && step >= 1_000);
            }
        }
        // Once all entries are taken: the last one to ask before a tick ends.
        if let Some(plan) = newcomer.filter(|_| step >= 100) {
            ask(engine, &format!("new {step}"), plan);
        }
    }
    let active = engine.policy_ref("api").unwrap().share_status().unwrap().active;
    assert!((2..=502).contains(&active), "{active}");
    assert!(admitted.iter().all(|admitted| *admitted >= 5_700), "{admitted:?} of 6000");
}

/// 2,800 made-up names a second, each seen once: together they are one tenant, which leaves an honest one all it asks for,
/// and uses the rest of the limit.
#[test]
fn a_flood_of_made_up_names_leaves_an_honest_tenant_its_part_and_no_limit_idle() {
    for rate in [400, 700, 2_800, 20_000] {
        let clock = ManualClock::default();
        let engine = &fleet(1, "100/s burst 20", &clock)[0];
        let (mut owed, mut name, mut asked, mut honest, mut flood) = (0, 0_u64, 0, 0, 0);
        for ms in 0..10_000_u64 {
            clock.advance(Duration::from_millis(1));
            let is_counted = ms >= 2_000;
            owed += rate;
            for _ in 0..owed / 1_000 {
                name += 1;
                flood += u64::from(ask(engine, &format!("made up {name}"), "") && is_counted);
            }
            owed %= 1_000;
            if ms % 200 == 7 {
                asked += u64::from(is_counted);
                honest += u64::from(ask(engine, "honest", "") && is_counted);
            }
        }
        let all = format!("{rate}/s: honest {honest} of {asked}, flood {flood}");
        assert!(honest * 100 >= asked * 95 && (720..=820).contains(&(honest + flood)), "{all}");
    }
}

#[test]
fn an_adaptive_limit_is_shared_as_it_is_in_force() {
    let (clock, load) = (ManualClock::default(), Effective::default());
    let engine = Engine::builder().clock(clock.clone());
    let engine = engine.policy("total", total("200/s burst 20").adaptive("", &load));
    let engine = vec![engine.policy("api", api()).build().unwrap()];
    load.set(100);
    let admitted = run(&engine, &clock, &[HOG, tenant("a", 2_000), tenant("b", 20)], 4);
    check(&admitted, 1, &[40, 40, 20]);
    check_total(&admitted, 100, 20);
}

/// A store that nobody reaches.
#[derive(Debug)]
struct Down;
impl tidegate::Store for Down {
    fn decide(
        &self,
        _: &tidegate::StoreRequest<'_>,
        _: tidegate::Timestamp,
    ) -> tidegate::StoreResult<tidegate::StoreReply> {
        let kind = tidegate::StoreErrorKind::Unreachable;
        tidegate::Reply::failed(tidegate::StoreError::new(kind, "no connection"))
    }
    fn reserve(
        &self,
        _: &tidegate::ReserveRequest<'_>,
        _: tidegate::Timestamp,
    ) -> tidegate::StoreResult<tidegate::ReserveReply> {
        let kind = tidegate::StoreErrorKind::Unreachable;
        tidegate::Reply::failed(tidegate::StoreError::new(kind, "no connection"))
    }
}

/// While the store fails, each node gives the tenants its part of their parts.
#[test]
fn without_the_store_each_node_shares_its_part() {
    let clock = ManualClock::default();
    let engine =
        Engine::builder().store(Down).clock(clock.clone()).nodes(NonZeroU32::new(2).unwrap());
    let engine = engine.policy("total", total("400/s burst 40")).policy("api", api());
    let engine = vec![engine.build().unwrap()];
    assert_eq!(engine[0].check("api", "a").now().unwrap().source, Source::Local);
    let admitted = run(&engine, &clock, &[HOG, tenant("a", 40), tenant("b", 2_000)], 4);
    check(&admitted, 2, &[80, 40, 80]);
    check_total(&admitted, 200, 20);
}

/// Otherwise tenants would get through the share what the policy that they share refuses.
#[test]
fn a_share_answers_a_failure_as_what_it_shares_unless_told_otherwise() {
    let later = OnStoreError::Deny { retry_after: Duration::from_secs(5) };
    for (of_total, of_api, expected) in [
        (None, None, OnStoreError::Local),
        (Some(later), None, later),
        (Some(OnStoreError::Allow), None, OnStoreError::Allow),
        (Some(OnStoreError::DENY), Some(OnStoreError::Local), OnStoreError::Local),
        (None, Some(OnStoreError::DENY), OnStoreError::DENY),
    ] {
        let with = |policy: Policy, given: Option<OnStoreError>| match given {
            Some(given) => policy.on_store_error(given),
            None => policy,
        };
        let engine = Engine::builder().store(Down).policy("total", with(total("400/s"), of_total));
        let engine = engine.policy("api", with(api(), of_api)).build().unwrap();
        assert_eq!(engine.policy_ref("api").unwrap().on_store_error(), expected);
        let source = match expected {
            OnStoreError::Allow => Source::FailOpen,
            OnStoreError::Deny { .. } => Source::FailClosed,
            OnStoreError::Local => Source::Local,
        };
        let answer = engine.check("api", "acme").now().unwrap();
        assert_eq!(answer.source, source, "{of_total:?} {of_api:?}");
    }
}

#[test]
fn a_check_without_a_tenant_says_so() {
    let engine = &fleet(1, "5/h", &ManualClock::default())[0];
    let check = |key| engine.ask(&Check { policy: "api", key, cost: 1 }, Op::Take).now();
    let error = check(Key::Named(&[("plan", b"gold")])).unwrap_err();
    assert!(error.to_string().contains("tenant"), "{error}");
    assert!(check(Key::One(b"acme")).is_ok());
    assert!(check(Key::Named(&[("tenant", b"acme")])).is_ok());
}

/// What others have spent is theirs, and the limit of everybody stays exact.
#[test]
fn a_reset_of_a_key_leaves_the_limits_of_everybody_alone() {
    let clock = ManualClock::default();
    let both = Policy::all().limit_by("all", "global", "9/h").limit_by("one", "tenant", "3/h");
    let engine = Engine::builder().clock(clock.clone()).policy("total", total("10/h"));
    let engine = engine.policy("api", api()).policy("both", both).build().unwrap();
    let ask = |policy, op| {
        let keys: [(&str, &[u8]); 1] = [("tenant", b"acme")];
        let check = Check { policy, key: Key::Named(&keys), cost: 1 };
        engine.ask(&check, op).now().unwrap()
    };
    for policy in ["api", "both"] {
        for _ in 0..3 {
            assert!(ask(policy, Op::Take).decision.allowed());
        }
    }
    let reset = ask("both", Op::Reset);
    assert_eq!((reset.binding, reset.decision.remaining()), ("one", 3));
    for left in [2, 1, 0] {
        assert_eq!(ask("both", Op::Take).decision.remaining(), left);
    }
    assert!(!ask("both", Op::Take).decision.allowed());
    ask("both", Op::Reset);
    assert_eq!(ask("both", Op::Take).decision.remaining(), 2);
    assert!(ask("both", Op::Take).decision.allowed() && ask("both", Op::Take).decision.allowed());
    ask("both", Op::Reset);
    let refused = ask("both", Op::Take); // 9 of all tenants together are spent
    assert_eq!((refused.decision.allowed(), refused.binding), (false, "all"));
    ask("api", Op::Reset);
    assert_eq!(engine.check("total", "").now().unwrap().decision.remaining(), 6);
    ask("total", Op::Reset); // has no other limit
    assert_eq!(engine.check("total", "").now().unwrap().decision.remaining(), 9);
}

/// In the period of the limit that is shared, not in the units that parts are counted in.
#[test]
fn a_tenant_is_told_its_part_of_the_shared_limit() {
    let clock = ManualClock::default();
    let engines = fleet(1, "100/min burst 20", &clock);
    run(&engines, &clock, &[tenant("a", 50), tenant("b", 50)], 4);
    let refused = engines[0].check("api", "a").now().unwrap();
    assert!(!refused.decision.allowed());
    let limit = refused.limit.unwrap();
    assert_eq!((limit.units(), limit.period()), (50, Duration::from_mins(1)));
}

/// Nobody can choose `global`, so it need not be allowed.
#[test]
fn an_allowed_tenant_is_not_limited_however_it_is_named() {
    let clock = ManualClock::default();
    let allowed = |policy: Policy| policy.with_override("acme", Override::Allow);
    let both = Policy::all().limit_by("all", "global", "1/h").limit_by("one", "tenant", "1/h");
    let users = Policy::all().limit_by("one", "tenant", "1/h").limit_by("two", "user", "1/h");
    let all = Policy::all().limit_by("all", "global", "1/h").limit_by("day", "global", "1/day");
    let engine = Engine::builder().clock(clock).policy("total", total("1/h"));
    let engine = engine.policy("api", allowed(api())).policy("both", allowed(both));
    let engine = engine.policy("users", allowed(users)).policy("all", allowed(all));
    let engine = engine.build().unwrap();
    let keys = |tenant: &'static str| -> [(&str, &[u8]); 2] {
        [("tenant", tenant.as_bytes()), ("user", b"u")]
    };
    let ask = |policy, keys: &[(&str, &[u8])]| {
        let check = Check { policy, key: Key::Named(keys), cost: 2 };
        engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
    };
    for (policy, tenant, expected) in [
        ("api", "acme", true),
        ("api", "other", false),
        ("both", "acme", true),
        ("both", "other", false),
        ("users", "acme", false), // the user is not allowed
        ("all", "acme", false),
    ] {
        assert_eq!(ask(policy, &keys(tenant)), expected, "{policy} {tenant}");
    }
}

#[test]
fn nodes_are_asked_again_after_an_exchange_was_lost() {
    let (clock, store) = (ManualClock::default(), Scripted::new(Way::Hangs));
    let engine = Engine::builder().store(store.clone()).clock(clock.clone());
    let engine = engine.nodes(NonZeroU32::new(2).unwrap());
    let engine = engine.policy("total", total("100/s")).policy("api", api()).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { drop(engine.check("api", "a")) });
    drop(runtime); // with the task that waits
    assert_eq!(store.calls(), 2, "an exchange and a check");
    store.behave(Way::AtOnce);
    clock.advance(Duration::from_secs(1));
    assert!(engine.check("api", "a").now().unwrap().decision.allowed());
    assert_eq!(store.calls(), 3, "an answer may still come");
    clock.advance(Duration::from_secs(2));
    assert!(engine.check("api", "a").now().unwrap().decision.allowed());
    assert!(store.calls() > 4, "{}", store.calls());
}

#[test]
fn a_share_is_in_a_quorum_where_what_it_shares_is() {
    for quorum in [false, true] {
        let engine = Engine::builder().policy("total", total("5/h").quorum(quorum));
        let engine = engine.policy("api", api()).build().unwrap();
        assert_eq!(engine.policy_ref("api").unwrap().is_in_quorum(), quorum);
    }
}

#[test]
fn a_share_of_a_share_is_told_so_in_every_order() {
    let of = |of: &str| Policy::share(Share::of(of, "tenant"));
    for names in [["a", "b"], ["b", "a"]] {
        let policies = names.map(|name| (name, of(if name == "a" { "b" } else { "total" })));
        let engine = Engine::builder().policy("total", total("5/h"));
        let engine =
            policies.into_iter().fold(engine, |it, (name, policy)| it.policy(name, policy));
        let problem = engine.build().err().map(|error| (error.policy, error.problem));
        assert_eq!(problem, Some(("a".to_owned(), PolicyProblem::ShareOfShare("b".into()))));
    }
}

#[test]
fn tenants_keep_their_parts_through_a_reload() {
    let clock = ManualClock::default();
    let engine = &fleet(1, "200/s burst 20", &clock)[0];
    run(&vec![engine.clone()], &clock, &[HOG, tenant("a", 40)], 3);
    let level = |engine: &Engine<ManualClock>| {
        engine.policy_ref("api").unwrap().share_status().unwrap().level
    };
    let next = |limit| engine.successor().policy("total", total(limit)).policy("api", api());
    let same = next("200/s burst 20").build().unwrap();
    assert!(level(&same).is_some() && level(&same) == level(engine));
    assert_eq!(level(&next("100/s").build().unwrap()), None, "another limit starts anew");
}

/// Whoever is called the same in two policies of one limit is one tenant, and others contend with it from both.
#[test]
fn policies_that_share_a_limit_divide_it_together() {
    for (of_batch, expected) in [("hog", 100), ("other", 67)] {
        let clock = ManualClock::default();
        let engine = Engine::builder().clock(clock.clone());
        let engine = engine.policy("total", total("200/s burst 20"));
        let engine = engine.policy("api", api()).policy("batch", api()).build().unwrap();
        let (mut ann, mut all) = (0, 0);
        for step in 0..4_000_u64 {
            clock.advance(Duration::from_millis(1));
            let mut asked = [("api", "hog"), ("batch", of_batch), ("api", "ann")];
            asked.rotate_left(usize::try_from(step % 3).unwrap());
            for (policy, tenant) in asked {
                let allowed = engine.check(policy, tenant).now().unwrap().decision.allowed();
                let allowed = u64::from(allowed && step >= 1_000);
                all += allowed;
                ann += allowed * u64::from(tenant == "ann");
            }
        }
        assert!((585..=600).contains(&all), "{all} in three seconds");
        assert!(u64::abs_diff(ann, 3 * expected) <= 15, "{of_batch}: {ann} in three seconds");
        let status = engine.policy_ref("batch").unwrap().share_status().unwrap();
        assert_eq!(status.active, if of_batch == "hog" { 2 } else { 3 });
    }
}

/// A block of the shared limit holds for its tenants, and so does its being lifted for all.
#[test]
fn an_override_of_the_shared_limit_holds_for_its_tenants() {
    let clock = ManualClock::default();
    let ask = |of_all: Override, of_tenant: Option<Override>| {
        let own = of_tenant.into_iter().fold(api(), |it, own| it.with_override("acme", own));
        let engine = Engine::builder().clock(clock.clone());
        let engine = engine.policy("total", total("1/h").with_override("global", of_all));
        let engine = engine.policy("api", own).build().unwrap();
        let check = Check { policy: "api", key: Key::One(b"acme"), cost: 2 };
        engine.ask(&check, Op::Take).now().unwrap().decision.allowed()
    };
    assert!(ask(Override::Allow, None));
    assert!(!ask(Override::Block, None));
    assert!(!ask(Override::Block, Some(Override::Allow)));
    assert!(!ask(Override::Allow, Some(Override::Block)));
}

/// Whoever needs more at once than its part of the burst gets its part of the rate all the same.
#[test]
fn a_tenant_whose_checks_are_large_gets_its_part() {
    let clock = ManualClock::default();
    let engines = fleet(1, "100/s burst 10", &clock);
    let take = |name: &str, cost| {
        let keys: [(&str, &[u8]); 1] = [("tenant", name.as_bytes())];
        let check = Check { policy: "api", key: Key::Named(&keys), cost };
        engines[0].ask(&check, Op::Take).now().unwrap().decision
    };
    let (mut large, mut small) = (0, 0);
    for step in 0..10_000 {
        clock.advance(Duration::from_millis(1));
        let decisions = [take("large", 8), take("small", 1)];
        // `None` is never.
        assert!(decisions[0].allowed() || decisions[0].retry_after().is_some());
        if step >= 2_000 {
            large += 8 * u64::from(decisions[0].allowed());
            small += u64::from(decisions[1].allowed());
        }
    }
    // 50 a second each.
    for got in [large, small] {
        assert!((340..=460).contains(&got), "{large} and {small} of 400 each");
    }
}

/// Under the burst that a limit has by default, and under one of hardly more than a check.
#[test]
fn who_asks_for_little_gets_it_whatever_the_others_saved_up() {
    for limit in ["100/s", "100/s burst 2", "token-bucket 100/s", "1000/s"] {
        for nodes in [1, 2] {
            let clock = ManualClock::default();
            let rate = 3 * limit.parse::<tidegate_core::Limit>().unwrap().units();
            let loud = [tenant("first", rate), tenant("second", rate), tenant("quiet", 5)];
            let admitted = run(&fleet(nodes, limit, &clock), &clock, &loud, 12);
            for (second, admitted) in admitted.iter().enumerate().skip(1) {
                assert!(admitted[2] >= 4, "{limit}, {nodes} nodes: {second}: {admitted:?}");
            }
        }
    }
}

/// Each burst of what one saved up while the other asked is one that there is not.
#[test]
fn loud_tenants_that_take_turns_leave_the_others_what_they_ask_for() {
    let clock = ManualClock::default();
    let engines = fleet(1, "100/s", &clock);
    let (mut late, mut asked) = (0, 0);
    for step in 0..20_000 {
        clock.advance(Duration::from_millis(1));
        if step % 3 == 0 {
            ask(&engines[0], if step / 2_000 % 2 == 0 { "first" } else { "second" }, "");
        }
        if step % 200 == 0 {
            let is_admitted = ask(&engines[0], "quiet", "");
            if step >= 2_000 {
                (late, asked) = (late + u64::from(!is_admitted), asked + 1);
            }
        }
    }
    // Alone, a loud tenant contends with nobody: what it takes is gone, and is noticed a tick later.
    assert!(late * 10 <= asked, "{late} of {asked} were refused");
}

/// As by a take that follows it.
#[test]
fn a_peek_has_as_much_room_as_a_take() {
    let clock = ManualClock::default();
    let engines = fleet(1, "200/s burst 20", &clock);
    let tenants = ["first", "second", "third"].map(|name| tenant(name, 300));
    run(&engines, &clock, &tenants, 3);
    clock.advance(Duration::from_millis(100));
    let keys: [(&str, &[u8]); 1] = [("tenant", b"new")];
    let check = Check { policy: "api", key: Key::Named(&keys), cost: 10 };
    let ask = |op| engines[0].ask(&check, op).now().unwrap().decision;
    assert!(engines[0].policy_ref("api").unwrap().share_status().unwrap().level.is_some());
    assert_eq!(ask(Op::Peek).allowed(), ask(Op::Take).allowed());
    assert!(
        !ask(Op::Peek).allowed() && ask(Op::Peek).retry_after().is_some(),
        "{:?}",
        ask(Op::Peek)
    );
}

/// Of one policy or of two, and by whatever weight.
#[test]
fn several_checks_of_a_tenant_in_one_step_have_room() {
    let clock = ManualClock::default();
    let batch = Policy::share(Share::of("total", "tenant"));
    let engine = Engine::builder().clock(clock.clone()).policy("total", total("200/s burst 20"));
    let engines = vec![engine.policy("api", api()).policy("batch", batch).build().unwrap()];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    run(&engines, &clock, &names.map(|name| tenant(name, 100)), 3);
    clock.advance(Duration::from_secs(1));
    let gold: [(&str, &[u8]); 2] = [("tenant", b"new"), ("plan", b"gold")];
    let plain: [(&str, &[u8]); 1] = [("tenant", b"new")];
    for checks in [
        [("api", &gold[..], 10), ("api", &gold[..], 10)],
        [("api", &gold[..], 10), ("batch", &plain[..], 10)],
        [("batch", &plain[..], 10), ("api", &gold[..], 10)],
    ] {
        clock.advance(Duration::from_mins(1));
        run(&engines, &clock, &names.map(|name| tenant(name, 100)), 3);
        let checks =
            checks.map(|(policy, keys, cost)| Check { policy, key: Key::Named(keys), cost });
        let together = engines[0].ask_together(&checks, Op::Take).now().unwrap();
        for answer in together.answers {
            let decision = answer.decision;
            assert!(decision.allowed() || decision.retry_after().is_some(), "{decision:?}");
        }
    }
}
