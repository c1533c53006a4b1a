//! The service records each question once, whichever way it is asked.

use std::sync::Arc;

use tidegate::{
    Decision, Engine, KeyedLimit, Limit, MultiCharge, Op, Reply, ReserveReply, ReserveRequest,
    Scope, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest, Timestamp,
};

use super::*;
use tidegate_config::Config;

/// A store that always fails.
#[derive(Debug)]
struct Down;

impl Store for Down {
    fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> Reply<'static, StoreReply, StoreError> {
        Reply::ready(Err(StoreError::new(StoreErrorKind::Timeout, "no answer")))
    }

    fn reserve(
        &self,
        _: &ReserveRequest<'_>,
        _: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        Reply::ready(Err(StoreError::new(StoreErrorKind::Timeout, "no answer")))
    }

    fn decide_each(
        &self,
        _: &MultiCharge<'_>,
        _: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        Reply::ready(Err(StoreError::new(StoreErrorKind::Timeout, "no answer")))
    }
}

fn config(policies: &str) -> Config {
    let text = format!("policies: {{ {policies} }}");
    Config::parse(&text, &|_: &str| None, tidegate::driver::StoreDrivers::MEMORY).unwrap()
}

fn draft(policies: &str, before: Option<&InForce>) -> Draft {
    let builder = before.map_or_else(Engine::builder, |before| before.engine.successor());
    Draft::build(&config(policies), builder, Arc::default(), before).unwrap()
}

/// How the questions of a policy ended: allowed, denied, error; and how many there were.
fn ended(service: &CheckService, name: &str) -> Option<[u64; 3]> {
    let snapshot = service.metrics().snapshot();
    let found = snapshot.policies.iter().find(|policy| policy.name == name);
    found.map(|policy| [policy.allowed, policy.denied, policy.error])
}

fn check(service: &CheckService, name: &str) -> Result<bool, Unanswered> {
    let in_force = service.in_force();
    let call = service.call(&in_force, Door::Http);
    let policy = call.policy(name, Op::Take)?;
    let question = Question::new(policy, Key::One(b"ann"), 1, Op::Take);
    let answer = call.check(&question).split().ok().unwrap();
    answer.map(|answer| answer.decision.allowed())
}

#[test]
fn counters_stay_with_their_policy_across_reloads() {
    let service = CheckService::new(
        draft("api: fixed-window 2/day, login: 5/h", None),
        KeyLabels::new(None, false),
    );
    assert_eq!([(); 3].map(|()| check(&service, "api")), [Ok(true), Ok(true), Ok(false)]);
    assert_eq!(check(&service, "login"), Ok(true));
    // The indexes of all policies change, and their counters do not.
    let next = draft("api: fixed-window 2/day, aaa: 1/s", Some(&service.in_force()));
    assert_eq!(ended(&service, "api"), Some([2, 1, 0]), "a draft changes nothing");
    service.install(next);
    assert_eq!(check(&service, "api"), Ok(false));
    assert_eq!(ended(&service, "api"), Some([2, 2, 0]));
    assert_eq!((ended(&service, "aaa"), ended(&service, "login")), (Some([0; 3]), None));
}

#[test]
fn unknown_policies_are_errors_under_one_name() {
    let service = CheckService::new(draft("login: 5/h", None), KeyLabels::new(None, false));
    for number in 0..50 {
        assert!(check(&service, &format!("made-up-{number}")).is_err());
    }
    assert_eq!(
        check(&service, "logn"),
        Err(Unanswered::UnknownPolicy { name: "logn".to_owned(), removed_at: None })
    );
    assert_eq!(ended(&service, "(unknown)"), Some([0, 0, 51]));
    assert_eq!(service.metrics().snapshot().policies.len(), 2);
}

#[tokio::test]
async fn every_kind_of_question_has_a_source_while_the_store_fails() {
    let policies = "api: 5/h, export: { algorithm: leaky-bucket, limit: 2/s, max_wait: 5s }, \
                    closed: { algorithm: leaky-bucket, limit: 2/s, max_wait: 5s, on_store_error: deny }, \
                    job: { algorithm: concurrency, limit: 1 }";
    let draft =
        Draft::build(&config(policies), Engine::builder().store(Down), Arc::default(), None);
    let service = CheckService::new(draft.unwrap(), KeyLabels::new(None, false));
    let in_force = service.in_force();
    let call = service.call(&in_force, Door::Http);
    let question =
        |name| Question::new(call.policy(name, Op::Take).unwrap(), Key::One(b"ann"), 1, Op::Take);
    assert!(call.check(&question("api")).await.is_ok());
    assert!(call.check_together(&[question("api"), question("api")], Op::Take).await.is_ok());
    assert!(call.acquire(&question("job")).await.is_ok());
    assert!(call.reserve(&question("export")).await.unwrap().reservation().accepted());
    let closed = call.reserve(&question("closed")).await.unwrap_err();
    assert!(matches!(closed, Unanswered::FailedClosed { .. }), "{closed:?}");
    let (scope, limit): (_, Limit) = (Scope::named("", "given"), "5/h".parse().unwrap());
    let given = KeyedLimit { scope: &scope, key: b"ann", limit: &limit };
    let reply = call.check_given(&given, 1, Op::Take, |_| ()).unwrap_err();
    assert!(reply.await.is_ok());
    for (name, expected) in [
        ("api", [3, 0, 0]),
        ("job", [1, 0, 0]),
        ("export", [1, 0, 0]),
        ("closed", [0, 0, 1]),
        ("(request)", [1, 0, 0]),
    ] {
        assert_eq!(ended(&service, name), Some(expected), "{name}");
    }
    assert_eq!(service.metrics().snapshot().store_errors, 7, "one for each question");
}

#[test]
fn only_takes_are_recorded() {
    let service =
        CheckService::new(draft("api: fixed-window 1/day", None), KeyLabels::new(None, false));
    let in_force = service.in_force();
    let call = service.call(&in_force, Door::Http);
    let policy = call.policy("api", Op::Peek).unwrap();
    for op in [Op::Peek, Op::Refund, Op::Reset] {
        let question = Question::new(policy, Key::One(b"ann"), 9, op);
        assert!(call.check(&question).split().is_ok_and(|answer| answer.is_ok()));
    }
    assert_eq!(ended(&service, "api"), Some([0; 3]));
    let peek = Question {
        record: Record::IfRefused,
        ..Question::new(policy, Key::One(b"ann"), 9, Op::Peek)
    };
    assert!(call.in_shadow(true).check(&peek).split().is_ok());
    assert_eq!(service.metrics().snapshot().policies[0].shadow_denied, 1);
}
