//! `POST /v1/observe` and `/v1/pressure`: how the services behind the callers do.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, Request as AxumRequest, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use tidegate::{Clock, SystemClock};

use super::problem::Problem;
use super::request::Text;
use super::{Answered, Api, body, json};
use crate::listen::Peer;
use crate::observed::{Summary, TooManyTargets};

/// The longest name of a target.
const NAME_BYTES_MAX: usize = 100;
/// The longest time that an answer is said to have taken: an hour.
const LATENCY_MS_MAX: f64 = 3_600_000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Observation<'a> {
    #[serde(borrow)]
    target: Text<'a>,
    latency_ms: f64,
    #[serde(default = "yes")]
    ok: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    /// `null` takes it back; left out is a mistake.
    #[serde(deserialize_with = "Option::deserialize")]
    pressure: Option<f64>,
}

#[derive(Serialize)]
struct Targets {
    targets: BTreeMap<String, Shown>,
}

#[derive(Serialize)]
struct Shown {
    /// What an operator has set.
    pressure: Option<f64>,
    /// In the last minute.
    count: u64,
    errors: u64,
    mean_ms: f64,
    p99_ms: f64,
}

fn yes() -> bool {
    true
}

/// Notes how long a service took.
pub(super) async fn observe(State(api): State<Api>, body: Body) -> Answered {
    let body = body::read(body).await?;
    let Observation { target, latency_ms, ok } = body::decode(&body)?;
    let latency_us = micros(latency_ms)?;
    name(&target.0, "target")?;
    let noted = api.gate.observed().note(&target.0, latency_us, ok, SystemClock.now());
    noted.map_err(|TooManyTargets| too_many())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What is known of all targets.
pub(super) async fn show(State(api): State<Api>) -> Answered {
    let summaries = api.gate.observed().summaries(SystemClock.now()).into_iter();
    let targets = summaries.map(|(name, summary)| (name, Shown::from(summary))).collect();
    Ok(json(&Targets { targets }))
}

/// Keeps what an operator says of a target.
pub(super) async fn set(
    State(api): State<Api>,
    Extension(peer): Extension<Peer>,
    target: Result<Path<String>, PathRejection>,
    request: AxumRequest,
) -> Answered {
    api.gate.now().http.admin.admit(peer, request.headers())?;
    let Path(target) = target?;
    let body = body::read(request.into_body()).await?;
    let Setting { pressure } = body::decode(&body)?;
    name(&target, "target")?;
    if pressure.is_some_and(|pressure| !(0.0..=1.0).contains(&pressure)) {
        return Err(Problem::bad_field("pressure", "is not a number from 0 to 1, nor null"));
    }
    let set = api.gate.observed().set(&target, pressure, SystemClock.now());
    set.map_err(|TooManyTargets| too_many())?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
fn micros(latency_ms: f64) -> Result<u64, Problem> {
    if !(0.0..=LATENCY_MS_MAX).contains(&latency_ms) {
        return Err(Problem::bad_field("latency_ms", "is not a number from 0 to 3600000"));
    }
    Ok((latency_ms * 1000.0).round() as u64)
}

fn name(name: &str, field: &str) -> Result<(), Problem> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    is_name.then_some(()).ok_or_else(|| {
        Problem::bad_field(field, "is not a name of 1 to 100 bytes without control characters")
    })
}

fn too_many() -> Problem {
    Problem::bad_field("target", "is one too many: 256 are known of the last minute already")
}

impl From<Summary> for Shown {
    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
    fn from(summary: Summary) -> Self {
        let Summary { count, errors, mean_us, p99_us, pressure } = summary;
        let ms = |us: u64| us as f64 / 1000.0;
        Self { pressure, count, errors, mean_ms: ms(mean_us), p99_ms: ms(p99_us) }
    }
}
