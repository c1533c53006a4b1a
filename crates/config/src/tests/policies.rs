//! Options of policies: what they make of a check, and what is wrong with them.

use tidegate::{Check, Engine, Key, Op};

use super::{STORES, check, lookup};
use crate::Config;

fn engine(text: &str) -> Engine {
    let policies = Config::parse(text, &lookup, STORES).unwrap().policies;
    let add = |builder: tidegate::EngineBuilder, (name, policy)| builder.policy(name, policy);
    policies.into_iter().fold(Engine::builder(), add).build().unwrap()
}

#[test]
fn a_limit_multiplies_the_cost_of_a_check() {
    for (mode, binding, left) in [("all", "units", 60), ("any", "requests", 96)] {
        let engine = engine(&format!(
            "policies:\n  plan:\n    {mode}:\n      - {{ name: requests, limit: 100/min }}\n      \
             - {{ name: units, algorithm: fixed-window, limit: 100/min, cost: 10 }}"
        ));
        let check = Check { policy: "plan", key: Key::One(b"ann"), cost: 4 };
        let answer = engine.ask(&check, Op::Take).now().unwrap();
        assert_eq!((answer.binding, answer.decision.remaining()), (binding, left), "{mode}");
    }
}

#[test]
fn a_cost_that_makes_no_sense_is_told_at_its_place() {
    let whole = "expected a whole number from 1 to 9007199254740992";
    for (cost, expected) in [
        ("0", whole.to_owned()),
        ("-1", whole.to_owned()),
        ("1.5", "expected a whole number, got a number with a fraction".to_owned()),
        ("'10'", "expected a whole number, got text".to_owned()),
        (
            "21",
            "a check costs 21 of the limit `units`, which admits 20 at once: lower the cost or raise the limit"
                .to_owned(),
        ),
    ] {
        let text = format!(
            "policies:\n  plan:\n    all:\n      - {{ name: units, limit: 1000/min, burst: 20, cost: {cost} }}"
        );
        check(&text, &[&format!("f:4:58: policies.plan.all[0].cost: {expected}")]);
    }
    check(
        "policies: { plan: { limit: 1000/min, cost: 10 } }",
        &["f:1:38: policies.plan: `cost` belongs to one of several limits: write \
           `all: [{ name: …, limit: …, cost: … }]`"],
    );
}

#[test]
fn a_policy_is_enforced_for_a_part_of_its_callers() {
    let engine = engine(
        "policies: { api: { limit: 1/h, enforce: 10% }, all: { limit: 1/h, enforce: 100% } }",
    );
    let refused = |policy: &str| {
        let is_refused = |n: &u32| {
            let user = format!("user-{n}");
            let _first = engine.check(policy, &*user).now().unwrap();
            !engine.check(policy, &*user).now().unwrap().decision.allowed()
        };
        (0..1000).filter(is_refused).count()
    };
    assert_eq!((refused("api"), refused("all")), (100, 1000));
}

#[test]
fn a_part_that_makes_no_sense_is_told_with_what_to_write() {
    for (part, expected) in [
        ("10", "has no percent sign: write `enforce: 10%`"),
        ("0.1", "has no percent sign: write `enforce: 0.1%`, or `enforce: 10%` for that part of 1"),
        (
            "'0.5'",
            "has no percent sign: write `enforce: 0.5%`, or `enforce: 50%` for that part of 1",
        ),
        (
            "0.07",
            "has no percent sign: write `enforce: 0.07%`, or `enforce: 7%` for that part of 1",
        ),
        ("0.00001", "has no percent sign: write `enforce: 0.001%`"),
        ("-5", "has no percent sign: write it as in `10%` or `0.5%`"),
        ("110", "has no percent sign: write it as in `10%` or `0.5%`"),
        ("nan", "has no percent sign: write it as in `10%` or `0.5%`"),
        ("110%", "is above 100%: expected 0.0001% to 100%"),
        ("0%", "enforces nothing: write `mode: shadow` instead"),
        ("most", "has no percent sign: write it as in `10%` or `0.5%`"),
        (
            "-5%",
            "is no percentage: write it as in `10%` or `0.5%`, with at most four decimal places",
        ),
    ] {
        let text = format!("policies: {{ api: {{ limit: 5/h, enforce: {part} }} }}");
        check(&text, &[&format!("f:1:41: policies.api.enforce: {expected}")]);
    }
    check(
        "policies: { api: { limit: 5/h, enforce: true } }",
        &["f:1:41: policies.api.enforce: expected text like 10% or a number, got true or false"],
    );
    check(
        "policies: { api: { limit: 5/h, mode: shadow, enforce: 10% } }",
        &[
            "f:1:55: policies.api.enforce: goes with `mode: enforce`: leave out `mode: shadow`, or `enforce`",
        ],
    );
    check(
        "policies: { api: { enforce: 10%, all: [{ name: a, key: global, limit: 5/h }] } }",
        &[
            "f:1:18: policies.api: enforce divides callers, and this policy has one budget for all of them: \
           leave enforce out",
        ],
    );
}
