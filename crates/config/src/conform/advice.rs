//! What to write instead, for the mistakes that people make most: the corrected line where there is one.

use std::net::SocketAddr;

use serde_json::Value as Schema;
use tidegate_core::text::printable;
use tidegate_core::{LimitSpec, read_duration};

use super::super::node::{Key, Node, Value};
use super::super::problem::Problem;
use super::super::schema::{SCHEMA, choices, example};
use super::{at_path, conform, is_kind};

/// What to write instead of a value of the wrong type, at a key of this name.
pub(super) fn for_value(value: &Value, schema: &Schema, key: &str) -> Option<String> {
    let choices = choices(schema);
    match value {
        Value::Whole(number) => {
            let like = |schema| example(schema).and_then(Schema::as_str);
            let like = like(schema).or_else(|| choices.iter().copied().find_map(like))?;
            with_unit(*number, key, like)
        }
        Value::List(_) | Value::Text(_) => {
            let names = choices.iter().find_map(|it| it.get("additionalProperties"));
            let like = names.and_then(example).and_then(Schema::as_str)?;
            let without = if matches!(value, Value::List(_)) { ", without `-`" } else { "" };
            Some(format!("expected names with values: write `NAME: {like}` below it{without}"))
        }
        Value::Map(_) if choices.iter().any(|it| is_kind(it, "array")) => {
            Some("expected a list: begin each of its items with `- `".to_owned())
        }
        _ => None,
    }
}

/// What was meant by a key that sounds right and is none, by its value.
pub(super) fn for_key(name: &str, node: &Node, known: &[&str]) -> Option<String> {
    if name == "cost" && known.contains(&"all") {
        let advice = "`cost` belongs to one of several limits: write `all: [{ name: …, limit: …, cost: … }]`";
        return Some(advice.to_owned());
    }
    if name != "limits" {
        return None;
    }
    let meant = match &node.value {
        Value::Map(_) if known.contains(&"policies") => "`policies`",
        Value::List(_) | Value::Map(_) if known.contains(&"all") => {
            "`all`, a list of limits that all have to admit"
        }
        _ => return None,
    };
    Some(format!("unknown key `{name}`, did you mean {meant}?"))
}

/// The line with the unit, the address or the period that a number lacks.
fn with_unit(number: i128, key: &str, like: &str) -> Option<String> {
    let number = u64::try_from(number).ok()?;
    if let Ok(address) = like.parse::<SocketAddr>() {
        let port = u16::try_from(number).ok().filter(|port| *port > 0)?;
        let address = SocketAddr::new(address.ip(), port);
        return Some(format!("`{number}` is no address: write `{key}: {address}`"));
    }
    if read_duration(like).is_ok() {
        return Some(format!(
            "`{number}` has no unit: write `{key}: {number}ms` or `{key}: {number}s`"
        ));
    }
    let is_rate = LimitSpec::from_line(like).is_ok() && like.contains('/');
    is_rate.then(|| format!("`{number}` has no time unit: write `{key}: {number}/min`"))
}

/// Removes names that are empty because the lines that belong below them are not indented, with those lines: what they
/// would mean here has nothing to do with what was meant.
pub(super) fn take_misplaced(
    entries: &mut Vec<(Key, Node)>,
    schema: &Schema,
    path: &str,
) -> Vec<Problem> {
    let Some(inner @ Schema::Object(_)) = schema.get("additionalProperties") else {
        return Vec::new();
    };
    let inner = choices(inner);
    let belongs_below = |name: &str| {
        inner.iter().any(|it| it.get("properties").is_some_and(|it| it.get(name).is_some()))
    };
    let (mut problems, mut open) = (Vec::new(), false);
    entries.retain(|(key, node)| {
        if matches!(node.value, Value::Null) {
            let name = printable(&key.name);
            let message = format!(
                "is empty: write `{name}: 100/min`, or indent the lines that belong to `{name}` further than it"
            );
            problems.push(Problem::new(key.position, at_path(&format!("{path}.{name}"), message)));
            open = true;
            return false;
        }
        open &= belongs_below(&key.name);
        !open
    });
    problems
}

/// Whether a value could be a policy.
pub(super) fn is_policy(node: &mut Node) -> bool {
    let schema = &SCHEMA["properties"]["policies"]["additionalProperties"];
    let mut problems = Vec::new();
    match &node.value {
        Value::Text(line) => return LimitSpec::from_line(&line.text).is_ok(),
        Value::Map(entries) if !entries.is_empty() => conform(node, schema, "", &mut problems),
        _ => return false,
    }
    problems.is_empty()
}
