//! One policy without a file around it.

use super::node::{Key, Node, Value};

/// How deep a policy lies in a file: under `policies`, and under its name.
const LEVELS: usize = 2;

/// A file with this policy alone. A policy that was copied together with its name, or with all of `policies`, is
/// unwrapped first.
pub(super) fn wrap(name: &str, policy: Node) -> Node {
    let policy = (0..LEVELS).fold(policy, |node, _| inner(node));
    under("policies", under(name, policy))
}

/// The only value of a map, if that is a map itself: no policy has this form.
fn inner(node: Node) -> Node {
    match node.value {
        Value::Map(mut entries)
            if matches!(&*entries, [(_, Node { value: Value::Map(_), .. })]) =>
        {
            entries.swap_remove(0).1
        }
        value => Node { value, ..node },
    }
}

fn under(name: &str, node: Node) -> Node {
    let position = node.position;
    let key = Key { name: name.to_owned(), position };
    let span = node.span;
    Node::new(position, Value::Map(vec![(key, node)]), span)
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn a_policy_is_found_however_much_of_a_file_is_around_it() {
        for text in [
            "100/min burst 20",
            "limit: 100/min\nburst: 20",
            "{ limit: 100/min, burst: 20 }",
            "api: { limit: 100/min, burst: 20 }",
            "policies:\n  api:\n    limit: 100/min\n    burst: 20\n",
            "all: [{ name: a, limit: 100/min }, { name: b, limit: 5/s }]",
        ] {
            let config = Config::from_policy("tried", text).unwrap();
            assert_eq!(config.policies.keys().collect::<Vec<_>>(), ["tried"], "{text}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_place_and_the_environment_is_not_told() {
        for (text, line, part) in [
            ("100/fortnight", 1, "fortnight"),
            ("limit: 100/min\nbrust: 20", 2, "brust"),
            ("limit: ${HOME}", 1, "HOME is not set"),
            ("limit: [", 1, ""),
            ("policies: { a: { limit: 1/s }, b: { limit: 2/s } }", 1, "unknown"),
        ] {
            let problems = Config::from_policy("tried", text).unwrap_err();
            let is_told = |it: &crate::Problem| {
                it.position.line == line
                    && it.message.contains(part)
                    && !it.message.contains("/root")
            };
            assert!(problems.iter().any(is_told), "{text}: {problems:?}");
        }
    }
}
