//! envoyproxy/ratelimit: every rule that limits is a policy, under the name that it has for `--envoy-config`.

use tidegate::{Limit, OnStoreError};
use tidegate_core::Field;

use super::{Draft, Limits};
use crate::envoy::{Counts, Quantity, Rule, Rules};

pub(super) fn drafts(rules: &Rules) -> Vec<Draft> {
    let mut all = rules.all();
    all.sort_by_key(|(rule, _)| &rule.policy);
    all.into_iter().map(|(rule, counts)| draft(rule, &counts)).collect()
}

/// A rule, with the counters of each descriptor on the path to it.
fn draft(rule: &Rule, counts: &[Counts]) -> Draft {
    let name = &rule.policy;
    let mut notes = Vec::new();
    match counts.iter().filter(|counts| **counts != Counts::Together).count() {
        0 => {}
        1 => notes.push(format!("{name}: one counter per value; give the value as the key")),
        _ => notes.push(format!("{name}: one counter for values together; make one key of them")),
    }
    if !rule.replaces.is_empty() {
        notes.push(format!("{name}: `replaces` has no counterpart; check the rule that replaces"));
    }
    if rule.is_quota {
        notes.push(format!("{name}: `quota_mode` has no counterpart"));
    }
    let mut more = Vec::new();
    if rule.is_shadow {
        more.push("mode: shadow".to_owned());
    }
    match rule.on_store_error {
        OnStoreError::Allow => more.push("on_store_error: allow".to_owned()),
        OnStoreError::Deny { .. } => more.push("on_store_error: deny".to_owned()),
        OnStoreError::Local => {}
    }
    let limits = limits(&rule.quantity).unwrap_or_else(|why| {
        notes.push(format!("{name}: {why}"));
        Limits::None
    });
    Draft { notes, name: name.clone(), limits, more }
}

fn limits(quantity: &Quantity) -> Result<Limits, &'static str> {
    match quantity {
        Quantity::Unlimited => Err("unlimited, so there is nothing to check"),
        Quantity::PerUnit { limit: None, .. } => Err("refuses everything; block keys by overrides"),
        Quantity::PerUnit { limit: Some(limit), .. } => Ok(Limits::One(options(limit))),
    }
}

fn options(limit: &Limit) -> String {
    let is_default = |(field, text): &(Field, String)| *field == Field::Algorithm && text == "gcra";
    let fields = limit.spec().fields().into_iter().filter(|field| !is_default(field));
    let fields = fields.map(|(field, text)| format!("{}: {text}", field.name()));
    fields.collect::<Vec<_>>().join(", ")
}
