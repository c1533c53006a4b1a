//! `/v1/overrides`: overrides of policies for single keys and networks, on every node. For operators.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::Uri;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use tidegate::{OverrideError, PolicyProblem, StoredOverride};

use super::{ApiRequest, HandlerResult, body, json, no_content};
use crate::doors::shared::Problem;
use crate::doors::shared::request::Text;
use crate::service::{Handle, InForce};
use tidegate_config::{SafeInteger, network_of_key};
use tidegate_core::text::{percent_decoded, printable, unknown_limit};

/// The override: exactly one of `limit`, `allow` and `block`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverrideRequest<'a> {
    /// The limit that `limit` replaces, for a policy with several.
    #[serde(borrow)]
    limit_name: Option<Text<'a>>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_name: Option<String>,
    /// `None` if the key has overrides of single limits only.
    #[serde(flatten)]
    value: Option<OverrideValue>,
    ttl_ms: Option<u64>,
    /// Those of single limits, beside that of the whole policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitOverrideJson>,
}

#[derive(Serialize)]
struct LimitOverrideJson {
    limit_name: String,
    limit: String,
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
    let found = in_force.engine.overrides().of_key(policy, key).await;
    let found = found.map_err(override_problem)?;
    let name = limit_name(&request.head.uri)?;
    let found = match &name {
        Some(name) => {
            let named = found.into_iter().find(|it| it.limit_name() == Some(name));
            named.map(OverrideJson::from)
        }
        None => OverrideJson::of_key(found),
    };
    found.map(|found| json(&found)).ok_or_else(|| match &name {
        Some(name) => no_limit_override(&in_force, policy, key, name),
        None => Problem::no_override(policy, key, None),
    })
}

pub(super) async fn set(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let ApiRequest { api, params, body, head, .. } = request;
    let (policy, key) = (params.at(0), params.at(1));
    // Ignored, it would set the override of another limit, or of the whole policy.
    if head.uri.query().unwrap_or_default().split('&').any(|it| it.starts_with("limit_name")) {
        let what = "belongs in the body: only GET and DELETE take it from the query";
        return Err(Problem::bad_field("limit_name", what));
    }
    // A mistyped network would be stored as a key that no request has.
    network_of_key(key).map_err(|why| Problem::bad_value("key", &why))?;
    let body = body::read(body).await?;
    let requested: OverrideRequest<'_> = body::decode(&body)?;
    let (text, ttl) = (requested.text()?, requested.ttl()?);
    let in_force = api.app.in_force();
    let overrides = in_force.engine.overrides();
    let set = match &requested.limit_name {
        Some(name) => overrides.set_limit(policy, &name.0, key, &text, ttl).await,
        None => overrides.set(policy, key, &text, ttl).await,
    };
    let names = || in_force.policy(policy).map(|policy| limit_names(&policy)).unwrap_or_default();
    set.map_err(|error| named_problem(error, &names()))?;
    Ok(no_content())
}

pub(super) async fn remove(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let (policy, key) = (request.params.at(0), request.params.at(1));
    let in_force = request.api.app.in_force();
    let overrides = in_force.engine.overrides();
    let name = limit_name(&request.head.uri)?;
    let removed = match &name {
        Some(name) => overrides.remove_limit(policy, name, key).await,
        None => overrides.remove(policy, key).await,
    };
    if removed.map_err(override_problem)? {
        return Ok(no_content());
    }
    if let Some(name) = &name {
        return Err(no_limit_override(&in_force, policy, key, name));
    }
    let others = overrides.of_key(policy, key).await.map_err(override_problem)?;
    Err(no_policy_override(policy, key, &others))
}

/// The key has no override of the whole policy. If it has some of single limits, says how they are named.
fn no_policy_override(policy: &str, key: &str, others: &[StoredOverride]) -> Problem {
    let problem = Problem::no_override(policy, key, None);
    let names: Vec<String> =
        others.iter().filter_map(StoredOverride::limit_name).map(printable).collect();
    if names.is_empty() {
        return problem;
    }
    let names = names.join(", ");
    problem.advise(&format!("only of single limits, so add ?limit_name=NAME for one of {names}"))
}

/// The key has no override of this limit. If the policy has no such limit, says which ones it has.
fn no_limit_override(in_force: &InForce, policy: &str, key: &str, limit: &str) -> Problem {
    let problem = Problem::no_override(policy, key, Some(limit));
    let handle = in_force.policy(policy);
    match &*handle.as_ref().map(limit_names).unwrap_or_default() {
        [] => problem,
        names if names.contains(&limit) => problem,
        [_] => problem.advise("the policy has one limit, leave `limit_name` out"),
        names => problem.advise(&format!("its limits are {}", names.join(", "))),
    }
}

impl OverrideRequest<'_> {
    /// The override in the engine's grammar.
    fn text(&self) -> Result<String, Problem> {
        if self.limit_name.is_some() && (self.allow || self.block) {
            let what = "goes with `limit`: `allow` and `block` are for the whole policy";
            return Err(Problem::bad_field("limit_name", what));
        }
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

/// The parameter `limit_name` of a query. Nothing else is accepted: a misspelt one would mean the whole policy's override.
fn limit_name(uri: &Uri) -> Result<Option<String>, Problem> {
    let value = match uri.query().unwrap_or_default() {
        "" => return Ok(None),
        query => query.strip_prefix("limit_name=").filter(|it| !it.is_empty() && !it.contains('&')),
    };
    let Some(value) = value else {
        let what = "is the only parameter, and needs a value: write ?limit_name=NAME";
        return Err(Problem::bad_field("limit_name", what));
    };
    let name = percent_decoded(value).and_then(|bytes| String::from_utf8(bytes).ok());
    let malformed = || Problem::bad_field("limit_name", "is not percent-encoded UTF-8");
    name.map(Some).ok_or_else(malformed)
}

/// The limits that a key can have its own instead of; none for the tenants of a share.
fn limit_names<'a>(policy: &Handle<'a>) -> Vec<&'a str> {
    if policy.share_status().is_some() {
        return Vec::new();
    }
    policy.members().map(|member| member.name.as_str()).collect()
}

/// A problem about the limit that is to be replaced names those that the policy has.
fn named_problem(error: OverrideError, names: &[&str]) -> Problem {
    match (&error, names) {
        (OverrideError::DoesNotFit(PolicyProblem::NoSuchLimit(_)), [_]) => {
            Problem::bad_field("limit_name", "names no limit: the policy has one, leave it out")
        }
        (OverrideError::DoesNotFit(PolicyProblem::NoSuchLimit(name)), [_, ..]) => {
            Problem::bad_value("limit_name", &unknown_limit(name, names))
        }
        (OverrideError::DoesNotFit(PolicyProblem::OverrideOfMany), [_, ..]) => {
            let names = names.join(", ");
            let what = format!("is missing: the policy has several limits, give one of {names}");
            Problem::bad_field("limit_name", &what)
        }
        _ => override_problem(error),
    }
}

fn override_problem(error: OverrideError) -> Problem {
    if let Some(failure) = error.store_failure() {
        return Problem::store_failed(failure.kind());
    }
    match error {
        OverrideError::UnknownPolicy(name) => Problem::unknown_policy(&name, None),
        OverrideError::LongKey(_) => Problem::bad_value("key", &error),
        OverrideError::BadLimit(_) | OverrideError::DoesNotFit(_) => {
            Problem::bad_value("limit", &error)
        }
        _ => Problem::bad_input(&error.to_string()),
    }
}

impl From<StoredOverride> for OverrideJson {
    fn from(stored: StoredOverride) -> Self {
        let value = match stored.value() {
            "allow" => OverrideValue::Allow(true),
            "block" => OverrideValue::Block(true),
            limit => OverrideValue::Limit(limit.to_owned()),
        };
        Self { value: Some(value), ttl_ms: ttl_ms(&stored), ..Self::empty(&stored) }
    }
}

impl OverrideJson {
    fn empty(stored: &StoredOverride) -> Self {
        Self {
            policy: stored.policy.clone(),
            key: String::from_utf8_lossy(stored.identifier()).into_owned(),
            limit_name: stored.limit_name().map(str::to_owned),
            value: None,
            ttl_ms: None,
            limits: Vec::new(),
        }
    }

    /// All of one key: that of the whole policy, and those of single limits.
    fn of_key(all: Vec<StoredOverride>) -> Option<Self> {
        let (limits, whole): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.limit_name().is_some());
        let first = limits.first().map(|it| Self { limit_name: None, ..Self::empty(it) });
        let own = whole.into_iter().next().map(Self::from).or(first)?;
        let limit = |stored: &StoredOverride| {
            let limit_name = stored.limit_name()?.to_owned();
            let limit = stored.value().to_owned();
            Some(LimitOverrideJson { limit_name, limit, ttl_ms: ttl_ms(stored) })
        };
        Some(Self { limits: limits.iter().filter_map(limit).collect(), ..own })
    }
}

fn ttl_ms(stored: &StoredOverride) -> Option<u64> {
    stored.life.map(|life| u64::try_from(life.as_millis()).unwrap_or(u64::MAX))
}
