//! The JSON Schema of a file, for editors and for the check of a file.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Draft 2020-12, for values after substitution of variables. Generated from the types in `text`; a test fails when
/// the file is stale.
pub(crate) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("schema.json")).unwrap_or_default());

/// The schema that `tidegate config schema` prints. Editors see a file before substitution, so that `${NAME}` may stand
/// for a number, a word or a boolean, and before empty keys are removed.
pub fn for_editors() -> Value {
    let mut schema = SCHEMA.clone();
    allow_variables(&mut schema);
    allow_empty(&mut schema);
    schema["$defs"][VARIABLE] = json!({
        "description": "A value from the environment: `${NAME}` or `${NAME:-default}`.",
        "type": "string",
        "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
    });
    schema
}

const VARIABLE: &str = "Variable";

/// Adds a variable to the choices of every value that is not plain text.
fn allow_variables(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for word in ["properties", "$defs"] {
        let named = fields.get_mut(word).and_then(Value::as_object_mut);
        named.into_iter().flat_map(|named| named.values_mut()).for_each(allow_variables);
    }
    for word in ["items", "additionalProperties"] {
        fields.get_mut(word).into_iter().for_each(allow_variables);
    }
    let variable = json!({ "$ref": format!("#/$defs/{VARIABLE}") });
    for word in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = fields.get_mut(word) else { continue };
        choices.iter_mut().filter(|choice| !is_scalar(choice)).for_each(allow_variables);
        let is_text = |choice: &Value| choice.get("type") == Some(&json!("string"));
        // Once for all choices: `oneOf` allows one match only.
        if choices.iter().any(is_scalar) && !choices.iter().any(|it| is_text(it) && !is_scalar(it))
        {
            choices.push(variable.clone());
        }
    }
    if is_scalar(schema) {
        *schema = with_choice(schema.take(), &variable);
    }
}

/// Whether a value is a number, a word or a boolean.
fn is_scalar(schema: &Value) -> bool {
    let is_word = schema.get("enum").is_some() || schema.get("const").is_some();
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number" | "boolean") => true,
        Some("string") => is_word,
        _ => false,
    }
}

/// An optional key may be empty: the lines of its section may all be commented out.
fn allow_empty(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(allow_empty);
            let required = fields.get("required").and_then(Value::as_array).cloned();
            let is_required = |name: &str| required.iter().flatten().any(|it| it == name);
            let named = fields.get_mut("properties").and_then(Value::as_object_mut);
            for (name, property) in named.into_iter().flatten() {
                if !is_required(name) {
                    *property = or_null(property.take());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_empty),
        _ => {}
    }
}

fn or_null(mut schema: Value) -> Value {
    match schema.get_mut("type") {
        Some(kind) => *kind = json!([kind, "null"]),
        None => schema = with_choice(schema, &json!({ "type": "null" })),
    }
    schema
}

/// A schema or another one. Its description stays outside, where editors look for it.
fn with_choice(schema: Value, other: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema };
    let annotations = ["description", "default", "examples"];
    let (mut outside, inside): (Map<_, _>, Map<_, _>) =
        fields.into_iter().partition(|(word, _)| annotations.contains(&&**word));
    outside.insert("anyOf".to_owned(), json!([inside, other]));
    outside.into()
}

/// The definition that a schema refers to, or the schema itself.
pub(crate) fn resolved(schema: &Value) -> &Value {
    let name = schema.get("$ref").and_then(Value::as_str);
    let definition = name.and_then(|name| SCHEMA.pointer(name.strip_prefix('#')?));
    definition.unwrap_or(schema)
}

/// The choices of a schema, or the schema itself.
pub(crate) fn choices(schema: &Value) -> Vec<&Value> {
    let schema = resolved(schema);
    let listed = ["anyOf", "oneOf"].into_iter().find_map(|word| schema.get(word)?.as_array());
    listed.map_or_else(|| vec![schema], |listed| listed.iter().flat_map(choices).collect())
}

/// The words that a schema allows; none if it allows any text.
pub(crate) fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    listed.chain(schema.get("const")).filter_map(Value::as_str).collect()
}

/// An example of what a schema allows.
pub(crate) fn example(schema: &Value) -> Option<&Value> {
    [schema, resolved(schema)]
        .into_iter()
        .find_map(|schema| schema.get("examples")?.as_array()?.first())
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::text::File;

    fn generated() -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut schema = generator.into_root_schema_for::<File>().to_value();
        schema["title"] = "tidegate configuration".into();
        without_null(&mut schema);
        closed(&mut schema);
        schema
    }

    /// No map takes keys that are not listed, except where all names are allowed.
    fn closed(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.values_mut().for_each(closed);
                if fields.get("type") == Some(&"object".into()) && fields.contains_key("properties")
                {
                    fields.entry("additionalProperties").or_insert(false.into());
                }
            }
            Value::Array(items) => items.iter_mut().for_each(closed),
            _ => {}
        }
    }

    /// An optional key is absent, not null: editors need not offer null.
    fn without_null(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                if let Some(Value::Array(types)) = fields.get_mut("type") {
                    types.retain(|it| it != "null");
                    if let [only] = &mut types[..] {
                        let only = only.take();
                        fields.insert("type".to_owned(), only);
                    }
                }
                if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                    choices.retain(|choice| choice.get("type").is_none_or(|it| it != "null"));
                    if let [Value::Object(only)] = &mut choices[..] {
                        let only = std::mem::take(only);
                        fields.remove("anyOf");
                        fields.extend(only);
                    }
                }
                if fields.get("default").is_some_and(Value::is_null) {
                    fields.remove("default");
                }
                fields.values_mut().for_each(without_null);
            }
            Value::Array(items) => items.iter_mut().for_each(without_null),
            _ => {}
        }
    }

    #[test]
    fn the_schema_file_is_not_stale() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema.json");
        let generated = format!("{:#}\n", generated());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            return std::fs::write(path, generated).unwrap();
        }
        let is_fresh = generated == include_str!("schema.json");
        assert!(
            is_fresh,
            "schema.json is stale: UPDATE_DOCS=1 cargo test -p tidegate-config schema"
        );
    }
}
