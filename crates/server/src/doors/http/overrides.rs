//! `/v1/overrides`: what single keys and networks get instead of their policy, on every node. For those who run the
//! service.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request as AxumRequest, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use tidegate::{OverrideError, StoredOverride};

use super::{Answered, Api, admin, body, json};
use crate::doors::shared::Problem;
use crate::service::InForce;
use tidegate_config::Exact;
use tidegate_config::network_of_key;
use tidegate_request::Peer;

/// What a key gets: one of the first three.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'a> {
    #[serde(borrow)]
    limit: Option<LimitText<'a>>,
    #[serde(default)]
    allow: bool,
    #[serde(default)]
    block: bool,
    /// How long it holds; for ever unless given.
    ttl_ms: Option<Exact>,
}

/// A limit as a configuration has it: text, or a number alone.
struct LimitText<'a>(Cow<'a, str>);

#[derive(Serialize)]
struct Shown {
    policy: String,
    key: String,
    #[serde(flatten)]
    instead: Instead,
    ttl_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Instead {
    Limit(String),
    Allow(bool),
    Block(bool),
}

#[derive(Serialize)]
struct All {
    overrides: Vec<Shown>,
}

/// The policy and the key of a path.
type Place = Path<(String, String)>;

pub(super) async fn list(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    request: AxumRequest,
) -> Answered {
    let in_force = api.app.in_force();
    admin::admit(&in_force.http.admin, peer, request.headers())?;
    let engine = &in_force.engine;
    let found = engine.overrides().list().await;
    let found = found.map_err(|error| unchanged(&in_force, error))?;
    Ok(json(&All { overrides: found.into_iter().map(Shown::from).collect() }))
}

pub(super) async fn show(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    place: Result<Place, PathRejection>,
    request: AxumRequest,
) -> Answered {
    let in_force = api.app.in_force();
    admin::admit(&in_force.http.admin, peer, request.headers())?;
    let Path((policy, key)) = place?;
    let engine = &in_force.engine;
    let found = engine.overrides().get(&policy, &key).await;
    let found = found.map_err(|error| unchanged(&in_force, error))?;
    found.map(|found| json(&Shown::from(found))).ok_or_else(|| Problem::no_override(&policy, &key))
}

pub(super) async fn set(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    place: Result<Place, PathRejection>,
    request: AxumRequest,
) -> Answered {
    admin::admit(&api.app.in_force().http.admin, peer, request.headers())?;
    let Path((policy, key)) = place?;
    // What is meant for a network and is none would be kept as a key that nobody has.
    network_of_key(&key).map_err(|why| Problem::bad_field("key", &format!(": {why}")))?;
    let body = body::read(request.into_body()).await?;
    let wanted: Wanted<'_> = body::decode(&body)?;
    let (text, life) = (wanted.text()?, wanted.life()?);
    let in_force = api.app.in_force();
    let engine = &in_force.engine;
    let set = engine.overrides().set(&policy, &key, &text, life).await;
    set.map_err(|error| unchanged(&in_force, error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    place: Result<Place, PathRejection>,
    request: AxumRequest,
) -> Answered {
    let in_force = api.app.in_force();
    admin::admit(&in_force.http.admin, peer, request.headers())?;
    let Path((policy, key)) = place?;
    let engine = &in_force.engine;
    let removed = engine.overrides().remove(&policy, &key).await;
    if !removed.map_err(|error| unchanged(&in_force, error))? {
        return Err(Problem::no_override(&policy, &key));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl Wanted<'_> {
    /// In the words of the engine.
    fn text(&self) -> Result<String, Problem> {
        match (&self.limit, self.allow, self.block) {
            (Some(limit), false, false) => Ok(limit.0.to_string()),
            (None, true, false) => Ok("allow".to_owned()),
            (None, false, true) => Ok("block".to_owned()),
            _ => Err(Problem::bad_field(
                "limit",
                "or `\"allow\":true` or `\"block\":true`: give one of them",
            )),
        }
    }

    /// A life of nothing would take back what was there, and say that it was set.
    fn life(&self) -> Result<Option<Duration>, Problem> {
        match self.ttl_ms {
            Some(Exact(0)) => Err(Problem::bad_field(
                "ttl_ms",
                "is 0: expected 1 or more, or none for ever; DELETE takes an override back",
            )),
            ttl_ms => Ok(ttl_ms.map(|Exact(ms)| Duration::from_millis(ms))),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LimitText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitVisitor;
        impl<'de> Visitor<'de> for LimitVisitor {
            type Value = LimitText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a limit like \"100/min\", or a number for quotas and concurrency")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<LimitText<'de>, E> {
                Ok(LimitText(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<LimitText<'de>, E> {
                Ok(LimitText(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<LimitText<'de>, E> {
                Ok(LimitText(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(LimitVisitor)
    }
}

fn unchanged(in_force: &InForce, error: OverrideError) -> Problem {
    let what = format!(": {error}");
    if let Some(failure) = error.store_failure() {
        return Problem::store_failed(failure.kind());
    }
    match error {
        OverrideError::UnknownPolicy(name) => {
            Problem::unknown_policy(&name, in_force.closest(&name))
        }
        OverrideError::LongKey(_) => Problem::bad_field("key", &what),
        OverrideError::BadLimit(_) | OverrideError::DoesNotFit(_) => {
            Problem::bad_field("limit", &what)
        }
        _ => Problem::bad_input(&what),
    }
}

impl From<StoredOverride> for Shown {
    fn from(stored: StoredOverride) -> Self {
        let StoredOverride { policy, key, text, life } = stored;
        let instead = match text.as_str() {
            "allow" => Instead::Allow(true),
            "block" => Instead::Block(true),
            _ => Instead::Limit(text),
        };
        let ttl_ms = life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        Self { policy, key: String::from_utf8_lossy(&key).into_owned(), instead, ttl_ms }
    }
}
