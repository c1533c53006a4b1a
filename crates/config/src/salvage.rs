//! What can be checked of a file whose form has problems, so that the problems of its meaning are reported with them.
//!
//! Whole units are left out: a policy, an override, a route, an option of the store, another section. What depends on one of them is left out,
//! too: a problem that comes from an omission is none of the file's.

use std::collections::BTreeSet;

use super::conform::conform;
use super::node::{Node, Value};
use super::schema::{SCHEMA, choices, resolved};
use serde_json::Value as Schema;

/// Removes what does not conform, and what depends on it. Returns the names of the sections that it removed.
pub(crate) fn salvage(file: &mut Node) -> BTreeSet<String> {
    let Value::Map(sections) = &mut file.value else { return BTreeSet::new() };
    let mut bad_sections = BTreeSet::new();
    let mut bad_policies = BTreeSet::new();
    sections.retain_mut(|(key, section)| {
        let schema = &SCHEMA["properties"][&key.name];
        let inner = resolved(schema);
        match &mut section.value {
            Value::Map(policies) if key.name == "policies" => {
                policies.retain_mut(|(name, policy)| {
                    let is_good = is_sound(policy, &inner["additionalProperties"]);
                    is_good || !bad_policies.insert(name.name.clone())
                });
                return true;
            }
            // Without its URL the other keys would be those of a store in memory.
            Value::Map(options) if key.name == "store" => {
                let Some(known) = choices(inner).into_iter().find_map(|it| it.get("properties"))
                else {
                    return false;
                };
                let count = options.len();
                let is_url = |name: &str| name.starts_with("url") || name.starts_with("quorum");
                let mut has_url = true;
                options.retain_mut(|(key, option)| {
                    let schema = &known[&key.name];
                    let is_good = !schema.is_null() && is_sound(option, schema);
                    has_url &= is_good || !is_url(&key.name);
                    is_good
                });
                if has_url && count > 0 {
                    return true;
                }
                bad_sections.insert(key.name.clone());
                return false;
            }
            Value::List(items) if key.name == "overrides" || key.name == "routes" => {
                items.retain_mut(|item| is_sound(item, &inner["items"]));
                return true;
            }
            _ => {}
        }
        let is_good = !schema.is_null() && is_sound(section, schema);
        is_good || !bad_sections.insert(key.name.clone())
    });
    let is_bad = |names: &[&str]| names.iter().any(|name| bad_sections.contains(*name));
    sections.retain_mut(|(key, section)| match (&*key.name, &mut section.value) {
        // These three are checked against each other.
        ("listen" | "proxy", _) => !is_bad(&["listen", "proxy", "client_ip"]),
        ("routes", _) if is_bad(&["listen", "proxy", "jwt"]) => false,
        ("overrides" | "routes", _) if is_bad(&["policies"]) => false,
        ("overrides" | "routes", Value::List(items)) => {
            items.retain(|item| !names_one_of(item, &bad_policies));
            true
        }
        // What a priority needs may be in a policy that is left out.
        ("policies", Value::Map(policies)) if !bad_policies.is_empty() => {
            for (_, policy) in policies.iter_mut() {
                without_priority(policy);
            }
            true
        }
        _ => true,
    });
    bad_sections
}

fn is_sound(node: &mut Node, schema: &Schema) -> bool {
    let mut problems = Vec::new();
    conform(node, schema, "", &mut problems);
    problems.is_empty() && !has_unset(node)
}

/// Whether part of it is an environment variable that is not set.
fn has_unset(node: &Node) -> bool {
    match &node.value {
        Value::Unset => true,
        Value::List(items) => items.iter().any(has_unset),
        Value::Map(entries) => entries.iter().any(|(_, node)| has_unset(node)),
        _ => false,
    }
}

fn names_one_of(item: &Node, policies: &BTreeSet<String>) -> bool {
    let policy = item.get("policy").map(|node| &node.value);
    matches!(policy, Some(Value::Text(name)) if policies.contains(&name.text))
}

fn without_priority(policy: &mut Node) {
    if let Value::Map(options) = &mut policy.value {
        options.retain(|(key, _)| key.name != "priority");
    }
}
