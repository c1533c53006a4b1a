//! From what is written to rules that make sense: the second step of reading a configuration.

use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::path::Path;

use serde_saphyr::{Location, Spanned};
use tidegate::{Limit, OnStoreError};

use super::document::{self, Descriptor, Document, WrittenLimit};
use super::error::Error;
use super::pattern::Pattern;
use super::rules::{Counts, Domain, Level, Node, Quantity, Rule, Rules};
use super::unit::Unit;

/// Rules that are being put together, and all that is wrong with them.
#[derive(Debug, Default)]
pub(super) struct Building {
    rules: Rules,
    pub(super) errors: Vec<Error>,
}

/// Where a descriptor stands.
#[derive(Clone, Copy)]
struct Parent<'a> {
    file: &'a Path,
    policy: &'a str,
    /// How many descriptors it is within.
    level: usize,
}

impl Building {
    pub(super) fn add(&mut self, file: &Path, document: Document) {
        warn_of(file, document.misplaced());
        let Some(name) = document.domain.filter(|domain| !domain.value.is_empty()) else {
            self.errors.push(Error::of_file(file, "config file cannot have empty domain"));
            return;
        };
        let policy = component(&name.value);
        let mut root = Level::default();
        let parent = Parent { file, policy: &policy, level: 0 };
        self.add_level(parent, &mut root, document.descriptors.unwrap_or_default());
        match self.rules.domains.entry(name.value.as_str().into()) {
            Entry::Vacant(place) => {
                place.insert(Domain { root, own_limits: format!("{policy}//override") });
            }
            Entry::Occupied(_) => {
                let what = format!("duplicate domain '{}' in config file", name.value);
                self.errors.push(Error::at(file, name.referenced, what));
            }
        }
    }

    pub(super) fn finish(self) -> Result<Rules, Vec<Error>> {
        if self.errors.is_empty() { Ok(self.rules) } else { Err(self.errors) }
    }

    fn add_level(
        &mut self,
        parent: Parent<'_>,
        level: &mut Level,
        descriptors: Vec<Spanned<Descriptor>>,
    ) {
        for Spanned { value: descriptor, referenced: place, .. } in descriptors {
            let mut wrong = |place, what: String| {
                self.errors.push(Error::at(parent.file, place, what));
            };
            if parent.level == document::LEVELS_MAX {
                wrong(place, document::too_deep());
                continue;
            }
            let Some(key) = descriptor.key.as_ref().filter(|key| !key.value.is_empty()) else {
                wrong(place, "descriptor has empty key".to_owned());
                continue;
            };
            let value = descriptor.value.as_ref().map_or("", |value| value.value.as_str());
            let composite = composite(&key.value, value);
            let policy = format!("{}/{}", parent.policy, component(&composite));
            let index = level.nodes.len();
            match level.exact.entry(composite.as_bytes().into()) {
                Entry::Vacant(slot) => _ = slot.insert(index),
                Entry::Occupied(_) => {
                    wrong(key.referenced, format!("duplicate descriptor composite key '{policy}'"));
                    continue;
                }
            }
            if let Some(pattern) = Pattern::new(&composite) {
                level.patterns.push((pattern, index));
            }
            let shares = descriptor.share_threshold.as_ref().filter(|shares| shares.value);
            if let Some(shares) = shares
                && !value.contains('*')
            {
                let what = format!("share_threshold needs a '*' in the value of '{policy}'");
                wrong(shares.referenced, what);
            }
            let counts = match (key.value.contains('*'), value) {
                _ if shares.is_some() => Counts::Together,
                (true, _) => Counts::ByKeyAndValue,
                (false, value) if value.is_empty() || value.contains('*') => Counts::ByValue,
                _ => Counts::Together,
            };
            warn_of(parent.file, descriptor.misplaced());
            let rule = self.rule(parent.file, &policy, &descriptor);
            let mut below = Level::default();
            let children = descriptor.descriptors.unwrap_or_default();
            let here = Parent { policy: &policy, level: parent.level + 1, ..parent };
            self.add_level(here, &mut below, children);
            level.nodes.push(Node { rule, below, counts });
        }
    }

    fn rule(&mut self, file: &Path, policy: &str, descriptor: &Descriptor) -> Option<Rule> {
        let Spanned { value: limit, referenced: place, .. } = descriptor.rate_limit.as_ref()?;
        warn_of(file, limit.misplaced());
        let mut errors = Vec::new();
        let quantity = quantity(limit, *place).map_err(|error| errors.push(error)).ok();
        let name = limit.name.clone().unwrap_or_default();
        let mut replaces = Vec::new();
        for replaced in limit.replaces.iter().flatten() {
            warn_of(file, replaced.value.misplaced());
            match replaced.value.name.as_deref().unwrap_or_default() {
                "" => {
                    let what = "should not have an empty replaces entry".to_owned();
                    errors.push((replaced.referenced, what));
                }
                other if other == name => {
                    let what = "replaces should not contain name of same descriptor".to_owned();
                    errors.push((replaced.referenced, what));
                }
                other => replaces.push(other.to_owned()),
            }
        }
        self.errors.extend(errors.into_iter().map(|(place, what)| Error::at(file, place, what)));
        Some(Rule {
            policy: policy.to_owned(),
            quantity: quantity?,
            name,
            replaces,
            is_shadow: descriptor.shadow_mode.unwrap_or(false),
            is_quota: descriptor.quota_mode.unwrap_or(false),
            on_store_error: match limit.on_store_error {
                Some(document::OnStoreError::Allow) => OnStoreError::Allow,
                Some(document::OnStoreError::Deny) => OnStoreError::DENY,
                Some(document::OnStoreError::Local) | None => OnStoreError::Local,
            },
        })
    }
}

fn quantity(limit: &WrittenLimit, place: Location) -> Result<Quantity, (Location, String)> {
    let unit = limit.unit.as_ref().and_then(|unit| Unit::named(&unit.value));
    let (unit_name, unit_place) =
        limit.unit.as_ref().map_or(("", place), |unit| (unit.value.as_str(), unit.referenced));
    if limit.unlimited.as_ref().is_some_and(|unlimited| unlimited.value) {
        let what = || "should not specify rate limit unit when unlimited".to_owned();
        return if unit.is_none() { Ok(Quantity::Unlimited) } else { Err((unit_place, what())) };
    }
    let unit =
        unit.ok_or_else(|| (unit_place, format!("invalid rate limit unit '{unit_name}'")))?;
    let requests = limit.requests_per_unit.as_ref().map_or(0, |requests| requests.value);
    let algorithm = limit.algorithm.as_ref().map_or("fixed-window", |it| it.value.as_str());
    let burst = limit.burst.as_ref().map(|burst| burst.value);
    let place = limit.algorithm.as_ref().map_or(place, |algorithm| algorithm.referenced);
    if algorithm.trim().is_empty() {
        let what = "algorithm is empty: name one, or leave it out for fixed-window".to_owned();
        return Err((place, what));
    }
    // Built also for no requests at all, where it is never asked, so that a wrong algorithm is told.
    let built: Result<Limit, _> = spelt(algorithm, requests.max(1), unit, burst).parse();
    let limit = built.map_err(|error| (place, error.to_string()))?;
    if matches!(limit, Limit::Concurrency(_)) {
        return Err((place, "concurrency cannot be limited per unit".to_owned()));
    }
    Ok(Quantity::PerUnit { requests, unit, limit: (requests > 0).then_some(limit) })
}

/// A limit as the library reads it. A quota of days, weeks or months goes by the calendar, of UTC.
fn spelt(algorithm: &str, requests: u32, unit: Unit, burst: Option<u64>) -> String {
    let period = match (algorithm, unit) {
        ("quota", Unit::Day) => "day".to_owned(),
        ("quota", Unit::Week) => "week".to_owned(),
        ("quota", Unit::Month) => "month".to_owned(),
        _ => format!("{}s", unit.seconds()),
    };
    let word = if algorithm == "token-bucket" { "capacity" } else { "burst" };
    let burst = burst.map(|burst| format!(" {word} {burst}")).unwrap_or_default();
    format!("{algorithm} {requests}/{period}{burst}")
}

/// What an entry is looked up by.
fn composite(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}

/// A part of a policy's name: a `/` within it is written as `%2F`, so that no two paths spell the same name.
fn component(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '/' | '%') || char.is_control() {
            let _ = write!(out, "%{:02X}", u32::from(char));
        } else {
            out.push(char);
        }
    }
    out
}

/// Says what does nothing where it stands, since the original says nothing.
fn warn_of(file: &Path, misplaced: impl Iterator<Item = (&'static str, Location)>) {
    for (key, place) in misplaced {
        let what = format!("`{key}` does nothing here: it belongs elsewhere");
        tracing::warn!("{}", Error::at(file, place, what));
    }
}
