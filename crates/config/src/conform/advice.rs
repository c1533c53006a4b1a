//! What to write instead, for the mistakes that people make most: the corrected line where there is one.

use std::net::SocketAddr;

use serde_json::Value as Schema;
use tidegate_core::text::{closest, printable};
use tidegate_core::{LimitSpec, read_duration};

use super::super::node::{Key, Node, Text, Value};
use super::super::problem::Problem;
use super::super::schema::{SCHEMA, choices, example, words};
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
        Value::List(_) => Some(format!("{}, without `-`", names_with_values(&choices)?)),
        Value::Text(text) => names_with_values(&choices).or_else(|| for_text(text, &choices, key)),
        Value::Map(_) if choices.iter().any(|it| is_kind(it, "array")) => {
            Some("expected a list: begin each of its items with `- `".to_owned())
        }
        _ => None,
    }
}

fn names_with_values(choices: &[&Schema]) -> Option<String> {
    let names = choices.iter().find_map(|it| it.get("additionalProperties"));
    let like = names.and_then(example).and_then(Schema::as_str)?;
    Some(format!("expected names with values: write `NAME: {like}` below it"))
}

/// What to write instead of one text: a list of it, or a map in which it has a name.
fn for_text(text: &Text, choices: &[&Schema], key: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    let shown = match text.text.as_str() {
        _ if text.is_substituted => "…".to_owned(),
        plain if plain.bytes().all(is_plain) => plain.to_owned(),
        odd => format!("\"{}\"", printable(odd)),
    };
    let of_texts =
        |it: &&Schema| self::choices(&it["items"]).iter().any(|it| is_kind(it, "string"));
    if choices.iter().any(of_texts) {
        return Some(format!("expected a list: write `{key}: [{shown}]`"));
    }
    if key == "share" {
        return Some(format!("expected a map: write `share: {{ of: {shown}, by: tenant }}`"));
    }
    let (name, expected) = match key {
        "refusal" => ("page", "a map"),
        "deny_cache" => ("ttl", "true, false or a map"),
        _ => return None,
    };
    Some(format!("expected {expected}: write `{key}: {{ {name}: {shown} }}`"))
}

/// What was meant by a key that sounds right and is none, by its value. `path`: where it is.
pub(super) fn for_key(name: &str, node: &Node, known: &[&str], path: &str) -> Option<String> {
    if let Some(several) = several_limits(path).filter(|_| is_option_of_policies(name)) {
        return Some(format!(
            "`{name}` belongs to the policy, not to one of its limits: write it beside `{several}`"
        ));
    }
    let meant = match name {
        "jwks_url" | "jwks_uri" if path == "jwt" => {
            "tidegate fetches nothing. Write `jwks_file: /etc/tidegate/jwks.json`, and let a timer write that file and \
             reload"
        }
        "secret" if path == "jwt" => {
            "write the secret into a file, and name the file as `keys_file`"
        }
        "name" if known.contains(&"limit_name") => "did you mean `limit_name`?",
        _ => return for_limits(name, node, known),
    };
    let comma = if meant.starts_with("did") { "," } else { ":" };
    Some(format!("unknown key `{name}`{comma} {meant}"))
}

/// `all` or `any`, if a path ends in one of its limits.
fn several_limits(path: &str) -> Option<&'static str> {
    let last = path.rsplit('.').next()?;
    ["all", "any"].into_iter().find(|list| last.starts_with(&format!("{list}[")))
}

/// Whether policies have a key of this name.
fn is_option_of_policies(name: &str) -> bool {
    let has = |it: &&Schema| it.get("properties").is_some_and(|it| it.get(name).is_some());
    choices(&SCHEMA["properties"]["policies"]["additionalProperties"]).iter().any(has)
}

/// What was meant by a key that has to do with limits.
fn for_limits(name: &str, node: &Node, known: &[&str]) -> Option<String> {
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

/// What to write instead of an unknown word, where a map like one of the schema's examples may stand, too.
pub(super) fn for_word(
    typed: &str,
    known: &[&str],
    choices: &[&Schema],
    key: &str,
) -> Option<String> {
    if let Some(meant) = dialect(typed).filter(|it| known.contains(it)) {
        return Some(format!("unknown `{}`, did you mean `{meant}`?", printable(typed)));
    }
    let examples = choices.iter().filter_map(|it| it.get("examples")?.as_array()).flatten();
    let maps: Vec<_> = examples.filter(|it| it.is_object()).collect();
    if let Some(map) = maps.iter().find(|map| map.get(typed).is_some()) {
        return Some(format!("`{typed}` needs a value: write `{key}: {}`", in_line(map)));
    }
    if maps.is_empty() || closest(typed, known.iter().copied()).is_some() {
        return None;
    }
    let maps: Vec<_> = maps.into_iter().map(in_line).collect();
    let (typed, words, maps) = (printable(typed), known.join(", "), maps.join(", "));
    Some(format!("unknown `{typed}`: expected one of {words}, or a map like one of {maps}"))
}

/// The dialect of the headers that a draft of the IETF describes: up to the sixth, each number in a header of its own.
fn dialect(typed: &str) -> Option<&'static str> {
    let draft: u8 = typed.strip_prefix("draft-")?.parse().ok()?;
    Some(if draft <= 6 { "legacy" } else { "draft-11" })
}

/// A map of scalars as YAML in one line.
fn in_line(map: &Schema) -> String {
    let scalar = |value: &Schema| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = map.as_object().into_iter().flatten();
    let entries: Vec<_> = entries.map(|(name, it)| format!("{name}: {}", scalar(it))).collect();
    format!("{{ {} }}", entries.join(", "))
}

/// What to write instead of a map with a key that is a word of its own.
pub(super) fn for_word_as_key(
    entries: &[(Key, Node)],
    schema: &Schema,
    choices: &[&Schema],
    key: &str,
) -> Option<String> {
    let is_word = |name: &str| choices.iter().any(|it| words(it).contains(&name));
    let is_key = |name: &str| schema.get("properties").is_some_and(|it| it.get(name).is_some());
    let mut names = entries.iter().map(|(key, _)| key.name.as_str());
    let word = names.find(|name| is_word(name) && !is_key(name))?;
    Some(format!("`{word}` is a word without a value: write `{key}: {word}`"))
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
