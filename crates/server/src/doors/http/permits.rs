//! `POST /v1/acquire` and `/v1/release`: concurrency permits held by another process.

use serde::{Deserialize, Serialize};
use tidegate::{Acquired, Op, PermitId, PolicyKind};

use super::{ApiRequest, HandlerResult, answer, body, decision_headers, json, json_of};
use crate::doors::shared::Problem;
use crate::doors::shared::request::{NamedKeys, Request, Text};
use crate::metrics::Door;
use crate::service::{Handle, Question, Unanswered};
use tidegate_config::SafeInteger;

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

/// Acquires a permit and returns its id.
pub(super) async fn acquire(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let request: Request<'_> = body::decode(&body)?;
    let parsed = request.question()?;
    let policy = call.policy(parsed.policy, Op::Take)?;
    require_concurrency(&policy)?;
    let question = Question::new(policy, parsed.key(), parsed.cost, Op::Take);
    let Acquired { answer, permit } = call.acquire(&question).await?;
    let answer = Unanswered::unless_decided(answer)?;
    let permit = permit.map(|permit| permit.into_id().to_string());
    let write = |body: &mut Vec<u8>| answer::write_acquired(body, &answer, permit.as_deref());
    let headers = decision_headers(&in_force, &answer, policy, call.began());
    Ok(json_of(headers, answer::DECISION_BYTES, write))
}

/// Releases a permit. Idempotent.
pub(super) async fn release(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let Release { policy, key, keys, permit } = body::decode(&body)?;
    let request = Request { policy, key, keys, cost: SafeInteger(1) };
    let parsed = request.question()?;
    let policy = call.lookup(parsed.policy)?;
    require_concurrency(&policy)?;
    let permit: PermitId = permit.0.parse().map_err(|_| {
        Problem::bad_field("permit", "is not a permit: give the one that /v1/acquire returned")
    })?;
    call.release(policy, parsed.key(), &permit).await?;
    Ok(json(&Released { released: true }))
}

fn require_concurrency(policy: &Handle<'_>) -> Result<(), Problem> {
    if policy.kind() == PolicyKind::Concurrency {
        return Ok(());
    }
    let what = "does not limit concurrency and has no permits: use POST /v1/check";
    Err(Problem::bad_field("policy", what))
}
