//! The reference of all keys in Markdown, generated from the schema.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::schema::{SCHEMA, choices, resolved, words};

/// One table, a row per key.
pub fn table() -> String {
    let mut rows = Rows {
        out: String::from("| key | value | |\n|---|---|---|\n"),
        described: BTreeMap::new(),
    };
    rows.add_map(&SCHEMA, "");
    rows.out
}

struct Rows {
    out: String,
    /// The path of each map that has been described, so that it is described once.
    described: BTreeMap<String, String>,
}

impl Rows {
    fn add_map(&mut self, schema: &Value, path: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            let dot = if path.is_empty() { "" } else { "." };
            self.add_key(schema, &format!("{path}{dot}{name}"));
        }
    }

    fn add_key(&mut self, schema: &Value, path: &str) {
        let description =
            [schema, resolved(schema)].into_iter().find_map(|it| it.get("description")?.as_str());
        let description = description.unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(self.out, "| `{path}` | {} | {description} |", kinds(schema));
        for choice in choices(schema) {
            self.add_contents(choice, path);
        }
    }

    /// Adds the keys inside a list or a map.
    fn add_contents(&mut self, schema: &Value, path: &str) {
        if let Some(items) = schema.get("items") {
            for choice in choices(items) {
                self.add_contents(choice, &format!("{path}[]"));
            }
        } else if let Some(named @ Value::Object(_)) = schema.get("additionalProperties") {
            self.add_map(schema, path);
            for choice in choices(named) {
                self.add_contents(choice, &format!("{path}.NAME"));
            }
        } else if let Some(properties) = schema.get("properties") {
            // Maps with the same keys are the same map.
            let known = self.described.get(&properties.to_string()).cloned();
            if let Some(known) = known {
                let _ = writeln!(self.out, "| `{path}.…` | | As `{known}.…`. |");
                return;
            }
            self.described.insert(properties.to_string(), path.to_owned());
            self.add_map(schema, path);
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
