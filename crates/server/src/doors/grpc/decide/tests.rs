//! Answers while the store does not respond, and refunds.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Decision, Engine, MultiCharge, OnStoreError, Policy, Reply, ReserveReply, ReserveRequest,
    Store, StoreError, StoreReply, StoreRequest, Timestamp,
};
use tokio::time::Instant;

use super::*;
use crate::doors::grpc::request::{Descriptor, RequestLimit};
use crate::metrics::Door;
use crate::service::{AppState, Draft, InForce};
use tidegate_config::envoy::Entry;
use tidegate_config::{Config, Rls};

/// A store that never answers.
#[derive(Debug)]
struct Silent;

impl Store for Silent {
    fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> Reply<'static, StoreReply, StoreError> {
        Reply::later(std::future::pending())
    }

    fn reserve(
        &self,
        _: &ReserveRequest<'_>,
        _: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        Reply::later(std::future::pending())
    }

    fn decide_each(
        &self,
        _: &MultiCharge<'_>,
        _: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        Reply::later(std::future::pending())
    }
}

fn descriptor<'a>(policy: &'a str, user: &'a str) -> Descriptor<'a> {
    let entry = |key, value| Entry { key, value };
    let entries = [entry("policy", policy), entry("user", user)];
    Descriptor { entries: SmallVec::from_iter(entries), ..Descriptor::default() }
}

fn call<'s>(app: &'s AppState, in_force: &'s InForce) -> Call<'s> {
    app.call(in_force, Door::Grpc).within(Some(Duration::from_millis(15)))
}

/// Policies over the silent store.
fn app() -> Arc<AppState> {
    let limit = || Policy::all().limit("", "fixed-window 3/h");
    let engine = Engine::builder()
        .store(Silent)
        .policy("local", limit())
        .policy("open", limit().on_store_error(OnStoreError::Allow))
        .policy("closed", limit().on_store_error(OnStoreError::DENY));
    let draft = Draft::build(&Config::default(), engine, Arc::default(), None);
    AppState::new(draft.unwrap())
}

#[tokio::test(start_paused = true)]
async fn after_the_callers_timeout_the_failure_policies_answer() {
    let app = app();
    let in_force = app.in_force();
    for (policies, expected) in [
        (&["local"][..], Ok(vec![2])),
        (&["local", "open"], Ok(vec![1, 3])),
        (&["closed"], Err(())),
        (&["local", "closed"], Err(())),
        (&["local"], Ok(vec![0])),
    ] {
        let descriptors = policies.iter().map(|policy| descriptor(policy, "ann")).collect();
        let request = Request { domain: "tidegate", descriptors };
        let start = Instant::now();
        let decided = decide(call(&app, &in_force), &request).await;
        assert_eq!(start.elapsed().as_millis(), 15, "{policies:?}");
        let seen = decided.map(|answer| {
            answer.statuses.iter().map(|status| status.remaining).collect::<Vec<_>>()
        });
        let seen = seen.map_err(|error| assert!(matches!(error, DecideError::Unavailable(_))));
        assert_eq!(seen, expected, "{policies:?}");
    }
}

/// Rules over the silent store.
fn with_rules(name: &str, text: &str) -> Arc<AppState> {
    let path = std::env::temp_dir().join(format!("tidegate-{name}-{}.yaml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let rules = tidegate_config::envoy::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let rls = Arc::new(Rls { rules, ..Rls::default() });
    let config = Config { rls, ..Config::default() };
    let engine = Engine::builder().store(Silent);
    AppState::new(Draft::build(&config, engine, Arc::default(), None).unwrap())
}

/// Sends descriptors of one entry to the domain `edge`.
async fn ask<'a>(
    app: &'a AppState,
    in_force: &'a InForce,
    asked: &[(&'a str, Hits)],
) -> Result<RlsAnswer<'a>, DecideError> {
    let descriptor = |(key, hits): &(&'a str, Hits)| Descriptor {
        entries: SmallVec::from_iter([Entry { key, value: "ann" }]),
        hits: *hits,
        ..Descriptor::default()
    };
    let descriptors = asked.iter().map(descriptor).collect();
    let request = Request { domain: "edge", descriptors };
    decide(call(app, in_force), &request).await
}

/// The overall code, and what is left of each descriptor.
async fn ruled(app: &AppState, asked: &[(&str, Hits)]) -> (Code, Vec<u32>) {
    let in_force = app.in_force();
    let answer = ask(app, &in_force, asked).await.unwrap();
    (answer.overall, answer.statuses.iter().map(|status| status.remaining).collect())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_stands_if_its_quotas_cannot_be_refunded() {
    let rules = "{ domain: edge, descriptors: [
        { key: quota, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 9 } },
        { key: open, quota_mode: true,
          rate_limit: { unit: hour, requests_per_unit: 7, on_store_error: allow } },
        { key: user, rate_limit: { unit: hour, requests_per_unit: 1 } } ] }";
    let app = with_rules("untake", rules);
    let asked = ["quota", "open", "user"].map(|key| (key, Hits::Spend(1)));
    assert_eq!(ruled(&app, &asked).await, (Code::Ok, vec![8, 7, 0]));
    assert_eq!(ruled(&app, &asked).await, (Code::OverLimit, vec![7, 7, 0]));
    // The failed refund does not raise `remaining` above the limit.
    assert_eq!(ruled(&app, &[("open", Hits::Peek)]).await, (Code::Ok, vec![7]));
    assert_eq!(ruled(&app, &[("quota", Hits::Peek)]).await, (Code::Ok, vec![7]));
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_times_out_is_a_store_failure() {
    let rules = "{ domain: edge, descriptors: [
        { key: user, rate_limit: { unit: hour, requests_per_unit: 5 } } ] }";
    let app = with_rules("giveback", rules);
    let in_force = app.in_force();
    for (hits, stands_in) in [(Hits::Refund(1), false), (Hits::Spend(1), true)] {
        let decided = ask(&app, &in_force, &[("user", hits)]).await;
        assert_eq!(decided.is_ok(), stands_in, "{hits:?}");
        assert!(stands_in || matches!(decided, Err(DecideError::Unavailable(_))), "{decided:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_in_the_request_falls_back_to_a_local_share() {
    let app = with_rules("own", "domain: edge");
    let in_force = app.in_force();
    let limit = Some(RequestLimit { requests_per_unit: 5, unit: Unit::Hour });
    for left in [4, 3] {
        let descriptors = SmallVec::from_iter([Descriptor { limit, ..descriptor("any", "ann") }]);
        let request = Request { domain: "edge", descriptors };
        let answer = decide(call(&app, &in_force), &request).await.unwrap();
        assert_eq!(answer.statuses[0].remaining, left);
    }
}
