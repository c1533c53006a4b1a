//! limitador: a list of limits, each with a namespace. Those of one namespace that apply are checked together.

use std::path::Path;

use serde::Deserialize;

use super::{Draft, Limits, Problems, quoted, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    namespace: String,
    max_value: u64,
    seconds: u64,
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    variables: Vec<String>,
    name: Option<String>,
    id: Option<String>,
    #[serde(default)]
    policy: Option<serde_json::Value>,
}

pub(super) fn file(path: &Path) -> Result<Vec<Draft>, Problems> {
    let limits: Vec<Limit> = read(path)?;
    let mut drafts: Vec<Draft> = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let called = limit.name.as_ref().or(limit.id.as_ref());
        let called = called.cloned().unwrap_or_else(|| format!("limit-{}", index + 1));
        let line = line(limit, &called);
        let zero = limit.max_value == 0 || limit.seconds == 0;
        let mut notes = Vec::new();
        if limit.policy.is_some() {
            notes.push(format!("{called}: its `policy` has no counterpart here"));
        }
        if zero {
            notes.push(format!(
                "{called}: a limit of 0 refuses everything; block keys by overrides"
            ));
            drafts.push(Draft { notes, name: called, limits: Limits::None, more: vec![] });
        } else if limit.conditions.is_empty() {
            let same = drafts.iter_mut().find(|draft| draft.name == limit.namespace);
            if let Some(Draft { limits: Limits::All(lines), notes: before, .. }) = same {
                lines.push(line);
                before.extend(notes);
            } else {
                let (name, limits) = (limit.namespace.clone(), Limits::All(vec![line]));
                drafts.push(Draft { notes, name, limits, more: vec![] });
            }
        } else {
            notes.push(format!("when {}", limit.conditions.join(" and ")));
            let name = format!("{}/{called}", limit.namespace);
            drafts.push(Draft { notes, name, limits: Limits::All(vec![line]), more: vec![] });
        }
    }
    Ok(drafts)
}

fn line(limit: &Limit, called: &str) -> String {
    let (count, seconds) = (limit.max_value, limit.seconds);
    let key = match &limit.variables[..] {
        // One counter for everybody: the caller gives a constant.
        [] => quoted("global"),
        // Several identifiers count together: the caller joins them.
        variables => quoted(&variables.join(",")),
    };
    let name = quoted(called);
    format!("name: {name}, key: {key}, algorithm: fixed-window, limit: {count}/{seconds}s")
}
