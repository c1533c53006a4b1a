//! Cases of a vector file: read as JSON, then checked.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tidegate::{Mode, StoreRequest, zone};
use tidegate_core::{Algorithm, Amount, Every, Field, LimitOrShaper, LimitSpec, Period, Written};

use tidegate_config::SafeInteger;
use tidegate_core::text::printable;

pub(super) struct Case {
    pub(super) name: String,
    /// `None` for a single limit, whose answers have no binding limit.
    pub(super) mode: Option<Mode>,
    pub(super) limits: Vec<LimitOrShaper>,
    pub(super) steps: Vec<Step>,
    /// One answer per step, if any are given.
    pub(super) expect: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: Option<String>,
    limit: Option<LimitFields>,
    all: Option<Vec<LimitFields>>,
    any: Option<Vec<LimitFields>>,
    steps: Vec<Step>,
    expect: Option<Vec<Value>>,
}

/// One check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) now_us: SafeInteger,
    #[serde(default = "one")]
    pub(super) cost: SafeInteger,
}

fn one() -> SafeInteger {
    SafeInteger(1)
}

/// Reads a case; an error names it, and the field.
pub(super) fn read(text: &str, index: usize) -> Result<Case, String> {
    let named = |why: String| format!("case {}: {why}", name_of(text, index));
    let mut reader = serde_json::Deserializer::from_str(text);
    let raw: RawCase = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("`{}`: ", printable(&path)) };
        named(format!("{place}{}", printable(&error.inner().to_string())))
    })?;
    check(raw, index).map_err(named)
}

fn check(raw: RawCase, index: usize) -> Result<Case, String> {
    let (mode, limits) = match (raw.limit, raw.all, raw.any) {
        (Some(limit), None, None) => {
            (None, vec![limit.build().map_err(|why| format!("limit: {why}"))?])
        }
        (None, Some(all), None) => (Some(Mode::All), build_all("all", &all)?),
        (None, None, Some(any)) => (Some(Mode::Any), build_all("any", &any)?),
        _ => return Err("give exactly one of `limit`, `all` and `any`".to_owned()),
    };
    let RawCase { name, steps, expect, .. } = raw;
    if let Some(expect) = expect.as_ref().filter(|expect| expect.len() != steps.len()) {
        return Err(format!("`expect` has {} answers for {} steps", expect.len(), steps.len()));
    }
    let name = name.unwrap_or_else(|| format!("[{index}]"));
    Ok(Case { name, mode, limits, steps, expect })
}

/// The name of a case that could not be read, or its index in the file.
fn name_of(text: &str, index: usize) -> String {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let name = serde_json::from_str(text).map(|case: Name| printable(&case.name));
    name.unwrap_or_else(|_| format!("[{index}]"))
}

fn build_all(field: &str, limits: &[LimitFields]) -> Result<Vec<LimitOrShaper>, String> {
    if !(1..=StoreRequest::MAX_LIMITS).contains(&limits.len()) {
        return Err(format!("`{field}`: expected 1 to {} limits", StoreRequest::MAX_LIMITS));
    }
    let build = |(index, limit): (usize, &LimitFields)| {
        let built = match &*limit.algorithm {
            "leaky-bucket" => {
                Err("`algorithm`: leaky-bucket delays, so it cannot stand in all or any".to_owned())
            }
            _ => limit.build(),
        };
        built.map_err(|why| format!("{field}[{index}]: {why}"))
    };
    limits.iter().enumerate().map(build).collect()
}

/// A limit as numbers. The fields that belong to it depend on the algorithm.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitFields {
    algorithm: String,
    limit: u64,
    period_us: Option<u64>,
    burst: Option<u64>,
    capacity: Option<u64>,
    buckets: Option<u64>,
    cadence: Option<String>,
    utc_offset_minutes: Option<i64>,
    time_zone: Option<String>,
    max_wait_us: Option<u64>,
}

impl LimitFields {
    /// The error names the field.
    fn build(&self) -> Result<LimitOrShaper, String> {
        let spec = self.spec()?;
        let built = spec.build(&|name| zone(name).map_err(|error| error.to_string()));
        built.map_err(|error| match error.field() {
            Some(field) => format!("`{}`: {}", name(field), error.problem_with(name)),
            None => error.problem_with(name),
        })
    }

    fn spec(&self) -> Result<LimitSpec, String> {
        let algorithm: Algorithm = self
            .algorithm
            .parse()
            .ok()
            .filter(|algorithm| *algorithm != Algorithm::CONCURRENCY)
            .ok_or_else(|| unknown("algorithm", &self.algorithm, ALGORITHMS))?;
        let length = || {
            let us = self.period_us.ok_or_else(|| "`period_us` is missing".to_owned())?;
            Ok::<_, String>(Period::Length(Duration::from_micros(us)))
        };
        let rate = || Ok::<_, String>(Some(Amount::Rate(self.limit, length()?)));
        let spec = LimitSpec {
            algorithm: Some(algorithm),
            buckets: self.buckets,
            max_wait: self.max_wait_us.map(|us| Written::Value(Duration::from_micros(us))),
            time_zone: self.time_zone.as_deref().map(Written::from),
            utc_offset: self.utc_offset_minutes.map(Written::Value),
            ..LimitSpec::default()
        };
        // Both names are in use for gcra and for token-bucket.
        let burst = self.burst.or(self.capacity);
        Ok(match algorithm {
            Algorithm::GCRA => LimitSpec { limit: rate()?, burst, ..spec },
            Algorithm::TOKEN_BUCKET => LimitSpec { refill: rate()?, capacity: burst, ..spec },
            Algorithm::QUOTA => {
                let cadence = self.cadence.as_deref().ok_or("`cadence` is missing")?;
                let every = match cadence {
                    "calendar-day" => Period::Calendar(Every::Day),
                    "calendar-week" => Period::Calendar(Every::Week),
                    "calendar-month" => Period::Calendar(Every::Month),
                    "fixed" | "rolling" => length()?,
                    other => return Err(unknown("cadence", other, CADENCES)),
                };
                let limit = Some(Amount::Count(self.limit));
                let rolling = (cadence == "rolling").then_some(true);
                LimitSpec { limit, every: Some(Written::Value(every)), rolling, ..spec }
            }
            _ => LimitSpec { limit: rate()?, capacity: self.capacity, ..spec },
        })
    }
}

/// The name of a field in these files.
const fn name(field: Field) -> &'static str {
    match field {
        Field::Refill => "limit",
        Field::MaxWait => "max_wait_us",
        Field::Every => "cadence",
        Field::UtcOffset => "utc_offset_minutes",
        other => other.name(),
    }
}

const ALGORITHMS: &str =
    "gcra, token-bucket, fixed-window, sliding-window, sliding-log, quota, leaky-bucket";
const CADENCES: &str = "calendar-day, calendar-week, calendar-month, fixed, rolling";

fn unknown(field: &str, found: &str, expected: &str) -> String {
    format!("`{field}`: `{}` is unknown; expected one of {expected}", printable(found))
}
