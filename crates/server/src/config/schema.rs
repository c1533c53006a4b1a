//! The JSON Schema of a file: for editors, and what files are checked against.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::text::File;

/// Draft 2020-12, as `tidegate config schema` prints it.
pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    schema["title"] = "tidegate configuration".into();
    without_null(&mut schema);
    schema
});

/// What is optional is left out, not null: editors need not offer it.
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

/// The definition that a schema refers to, or the schema itself.
pub(crate) fn resolved(schema: &Value) -> &Value {
    let name = schema.get("$ref").and_then(Value::as_str);
    let definition = name.and_then(|name| SCHEMA.pointer(name.strip_prefix('#')?));
    definition.unwrap_or(schema)
}

/// What a schema allows, one by one: the choices of a choice, and else itself.
pub(crate) fn choices(schema: &Value) -> Vec<&Value> {
    let schema = resolved(schema);
    let listed = ["anyOf", "oneOf"].into_iter().find_map(|word| schema.get(word)?.as_array());
    listed.map_or_else(|| vec![schema], |listed| listed.iter().flat_map(choices).collect())
}

/// The words that a schema allows; none if any text will do.
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
