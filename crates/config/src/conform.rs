//! Checks a file against the schema: every key is known, every value has the right type. Reports all problems.

mod advice;

use std::collections::BTreeSet;

use serde_json::Value as Schema;

use super::node::{Key, Node, Text, Value};
use super::problem::Problem;
use super::schema::{choices, example, resolved, words};
use tidegate_core::text::{closest, printable};

/// Checks a node and its contents. Text from the environment becomes a number or boolean where the schema wants one.
/// Optional keys with an empty value are removed.
pub(crate) fn conform(node: &mut Node, schema: &Schema, path: &str, problems: &mut Vec<Problem>) {
    let choices = choices(schema);
    let of_kind = |kind: &str| choices.iter().copied().find(|it| is_kind(it, kind));
    if let Value::Text(text) = &node.value
        && of_kind("string").is_none()
        && let Some(meant) = reread(text, &|kind| of_kind(kind).is_some())
    {
        node.value = meant;
    }
    let position = node.position;
    let mut report = |message| problems.push(Problem::new(position, at_path(path, message)));
    let matching = of_kind(kind(&node.value)).or_else(|| match node.value {
        // A whole number is a number.
        Value::Whole(_) => of_kind("number"),
        _ => None,
    });
    match (&mut node.value, matching) {
        (Value::Map(entries), Some(schema)) => {
            match advice::for_word_as_key(entries, schema, &choices, name_of(path)) {
                Some(advice) => report(advice),
                None => conform_map(position, entries, schema, path, problems),
            }
        }
        (Value::List(items), Some(schema)) => {
            for (index, item) in items.iter_mut().enumerate() {
                conform(item, &schema["items"], &format!("{path}[{index}]"), problems);
            }
        }
        (Value::Text(text), Some(_)) => {
            let known = choices.iter().copied().filter(|it| is_kind(it, "string")).map(words);
            let known: Vec<_> = known.collect();
            let is_open = known.iter().any(Vec::is_empty);
            let known = known.concat();
            if !is_open && !known.contains(&text.text.as_str()) {
                let shown = if text.is_substituted { "…" } else { &text.text };
                let advice = advice::for_word(shown, &known, &choices, name_of(path));
                report(advice.unwrap_or_else(|| unknown("", shown, known.iter().copied(), &known)));
            }
        }
        (Value::Whole(number), Some(schema)) if is_kind(schema, "integer") => {
            let bound = |name: &str| schema.get(name).and_then(Schema::as_u64).map(i128::from);
            let (min, max) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(1 << 53));
            if !(min..=max).contains(number) {
                report(format!("expected a whole number from {min} to {max}"));
            }
        }
        (Value::Bool(_) | Value::Whole(_) | Value::Float(_), Some(_)) | (Value::Unset, _) => {}
        (value, _) => {
            let advice = advice::for_value(value, schema, name_of(path));
            report(advice.unwrap_or_else(|| expected(value, schema, &choices)));
        }
    }
}

fn conform_map(
    position: super::problem::Position,
    entries: &mut Vec<(Key, Node)>,
    schema: &Schema,
    path: &str,
    problems: &mut Vec<Problem>,
) {
    let none = serde_json::Map::new();
    let properties = schema.get("properties").and_then(Schema::as_object).unwrap_or(&none);
    let required = || {
        let names = schema.get("required").and_then(Schema::as_array);
        names.into_iter().flatten().filter_map(Schema::as_str)
    };
    // A section whose lines are all commented out has only its name left.
    entries.retain(|(key, node)| {
        !matches!(node.value, Value::Null) || !properties.contains_key(&key.name)
    });
    problems.extend(advice::take_misplaced(entries, schema, path));
    let given: BTreeSet<_> = entries.iter().map(|(key, _)| key.name.clone()).collect();
    for (key, node) in entries.iter_mut() {
        let dot = if path.is_empty() { "" } else { "." };
        let inner = format!("{path}{dot}{}", printable(&key.name));
        match (properties.get(&key.name), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema @ Schema::Object(_))) => {
                conform(node, schema, &inner, problems);
            }
            (None, _) => {
                let known: Vec<_> = properties.keys().map(String::as_str).collect();
                let message = advice::for_key(&key.name, node, &known, path)
                    .or_else(|| advice::for_misplaced(&key.name, node, properties))
                    .unwrap_or_else(|| {
                        // What is there already was not meant.
                        let absent = known.iter().copied().filter(|it| !given.contains(*it));
                        unknown("key ", &key.name, absent, &known)
                    });
                problems.push(Problem::new(key.position, at_path(path, message)));
            }
        }
    }
    for name in required().filter(|name| entries.iter().all(|(key, _)| key.name != *name)) {
        let why = advice::for_missing(name, &given);
        problems.push(Problem::new(position, at_path(path, format!("`{name}` is missing{why}"))));
    }
}

/// The last name of a path.
fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A message about what is at a path.
fn at_path(path: &str, message: String) -> String {
    if path.is_empty() { message } else { format!("{path}: {message}") }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null | Value::Unset => "null",
        Value::Bool(_) => "boolean",
        Value::Whole(_) => "integer",
        Value::Float(_) => "number",
        Value::Text(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
    }
}

fn is_kind(schema: &Schema, kind: &str) -> bool {
    schema.get("type").is_some_and(|it| it == kind)
}

/// The number or boolean that a text from the environment stands for where the schema allows no text.
fn reread(text: &Text, can_be: &dyn Fn(&str) -> bool) -> Option<Value> {
    let meant = text.text.trim();
    match meant {
        _ if !text.is_substituted => None,
        "true" | "false" if can_be("boolean") => Some(Value::Bool(meant == "true")),
        _ if can_be("integer") => meant.parse().ok().map(Value::Whole),
        _ if can_be("number") => {
            meant.parse().ok().filter(|it: &f64| it.is_finite()).map(Value::Float)
        }
        _ => None,
    }
}

/// `meant`: what may be suggested of all that is known.
fn unknown<'a>(
    what: &str,
    typed: &str,
    meant: impl Iterator<Item = &'a str>,
    known: &[&str],
) -> String {
    let typed = printable(typed);
    let (meant, in_file) = (meant.collect::<Vec<_>>(), format!("{typed}_file"));
    let in_file = meant.iter().copied().find(|it| *it == in_file);
    match in_file.or_else(|| closest(&typed, meant.into_iter())) {
        Some(meant) => format!("unknown {what}`{typed}`, did you mean `{meant}`?"),
        None => format!("unknown {what}`{typed}`: expected one of {}", known.join(", ")),
    }
}

/// The message does not repeat the value: it may be a secret.
fn expected(value: &Value, schema: &Schema, choices: &[&Schema]) -> String {
    let got = match value {
        Value::Null | Value::Unset => "nothing",
        Value::Bool(_) => "true or false",
        Value::Whole(_) => "a number",
        Value::Float(_) => "a number with a fraction",
        Value::Text(_) => "text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
    };
    let known: Vec<_> = choices.iter().copied().flat_map(words).collect();
    let mut wanted = Vec::new();
    if !known.is_empty() {
        wanted.push(known.join(", "));
    }
    for choice in choices.iter().filter(|choice| words(choice).is_empty()) {
        let like = example(schema).or_else(|| example(choice)).and_then(Schema::as_str);
        wanted.push(match choice.get("type").and_then(Schema::as_str) {
            Some("string") => like.map_or("text".to_owned(), |like| format!("text like {like}")),
            Some("integer") => "a whole number".to_owned(),
            Some("number") => "a number".to_owned(),
            Some("boolean") => "true or false".to_owned(),
            Some("array") => "a list".to_owned(),
            _ => "a map".to_owned(),
        });
    }
    wanted.dedup();
    // `true` in quotes is no text like an example either.
    let is_any_text = || choices.iter().all(|it| example(schema).or_else(|| example(it)).is_none());
    let quotes = match value {
        Value::Whole(_) | Value::Float(_) if is_text(schema) => " (put it in quotes)",
        Value::Bool(_) if is_text(schema) && is_any_text() => " (put it in quotes)",
        _ => "",
    };
    format!("expected {}, got {got}{quotes}", wanted.join(" or "))
}

fn is_text(schema: &Schema) -> bool {
    choices(resolved(schema)).iter().any(|it| is_kind(it, "string") && words(it).is_empty())
}
