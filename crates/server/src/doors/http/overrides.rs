//! `/v1/overrides`: overrides of policies for single keys and networks, on every node. For operators.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use tidegate::{OverrideError, StoredOverride};

use super::{ApiRequest, HandlerResult, body, json, no_content};
use crate::doors::shared::Problem;
use tidegate_config::{SafeInteger, network_of_key};

/// The override: exactly one of `limit`, `allow` and `block`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideRequest<'a> {
    #[serde(borrow)]
    limit: Option<LimitText<'a>>,
    #[serde(default)]
    allow: bool,
    #[serde(default)]
    block: bool,
    /// Unlimited unless given.
    ttl_ms: Option<SafeInteger>,
}

/// A limit as in the configuration: text, or a number alone.
struct LimitText<'a>(Cow<'a, str>);

#[derive(Serialize)]
struct OverrideJson {
    policy: String,
    key: String,
    #[serde(flatten)]
    value: OverrideValue,
    ttl_ms: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum OverrideValue {
    Limit(String),
    Allow(bool),
    Block(bool),
}

#[derive(Serialize)]
struct OverrideList {
    overrides: Vec<OverrideJson>,
}

pub(super) async fn list(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let in_force = request.api.app.in_force();
    let found = in_force.engine.overrides().list().await;
    let found = found.map_err(override_problem)?;
    Ok(json(&OverrideList { overrides: found.into_iter().map(OverrideJson::from).collect() }))
}

pub(super) async fn show(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let (policy, key) = (request.params.at(0), request.params.at(1));
    let in_force = request.api.app.in_force();
    let found = in_force.engine.overrides().get(policy, key).await;
    let found = found.map_err(override_problem)?;
    found
        .map(|found| json(&OverrideJson::from(found)))
        .ok_or_else(|| Problem::no_override(policy, key))
}

pub(super) async fn set(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let ApiRequest { api, params, body, .. } = request;
    let (policy, key) = (params.at(0), params.at(1));
    // A mistyped network would be stored as a key that no request has.
    network_of_key(key).map_err(|why| Problem::bad_field("key", &format!(": {why}")))?;
    let body = body::read(body).await?;
    let requested: OverrideRequest<'_> = body::decode(&body)?;
    let (text, ttl) = (requested.text()?, requested.ttl()?);
    let in_force = api.app.in_force();
    let set = in_force.engine.overrides().set(policy, key, &text, ttl).await;
    set.map_err(override_problem)?;
    Ok(no_content())
}

pub(super) async fn remove(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let (policy, key) = (request.params.at(0), request.params.at(1));
    let in_force = request.api.app.in_force();
    let removed = in_force.engine.overrides().remove(policy, key).await;
    if !removed.map_err(override_problem)? {
        return Err(Problem::no_override(policy, key));
    }
    Ok(no_content())
}

impl OverrideRequest<'_> {
    /// The override in the engine's grammar.
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

    /// A lifetime of 0 would delete the override while the response says that it was set.
    fn ttl(&self) -> Result<Option<Duration>, Problem> {
        match self.ttl_ms {
            Some(SafeInteger(0)) => Err(Problem::bad_field(
                "ttl_ms",
                "is 0: expected 1 or more, or leave it out for no expiry; DELETE removes an override",
            )),
            ttl_ms => Ok(ttl_ms.map(|SafeInteger(ms)| Duration::from_millis(ms))),
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

fn override_problem(error: OverrideError) -> Problem {
    let what = format!(": {error}");
    if let Some(failure) = error.store_failure() {
        return Problem::store_failed(failure.kind());
    }
    match error {
        OverrideError::UnknownPolicy(name) => Problem::unknown_policy(&name, None),
        OverrideError::LongKey(_) => Problem::bad_field("key", &what),
        OverrideError::BadLimit(_) | OverrideError::DoesNotFit(_) => {
            Problem::bad_field("limit", &what)
        }
        _ => Problem::bad_input(&what),
    }
}

impl From<StoredOverride> for OverrideJson {
    fn from(stored: StoredOverride) -> Self {
        let StoredOverride { policy, key, text, life } = stored;
        let value = match text.as_str() {
            "allow" => OverrideValue::Allow(true),
            "block" => OverrideValue::Block(true),
            _ => OverrideValue::Limit(text),
        };
        let ttl_ms = life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        Self { policy, key: String::from_utf8_lossy(&key).into_owned(), value, ttl_ms }
    }
}
