//! envoyproxy/ratelimit: one domain per file, a tree of descriptors, limits at its nodes.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Draft, Limits, Problems, read};
use crate::config::problem::{Place, Problem};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Domain {
    domain: String,
    #[serde(default)]
    descriptors: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    key: String,
    value: Option<serde_json::Value>,
    rate_limit: Option<RateLimit>,
    #[serde(default)]
    descriptors: Vec<Self>,
    #[serde(default)]
    shadow_mode: bool,
    #[serde(default)]
    quota_mode: bool,
    #[serde(default)]
    share_threshold: bool,
    // What is only shown or counted, and changes no decision.
    #[serde(default, rename = "detailed_metric")]
    _detailed_metric: serde::de::IgnoredAny,
    #[serde(default, rename = "value_to_metric")]
    _value_to_metric: serde::de::IgnoredAny,
    #[serde(default, rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateLimit {
    unit: Option<String>,
    requests_per_unit: Option<u64>,
    #[serde(default)]
    unlimited: bool,
    #[serde(default)]
    replaces: Vec<serde::de::IgnoredAny>,
    #[serde(default, rename = "name")]
    _name: serde::de::IgnoredAny,
    algorithm: Option<String>,
    burst: Option<u64>,
}

pub(super) fn files(path: &Path) -> Result<Vec<Draft>, Vec<Problems>> {
    let (mut drafts, mut wrong) = (Vec::new(), Vec::new());
    for file in listed(path).map_err(|problems| vec![problems])? {
        match read::<Domain>(&file) {
            Ok(Domain { domain, descriptors }) => {
                for descriptor in &descriptors {
                    add(&domain, descriptor, &mut drafts);
                }
            }
            Err(problems) => wrong.push(problems),
        }
    }
    if wrong.is_empty() { Ok(drafts) } else { Err(wrong) }
}

/// The file itself, or the YAML files of a folder by name.
fn listed(path: &Path) -> Result<Vec<PathBuf>, Problems> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unread = |error: std::io::Error| {
        let message = format!("cannot be read: {error}");
        Problems::new(path, vec![Problem::new(Place::START, message)])
    };
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|it| it == "yaml" || it == "yml");
    let entries = fs::read_dir(path).map_err(unread)?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(is_yaml);
    files.sort();
    Ok(files)
}

/// Depth is bounded by what a file may have.
fn add(parent: &str, descriptor: &Descriptor, drafts: &mut Vec<Draft>) {
    let name = match &descriptor.value {
        Some(serde_json::Value::String(value)) => format!("{parent}/{}_{value}", descriptor.key),
        Some(value) => format!("{parent}/{}_{value}", descriptor.key),
        None => format!("{parent}/{}", descriptor.key),
    };
    if let Some(limit) = &descriptor.rate_limit {
        drafts.push(draft(&name, descriptor, limit));
    }
    for inner in &descriptor.descriptors {
        add(&name, inner, drafts);
    }
}

fn draft(name: &str, descriptor: &Descriptor, limit: &RateLimit) -> Draft {
    let mut notes = Vec::new();
    let has_star = descriptor.value.as_ref().is_some_and(|it| it.to_string().contains('*'));
    if descriptor.value.is_none() || (has_star && !descriptor.share_threshold) {
        notes.push(format!("{name}: one counter per value; give the value as the key"));
    }
    if !limit.replaces.is_empty() {
        notes.push(format!("{name}: `replaces` has no counterpart; ask the one that replaces"));
    }
    if descriptor.quota_mode {
        notes.push(format!("{name}: `quota_mode` has no counterpart"));
    }
    let more = if descriptor.shadow_mode { vec!["mode: shadow".to_owned()] } else { vec![] };
    let limits = limits(name, limit, &mut notes);
    Draft { notes, name: name.to_owned(), limits, more }
}

fn limits(name: &str, limit: &RateLimit, notes: &mut Vec<String>) -> Limits {
    let unit = limit.unit.as_deref().unwrap_or_default().to_ascii_lowercase();
    let time = match unit.as_str() {
        "second" => "s",
        "minute" => "min",
        "hour" => "h",
        "day" => "day",
        "week" => "week",
        "month" => "30day",
        "year" => "365day",
        _ => "",
    };
    let note = match limit.requests_per_unit {
        _ if limit.unlimited => "unlimited, so there is nothing to ask".to_owned(),
        None | Some(0) => "refuses everything; block keys by overrides".to_owned(),
        Some(_) if time.is_empty() => format!("unit `{unit}` is unknown"),
        Some(count) => {
            let algorithm = limit.algorithm.as_deref().unwrap_or("fixed-window");
            let burst = limit.burst.map(|burst| format!(", burst: {burst}")).unwrap_or_default();
            return Limits::One(format!("algorithm: {algorithm}, limit: {count}/{time}{burst}"));
        }
    };
    notes.push(format!("{name}: {note}"));
    Limits::None
}
