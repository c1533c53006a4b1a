//! `/v1/pressure`: the load of the services behind the callers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate::{Clock, SystemClock};

use super::{Api, ApiRequest, HandlerResult, body, json, no_content};
use crate::doors::shared::Problem;
use crate::stats::{TargetSummary, TooManyTargets};

const NAME_BYTES_MAX: usize = 100;

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
    if pressure.is_some() {
        let followed = api.app.in_force().adaptive.followed_targets();
        if !followed.contains(target) {
            return Err(Problem::unfollowed_target(target, &followed));
        }
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

pub(super) fn name(name: &str, field: &str) -> Result<(), Problem> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    is_name.then_some(()).ok_or_else(|| {
        Problem::bad_field(field, "is not a name of 1 to 100 bytes without control characters")
    })
}

pub(super) fn too_many() -> Problem {
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
