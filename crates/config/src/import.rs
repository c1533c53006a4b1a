//! The files of other limiters as one of ours, for those who move.

mod envoy;
mod limitador;

use std::fmt::Write;
use std::path::Path;

use crate::envoy as envoy_config;
use crate::problem::Problems;

/// A policy to write, and what there is to say about it.
struct Draft {
    notes: Vec<String>,
    name: String,
    /// Either the options of the only limit, or one line for each.
    limits: Limits,
    /// What else the policy has, such as `mode: shadow`.
    more: Vec<String>,
}

enum Limits {
    One(String),
    All(Vec<String>),
    /// Nothing that a policy could say.
    None,
}

/// The file of envoyproxy/ratelimit, or a folder of them; otherwise a line for each thing that is wrong.
pub fn envoy(path: &Path) -> Result<String, Vec<String>> {
    let rules = envoy_config::load(path)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let head = "# Every limit is a policy here, for those who ask by its name. Envoy itself needs nothing of this:\n\
                # `tidegate serve --envoy-config` reads the original, with its matching rules.\n";
    let warning = |warning| format!("# {warning}\n");
    let warnings: String = rules.warnings.iter().map(warning).collect();
    Ok(written(&format!("{head}{warnings}"), &envoy::drafts(&rules)))
}

/// The limits file of limitador.
pub fn limitador(path: &Path) -> Result<String, Vec<String>> {
    let drafts = limitador::file(path).map_err(|problems| problems.lines())?;
    let head = "# A namespace is a policy. Limits with conditions are policies of their own: ask them when the\n\
                # conditions hold. The variables of a limit are the identifiers that a check gives, by name; for a\n\
                # limit without variables that is `global`, always the same.\n";
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

/// A text as YAML has it, whatever is in it. Our own `$` stays one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace('$', "$$")).to_string()
}
