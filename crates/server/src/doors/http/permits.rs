//! `POST /v1/acquire` and `/v1/release`: places of a concurrency limit, held by somebody who is not a process of ours.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate::{Acquired, Op, PermitId, PolicyKind};

use super::{Answered, answer, body, json, json_of};
use crate::doors::shared::Problem;
use crate::doors::shared::request::{NamedKeys, Request, Text};
use crate::metrics::DoorName;
use crate::service::AppState;
use crate::service::headers;
use crate::service::{Handle, Question, Unanswered};
use tidegate_config::Exact;

/// The body of a release.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release<'a> {
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    keys: Option<NamedKeys<'a>>,
    #[serde(borrow)]
    permit: Text<'a>,
}

#[derive(Serialize)]
struct Released {
    released: bool,
}

/// Takes a place, and gives out its name.
pub(super) async fn acquire(State(app): State<Arc<AppState>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let in_force = app.in_force();
    let call = app.call(&in_force, DoorName::Http);
    let request: Request<'_> = body::decode(&body)?;
    let asked = request.question()?;
    let policy = call.policy(asked.policy, Op::Take)?;
    limits_concurrency(&policy)?;
    let question = Question::new(policy, asked.key(), asked.cost, Op::Take);
    let Acquired { answer, permit } = call.acquire(&question).await?;
    let answer = Unanswered::unless_decided(answer)?;
    let permit = permit.map(|permit| permit.into_id().to_string());
    let write = |body: &mut Vec<u8>| answer::write_acquired(body, &answer, permit.as_deref());
    let mut response = json_of(answer::DECISION_BYTES, write);
    let dialect = in_force.http.headers;
    headers::add(response.headers_mut(), dialect, &answer, policy.labels(), call.began());
    Ok(response)
}

/// Gives a place back. Once is enough, and twice does no harm.
pub(super) async fn release(State(app): State<Arc<AppState>>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let in_force = app.in_force();
    let call = app.call(&in_force, DoorName::Http);
    let Release { policy, key, keys, permit } = body::decode(&body)?;
    let request = Request { policy, key, keys, cost: Exact(1) };
    let asked = request.question()?;
    let policy = call.lookup(asked.policy)?;
    limits_concurrency(&policy)?;
    let permit: PermitId = permit
        .0
        .parse()
        .map_err(|_| Problem::bad_field("permit", "is none: give what /v1/acquire has answered"))?;
    call.release(policy, asked.key(), &permit).await?;
    Ok(json(&Released { released: true }))
}

/// A policy that holds no places has nothing to give back.
fn limits_concurrency(policy: &Handle<'_>) -> Result<(), Problem> {
    if policy.kind() == PolicyKind::Concurrency {
        return Ok(());
    }
    let what = "does not limit concurrency, so that there is nothing to hold: ask POST /v1/check";
    Err(Problem::bad_field("policy", what))
}
