//! `POST /v1/observe` and `/v1/observe/batch`: callers report how long a service took.

use std::time::Duration;

use serde::Deserialize;
use tidegate::{Clock, SystemClock};

use super::pressure::{name, too_many};
use super::{Api, ApiRequest, HandlerResult, body, no_content};
use crate::doors::shared::Problem;
use crate::doors::shared::request::{AtMost, Element, Object, Text};
use crate::stats::TooManyTargets;

const BATCH_MAX: usize = 1000;
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
struct Batch<'a> {
    #[serde(borrow)]
    observations: AtMost<BATCH_MAX, Object<Observation<'a>>>,
}

impl Element for Object<Observation<'_>> {
    const NAME: &'static str = " observations";
}

/// An observation whose values are within bounds.
struct Checked<'a> {
    target: &'a str,
    latency_us: Option<u64>,
    ok: bool,
    queue_us: Option<u64>,
    saturation: Option<f64>,
    url: Option<&'a str>,
}

fn default_ok() -> bool {
    true
}

/// Records an observation of a target.
pub(super) async fn observe(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read(body).await?;
    let observation: Observation<'_> = body::decode(&body)?;
    observation.checked()?.record(&api)?;
    Ok(no_content())
}

/// Records many observations. An invalid one rejects all.
pub(super) async fn observe_batch(ApiRequest { api, body, .. }: ApiRequest) -> HandlerResult {
    let body = body::read_batch(body).await?;
    let Batch { observations } = body::decode(&body)?;
    let element = |index| format!("observations[{index}]");
    let mut all = Vec::with_capacity(observations.0.len());
    for (index, Object(observation)) in observations.0.iter().enumerate() {
        all.push(observation.checked().map_err(|why| why.within(&element(index)))?);
    }
    for (index, observation) in all.into_iter().enumerate() {
        observation.record(&api).map_err(|why| why.within(&element(index)))?;
    }
    Ok(no_content())
}

impl Observation<'_> {
    fn checked(&self) -> Result<Checked<'_>, Problem> {
        name(&self.target.0, "target")?;
        let latency_us = self.latency_ms.map(|ms| micros(ms, "latency_ms")).transpose()?;
        let queue_us = self.queue_ms.map(|ms| micros(ms, "queue_ms")).transpose()?;
        let saturation = self.saturation;
        if saturation.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(Problem::bad_field("saturation", "is not a number from 0 to 1"));
        }
        let url = self.url.as_ref().map(|url| url.0.as_ref());
        if url.is_some_and(|url| !(1..=URL_BYTES_MAX).contains(&url.len())) {
            return Err(Problem::bad_field("url", "is not a path of 1 to 2048 bytes"));
        }
        if latency_us.is_none() && (url.is_some() || queue_us.is_none() && saturation.is_none()) {
            return Err(Problem::bad_field("latency_ms", "is missing"));
        }
        let Self { target, ok, .. } = self;
        Ok(Checked { target: &target.0, latency_us, ok: *ok, queue_us, saturation, url })
    }
}

impl Checked<'_> {
    fn record(self, api: &Api) -> Result<(), Problem> {
        let Self { target, latency_us, ok, queue_us, saturation, url } = self;
        let observed = api.app.target_stats();
        if let Some(latency_us) = latency_us {
            let noted = observed.note(target, latency_us, ok, SystemClock.now());
            noted.map_err(|TooManyTargets| too_many())?;
            if let Some(url) = url {
                observed.note_url(target, url, latency_us);
                api.app.urls().note(url, Duration::from_micros(latency_us));
            }
        }
        if let Some(queue_us) = queue_us {
            observed.note_wait(target, queue_us);
        }
        let in_force = api.app.in_force();
        if let Some(saturation) = saturation {
            in_force.adaptive.record_pool_saturation(target, saturation);
        }
        in_force.adaptive.warn_if_unfollowed(target);
        Ok(())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
fn micros(ms: f64, field: &str) -> Result<u64, Problem> {
    if !(0.0..=LATENCY_MS_MAX).contains(&ms) {
        return Err(Problem::bad_field(field, "is not a number from 0 to 3600000"));
    }
    Ok((ms * 1000.0).round() as u64)
}
