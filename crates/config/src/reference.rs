//! The reference of all keys, as Markdown: made from the schema, which is made from the types that read a file.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::schema::{SCHEMA, choices, resolved, words};

/// One table, a row per key.
pub fn table() -> String {
    let mut rows =
        Rows { out: String::from("| key | value | |\n|---|---|---|\n"), seen: BTreeMap::new() };
    rows.of_map(&SCHEMA, "");
    rows.out
}

struct Rows {
    out: String,
    /// Where a definition has been told, so that it is told once.
    seen: BTreeMap<String, String>,
}

impl Rows {
    fn of_map(&mut self, schema: &Value, path: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            self.of_key(schema, &format!("{path}{dot}{name}"));
        }
    }

    fn of_key(&mut self, schema: &Value, path: &str) {
        let told =
            [schema, resolved(schema)].into_iter().find_map(|it| it.get("description")?.as_str());
        let told = told.unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(self.out, "| `{path}` | {} | {told} |", kinds(schema));
        for choice in choices(schema) {
            self.of_inside(choice, path);
        }
    }

    /// What is in a list or a map.
    fn of_inside(&mut self, schema: &Value, path: &str) {
        if let Some(items) = schema.get("items") {
            for choice in choices(items) {
                self.of_inside(choice, &format!("{path}[]"));
            }
        } else if let Some(named @ Value::Object(_)) = schema.get("additionalProperties") {
            for choice in choices(named) {
                self.of_inside(choice, &format!("{path}.NAME"));
            }
        } else if let Some(properties) = schema.get("properties") {
            // Maps of the same keys are the same map.
            let known = self.seen.get(&properties.to_string()).cloned();
            if let Some(known) = known {
                let _ = writeln!(self.out, "| `{path}.…` | | As `{known}.…`. |");
                return;
            }
            self.seen.insert(properties.to_string(), path.to_owned());
            self.of_map(schema, path);
        }
    }
}

fn kinds(schema: &Value) -> String {
    let mut kinds = Vec::new();
    let choices = choices(schema);
    let known: Vec<_> = choices.iter().copied().flat_map(words).collect();
    kinds.extend(known.iter().map(|word| format!("`{word}`")));
    for choice in choices.iter().filter(|choice| words(choice).is_empty()) {
        let kind = match choice.get("type").and_then(Value::as_str) {
            Some("string") => "text",
            Some("integer" | "number") => "number",
            Some("boolean") => "true, false",
            Some("array") => "list",
            _ => "map",
        };
        kinds.push(kind.to_owned());
    }
    kinds.dedup();
    kinds.join(", ")
}
