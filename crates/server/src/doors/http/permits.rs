//! `POST /v1/acquire` and `/v1/release`: places of a concurrency limit, held by somebody who is not a process of ours.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{Engine, Limit, Permit, PermitId};

use super::problem::Problem;
use super::request::{Named, Request, Text};
use super::{Answered, Told, answer, body, into_response, json, json_of};
use crate::exact::Exact;
use crate::gate::Gate;
use crate::headers;
use crate::metrics::DoorName;

/// The body of a release.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release<'a> {
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    keys: Option<Named<'a>>,
    #[serde(borrow)]
    permit: Text<'a>,
}

#[derive(Serialize)]
struct Released {
    released: bool,
}

/// Takes a place, and gives out its name.
pub(super) async fn acquire(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let request: Request<'_> = body::decode(&body)?;
    let question = request.question()?;
    let (check, snapshot) = (question.check(), gate.now());
    let engine = &snapshot.engine;
    limits_concurrency(engine, check.policy)?;
    let told = Told::begin(&gate, DoorName::Http);
    let acquired = engine.acquire_for(&check).await;
    let (answer, permit) = match acquired {
        Ok(acquired) => (Ok(acquired.answer), acquired.permit.map(Permit::into_id)),
        Err(error) => (Err(error), None),
    };
    told.decided(&check, &answer);
    let answer = answer.map_err(|error| Problem::unanswered(engine, &error))?;
    Problem::unless_decided(&answer)?;
    let permit = permit.map(|permit| permit.to_string());
    let write = |body: &mut Vec<u8>| answer::write_acquired(body, &answer, permit.as_deref());
    let mut response = json_of(answer::DECISION_BYTES, write);
    headers::add(response.headers_mut(), snapshot.http.headers, &answer, told.began());
    Ok(into_response(response))
}

/// Gives a place back. Once is enough, and twice does no harm.
pub(super) async fn release(State(gate): State<Arc<Gate>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let Release { policy, key, keys, permit } = body::decode(&body)?;
    let request = Request { policy, key, keys, cost: Exact(1) };
    let question = request.question()?;
    let (check, snapshot) = (question.check(), gate.now());
    let engine = &snapshot.engine;
    limits_concurrency(engine, check.policy)?;
    let permit: PermitId = permit
        .0
        .parse()
        .map_err(|_| Problem::bad_field("permit", "is none: give what /v1/acquire has answered"))?;
    let released = engine.release(&check, &permit).await;
    released.map_err(|error| Problem::unanswered(engine, &error))?;
    Ok(json(&Released { released: true }))
}

/// A policy that holds no places has nothing to give back.
fn limits_concurrency(engine: &Engine, name: &str) -> Result<(), Problem> {
    let Some(policy) = engine.policies().find(|policy| policy.name() == name) else {
        return Ok(()); // the engine says so better
    };
    let holds = policy.members().any(|member| matches!(member.limit, Limit::Concurrency(_)));
    let what = "does not limit concurrency, so that there is nothing to hold: ask POST /v1/check";
    holds.then_some(()).ok_or_else(|| Problem::bad_field("policy", what))
}
