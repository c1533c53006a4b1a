//! `POST /v1/observe` and `/v1/pressure`: the load of the services behind the callers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Clock, SystemClock};

use super::{Api, ApiRequest, HandlerResult, body, json, no_content};
use crate::doors::shared::Problem;
use crate::doors::shared::request::Text;
use crate::stats::{TargetSummary, TooManyTargets};

const NAME_BYTES_MAX: usize = 100;
const URL_BYTES_MAX: usize = 2048;
/// One hour.
const LATENCY_MS_MAX: f64 = 3_600_000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Observation<'a> {
    #[serde(borrow)]
    target: Text<'a>,
    latency_ms: Option<f64>,
    #[serde(default = "default_ok")]
    ok: bool,
    /// The time in the target's queue, as the target reports it.
    queue_ms: Option<f64>,
    /// The utilisation of the target's pool.
    saturation: Option<f64>,
    /// A normalised path.
    #[serde(borrow)]
    url: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// `null` removes the setting; the field is required.
    #[serde(deserialize_with = "Option::deserialize")]
    pressure: Option<f64>,
}

#[derive(Serialize)]
struct TargetList {
    targets: BTreeMap<String, TargetJson>,
}

#[derive(Serialize)]
struct TargetJson {
    /// Load pressure: 0 healthy, 1 overloaded. Set by an operator, or measured by adaptive limits.
    pressure: Option<f64>,
    /// Set by an operator.
    fixed: Option<f64>,
    /// In the last minute.
    count: u64,
    errors: u64,
    mean_ms: f64,
    p99_ms: f64,
}

fn default_ok() -> bool {
    true
}

/// Records an observation of a target.
pub(super) async fn observe(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read(body).await?;
    let Observation { target, latency_ms, ok, queue_ms, saturation, url } = body::decode(&body)?;
    name(&target.0, "target")?;
    let latency_us = latency_ms.map(|ms| micros(ms, "latency_ms")).transpose()?;
    let queue_us = queue_ms.map(|ms| micros(ms, "queue_ms")).transpose()?;
    let share = saturation.filter(|share| !(0.0..=1.0).contains(share));
    if share.is_some() {
        return Err(Problem::bad_field("saturation", "is not a number from 0 to 1"));
    }
    let is_url = |url: &Text<'_>| (1..=URL_BYTES_MAX).contains(&url.0.len());
    if !url.as_ref().is_none_or(is_url) {
        return Err(Problem::bad_field("url", "is not a path of 1 to 2048 bytes"));
    }
    if latency_us.is_none() && (url.is_some() || queue_us.is_none() && saturation.is_none()) {
        return Err(Problem::bad_field("latency_ms", "is missing"));
    }
    let observed = api.app.target_stats();
    if let Some(latency_us) = latency_us {
        let noted = observed.note(&target.0, latency_us, ok, SystemClock.now());
        noted.map_err(|TooManyTargets| too_many())?;
        if let Some(url) = url {
            observed.note_url(&target.0, &url.0, latency_us);
            api.app.urls().note(&url.0, Duration::from_micros(latency_us));
        }
    }
    if let Some(queue_us) = queue_us {
        observed.note_wait(&target.0, queue_us);
    }
    if let Some(saturation) = saturation {
        api.app.in_force().adaptive.record_pool_saturation(&target.0, saturation);
    }
    Ok(no_content())
}

/// All targets.
pub(super) async fn list(ApiRequest { api, .. }: ApiRequest) -> HandlerResult {
    Ok(json(&TargetList { targets: targets(&api) }))
}

/// One target.
pub(super) async fn show(ApiRequest { api, params, .. }: ApiRequest) -> HandlerResult {
    let target = params.at(0);
    name(target, "target")?;
    let found = targets(&api).remove(target);
    found.map(|found| json(&found)).ok_or_else(|| Problem::unknown_target(target))
}

fn targets(api: &Api) -> BTreeMap<String, TargetJson> {
    let summaries = api.app.target_stats().summaries(SystemClock.now()).into_iter();
    let mut targets: BTreeMap<_, _> =
        summaries.map(|(name, summary)| (name, TargetJson::from(summary))).collect();
    for (name, pressure) in api.app.in_force().adaptive.pressures() {
        targets.entry(name).or_insert_with(|| TargetSummary::default().into()).pressure =
            Some(pressure);
    }
    targets
}

/// Sets the pressure of a target.
pub(super) async fn set(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let ApiRequest { api, params, body, .. } = request;
    let (target, body) = (params.at(0), body::read(body).await?);
    let Setting { pressure } = body::decode(&body)?;
    name(target, "target")?;
    if pressure.is_some_and(|pressure| !(0.0..=1.0).contains(&pressure)) {
        return Err(Problem::bad_field("pressure", "is not a number from 0 to 1, nor null"));
    }
    set_pressure(&api, target, pressure)
}

/// Removes the setting.
pub(super) async fn clear(request: ApiRequest) -> HandlerResult {
    request.require_operator()?;
    let target = request.params.at(0);
    name(target, "target")?;
    set_pressure(&request.api, target, None)
}

/// Applies to this node at once.
fn set_pressure(api: &Api, target: &str, pressure: Option<f64>) -> HandlerResult {
    let set = api.app.target_stats().set(target, pressure, SystemClock.now());
    set.map_err(|TooManyTargets| too_many())?;
    api.app.in_force().adaptive.apply_operator_pressures();
    tracing::info!(target_name = target, ?pressure, "operator set the load pressure");
    Ok(no_content())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
fn micros(ms: f64, field: &str) -> Result<u64, Problem> {
    if !(0.0..=LATENCY_MS_MAX).contains(&ms) {
        return Err(Problem::bad_field(field, "is not a number from 0 to 3600000"));
    }
    Ok((ms * 1000.0).round() as u64)
}

fn name(name: &str, field: &str) -> Result<(), Problem> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    is_name.then_some(()).ok_or_else(|| {
        Problem::bad_field(field, "is not a name of 1 to 100 bytes without control characters")
    })
}

fn too_many() -> Problem {
    Problem::bad_field(
        "target",
        "exceeds the maximum: 256 targets were observed in the last minute",
    )
}

impl From<TargetSummary> for TargetJson {
    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
    fn from(summary: TargetSummary) -> Self {
        let TargetSummary { count, errors, mean_us, p99_us, pressure } = summary;
        let ms = |us: u64| us as f64 / 1000.0;
        Self { pressure, fixed: pressure, count, errors, mean_ms: ms(mean_us), p99_ms: ms(p99_us) }
    }
}
