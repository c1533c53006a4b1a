//! What to write instead, for the mistakes that people make most: the corrected line where there is one.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Map, Value as Schema};
use tidegate_core::text::{closest, printable};
use tidegate_core::{LimitSpec, read_duration};

use super::super::jwt::FETCHES_NOTHING;
use super::super::node::{Key, Node, Text, Value};
use super::super::policy::limit_from_line;
use super::super::problem::Problem;
use super::super::schema::{SCHEMA, choices, example, resolved, words};
use super::{at_path, conform, is_kind};

/// The section of the policies.
const POLICIES: &str = "policies";

/// What to write instead of a value of the wrong type, at a key of this name.
pub(super) fn for_value(value: &Value, schema: &Schema, key: &str) -> Option<String> {
    let choices = choices(schema);
    match value {
        Value::Whole(number) if choices.iter().any(|it| only_number(it).is_some()) => {
            let name = choices.iter().find_map(|it| only_number(it))?;
            Some(format!("expected a map: write `{key}: {{ {name}: {number} }}`"))
        }
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

/// The number that a map has to have, if it is all that it has to have.
fn only_number(schema: &Schema) -> Option<&str> {
    let [only] = &schema.get("required")?.as_array()?[..] else { return None };
    let is_number = is_kind(&schema["properties"][only.as_str()?], "integer");
    only.as_str().filter(|_| is_number)
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
    let is_of_texts = |it: &&Schema| {
        let inner = it.get("additionalProperties").filter(|_| it.get("properties").is_none());
        inner.is_some_and(|inner| is_kind(inner, "string"))
    };
    if choices.iter().any(is_of_texts) {
        return Some(format!(
            "expected names with values: write `{key}: {{ {shown}: \"*\" }}` for any value"
        ));
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
    let name = &*printable(name);
    if let Some(several) = several_limits(path).filter(|_| is_option_of_policies(name)) {
        return Some(format!(
            "`{name}` belongs to the policy, not to one of its limits: write it beside `{several}`"
        ));
    }
    let meant = match name {
        "jwks_url" | "jwks_uri" if path == "jwt" => FETCHES_NOTHING,
        "secret" if path == "jwt" => {
            "write the secret into a file, and name the file as `keys_file`"
        }
        _ => {
            let other =
                OTHER_NAMES.iter().find(|(theirs, ours)| *theirs == name && known.contains(ours));
            return match other {
                Some((_, ours)) => Some(format!("unknown key `{name}`, did you mean `{ours}`?")),
                None => for_limits(name, node, known).or_else(|| for_namesake(name, path)),
            };
        }
    };
    Some(format!("unknown key `{name}`: {meant}"))
}

/// What other programs and tokens call some of our keys.
const OTHER_NAMES: [(&str, &str); 4] =
    [("name", "limit_name"), ("aud", "audience"), ("iss", "issuer"), ("alg", "algorithms")];

/// The key of a map that is called the same in a section, as `in_flight` of the proxy and of an adaptive limit.
fn for_namesake(name: &str, path: &str) -> Option<String> {
    let (_, last) = path.rsplit_once('.').filter(|(parent, _)| *parent != POLICIES)?;
    let sections = SCHEMA["properties"].as_object()?;
    let mut found = sections.iter().filter(|(section, schema)| {
        let namesake = property(schema, last).filter(|_| path != format!("{section}.{last}"));
        namesake.is_some_and(|namesake| property(namesake, name).is_some())
    });
    let (section, _) = found.next()?;
    Some(format!("unknown key `{name}`, did you mean `{section}.{last}`?"))
}

/// What a missing key is needed for, where something beside it looks like it could do without.
pub(super) fn for_missing(name: &str, given: &BTreeSet<String>) -> &'static str {
    if name == "upstream" && given.contains("refusal") {
        ": `refusal` is what the reverse proxy answers, which needs one"
    } else {
        ""
    }
}

/// `all` or `any`, if a path ends in one of its limits.
fn several_limits(path: &str) -> Option<&'static str> {
    let last = path.rsplit('.').next()?;
    ["all", "any"].into_iter().find(|list| last.starts_with(&format!("{list}[")))
}

/// Whether policies have a key of this name.
fn is_option_of_policies(name: &str) -> bool {
    property(&SCHEMA["properties"][POLICIES]["additionalProperties"], name).is_some()
}

/// The key of this name, in any of the maps that a schema allows.
fn property<'s>(schema: &'s Schema, name: &str) -> Option<&'s Schema> {
    choices(schema).into_iter().find_map(|it| it.get("properties")?.get(name))
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
    let is_url = |value: &Schema| value.as_str().is_some_and(|it| it.contains("://"));
    let of_url = maps.iter().filter_map(|map| map.as_object()).flatten();
    let mut of_url = of_url.filter(|(_, it)| typed.contains("://") && is_url(it));
    if let Some((name, _)) = of_url.next() {
        // A URL may hold a secret.
        return Some(format!("a URL needs a name: write `{key}: {{ {name}: … }}`"));
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

/// Where a key belongs that is none here: below one of these properties, or among the policies.
pub(super) fn for_misplaced(
    name: &str,
    node: &mut Node,
    properties: &Map<String, Schema>,
) -> Option<String> {
    let mut homes: Vec<(&str, &Schema)> = Vec::new();
    for (section, schema) in properties {
        let of_names = resolved(schema).get("additionalProperties").filter(|it| it.is_object());
        let found = property(of_names.unwrap_or(schema), name);
        homes.extend(found.map(|schema| (section.as_str(), schema)));
    }
    let name = printable(name);
    // A policy may have the name of some setting.
    let is_setting = homes.iter().any(|(_, schema)| conforms(node, schema));
    if properties.contains_key(POLICIES) && !is_setting && is_policy(node) {
        return Some(format!("`{name}` looks like a policy: indent it below `policies:`"));
    }
    let place = |section: &str| match section {
        POLICIES => "a policy".to_owned(),
        section => format!("`{section}`"),
    };
    let places: Vec<_> = homes.iter().map(|(section, _)| place(section)).collect();
    let how = match &homes[..] {
        [] => return None,
        [(section, _)] if *section != POLICIES => format!("write `{section}: {{ {name}: … }}`"),
        _ => "indent it below that".to_owned(),
    };
    Some(format!("`{name}` belongs to {}: {how}", places.join(" or ")))
}

fn conforms(node: &mut Node, schema: &Schema) -> bool {
    let mut problems = Vec::new();
    conform(node, schema, "", &mut problems);
    problems.is_empty()
}

/// Whether a value could be a policy.
fn is_policy(node: &mut Node) -> bool {
    match &node.value {
        Value::Text(line) => limit_from_line(&line.text).is_ok(),
        Value::Map(entries) if !entries.is_empty() => {
            conforms(node, &SCHEMA["properties"][POLICIES]["additionalProperties"])
        }
        _ => false,
    }
}
