//! A case of a vector file: read as it is written, then checked.

use serde::Deserialize;
use serde_json::Value;
use tidegate::Timestamp;

use super::limit::RawLimit;
use super::replay::Limits;
use tidegate_config::Exact;
use tidegate_core::text::printable;

/// A case that can be replayed.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) limits: Limits,
    pub(super) steps: Vec<Step>,
    /// One answer per step, if any are given.
    pub(super) expect: Option<Vec<Value>>,
}

/// One question.
pub(super) struct Step {
    pub(super) now: Timestamp,
    pub(super) cost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    name: Option<String>,
    limit: Option<RawLimit>,
    all: Option<Vec<RawLimit>>,
    any: Option<Vec<RawLimit>>,
    steps: Vec<RawStep>,
    expect: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    now_us: Exact,
    #[serde(default = "one")]
    cost: Exact,
}

fn one() -> Exact {
    Exact(1)
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
    let limits = Limits::read(raw.limit.as_ref(), raw.all.as_deref(), raw.any.as_deref())?;
    let steps: Vec<_> = raw
        .steps
        .into_iter()
        .map(|step| Step { now: Timestamp::from_micros(step.now_us.0), cost: step.cost.0 })
        .collect();
    if let Some(expect) = raw.expect.as_ref().filter(|expect| expect.len() != steps.len()) {
        return Err(format!("`expect` has {} answers for {} steps", expect.len(), steps.len()));
    }
    let name = raw.name.unwrap_or_else(|| format!("[{index}]"));
    Ok(Case { name, limits, steps, expect: raw.expect })
}

/// The name of a case that could not be read, or its place in the file.
fn name_of(text: &str, index: usize) -> String {
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    let name = serde_json::from_str(text).map(|case: Name| printable(&case.name));
    name.unwrap_or_else(|_| format!("[{index}]"))
}
