//! Substitutes `${NAME}` and `${NAME:-default}` in values, after the file has been parsed: a variable becomes part of a
//! value, never a key, a list or another value.

use super::node::{Node, Text, Value};
use super::problem::Problem;

/// Looks a variable up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process.
pub(crate) fn process_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Substitutes the variables in all values.
pub(crate) fn substitute(node: &mut Node, lookup: Lookup<'_>, problems: &mut Vec<Problem>) {
    match &mut node.value {
        Value::Text(text) if text.text.contains('$') => match expand(&text.text, lookup) {
            Ok(expanded) => *text = expanded,
            Err(message) => {
                problems.push(Problem::new(node.position, message));
                node.value = Value::Unset;
            }
        },
        Value::List(items) => items.iter_mut().for_each(|item| substitute(item, lookup, problems)),
        Value::Map(entries) => {
            for (_, item) in entries {
                substitute(item, lookup, problems);
            }
        }
        _ => {}
    }
}

/// The result is not expanded again: the value of a variable may hold a `$`.
fn expand(text: &str, lookup: Lookup<'_>) -> Result<Text, String> {
    let mut out = Text { text: String::with_capacity(text.len()), is_substituted: false };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.text.push_str(before);
        rest = if let Some(after) = after.strip_prefix('$') {
            out.text.push('$');
            after
        } else if let Some(after) = after.strip_prefix('{') {
            let (inside, after) = after.split_once('}').ok_or(
                "`${` has no end: expected `${NAME}` or `${NAME:-default}` (`$$` is a plain `$`)",
            )?;
            out.text.push_str(&variable(inside, lookup)?);
            out.is_substituted = true;
            after
        } else {
            out.text.push('$');
            after
        };
    }
    out.text.push_str(rest);
    Ok(out)
}

fn variable(inside: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_name = |name: &str| {
        let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.bytes().all(of_a_name) && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    if name.is_empty() || !is_name(name) {
        let shown = tidegate_core::text::printable(inside);
        return Err(format!(
            "`${{{shown}}}` is not a variable: expected `${{NAME}}` or `${{NAME:-default}}`"
        ));
    }
    // As in a shell, `:-` also replaces an empty value.
    let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
    value.or_else(|| default.map(str::to_owned)).ok_or_else(|| {
        format!(
            "the environment variable {name} is not set: set it, or write `${{{name}:-default}}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    const GRAMMAR: Grammar = Grammar {
        whole: &["redis://${HOST}:6379", "${NOPE:-5/h} $$x"],
        words: &["$", "$$", "${", "}", "HOST", ":-", "a", "ö"],
    };

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("redis.example".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("a: [b]\n${HOST} $$".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_become_part_of_a_value() {
        for (text, expected) in [
            ("redis://${HOST}:6379", "redis://redis.example:6379"),
            ("${HOST}${HOST}", "redis.exampleredis.example"),
            ("${NOPE:-5/h}", "5/h"),
            ("${HOST:-x}", "redis.example"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NOPE:-}", ""),
            ("$$HOST $${HOST} costs 5$", "$HOST ${HOST} costs 5$"),
            ("$HOST", "$HOST"),
            ("${TRICKY}", "a: [b]\n${HOST} $$"), // and nothing of it is looked at again
        ] {
            let expanded = expand(text, &lookup).map(|text| text.text);
            assert_eq!(expanded.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_is_named() {
        for (text, expected) in [
            (
                "${NOPE}",
                "the environment variable NOPE is not set: set it, or write `${NOPE:-default}`",
            ),
            (
                "${HOST",
                "`${` has no end: expected `${NAME}` or `${NAME:-default}` (`$$` is a plain `$`)",
            ),
            ("${}", "`${}` is not a variable: expected `${NAME}` or `${NAME:-default}`"),
            ("${a b}", "`${a b}` is not a variable: expected `${NAME}` or `${NAME:-default}`"),
            ("${1A}", "`${1A}` is not a variable: expected `${NAME}` or `${NAME:-default}`"),
        ] {
            assert_eq!(expand(text, &lookup).map(|text| text.text), Err(expected.to_owned()));
        }
    }

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn whatever_is_written_comes_out_if_its_signs_are_doubled(text in fuzz::text_like(GRAMMAR)) {
            let expanded = fuzz::held_to(20, text.as_bytes(), || expand(&text.replace('$', "$$"), &lookup));
            prop_assert_eq!(expanded.map(|it| (it.text, it.is_substituted)), Ok((text.clone(), false)));
            // As it is, it is text or an error.
            let _ = fuzz::held_to(50, text.as_bytes(), || expand(&text, &lookup));
        }
    }
}
