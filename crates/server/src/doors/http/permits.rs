//! `POST /v1/acquire`, `/v1/renew` and `/v1/release`: concurrency permits held by another process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Acquired, Limit, Op, Permit, PermitId, PolicyKind, Released, Renewed};

use super::router::with_permit;
use super::{ApiRequest, HandlerResult, answer, body, decision_headers, json, json_of};
use crate::doors::shared::Problem;
use crate::doors::shared::request::{NamedKeys, Request, Text};
use crate::metrics::Door;
use crate::service::{Handle, Question, Unanswered};
use tidegate_config::SafeInteger;

/// The body of a release or a renewal.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldPermit<'a> {
    #[serde(borrow)]
    policy: Option<Text<'a>>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow)]
    keys: Option<NamedKeys<'a>>,
    #[serde(borrow)]
    permit: Text<'a>,
}

/// Why a permit was neither released nor renewed.
const UNKNOWN_LIMIT: &str = "unknown-limit";
const OTHER_NODE: &str = "other-node";
const NOT_HELD: &str = "not-held";

#[derive(Serialize)]
struct ReleaseResult {
    released: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl From<Released> for ReleaseResult {
    fn from(released: Released) -> Self {
        let reason = match released {
            Released::Yes => None,
            Released::UnknownLimit => Some(UNKNOWN_LIMIT),
            Released::OtherNode => Some(OTHER_NODE),
            _ => Some(NOT_HELD),
        };
        Self { released: reason.is_none(), reason }
    }
}

#[derive(Serialize)]
struct RenewResult {
    renewed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl From<Renewed> for RenewResult {
    fn from(renewed: Renewed) -> Self {
        let (ttl, reason) = match renewed {
            Renewed::For(ttl) => (Some(ttl), None),
            Renewed::UnknownLimit => (None, Some(UNKNOWN_LIMIT)),
            Renewed::OtherNode => (None, Some(OTHER_NODE)),
            _ => (None, Some(NOT_HELD)),
        };
        Self { renewed: ttl.is_some(), ttl_ms: ttl.map(millis), reason }
    }
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// Acquires a permit and returns its id. The permit is released if the caller hangs up before the answer is written.
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
    let granted = permit.as_ref().map(|permit| answer::Granted {
        permit: permit.id().to_string(),
        ttl_ms: ttl(permit, &policy).map(millis),
    });
    let write = |body: &mut Vec<u8>| answer::write_acquired(body, &answer, granted.as_ref());
    let headers = decision_headers(&in_force, &answer, policy, call.began());
    let response = json_of(headers, answer::DECISION_BYTES, write);
    Ok(match permit {
        Some(permit) => with_permit(response, permit),
        None => response,
    })
}

/// Releases a permit. Idempotent: a permit that is not held is no error.
pub(super) async fn release(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let (request, permit) = HeldPermit::read(&body)?;
    let parsed = request.question()?;
    let policy = call.lookup(parsed.policy)?;
    let permit = read_permit(&permit)?;
    let released = call.release(policy, parsed.key(), &permit).await?;
    Ok(json(&ReleaseResult::from(released)))
}

/// Renews a permit, unless it has ended.
pub(super) async fn renew(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let (app, body) = (&api.app, body::read(body).await?);
    let in_force = app.in_force();
    let call = app.call(&in_force, Door::Http);
    let (request, permit) = HeldPermit::read(&body)?;
    let parsed = request.question()?;
    let policy = call.lookup(parsed.policy)?;
    require_concurrency(&policy)?;
    let permit = read_permit(&permit)?;
    let renewed = call.renew(policy, parsed.key(), &permit).await?;
    Ok(json(&RenewResult::from(renewed)))
}

impl<'a> HeldPermit<'a> {
    fn read(body: &'a [u8]) -> Result<(Request<'a>, Text<'a>), Problem> {
        let Self { policy, key, keys, permit } = body::decode(body)?;
        Ok((Request { policy, key, keys, cost: SafeInteger(1) }, permit))
    }
}

fn read_permit(text: &Text<'_>) -> Result<PermitId, Problem> {
    text.0.parse().map_err(|_| {
        Problem::bad_field("permit", "is not a permit: give the one that /v1/acquire returned")
    })
}

/// How long a permit is held if nobody renews it. One without places is renewed like one with places.
fn ttl(permit: &Permit, policy: &Handle<'_>) -> Option<Duration> {
    let limits = policy.members().map(|member| &member.limit);
    let leases = limits.filter(|limit| limit.grants_permits()).map(Limit::period);
    permit.lease().or_else(|| leases.min())
}

fn require_concurrency(policy: &Handle<'_>) -> Result<(), Problem> {
    if policy.kind() == PolicyKind::Concurrency {
        return Ok(());
    }
    let what = "does not limit concurrency and has no permits: use POST /v1/check";
    Err(Problem::bad_field("policy", what))
}
