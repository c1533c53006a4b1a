//! Converts files of other limiters to ours.

mod envoy;
mod limitador;

use std::fmt::Write;
use std::path::Path;

use crate::envoy as envoy_config;
use crate::problem::Problems;

/// A policy to write, with comments.
struct Draft {
    notes: Vec<String>,
    name: String,
    /// The options of its limits.
    limits: Limits,
    /// Further options, such as `mode: shadow`.
    more: Vec<String>,
}

enum Limits {
    One(String),
    All(Vec<String>),
    /// The rule has no counterpart.
    None,
}

/// Converts a file of envoyproxy/ratelimit, or a folder of them; an error is a line per problem.
pub fn envoy(path: &Path) -> Result<String, Vec<String>> {
    let rules = envoy_config::load(path)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let head = "# Every limit is a policy, for clients that check it by name. Envoy itself does not need this file:\n\
                # `tidegate serve --envoy-config` reads the original, with its matching rules.\n";
    let warning = |warning| format!("# {warning}\n");
    let warnings: String = rules.warnings.iter().map(warning).collect();
    Ok(written(&format!("{head}{warnings}"), &envoy::drafts(&rules)))
}

/// Converts the limits file of limitador.
pub fn limitador(path: &Path) -> Result<String, Vec<String>> {
    let drafts = limitador::file(path).map_err(|problems| problems.lines())?;
    let head = "# A namespace is a policy. Limits with conditions are policies of their own: check them when the\n\
                # conditions hold. The variables of a limit are the identifiers of a check, by name; a limit without\n\
                # variables counts by `global`, with a constant value.\n";
    Ok(written(head, &drafts))
}

fn written(head: &str, drafts: &[Draft]) -> String {
    let mut out = String::from(head);
    out.push_str("policies:\n");
    for draft in drafts {
        for note in &draft.notes {
            let _ = writeln!(out, "  # {}", tidegate_core::text::printable(note));
        }
        let name = quoted(&draft.name);
        let _ = match &draft.limits {
            Limits::One(limit) => {
                let options = [std::slice::from_ref(limit), &draft.more[..]].concat().join(", ");
                writeln!(out, "  {name}: {{ {options} }}")
            }
            Limits::All(limits) => {
                let line = |limit: &String| format!("      - {{ {limit} }}\n");
                let lines: Vec<_> = limits.iter().map(line).collect();
                write!(out, "  {name}:\n    all:\n{}", lines.concat())
            }
            Limits::None => Ok(()),
        };
    }
    out
}

/// A quoted YAML string. `$` is escaped, so that it is not a variable.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace('$', "$$")).to_string()
}
